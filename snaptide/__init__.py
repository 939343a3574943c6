"""The program: settings, command line, Celery application and beat, demo."""

"""The program: settings, command line, Celery application and beat, demo."""

#: The environment variable that names the file of the settings.
VARIABLE = "SNAPTIDE_CONFIG"

"""The program: settings, command line, Celery application and beat, demo."""

#: The environment variable that holds the path of the settings file.
VARIABLE = "SNAPTIDE_CONFIG"

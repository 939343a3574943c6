"""The program: settings, command line, Celery application and beat, demo."""

from snaptide_imports import refuse_other

#: The environment variable that holds the path of the settings file.
VARIABLE = "SNAPTIDE_CONFIG"

refuse_other("sites")

"""Loads the settings: `snaptide.toml`, overridden by the environment.

Every value may name environment variables as `${NAME}`; a variable
`SNAPTIDE_BROKER__URL` overrides `[broker] url`, and so on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deferred.options import PushSettings
from sites import Directory
from sites.configured import Configuration, configure
from snaptide import VARIABLE, settings_file
from snaptide.errors import SettingsNotFound
from snaptide.sections import (
    BrokerSettings,
    NotificationSettings,
    NumberSettings,
    ProcedureSettings,
    QueueSettings,
    ResolutionSettings,
    SiteName,
    SiteSettings,
    SparkSettings,
    WorkerSettings,
)
from snaptide_imports import lazily

if TYPE_CHECKING:
    from deferred.parked import notification
    from deferred.procedures import routines as procedures
    from masters.resolution import routines
else:
    notification = lazily("deferred.parked.notification")
    procedures = lazily("deferred.procedures.routines")
    routines = lazily("masters.resolution.routines")


class Settings(BaseModel):
    """All settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    sites: dict[SiteName, SiteSettings] = Field(default_factory=dict)
    broker: BrokerSettings | None = None
    spark: SparkSettings = SparkSettings()
    resolution: ResolutionSettings = ResolutionSettings()
    procedures: ProcedureSettings = ProcedureSettings()
    notification: NotificationSettings = NotificationSettings()
    worker: WorkerSettings = WorkerSettings()
    push: PushSettings = PushSettings()
    queue: QueueSettings = QueueSettings()
    numbers: NumberSettings = NumberSettings()

    #: Where the file is; relative paths in it begin there.
    _folder: Path = Path()

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Read the settings.

        Parameters:
            path: the file; else SNAPTIDE_CONFIG names it; else ./snaptide.toml.

        Raises:
            SettingsNotFound, BadSettings, UnsetVariable.
        """
        file = find(path)
        values = settings_file.with_environment(settings_file.read(file), cls)
        try:
            loaded = cls(**values)
        except ValidationError as error:
            raise settings_file.refusal(file, cls, error) from None
        loaded._folder = file.absolute().parent
        return loaded

    def install(self) -> Directory:
        """Make these settings those of this process; returns its sites.

        This registers routines, procedures and hooks, too: without its routine a
        conflict would stay undecided.

        Raises:
            BadSettings, UnreadableSecret, UnsupportedDatabase, UnusableRoutine.
        """
        directory = Directory(
            {
                name: site.address(name, self._folder)
                for name, site in self.sites.items()
            }
        )
        for name, routine in self.resolution.routines.items():
            routines.register(name, routine)
        for name, procedure in self.procedures.routines.items():
            procedures.REGISTRY.register(name, procedure)
        for name, hook in self.notification.hooks.items():
            notification.REGISTRY.register(name, hook)
        configure(
            Configuration(
                directory=directory,
                spark_master=self.spark.master,
                spark_conf=self.spark.conf,
                executor_connections=self.spark.connections,
                retention=self.queue.retention,
                deletes_kept=self.resolution.deletes_kept,
                push=self.push.given,
                days_away=self.numbers.days_away,
            )
        )
        return directory


def find(path: Path | None = None) -> Path:
    """Find the settings file.

    Raises:
        SettingsNotFound: there is none.
    """
    named = path or Path(os.environ.get(VARIABLE) or "snaptide.toml")
    if not named.is_file():
        raise SettingsNotFound(f"There is no file {named}.", path=str(named))
    return named

"""The one app of a Django project, made from its settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from headgate.app.app import App
from headgate.app.task import AnyTask
from headgate.app.task_options import TaskOptions
from headgate.django.attempts import as_attempts
from headgate.django.database import url_of
from headgate.errors import ConfigError

DEFAULT_DATABASE = "default"
NAMED = ("lifespan", "codec", "defaults", "types", "clock")
"""What settings may name by a dotted path, since they cannot import what needs models."""


class DjangoApp(App):
    """An app whose tasks leave no stale connection of Django's behind.

    `database` is the alias of the database that the store is in: whose transactions its jobs can be part of.
    """

    def __init__(self, url: str | Callable[[], str] | None, *, database: str | None, **options: Any) -> None:
        super().__init__(url, **options)
        self.database = database

    @property
    def on_trial(self) -> bool:
        """Whether a test has put another store in the place of the project's."""
        return self._client.on_trial

    def declare_all(self, declarations: Sequence[tuple[Callable[..., Any], TaskOptions]]) -> list[AnyTask]:
        """Declare tasks, all or none."""
        made = super().declare_all(declarations)
        for task in made:
            task.fn = as_attempts(task.fn, lambda: self.on_trial, is_async=task.is_async)
        return made


def set_up() -> None:
    """Set up Django where manage.py has not, as for `headgate worker headgate.django:app`. It finds the tasks."""
    if apps.ready or apps.loading:
        return
    try:
        django.setup()
    except ImproperlyConfigured as error:
        raise ConfigError(f"Django's settings cannot be used: {error}") from None
    if not apps.is_installed("headgate.django"):
        raise ConfigError("INSTALLED_APPS lacks 'headgate.django', which finds the tasks of the others")


@cache
def project_app() -> DjangoApp:
    """The app."""
    given = getattr(settings, "HEADGATE", {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"HEADGATE = {given!r}: a dictionary is needed, of what headgate.App takes")
    options: dict[str, Any] = {
        name: import_string(value) if name in NAMED and isinstance(value, str) else value
        for name, value in given.items()
    }
    url = options.pop("url", None) or os.environ.get("HEADGATE_URL")
    database = options.pop("database", None if url else DEFAULT_DATABASE)
    if not url and database is None:
        raise ConfigError("HEADGATE has no database: give it a url, too")
    try:
        return DjangoApp(url or (lambda: url_of(database)), database=database, **options)
    except TypeError as error:
        raise ConfigError(f"HEADGATE: {error}; it takes database, and what headgate.App takes") from None

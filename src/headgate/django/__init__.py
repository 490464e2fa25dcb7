"""Headgate in a Django project: one app from the settings, tasks from every `tasks.py`, connections kept in order.

    # settings.py
    INSTALLED_APPS = [..., "headgate.django"]
    HEADGATE = {"retention": 7 * 86_400}                  # optional: what `headgate.App` takes

    # shop/tasks.py
    from headgate.django import app

    @app.task
    def confirm(order: int) -> None: ...

    # shop/views.py
    with atomic():                                        # of headgate.django
        order = Order.objects.create(...)
        confirm.enqueue_sync(order.pk)                    # with the commit, or not at all

    $ python manage.py headgate worker

Importing this needs Django and nothing of it: the app is made when it is first asked for.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headgate.errors import ConfigError

if TYPE_CHECKING:
    from headgate.django.commits import atomic
    from headgate.django.project import DjangoApp

    app: DjangoApp

__all__ = ["app", "atomic"]

if find_spec("django") is None:
    raise ConfigError("headgate.django needs Django: pip install 'headgate[django]'")


def __getattr__(name: str) -> Any:
    match name:
        case "app":
            from headgate.django.project import project_app, set_up

            set_up()
            found: Any = project_app()
        case "atomic":
            from headgate.django.commits import atomic as found
        case _:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found

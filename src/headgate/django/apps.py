"""What Django loads with `INSTALLED_APPS`."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.utils.module_loading import autodiscover_modules

from headgate.app.task_set import TaskSet
from headgate.django.project import project_app

TASKS = "tasks"


class HeadgateConfig(AppConfig):
    """Finds the tasks of all installed apps, once their models are there."""

    name = "headgate.django"
    label = "headgate"
    verbose_name = "Headgate"

    def ready(self) -> None:
        """Import every `tasks.py`; task sets in them are included, tasks of the project's app are there already."""
        app = project_app()
        autodiscover_modules(TASKS)
        for each in apps.get_app_configs():
            module = getattr(each.module, TASKS, None)
            if module is not None:
                app.include(*(value for value in vars(module).values() if isinstance(value, TaskSet)))

"""Where another process finds the app of this one.

`headgate worker` says what it was told. An app that is embedded is looked for in the variables of the loaded modules.
The main file of a program is loaded under another name, as `multiprocessing` does it, so that what stands under
`if __name__ == "__main__":` is left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from headgate.errors import ConfigError
from headgate.worker.pool.frames import AppSource

MAIN = ("__main__", "__mp_main__")

_told: WeakKeyDictionary[Any, AppSource] = WeakKeyDictionary()


def remember_source(app: Any, source: AppSource) -> None:
    """This is where the app came from."""
    _told[app] = source


def source_of(app: Any, tasks: Sequence[str]) -> AppSource:
    """Where a process of the pool is to find the app of these tasks; raises ConfigError if it cannot."""
    names = ", ".join(repr(task) for task in tasks)
    if os.name != "posix":
        raise ConfigError(
            f"tasks with run_in='process' ({names}) need a POSIX system; run them in threads here"
        )
    source = _told.get(app) if app is not None else None
    source = source or _found(app)
    if source is None:
        raise ConfigError(
            f"tasks with run_in='process' ({names}) run in processes that load the app anew, and this one cannot be "
            "found: keep it in a variable of a module, as in `app = App(…)`, or start `headgate worker module:app`"
        )
    return source


def _found(app: Any) -> AppSource | None:
    main: AppSource | None = None
    for name, module in list(sys.modules.items()):
        attribute = _attribute(module, app)
        if attribute is None:
            continue
        if name not in MAIN:
            return AppSource(target=f"{name}:{attribute}")
        main = main or _in_main(module, attribute)
    return main


def _attribute(module: ModuleType, app: Any) -> str | None:
    if app is None:
        return None
    try:
        variables: Iterable[tuple[str, Any]] = list(vars(module).items())
    except TypeError:  # what stands in sys.modules need not be a module
        return None
    return next((name for name, value in variables if value is app), None)


def _in_main(module: ModuleType, attribute: str) -> AppSource | None:
    spec = getattr(module, "__spec__", None)
    if spec is not None:  # python -m package.module
        return AppSource(target=f"{spec.name}:{attribute}")
    file = getattr(module, "__file__", None)
    return None if file is None else AppSource(main_file=os.path.abspath(file), attribute=attribute)

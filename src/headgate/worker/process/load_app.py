"""From `module:app` on a command line to the app object."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from headgate.errors import ConfigError

DEFAULT_ATTRIBUTE = "app"


def load_app(target: str, *, factory: bool = False, app_dir: str = ".") -> Any:
    """Import an app: `package.module:attribute.path`; without an attribute it is called `app`.

    `app_dir` is put on the import path first. With `factory` the attribute is called and returns the app. Errors
    inside the imported module are raised as they are: their traceback is what helps.
    """
    module_name, attribute = _parts(target)
    _put_on_path(app_dir)
    module = _import(module_name, target)
    found = _walk(module, attribute, target)
    if factory:
        return _checked(_called(found, target), target)
    if callable(found) and not _is_app(found):
        raise ConfigError(
            f"{target!r} is a {type(found).__name__}, not an App; use --factory if it makes one"
        )
    return _checked(found, target)


def _parts(target: str) -> tuple[str, str]:
    module_name, _, attribute = target.partition(":")
    if module_name.endswith(".py") or os.sep in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace(os.sep, ".")
        wanted = f"{dotted}:{attribute or DEFAULT_ATTRIBUTE}"
        raise ConfigError(f"{target!r} is a file name; write the module: {wanted!r}")
    if not module_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(f"{target!r}: write 'module:app', e.g. 'myproject.jobs:app'")
    return module_name, attribute or DEFAULT_ATTRIBUTE


def _put_on_path(app_dir: str) -> None:
    path = os.path.abspath(app_dir)
    if path not in sys.path:
        sys.path.insert(0, path)


def _import(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports
        where = os.path.abspath(sys.path[0])
        raise ConfigError(f"{target!r}: there is no module {error.name!r} in {where} or installed") from None


def _walk(module: ModuleType, attribute: str, target: str) -> Any:
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(f"{target!r}: {module.__name__} has no {attribute!r}{_hint(module)}") from None
    return found


def _hint(module: ModuleType) -> str:
    apps = [name for name, value in vars(module).items() if _is_app(value) and not isinstance(value, type)]
    return f"; did you mean {module.__name__}:{apps[0]}?" if apps else " (an App, by convention named 'app')"


def _called(make: Any, target: str) -> Any:
    if not callable(make) or _is_app(make):
        raise ConfigError(f"{target!r} is a {type(make).__name__} and not a function that makes an App")
    return make()


def _checked(found: Any, target: str) -> Any:
    if not _is_app(found) or isinstance(found, type):
        raise ConfigError(f"{target!r} is {found!r:.80}, not an App")
    return found


def _is_app(value: Any) -> bool:
    return hasattr(value, "run_worker")

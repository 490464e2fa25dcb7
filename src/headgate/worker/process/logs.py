"""Logs of a worker process: lines for people, or one JSON object a line for programs.

A handler that the app has set stays, and then is the only one: the process is the app's as much as Headgate's.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

from headgate.errors import ConfigError
from headgate.hooks.logs import FIELDS, JobContextFilter

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

LogConfig = Literal["auto", "none"]


class LineFormatter(logging.Formatter):
    """A line for people. What task code logs says at its end which job it belongs to; Headgate's own lines name it."""

    def __init__(self) -> None:
        super().__init__(LOG_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        fields = record.__dict__
        if fields.get("job") is None or record.name.startswith("headgate."):
            return line
        return f"{line} [{fields['task']} {fields['job']} attempt {fields['attempt']}]"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, whatever was passed as `extra`, and the traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._encoder = msgspec.json.Encoder(enc_hook=str)

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {
            name: value
            for name, value in vars(record).items()
            if name not in STANDARD and not (value is None and name in FIELDS)
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        try:
            return self._encoder.encode(fields).decode()
        except UnicodeEncodeError:  # a lone surrogate in a text of the task's
            return self._encoder.encode({name: _clean(value) for name, value in fields.items()}).decode()


def _clean(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def check_logs(level: str, config: str) -> int:
    """Refuse options that do not exist; returns the number of the level."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ConfigError(f"log level {level!r}: one of debug, info, warning, error is needed")
    if config not in ("auto", "none"):
        raise ConfigError(f"--log-config {config!r}: auto, or none to leave logging to the app")
    return number


def configure_logs(
    level: str = "info", *, json: bool = False, stream: TextIO | None = None, config: str = "auto"
) -> None:
    """Send everything from `level` up to `stream` (standard error); for processes that are a worker and nothing else.

    Called once the app is loaded. If the root logger has handlers by then, those stay, none is added, and `level` is
    that of Headgate's own loggers. Records carry the job that they belong to. `config="none"` changes nothing at all.
    """
    number = check_logs(level, config)
    if config == "none":
        return
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(stream or sys.stderr)
        handler.setFormatter(JsonFormatter() if json else LineFormatter())
        root.addHandler(handler)
        root.setLevel(number)
    elif logging.getLogger("headgate").level == logging.NOTSET:
        logging.getLogger("headgate").setLevel(number)
    _enable_own()
    for handler in root.handlers:
        if not any(isinstance(each, JobContextFilter) for each in handler.filters):
            handler.addFilter(JobContextFilter())


def _enable_own() -> None:
    """`logging.config` disables the loggers that are there already unless it is told not to: by then Headgate's are,
    and a worker that is silenced by accident would not even say which jobs failed."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == "headgate" and isinstance(logger, logging.Logger):
            logger.disabled = False

"""Logs of a worker process: lines for people, or one JSON object a line for programs."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from headgate.errors import ConfigError

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


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
        fields |= {name: value for name, value in vars(record).items() if name not in STANDARD}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return self._encoder.encode(fields).decode()


def configure_logs(level: str = "info", *, json: bool = False, stream: TextIO | None = None) -> None:
    """Send everything from `level` up to `stream` (standard error); for processes that belong to Headgate alone."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ConfigError(f"log level {level!r}: one of debug, info, warning, error is needed")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json else logging.Formatter(LOG_FORMAT))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)

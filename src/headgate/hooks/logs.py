"""Log records that say which job they belong to.

`JobContextFilter` on a handler gives every record that comes by the fields of the job in whose code it was logged; for
structlog `add_job_context` does the same as a processor. Both look at the attempt that is running when something is
logged, so nothing has to be bound before.

Headgate itself is silent unless the program configures logging.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from headgate.hooks.context import CURRENT, JobContext

FIELDS = ("job", "task", "attempt", "queue", "tenant", "worker")
"""What is known of an attempt in each of its log records."""


class JobContextFilter(logging.Filter):
    """Lets every record pass, and adds `job`, `task`, `attempt`, `queue`, `tenant` and `worker` to it.

    They are None outside of jobs, so that a format may name them. What a record says of itself is left as it is.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by the handler that it is added to, in the thread that logs."""
        context = CURRENT.get(None)
        for name in FIELDS:
            if name not in record.__dict__:
                record.__dict__[name] = None if context is None else _field(context, name)
        return True


def add_job_context(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: adds the fields of the running job, and nothing outside of jobs."""
    if (context := CURRENT.get(None)) is not None:
        for name in FIELDS:
            event.setdefault(name, _field(context, name))
    return event


def _field(context: JobContext, name: str) -> Any:
    return context.id if name == "job" else getattr(context, name)


# Without a handler of its own, warnings would come out on standard error through logging's last resort.
logging.getLogger("headgate").addHandler(logging.NullHandler())

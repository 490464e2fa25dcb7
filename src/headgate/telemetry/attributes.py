"""The attributes of spans. Those of `messaging` and `error` are OpenTelemetry's own conventions; the destination of a
job is its queue.

A span is named after its task, since a worker's spans of one queue would all look the same otherwise.
"""

from __future__ import annotations

from typing import Final

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
MESSAGE_COUNT: Final = "messaging.batch.message_count"
CLIENT_ID: Final = "messaging.client.id"
ERROR_TYPE: Final = "error.type"

TASK: Final = "headgate.task"
TENANT: Final = "headgate.tenant"
PRIORITY: Final = "headgate.priority"
CREATED: Final = "headgate.created"
"""False where a unique key found an unfinished job, which the enqueue returned."""
ATTEMPT: Final = "headgate.attempt"
TRIES: Final = "headgate.tries"
OUTCOME: Final = "headgate.outcome"
WAITING: Final = "headgate.waiting"
"""Seconds from when the attempt was due to its start."""
DURATION: Final = "headgate.duration"
"""Seconds that the attempt took."""
RETRY_IN: Final = "headgate.retry_in"
"""Seconds until the next attempt is due."""
CONFIRMED: Final = "headgate.confirmed"
"""False where the store's answer was lost: whether it counts the outcome is not known."""

HEADGATE: Final = "headgate"
ENQUEUE: Final = "enqueue"
ATTEMPT_OF: Final = "attempt"


def error_type(error: BaseException) -> str:
    """The name of an exception's class, with its module unless that is built in."""
    name, module = type(error).__qualname__, type(error).__module__
    return name if module == "builtins" else f"{module}.{name}"

"""The seam between an app and its work: lifespan, middleware, events, dependencies, logs.

Producers and workers call what hangs here; the stores and the rules of admission know nothing of it. Metrics, traces
and integrations stand on this seam alone.
"""

from headgate.hooks.context import JobContext
from headgate.hooks.enqueueing import AroundEnqueue, CallStore, EnqueueMiddleware, NewJobInfo
from headgate.hooks.events import EventName, JobEvent, JobEventName, WorkerEvent, WorkerEventName
from headgate.hooks.logs import JobContextFilter, add_job_context
from headgate.hooks.middleware import CallNext, Middleware

__all__ = [
    "AroundEnqueue",
    "CallNext",
    "CallStore",
    "EnqueueMiddleware",
    "EventName",
    "JobContext",
    "JobContextFilter",
    "JobEvent",
    "JobEventName",
    "Middleware",
    "NewJobInfo",
    "WorkerEvent",
    "WorkerEventName",
    "add_job_context",
]

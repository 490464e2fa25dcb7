"""Headgate: a background job queue whose core is admission.

Names are loaded when they are first used: importing the package costs next to nothing, and a producer never loads the
worker.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.app.app import App
    from headgate.app.audit import AuditReport
    from headgate.app.counting import CountInfo
    from headgate.app.defaults import TaskDefaults
    from headgate.app.explain import Explanation
    from headgate.app.failures import FailureGroup, Failures
    from headgate.app.fair_shares import ShareInfo, WeightInfo
    from headgate.app.filters import StateName
    from headgate.app.handle import JobHandle
    from headgate.app.importing import ImportAttempt, ImportRecord, ImportRetry
    from headgate.app.info import AttemptInfo, JobInfo, LimitInfo, OverrideInfo, QueueInfo, WorkerInfo
    from headgate.app.schedules import ScheduleInfo
    from headgate.app.slots import Slot
    from headgate.app.steering import Changed
    from headgate.app.store_info import (
        HistoryInfo,
        HolderInfo,
        KeyInfo,
        SqlResult,
        TotalsInfo,
        WaiterInfo,
    )
    from headgate.app.stream import JobUpdate
    from headgate.app.task import AsyncTask, SyncTask, Task
    from headgate.app.task_set import TaskSet
    from headgate.errors import (
        BacklogFull,
        CancelJob,
        ConfigError,
        EngineError,
        EngineUnavailable,
        FailJob,
        HeadgateError,
        JobCancelled,
        JobControl,
        JobExists,
        JobFailed,
        JobNotFound,
        LeaseLost,
        LifespanError,
        LimitNotFound,
        PayloadError,
        ProcessDied,
        RaisedInProcess,
        RetryLater,
        SchemaMismatch,
        SlotLost,
        Snooze,
        StaleMessage,
        Throttled,
        WrongState,
    )
    from headgate.hooks.context import JobContext, current_job
    from headgate.hooks.dependencies import Depends
    from headgate.job import JobState
    from headgate.limits import Adapt, ConcurrencyLimit, FloatingLimit, FloatingLimitView, RateLimit
    from headgate.limits.imported import ImportLimit
    from headgate.retry import Retry
    from headgate.sealing import Codec, ContextCodec, PayloadContext, SealedPayload
    from headgate.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Adapt",
    "App",
    "AsyncTask",
    "AttemptInfo",
    "AuditReport",
    "BacklogFull",
    "CancelJob",
    "Changed",
    "Codec",
    "ConcurrencyLimit",
    "ConfigError",
    "ContextCodec",
    "CountInfo",
    "Depends",
    "EngineError",
    "EngineUnavailable",
    "Explanation",
    "FailJob",
    "FailureGroup",
    "Failures",
    "FloatingLimit",
    "FloatingLimitView",
    "HeadgateError",
    "HistoryInfo",
    "HolderInfo",
    "ImportAttempt",
    "ImportLimit",
    "ImportRecord",
    "ImportRetry",
    "JobCancelled",
    "JobContext",
    "JobControl",
    "JobExists",
    "JobFailed",
    "JobHandle",
    "JobInfo",
    "JobNotFound",
    "JobState",
    "JobUpdate",
    "KeyInfo",
    "LeaseLost",
    "LifespanError",
    "LimitInfo",
    "LimitNotFound",
    "OverrideInfo",
    "PayloadContext",
    "PayloadError",
    "ProcessDied",
    "QueueInfo",
    "RaisedInProcess",
    "RateLimit",
    "Retry",
    "RetryLater",
    "ScheduleInfo",
    "SchemaMismatch",
    "SealedPayload",
    "ShareInfo",
    "Slot",
    "SlotLost",
    "Snooze",
    "SqlResult",
    "StaleMessage",
    "StateName",
    "SyncTask",
    "Task",
    "TaskDefaults",
    "TaskSet",
    "Throttled",
    "TotalsInfo",
    "WaiterInfo",
    "WeightInfo",
    "Worker",
    "WorkerInfo",
    "WrongState",
    "__version__",
    "current_job",
]

_ROOMS = {
    "app.app": ("App",),
    "app.audit": ("AuditReport",),
    "hooks.context": ("JobContext", "current_job"),
    "hooks.dependencies": ("Depends",),
    "app.counting": ("CountInfo",),
    "app.explain": ("Explanation",),
    "app.failures": ("FailureGroup", "Failures"),
    "app.fair_shares": ("ShareInfo", "WeightInfo"),
    "app.filters": ("StateName",),
    "app.handle": ("JobHandle",),
    "app.importing": ("ImportAttempt", "ImportRecord", "ImportRetry"),
    "app.info": ("AttemptInfo", "JobInfo", "LimitInfo", "OverrideInfo", "QueueInfo", "WorkerInfo"),
    "job": ("JobState",),
    "limits": ("Adapt", "ConcurrencyLimit", "FloatingLimit", "FloatingLimitView", "RateLimit"),
    "limits.imported": ("ImportLimit",),
    "app.schedules": ("ScheduleInfo",),
    "app.steering": ("Changed",),
    "app.store_info": ("HistoryInfo", "HolderInfo", "KeyInfo", "SqlResult", "TotalsInfo", "WaiterInfo"),
    "retry": ("Retry",),
    "sealing": ("Codec", "ContextCodec", "PayloadContext", "SealedPayload"),
    "app.defaults": ("TaskDefaults",),
    "app.slots": ("Slot",),
    "app.stream": ("JobUpdate",),
    "app.task": ("AsyncTask", "SyncTask", "Task"),
    "app.task_set": ("TaskSet",),
    "worker": ("Worker",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    value = getattr(import_module(f"headgate.{_ROOM_OF.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

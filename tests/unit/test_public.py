"""The public names, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import headgate


def test_every_public_name_is_there_and_nothing_is_listed_twice():
    assert len(set(headgate.__all__)) == len(headgate.__all__)
    for name in headgate.__all__:
        assert getattr(headgate, name) is not None
    assert headgate.__all__ == sorted(headgate.__all__)


def test_the_public_names_are_these():
    assert set(headgate.__all__) == {
        "Adapt", "App", "AsyncTask", "AttemptInfo", "AuditReport", "BacklogFull", "CancelJob", "Changed", "Codec",
        "ConcurrencyLimit", "CountInfo",
        "ConfigError", "ContextCodec", "Depends", "EngineError", "EngineUnavailable", "Explanation", "FailJob",
        "FailureGroup", "Failures", "FloatingLimit", "FloatingLimitView", "HeadgateError", "HistoryInfo",
        "HolderInfo", "ImportAttempt", "ImportLimit", "ImportRecord", "ImportRetry", "JobCancelled", "JobContext",
        "JobControl", "JobExists", "JobFailed", "JobHandle", "JobInfo", "JobNotFound", "JobState", "JobUpdate",
        "KeyInfo", "LeaseLost", "LifespanError", "LimitInfo", "LimitNotFound", "OverrideInfo", "PayloadContext",
        "PayloadError", "ProcessDied", "QueueInfo", "RaisedInProcess", "RateLimit", "Retry", "RetryLater",
        "ScheduleInfo", "SchemaMismatch", "SealedPayload", "ShareInfo", "Slot", "SlotLost", "Snooze", "SqlResult",
        "StaleMessage", "StateName", "SyncTask", "Task", "TaskDefaults", "TaskSet", "Throttled", "TotalsInfo",
        "WaiterInfo", "WeightInfo", "Worker", "WorkerInfo", "WrongState", "__version__", "current_job",
    }  # fmt: skip


def test_a_name_that_is_not_public_is_not_there():
    assert not hasattr(headgate, "nonsense")
    assert set(headgate.__all__) <= set(dir(headgate))


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(shown.stdout.split())


def test_importing_headgate_loads_next_to_nothing():
    assert not loaded_by("import headgate") & {"asyncio", "msgspec", "headgate.app.app"}


def test_a_producer_loads_neither_worker_nor_client_libraries():
    loaded = loaded_by("from headgate import App\nApp('memory://')")
    assert not loaded & {"headgate.worker", "apsw", "typer", "rich", "pydantic", "uvloop"}


def test_the_pytest_plugin_loads_no_engine():
    heavy = {"asyncio", "msgspec", "headgate.app.app"} - loaded_by("import pytest")
    assert not loaded_by("import headgate.testing.plugin") & heavy

"""Workers: they claim jobs, run them and settle them. They know the engine contract, never an engine."""

from headgate.worker.events import Event
from headgate.worker.health import WorkerHealth
from headgate.worker.idle import run_until_idle
from headgate.worker.worker import Worker

__all__ = ["Event", "Worker", "WorkerHealth", "run_until_idle"]

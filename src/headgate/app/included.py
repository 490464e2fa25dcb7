"""The tasks of a task set: they look like any task, and enqueue through the app that includes their set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from headgate.app.client import Client
from headgate.app.handle import JobHandle
from headgate.app.options import JobOptions
from headgate.app.sync import SyncLoop, twin
from headgate.app.task import Task, TaskWithOptions
from headgate.engine.contract import Settings
from headgate.job import NewJob
from headgate.limits.bound import BoundLimit
from headgate.own_types import OwnTypes

if TYPE_CHECKING:
    from headgate.app.declarations import Declarations

P = ParamSpec("P")
R = TypeVar("R")

PAYLOAD_LIMIT = 1024 * 1024


class SetClient(Client):
    """What a set's tasks are declared on until an app includes them: it checks, and has no store."""

    def __init__(self, only: Callable[[], Declarations]) -> None:
        super().__init__("memory://", Settings(), PAYLOAD_LIMIT)
        self.types = OwnTypes(lenient=True)
        self.only = only


class SetTask(Task[P, R]):
    """A task of a set. The app's own task of the same name, with the app's defaults, makes its jobs."""

    _client: SetClient

    @property
    def included(self) -> Task[P, R]:
        """The task as the app that includes the set has it; raises ConfigError where there is no such app."""
        return self._client.only().tasks[self.name]

    @property
    def sync_loop(self) -> SyncLoop:
        """Where the sync twins run."""
        return self.included.sync_loop

    def build(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: JobOptions,
        extra: tuple[BoundLimit, ...],
    ) -> NewJob[R]:
        """One job, with what the app says about the task."""
        return self.included.job(*args, **kwargs)

    async def send(self, job: NewJob[R]) -> JobHandle[R]:
        """Enqueue a job that was built here."""
        return await self.included.send(job)

    def options(self, **given: Any) -> TaskWithOptions[P, R]:
        """The task with what is to be different for some of its jobs; may be said before an app includes the set."""
        checked = super().options(**given)
        return SetTaskWithOptions(self, checked, given)


class SetTaskWithOptions(TaskWithOptions[P, R]):
    """A task of a set and options for its next jobs."""

    __slots__ = ("_given",)

    def __init__(self, task: SetTask[P, R], checked: TaskWithOptions[P, R], given: dict[str, Any]) -> None:
        super().__init__(task, checked._options, checked._limits)
        self._given = given

    def _included(self) -> TaskWithOptions[P, R]:
        assert isinstance(self._task, SetTask)
        return self._task.included.options(**self._given)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R]:
        """A job with these options, not enqueued yet."""
        return self._included().job(*args, **kwargs)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Enqueue one job with these options."""
        return await self._included().enqueue(*args, **kwargs)

    enqueue_sync = twin(enqueue)

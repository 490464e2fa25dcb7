"""The exceptions of attempts as they were raised: for tests that want to see them, not their text in a store."""

from __future__ import annotations

from headgate.errors import JobControl
from headgate.hooks.events import JobEvent
from headgate.hooks.hooks import Hooks


class ErrorsSeen:
    """What attempts of one run ended with, from whichever part of them it came: the task, its middleware, what makes
    its dependencies, its timeout. What task code raises to say how its attempt ends is no error."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def watching(self, hooks: Hooks) -> Hooks:
        """The same hooks for one run, whose errors are noted here."""
        return hooks.also_telling(("failed", "retried", "lost"), self._note)

    def _note(self, event: JobEvent) -> None:
        if isinstance(event.exception, Exception) and not isinstance(event.exception, JobControl):
            self._errors.append(event.exception)

    def raise_them(self) -> None:
        """Raise the only error as it is, several as a group."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ExceptionGroup(f"{len(self._errors)} attempts failed", self._errors)

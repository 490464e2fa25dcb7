"""The pytest plugin, found by pytest wherever Headgate is installed.

    def test_mail_is_sent(headgate_app):
        app = headgate_app()                        # a new App on memory://
        app = headgate_app(myproject.app)           # or: the project's own app, on memory:// for this test
        app = headgate_app(myproject.app, url="sqlite:///test.db", clock=headgate_clock)

`headgate_clock` is a `headgate.testing.Clock`. At the end of the test each app's store is audited (a problem fails the
test) and closed. Nothing of Headgate is loaded until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from headgate.app.app import App
    from headgate.testing.clock import Clock


class AppFactory(Protocol):
    """What the fixture `headgate_app` gives."""

    def __call__(
        self, app: App | None = None, *, url: str = "memory://", clock: Callable[[], int] | None = None
    ) -> App: ...


@pytest.fixture
def headgate_clock() -> Clock:
    """A clock that the test moves."""
    from headgate.testing.clock import Clock

    return Clock()


@pytest.fixture
def headgate_app() -> Generator[AppFactory]:
    """Makes apps for one test, on stores of their own; audits and closes them afterwards."""
    from headgate.app.app import App
    from headgate.testing.store import use_store

    with ExitStack() as stack:

        def make(
            app: App | None = None, *, url: str = "memory://", clock: Callable[[], int] | None = None
        ) -> App:
            made = App(url, clock=clock) if app is None else app
            if app is None:
                stack.callback(made.close_sync)
            else:
                stack.enter_context(use_store(app, url, clock=clock))
            stack.callback(_audit, made)
            return made

        yield make


def _audit(app: App) -> None:
    report = app.audit_sync()
    if not report.ok:
        pytest.fail(f"the store does not fit together:\n{report}", pytrace=False)

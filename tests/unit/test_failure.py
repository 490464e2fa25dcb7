"""What `JobFailed` knows about an error is read from the text that the worker keeps of it."""

from __future__ import annotations

import pytest

from headgate.app.failure import Failure, failure
from headgate.errors import RetryLater
from headgate.worker.run.error_text import error_text


class Refused(Exception):
    """One of the program's own."""


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("no: such\nperson"), "ValueError", "no: such\nperson"),
        (KeyError(), "KeyError", ""),
        (Refused("by them"), f"{__name__}.Refused", "by them"),
        (RetryLater(reason="busy"), "headgate.errors.RetryLater", "busy"),
        (ValueError("x" * 20_000), "ValueError", "x" * 1012),
        (ExceptionGroup("two", [ValueError("a"), OSError("b")]), "ExceptionGroup", "two (2 sub-exceptions)"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_error_is_taken_apart(error: Exception, kind: str, message: str):
    found = failure(error_text(raised(error)))
    assert (found.kind, found.message) == (kind, message)
    assert "Traceback (most recent call last)" in found.traceback or found.traceback.startswith("…")
    assert found.traceback.rstrip().endswith(message[-5:] or "KeyError") or isinstance(error, ExceptionGroup)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, Failure("", "", "")),
        ("not a CSV file", Failure("", "not a CSV file", "")),
        ("note: not a class", Failure("", "note: not a class", "")),
        ("TimeoutError: too long", Failure("TimeoutError", "too long", "")),
        ("lost with its worker 5 times", Failure("", "lost with its worker 5 times", "")),
    ],
)
def test_what_was_no_exception_has_no_class(text: str | None, found: Failure):
    assert failure(text) == found

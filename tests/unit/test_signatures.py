"""Parameters are seen without evaluating annotations, which may name what is there for type checkers only."""

import sys

import pytest

from headgate import App, Depends
from headgate.signatures import parameters, signature

# No `from __future__ import annotations` here: that would leave the annotations texts, as they are not in most programs
# for Python 3.14.
CODE = """
def around(job: Nowhere, call_next: Nowhere): ...
async def wrap(job: Nowhere, call_next: Nowhere): ...
def key(order: Nowhere): ...
def headers(job: Nowhere): ...
"""


@pytest.fixture
def functions() -> dict:
    if sys.version_info < (3, 14):
        pytest.skip("annotations are evaluated where they are written")
    found: dict = {}
    exec(CODE, found)
    return found


def test_parameters_have_their_names_and_order():
    def function(a: int, *, b: str = "x") -> None: ...

    assert [each.name for each in parameters(function)] == ["a", "b"]
    assert signature(function).bind(1, b="y").arguments == {"a": 1, "b": "y"}


def test_annotations_that_name_nothing_are_no_error(functions: dict):
    assert [each.name for each in parameters(functions["around"])] == ["job", "call_next"]
    app = App("memory://")
    app.middleware(functions["wrap"])
    app.around_enqueue(functions["wrap"])
    app.enqueue_middleware(functions["headers"])


def test_a_factory_whose_annotations_name_nothing_says_so(functions: dict):
    app = App("memory://")

    def task(x: int, order=Depends(functions["key"])): ...

    with pytest.raises(Exception, match="Nowhere"):
        app.task(task)

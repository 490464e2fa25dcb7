"""Calls bound to names and made from names again."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
import pytest

from headgate import ConcurrencyLimit
from headgate.app.signature import TaskSignature
from headgate.codec import Payload
from headgate.errors import ConfigError, PayloadError


def there_and_back(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """What `fn` returns when called the way a worker calls it."""
    signature = TaskSignature(fn, "t")
    payload = Payload("t", signature.types, frozenset(signature.defaults), 10_000)
    _, arguments = payload.encode(signature.bind(args, kwargs))
    args, kwargs = signature.call(arguments)
    return fn(*args, **kwargs)


def test_arguments_reach_parameters_of_every_kind():
    def fn(a: int, /, b: int, *rest: int, c: int, d: int = 4, **more: int) -> Any:
        return a, b, rest, c, d, more

    assert there_and_back(fn, 1, 2, 3, 3, c=5, x=6) == (1, 2, (3, 3), 5, 4, {"x": 6})
    assert there_and_back(fn, 1, b=2, c=5) == (1, 2, (), 5, 4, {})


def test_left_out_arguments_take_the_defaults_of_the_function_that_runs():
    def fn(a: int, b: int = 2, c: object = print) -> Any:
        return a, b, c

    with pytest.raises(ConfigError):
        there_and_back(fn, 1)

    def plain(a: int, b: int = 2, *, c: str = "x") -> Any:
        return a, b, c

    assert there_and_back(plain, 1) == (1, 2, "x")
    assert there_and_back(plain, a=1, c="y") == (1, 2, "y")


def test_defaults_fill_positions_before_a_rest():
    def fn(a: int = 1, /, b: int = 2, *rest: int) -> Any:
        return a, b, rest

    assert there_and_back(fn) == (1, 2, ())
    assert there_and_back(fn, 5) == (5, 2, ())
    assert there_and_back(fn, 5, 6, 7) == (5, 6, (7,))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, 2, 3), {}, "takes 2 positional arguments, 3 were given"),
        ((), {}, "needs 'a' as well"),
        ((1,), {"a": 2}, "was given 'a' twice"),
        ((1,), {"z": 2}, "has no parameter 'z'; it has: a, b"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args: Any, kwargs: Any, message: str):
    def fn(a: int, b: int = 2) -> None: ...

    with pytest.raises(PayloadError, match=message):
        TaskSignature(fn, "t").bind(args, kwargs)


def test_limits_are_found_in_annotations_and_defaults():
    one, two, three = (
        ConcurrencyLimit(1),
        ConcurrencyLimit(2, scope="x"),
        ConcurrencyLimit("a", max_concurrent=3),
    )

    def fn(
        a: Annotated[int, one, two],
        c: ConcurrencyLimit = three,
    ) -> None: ...

    fn.__annotations__ = {"a": Annotated[int, one, two], "c": ConcurrencyLimit}
    signature = TaskSignature(fn, "t")
    assert [(found.limit, found.own, found.called) for found in signature.limits] == [
        (one, "a", None),
        (two, "a", None),
        (three, None, "c"),
    ]
    assert signature.types == {"a": int}


def test_other_annotations_beside_a_limit_stay():
    def fn(a: Annotated[int, ConcurrencyLimit(1), msgspec.Meta(gt=0)]) -> int:
        return a

    assert there_and_back(fn, 1) == 1
    with pytest.raises(PayloadError, match=r"> 0|>= 1"):
        there_and_back(fn, 0)


def test_a_limit_inside_a_type_is_refused_since_it_would_be_ignored():
    def fn(a: Annotated[int, ConcurrencyLimit(1)] | None = None) -> None: ...

    with pytest.raises(ConfigError, match="around the whole type"):
        TaskSignature(fn, "t")


def test_a_limit_class_without_its_number_is_refused():
    def fn(a: Annotated[int, ConcurrencyLimit]) -> None: ...

    with pytest.raises(ConfigError, match="needs its number"):
        TaskSignature(fn, "t")


def test_types_local_to_a_function_are_found():
    class Local(msgspec.Struct):
        x: int

    def fn(a: Local) -> int:
        return a.x

    assert there_and_back(fn, Local(3)) == 3


def test_an_annotation_that_names_nothing_is_refused():
    def fn(a: Missing) -> None: ...  # pyright: ignore[reportUndefinedVariable]  # noqa: F821

    with pytest.raises(ConfigError, match="Missing"):
        TaskSignature(fn, "t")


def test_partials_and_callable_objects_are_understood():
    def fn(a: int, b: str) -> Any:
        return a, b

    class Add:
        def __call__(self, a: int) -> int:
            return a + 1

    assert there_and_back(partial(fn, b="x"), 1) == (1, "x")
    assert there_and_back(Add(), 1) == 2

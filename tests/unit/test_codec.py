"""What travels as JSON, what comes back, what is refused."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest

from headgate.codec import Payload, decoder, encode, encode_text, sorted_text
from headgate.errors import ConfigError, PayloadError


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int


class Shape(msgspec.Struct):
    name: str
    at: Point


class Order(pydantic.BaseModel):
    region: str
    paid: datetime
    amount: Decimal


VALUES = [
    (int, 3),
    (float, 2.5),
    (str, "ä 🎈 \n \0"),
    (bool, True),
    (bytes, b"\x00\xff"),
    (datetime, datetime(2026, 3, 1, 12, tzinfo=UTC)),
    (date, date(2026, 3, 1)),
    (timedelta, timedelta(seconds=1.5)),
    (uuid.UUID, uuid.UUID(int=7)),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Point, Point(1, 2)),
    (Shape, Shape("a", Point(1, 2))),
    (Order, Order(region="eu", paid=datetime(2026, 3, 1, tzinfo=UTC), amount=Decimal("9.90"))),
    (list[Order], [Order(region="eu", paid=datetime(2026, 3, 1, tzinfo=UTC), amount=Decimal(1))]),
    (Order | None, None),
    (dict[int, str], {1: "a"}),
    (set[int], {1, 2}),
    (tuple[int, str], (1, "a")),
    (Any, {"a": [1, 2.5, None, "x"]}),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda case: str(case)[:40])
def test_a_value_comes_back_as_its_annotation_says(kind: Any, value: Any):
    payload = Payload("t", {"x": kind}, frozenset(), 10_000)
    text, seen = payload.encode({"x": value})
    assert seen.x == value
    assert payload.decode(text).x == value
    assert type(seen.x) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, "3", "Expected `int`, got `str`"),
        (int, True, "Expected `int`, got `bool`"),
        (str, None, "Expected `str`, got `null`"),
        (Point, {"x": 1}, "missing required field `y`"),
        (Order, {"region": "eu"}, "Field required"),
        (list[int], [1, "a"], r"parameter 'x': .* - at `\$\[1\]`"),
    ],
)
def test_a_value_that_does_not_fit_its_annotation_is_refused_by_the_producer(
    kind: Any, value: Any, message: str
):
    payload = Payload("t", {"x": kind}, frozenset(), 10_000)
    with pytest.raises(PayloadError, match=message):
        payload.encode({"x": value})


def test_a_dictionary_may_stand_for_a_record():
    payload = Payload("t", {"p": Point}, frozenset(), 1000)
    assert payload.encode({"p": {"x": 1, "y": 2}})[1].p == Point(1, 2)


@pytest.mark.parametrize("value", [datetime.now(UTC), Point(1, 2), {1, 2}, b"x", object()])
def test_an_argument_without_annotation_must_be_plain_json(value: Any):
    payload = Payload("t", {"x": Any}, frozenset(), 1000)
    with pytest.raises(PayloadError, match=r"'x' has no annotation, or Any, .*annotate it with a type"):
        payload.encode({"x": value})


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], {"a": {"b": -float("inf")}}])
def test_numbers_that_json_cannot_say_are_refused(value: Any):
    with pytest.raises(PayloadError, match="NaN or an infinite"):
        encode(value, "it")


def test_null_beside_finite_numbers_is_fine():
    assert encode([None, 1.5, "null"], "it") == b'[null,1.5,"null"]'


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(PayloadError, match="not valid Unicode"):
        encode({"a": "\ud800"}, "it")


def test_what_contains_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(PayloadError, match="contains itself"):
        encode(loop, "it")


def test_an_object_without_a_json_form_is_refused_by_name():
    with pytest.raises(PayloadError, match=r"it cannot travel as JSON: .*object"):
        encode(object(), "it")


def test_too_many_bytes_are_refused_with_both_numbers():
    with pytest.raises(PayloadError, match="1,002 bytes of JSON, more than the payload limit of 1,000"):
        encode_text("x" * 1000, "result", 1000)
    with pytest.raises(PayloadError, match="pass a reference"):
        Payload("t", {"x": str}, frozenset(), 100).encode({"x": "y" * 100})


def test_arguments_that_the_task_no_longer_has_are_refused_by_the_worker():
    payload = Payload("t", {"x": int}, frozenset(), 100)
    with pytest.raises(PayloadError, match="unknown field `y`"):
        payload.decode('{"x":1,"y":2}')
    with pytest.raises(PayloadError, match="missing required field `x`"):
        payload.decode("{}")
    with pytest.raises(PayloadError, match="malformed"):
        payload.decode("{x")


def test_an_argument_left_out_is_unset():
    payload = Payload("t", {"x": int, "y": int}, frozenset({"y"}), 100)
    text, seen = payload.encode({"x": 1})
    assert text == '{"x":1}'
    assert seen.y is msgspec.UNSET


def test_a_type_that_json_can_never_fill_is_refused_at_declaration():
    class Connection: ...

    with pytest.raises(
        ConfigError, match=r"parameter 'c' of task 't'.*Connection.* cannot be read from JSON"
    ):
        Payload("t", {"c": Connection}, frozenset(), 100)
    with pytest.raises(ConfigError, match="cannot be read from JSON"):
        decoder(dict[str, list[Connection]], "it")


def test_a_type_that_refers_to_itself_is_fine():
    assert decoder(Tree, "it").decode('{"children":[{"children":[]}]}') == Tree([Tree([])])


@dataclass
class Tree:
    children: list[Tree]


def test_sorted_text_does_not_depend_on_the_order_of_keys():
    assert sorted_text({"b": 1, "a": 2}, "it") == sorted_text({"a": 2, "b": 1}, "it")

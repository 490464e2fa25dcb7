"""From arguments to keys."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from headgate import ConcurrencyLimit, FloatingLimit, RateLimit
from headgate.errors import ConfigError
from headgate.keys import Key
from headgate.limits.bound import BoundLimit, Need
from headgate.limits.parameters import Parameters, value_text


class Level(enum.IntEnum):
    HIGH = 3


class Name(enum.StrEnum):
    ADA = "ada"


@dataclass
class Order:
    region: str
    customer: dict[str, str]


PARAMETERS = Parameters("t", {"a": int, "b": str, "order": Order, "anything": Any}, {"b": "dflt"})


def need(limit: Any, own: str | None = None, tenant: str = "", **arguments: Any) -> Need | None:
    record = SimpleNamespace(**(dict.fromkeys(PARAMETERS.types, msgspec.UNSET) | arguments))
    bound = BoundLimit(limit, PARAMETERS, own)
    found = bound.need(record, tenant)
    quick = bound.use(record, tenant)
    assert [(use.key, use.units) for use in quick] == ([(found[0].ident, found[1])] if found else [])
    return found


def text(limit: Any, own: str | None = None, **arguments: Any) -> str:
    found = need(limit, own, **arguments)
    assert found is not None
    return found[0].text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x=1: ä\n🎈", "x=1: ä\n🎈"),
        ("", ""),
        (42, "42"),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        (Level.HIGH, "3"),
        (Name.ADA, "ada"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (Decimal("1.10"), "1.10"),
        ({"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        ([1, "x"], '[1,"x"]'),
    ],
)
def test_a_value_stands_in_a_key_as_it_would_in_json(value: Any, expected: str):
    assert value_text(value) == expected


def test_an_annotated_parameter_gives_name_and_value():
    assert text(ConcurrencyLimit(1), "a", a=42) == "t.a=42"
    assert text(ConcurrencyLimit(1, scope="customer"), "a", a=42) == "customer=42"
    assert text(FloatingLimit("llm"), "a", a=42) == "llm=42"


def test_named_parameters_form_one_key_and_are_kept_apart():
    limit = ConcurrencyLimit("a", "b", max_concurrent=1)
    assert text(limit, a=1, b="x") == "t.a,b=1:x"
    assert text(limit, a=1, b="x:y\\") == "t.a,b=1:x\\:y\\\\"


def test_a_default_stands_for_an_argument_left_out():
    assert text(ConcurrencyLimit("b", max_concurrent=1)) == "t.b=dflt"


def test_without_parameters_a_limit_has_one_key_and_the_task_s_name():
    assert text(ConcurrencyLimit(1)) == "t"
    assert text(RateLimit(1, per=1, scope="api")) == "api"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{a}", "s=1"),
        ("{order.region}:{a}", "s=eu:1"),
        ("{order.customer.name}", "s=ada"),
        ("{{{a}}}", "s={1}"),
        ("123", "s=123"),
        ("{anything.x}", "s=9"),
        ("", "s="),
    ],
)
def test_a_template_reaches_into_arguments(template: str, expected: str):
    limit = ConcurrencyLimit(1, scope="s", key=template)
    assert text(limit, a=1, order=Order("eu", {"name": "ada"}), anything={"x": 9}) == expected


def test_a_template_without_scope_is_named_after_its_parameters():
    assert text(ConcurrencyLimit(1, key="{order.region}-{a}"), a=1, order=Order("eu", {})) == "t.order,a=eu-1"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{nope}", "no parameter 'nope'; it has: a, b, order, anything"),
        ("{order.colour}", "Order in task 't' has no 'colour'; it has: region, customer"),
        ("{a", "double a brace"),
        ("}", "double a brace"),
        ("{}", "nothing more"),
        ("{a!r}", "nothing more"),
        ("{a:>5}", "nothing more"),
        ("{order.__class__}", "not an attribute that a key may use"),
        ("{order[0]}", "no parameter 'order\\[0\\]'"),
    ],
)
def test_a_template_that_cannot_fit_is_refused_at_declaration(template: str, message: str):
    with pytest.raises(ConfigError, match=message):
        BoundLimit(ConcurrencyLimit(1, key=template), PARAMETERS)


def test_a_template_that_does_not_fit_an_argument_says_what_is_missing():
    with pytest.raises(ConfigError, match=r"\{anything.x\} does not fit, since \{'y': 1\} has no 'x'"):
        need(ConcurrencyLimit(1, scope="s", key="{anything.x}"), anything={"y": 1})


def test_a_function_of_arguments_gives_the_key():
    assert text(ConcurrencyLimit(1, scope="s", key=lambda b, a: f"{a}/{b}"), a=1, b="x") == "s=1/x"
    assert text(ConcurrencyLimit(1, key=lambda a: a % 3), a=10) == "t.a=1"
    assert text(ConcurrencyLimit(1, scope="s", key=lambda a, extra=5: a + extra), a=1) == "s=6"


def test_a_function_of_one_thing_gets_the_annotated_parameter():
    assert text(ConcurrencyLimit(1, key=str.lower), "b", b="ADA") == "t.b=ada"


def test_a_function_that_returns_none_leaves_the_limit_out():
    assert need(ConcurrencyLimit(1, key=lambda a: None), a=1) is None


def test_a_function_with_other_parameters_is_refused_at_declaration():
    with pytest.raises(ConfigError, match="no parameter 'other'"):
        BoundLimit(ConcurrencyLimit(1, key=lambda other: other), PARAMETERS)


def test_a_function_that_fails_is_named_with_its_error():
    with pytest.raises(ConfigError, match="key function failed with ZeroDivisionError"):
        need(ConcurrencyLimit(1, key=lambda a: 1 / a), a=0)


def test_an_unknown_parameter_is_refused_at_declaration():
    with pytest.raises(ConfigError, match="no parameter 'nope'"):
        BoundLimit(ConcurrencyLimit("nope", max_concurrent=1), PARAMETERS)
    with pytest.raises(ConfigError, match="cost=: task 't' has no parameter 'nope'"):
        BoundLimit(RateLimit(1, per=1, cost="nope"), PARAMETERS)


def test_a_plain_value_is_a_key():
    assert text(ConcurrencyLimit(1, scope="user", key=123)) == "user=123"


def test_a_key_belongs_to_the_tenant_unless_it_is_shared():
    found = need(ConcurrencyLimit(1), "a", tenant="acme", a=1)
    assert found is not None
    assert found[0].tenant == "acme"
    found = need(ConcurrencyLimit(1, shared=True), "a", tenant="acme", a=1)
    assert found is not None
    assert found[0].tenant == ""


def test_cost_is_a_number_a_parameter_or_a_function():
    assert need(RateLimit(10, per=1, cost=3)) == (Key("t", rate=True), 3, None)
    assert need(RateLimit(10, per=1, cost="a"), a=4) == (Key("t", rate=True), 4, None)
    assert need(RateLimit(10, per=1, cost=lambda b: len(b)), b="xy") == (Key("t", rate=True), 2, None)
    assert need(RateLimit(10, per=1, cost="a"), a=0) is None


@pytest.mark.parametrize("cost", [11, -1, True, "3"])
def test_a_cost_that_can_never_be_paid_is_refused(cost: Any):
    with pytest.raises(ConfigError, match="cost"):
        need(RateLimit(10, per=1, cost="anything"), anything=cost)


def test_a_key_of_more_than_256_bytes_is_refused():
    limit = ConcurrencyLimit(1, scope="s")
    assert len(text(limit, "b", b="x" * 254)) == 256
    with pytest.raises(ConfigError, match="257 bytes"):
        text(limit, "b", b="x" * 255)
    with pytest.raises(ConfigError, match="bytes"):
        text(limit, "b", b="🎈" * 64)


def test_a_key_that_is_not_unicode_is_refused():
    with pytest.raises(ConfigError, match="not valid Unicode"):
        text(ConcurrencyLimit(1), "b", b="\ud800")

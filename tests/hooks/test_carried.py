"""Pairs that carry texts to processes of the pool; that they arrive there: tests/worker/test_pool.py."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from headgate import App, ConfigError
from headgate.hooks.carried import Carried

order: list[Any] = []


@contextmanager
def take(texts: Mapping[str, str]) -> Generator[None]:
    order.append(dict(texts))
    yield
    order.append("left")


def test_what_is_given_under_a_name_is_taken_under_it():
    order.clear()
    giving, taking = Carried(), Carried()
    giving.add("one", lambda: {"a": "1"}, take)
    giving.add("unknown there", lambda: {"b": "2"}, take)
    taking.add("not given", dict, take)
    taking.add("one", dict, take)
    with taking.taken(giving.given()):
        order.append("inside")
    assert order == [{"a": "1"}, "inside", "left"]


@pytest.mark.parametrize("given", [None, "text", {"a": 1}, {1: "a"}])
def test_only_texts_travel(given: Any):
    carried = Carried()
    carried.add("one", lambda: given, take)
    with pytest.raises(ConfigError, match="returns a mapping of texts"):
        carried.given()


def test_a_name_is_used_once_and_needs_two_functions(app: App):
    app.carry("one", give=dict, take=take)
    with pytest.raises(ConfigError, match="carried under this name already"):
        app.carry("one", give=dict, take=take)
    with pytest.raises(ConfigError, match="two functions are needed"):
        app.carry("two", give=dict, take=None)  # pyright: ignore[reportArgumentType]

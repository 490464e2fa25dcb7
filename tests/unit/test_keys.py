"""Keys: read back whatever they contain, kept apart, put in one order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.rules.in_force import canonical_order
from headgate.errors import ConfigError
from headgate.keys import MAX_BYTES, Key, Use, canonical, check_length, check_name, check_text, is_rate, parse

names = st.text(min_size=1, max_size=8).filter(lambda text: "=" not in text)
keys = st.builds(Key, names, st.none() | st.text(max_size=8), st.text(max_size=8), st.booleans())


@given(keys)
def test_an_ident_reads_back_into_its_key(key: Key) -> None:
    assert Key.of(key.ident) == key


@given(keys, keys)
def test_different_keys_have_different_idents(one: Key, other: Key) -> None:
    assert (one == other) == (one.ident == other.ident)


@given(st.lists(st.tuples(keys, st.integers(1, 9)), max_size=6), st.randoms())
def test_the_order_of_declaration_does_not_matter(uses: list[tuple[Key, int]], dice: object) -> None:
    shuffled = list(uses)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    assert canonical(shuffled) == canonical(uses)


@given(st.lists(st.tuples(keys, st.integers(1, 9)), max_size=6))
def test_uses_stand_in_the_order_in_which_the_rule_book_sorts_them(uses: list[tuple[Key, int]]) -> None:
    ordered = canonical(uses)
    assert list(ordered) == sorted(ordered, key=canonical_order)


def test_concurrency_comes_before_rate_then_the_text_decides() -> None:
    uses = canonical([(Key("a", rate=True), 1), (Key("c"), 1), (Key("b", "2"), 1), (Key("b", "10"), 1)])
    assert [Key.of(use.key).text for use in uses] == ["b=10", "b=2", "c", "a"]


def test_a_repeated_key_counts_once_with_its_largest_cost() -> None:
    key = Key("r", rate=True)
    assert canonical([(key, 2), (key, 5), (key, 3)]) == (Use(key.ident, 5),)


def test_a_concurrency_key_and_a_rate_key_of_one_name_are_apart() -> None:
    assert Key("a").ident != Key("a", rate=True).ident
    assert is_rate(Key("a", rate=True).ident)
    assert not is_rate(Key("a").ident)


def test_a_bare_name_and_an_empty_value_are_apart() -> None:
    assert Key("a").ident != Key("a", "").ident
    assert (Key("a").text, Key("a", "").text) == ("a", "a=")


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a", ("a", None)), ("a=1", ("a", "1")), ("a==", ("a", "=")), ("task:x", ("task:x", None))],
)
def test_what_an_operator_types_is_parted_at_the_first_equals_sign(
    text: str, parts: tuple[str, str | None]
) -> None:
    assert parse(text) == parts


@pytest.mark.parametrize("text", ["", "=x"])
def test_a_key_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)


def test_a_name_with_an_equals_sign_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a=b' contains '='"):
        check_name("a=b")


@pytest.mark.parametrize("text", ["x" * MAX_BYTES, "é" * (MAX_BYTES // 2), "🐍" * (MAX_BYTES // 4)])
def test_a_text_of_exactly_the_largest_size_is_taken(text: str) -> None:
    assert check_text(text, "key") == text


@pytest.mark.parametrize("text", ["x" * (MAX_BYTES + 1), "é" * (MAX_BYTES // 2) + "x", "🐍" * 65])
def test_a_text_that_is_too_long_is_refused_with_its_size(text: str) -> None:
    with pytest.raises(ConfigError, match=r"has 2[56][0-9] bytes"):
        check_text(text, "key")


@pytest.mark.parametrize("text", ["", None, 5])
def test_what_is_no_text_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match="non-empty text"):
        check_text(text, "key")  # type: ignore[arg-type]


def test_bad_unicode_is_refused() -> None:
    with pytest.raises(ConfigError, match="not valid Unicode"):
        check_length("\ud800", "key")

"""Types that have no JSON form of their own: paths, unions, enums of mixed values, and classes of the program's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from uuid import UUID

import pytest

from headgate import App, ConcurrencyLimit, ConfigError, JobFailed, PayloadError, TaskSet
from headgate.testing import Clock


class Colour(Enum):
    RED = "red"
    FIVE = 5
    PAIR = (1, 2)


@dataclass
class Cat:
    lives: int = 9


@dataclass
class Dog:
    tricks: list[str]


class Money:
    """Of the program's own: nothing but its functions says how it travels."""

    def __init__(self, amount: Decimal, currency: str) -> None:
        self.amount, self.currency = amount, currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"

    @classmethod
    def parse(cls, text: str) -> Money:
        amount, _, currency = text.partition(" ")
        if not currency:
            raise ValueError(f"{text!r} has no currency")
        return cls(Decimal(amount), currency)


class Price(Money): ...


@dataclass
class Order:
    total: Money
    scan: Path


TYPES = {Money: (str, Money.parse)}
DOLLAR = Money(Decimal(1), "USD")


@pytest.fixture
def shop(clock: Clock) -> App:
    return App("memory://", clock=clock, types=TYPES)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Path, Path("/srv/a.csv")),
        (PurePosixPath, PurePosixPath("a")),
        (Path | None, None),
        (list[Path], [Path("a"), Path("b")]),
        (dict[str, Path], {"a": Path("b")}),
        (Path | int, Path("a")),
        (Path | int, 3),
        (Colour, Colour.FIVE),
        (Colour, Colour.PAIR),
        (Colour | int, Colour.RED),
        (Cat | Dog, Cat(3)),
        (Cat | Dog, Dog(["sit"])),
        (list[Cat | Dog], [Dog([]), Cat()]),
        (Annotated[dict[str, Cat | Dog], "pets"], {"a": Dog([])}),
        (date | str, date(2030, 1, 1)),
        (str | date, date(2030, 1, 1)),
        (str | UUID | None, "abc"),
        (Money, Money(Decimal("1.50"), "EUR")),
        (Money | int | None, Money(Decimal(2), "EUR")),
        (Order, Order(Money(Decimal(3), "EUR"), Path("a"))),
    ],
)
async def test_arguments_and_results_come_back_as_they_were(shop: App, kind: Any, value: Any):
    seen: list[Any] = []

    async def echo(value: Any) -> Any:
        seen.append(value)
        return value

    echo.__annotations__ = {"value": kind, "return": kind}
    task = shop.task(echo)
    job = await task.enqueue(value)
    await shop.run_until_idle()
    assert seen == [value]
    assert type(seen[0]) is type(value)
    assert await job.result() == value


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Path, 5, "parameter 'value': expected a text that is a path, got 5"),
        (Colour, "green", "parameter 'value': Invalid enum value 'green'"),
        (Dog | Order, {"tricks": 1}, "parameter 'value'"),
        (
            date | str,
            "2030-01-01",
            r"parameter 'value': '2030-01-01', a str, would come back as datetime.date",
        ),
        (list[str | date], ["2030-01-01"], "a str, would come back as"),
        (dict[str, Path | str], {"a": "b"}, "declare one of the two"),
        (Money, "5", "parameter 'value': '5' has no currency"),
        (Money, 5, "parameter 'value': "),
        (int, "five", "parameter 'value': Expected `int`, got `str`"),
        (Order, Order(Money(Decimal(1), ""), Path()), r"has no currency - at `\$.total`"),
        (int, object(), "parameter 'value' cannot travel as JSON: object has no JSON form"),
    ],
)
def test_what_does_not_fit_is_refused_at_enqueue_and_names_the_parameter(
    shop: App, kind: Any, value: Any, message: str
):
    async def echo(other: int, value: Any) -> None: ...

    echo.__annotations__["value"] = kind
    with pytest.raises(PayloadError, match=message):
        shop.task(echo).job(1, value)


async def test_a_result_that_would_come_back_as_another_type_fails_its_job(shop: App):
    @shop.task
    async def stamp() -> date | str:
        return "2030-01-01"

    job = await stamp.enqueue()
    await shop.run_until_idle()
    with pytest.raises(JobFailed, match="a str, would come back as"):
        await job.result()


def test_a_value_of_an_own_type_is_a_key_by_its_json(shop: App):
    @shop.task
    async def pay(
        what: Annotated[Money, ConcurrencyLimit(1)],
        file: Annotated[Path, ConcurrencyLimit(1)],
        where: Annotated[Money, ConcurrencyLimit(1, key="to {where}")] = DOLLAR,
    ) -> None: ...

    job = pay.job(Money(Decimal(5), "EUR"), Path("/a"))
    keys = [use.key for use in job.uses]
    assert keys == ["c0:pay.file=/a", "c0:pay.what=5 EUR", "c0:pay.where=to 1 USD"]


def test_a_subclass_travels_as_its_base_says(shop: App):
    @shop.task
    async def pay(price: Money) -> None: ...

    assert pay.job(Price(Decimal(5), "EUR")).args == '{"price":"5 EUR"}'


def test_apps_do_not_share_their_types(shop: App):
    with pytest.raises(ConfigError, match=r"Money'> cannot be read from JSON; .* App\(types=\{…\}\)"):

        @App("memory://").task
        async def pay(price: Money) -> None: ...


async def test_a_set_uses_the_types_of_the_app_that_includes_it(shop: App):
    tasks = TaskSet()

    @tasks.task
    async def pay(price: Money) -> Money:
        return price

    shop.include(tasks)
    job = await pay.options(priority=1).enqueue(Money(Decimal(5), "EUR"))
    await shop.run_until_idle()
    assert await job.result() == Money(Decimal(5), "EUR")
    with pytest.raises(ConfigError, match="cannot be read from JSON"):
        App("memory://").include(tasks)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([Money], "a mapping is needed, as in"),
        ({"Money": (str, Money.parse)}, "'Money' is not a class"),
        ({Money: str}, r"Money needs two functions, to plain JSON values and back, as in \{Money: \(encode"),
        ({Money: (str,)}, "Money needs two functions"),
        ({Money: (str, "parse")}, "Money needs two functions"),
    ],
)
def test_what_is_no_pair_of_functions_is_refused(types: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        App("memory://", types=types)

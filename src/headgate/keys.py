"""Keys: the instances of limits.

A key is a limit's name, a value (`customer=42`; none for a plain cap such as `task:send`) and a tenant. Stores and
ledgers use its *ident*, one text from which the parts can be read back whatever characters they contain:

    c0:customer=42          concurrency, no tenant
    r4:acmesend.account=x   rate, tenant "acme" (its length stands before it)

Names hold no `=`, so name and value part at the first one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headgate.errors import ConfigError

MAX_BYTES = 256
MAX_USES = 16


class Key(msgspec.Struct, frozen=True, gc=False):
    """One instance of a limit. Concurrency (also floating) and rate keys never share an ident."""

    name: str
    value: str | None = None
    tenant: str = ""
    rate: bool = False

    @property
    def text(self) -> str:
        """What people read and type: `name` or `name=value`."""
        return self.name if self.value is None else f"{self.name}={self.value}"

    @property
    def ident(self) -> str:
        """What stores use."""
        return f"{'r' if self.rate else 'c'}{len(self.tenant)}:{self.tenant}{self.text}"

    @classmethod
    def of(cls, ident: str) -> Key:
        """Read an ident back into its parts."""
        length, _, rest = ident[1:].partition(":")
        tenant, text = rest[: int(length)], rest[int(length) :]
        name, equals, value = text.partition("=")
        return cls(name, value if equals else None, tenant, ident[0] == "r")


class Use(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job's need of one key: `units` of a concurrency key's slots or of a rate key's tokens. `number` is the limit's
    number that the job brings for this key, if any."""

    key: str
    units: int = 1
    number: int | None = None


def is_rate(ident: str) -> bool:
    """Whether an ident names a rate key."""
    return ident[0] == "r"


def slots(uses: Iterable[Use]) -> list[str]:
    """The concurrency keys among a job's: those that it holds while it runs."""
    return [use.key for use in uses if use.key[0] != "r"]


def keys_of(uses: Iterable[Use]) -> tuple[str, ...]:
    """The keys alone."""
    return tuple([use.key for use in uses])


def canonical(uses: Iterable[tuple[Key, int] | tuple[Key, int, int | None]]) -> tuple[Use, ...]:
    """A job's needs in the one global order (rule 6); repeated keys count once, with the largest cost and the smallest
    number that is brought."""
    units: dict[Key, int] = {}
    numbers: dict[Key, int] = {}
    for key, cost, *brought in uses:
        units[key] = max(cost, units.get(key, 0))
        for number in brought:
            if number is not None:
                numbers[key] = min(number, numbers.get(key, number))
    ordered = sorted(units, key=lambda k: (k.rate, k.text, k.tenant))
    return tuple(Use(key.ident, units[key], numbers.get(key)) for key in ordered)


def check_name(name: str, what: str = "limit name") -> str:
    """A limit's name: text without `=`, not empty, not too long."""
    check_text(name, what)
    if "=" in name:
        raise ConfigError(f"{what} {name!r} contains '=', which separates a limit's name from its key")
    return name


def check_text(text: str, what: str) -> str:
    """Any characters are legal in a key, a tenant or a queue; emptiness, bad Unicode and length are not."""
    if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{what} must be a non-empty text, not {text!r}")
    check_length(text, what)
    return text


def check_length(text: str, what: str) -> str:
    """At most 256 bytes of UTF-8."""
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what} {text!r} is not valid Unicode: {error.reason}") from None
    if size > MAX_BYTES:
        raise ConfigError(f"{what} {text[:40]!r}… has {size} bytes; at most {MAX_BYTES} are allowed")
    return text


def parse(text: str) -> tuple[str, str | None]:
    """`name` or `name=value`, as typed by an operator, into its parts."""
    check_text(text, "limit key")
    name, equals, value = text.partition("=")
    return check_name(name), value if equals else None

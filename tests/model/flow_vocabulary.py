"""What the state machine of flow control can say: limits that do more than let all wait, shares, sizes, estimates."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from headgate.clock import SECOND
from headgate.engine.contract import Limit, ShareWeight
from headgate.job import NewJob
from headgate.keys import Key, Use, canonical
from tests.model import vocabulary as words

LIMITS = [
    Limit("G", "concurrency", 4, sized=True),
    Limit("D", "concurrency", 1, when_full="drop"),
    Limit("P", "concurrency", 1, when_full="replace"),
    Limit("C", "concurrency", 1, when_full="cancel"),
    Limit("M", "concurrency", 1, max_waiting=2),
    Limit("N", "concurrency", 1, per_key=True),
    Limit("V", "concurrency", 2, adaptive=True),
    Limit("E", "rate", 6, 6 * SECOND, estimated=True),
    Limit("S", "rate", 4, 10 * SECOND, algorithm="sliding_window", estimated=True, per_key=True),
    Limit("queue:z", "concurrency", None, max_waiting=3),
]
NAMES = [limit.name for limit in LIMITS]
RATES = "ES"
SHARES = ["s1", "s2", "s3"]
KEYS = [
    Key(name, value, tenant, name in RATES).ident
    for name in NAMES
    for value in (None, "1")
    for tenant in words.TENANTS
]
ADAPTIVE = Key("V").ident
numbers = st.sampled_from([0, 1, 2, 4, None])


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    """Other numbers and other policies for a limit that is there."""
    limit = draw(st.sampled_from(LIMITS))
    changed = {
        "max": draw(numbers) if limit.max is not None else None,
        "max_waiting": draw(st.sampled_from([limit.max_waiting, 1, 2])),
        "on_overflow": draw(st.sampled_from(["refuse", "drop_oldest", "drop_newest"])),
    }
    return msgspec.structs.replace(limit, **changed)


@st.composite
def uses(draw: st.DrawFn, tenant: str) -> tuple[Use, ...]:
    names = draw(st.lists(st.sampled_from([*"GGDPCMNNVES", "N=1", "S=1"]), max_size=3))
    needs: list[tuple[Key, int, int | None]] = []
    for text in names:
        name, _, value = text.partition("=")
        units = draw(st.sampled_from([1, 1, 2, 3])) if name in "GES" else 1
        number = draw(st.sampled_from([None, 1, 2, 3])) if name in "NS" else None
        needs.append((Key(name, value or None, tenant, name in RATES), units, number))
    return canonical(needs)


@st.composite
def jobs(draw: st.DrawFn) -> NewJob:
    job = draw(words.jobs())
    share = draw(st.sampled_from([None, *SHARES]))
    on_conflict = draw(st.sampled_from(["return", "raise", "replace", "update", "update"]))
    updates = on_conflict == "update"
    return msgspec.structs.replace(
        job,
        uses=draw(uses(job.tenant)),
        share=share,
        charge=draw(st.sampled_from(["starts", "starts", "time"])) if share else "starts",
        start_within=draw(st.sampled_from([None, None, None, 3 * SECOND])),
        on_conflict=on_conflict,
        at_most=draw(st.sampled_from([None, 4 * SECOND])) if updates else None,
        unique_for=None if updates else draw(st.sampled_from([None, None, 5 * SECOND])),
    )


@st.composite
def weights(draw: st.DrawFn, now: int) -> ShareWeight:
    until = draw(st.sampled_from([None, None, 3]))
    ends = None if until is None else now + until * SECOND
    return ShareWeight(
        draw(st.sampled_from(SHARES)),
        draw(st.sampled_from([0.5, 1.0, 2.0, 10.0])),
        "ops",
        now,
        "because",
        ends,
    )

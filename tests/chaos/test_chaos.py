"""A short chaos run on each store; `make chaos` runs longer ones. What a run noted is judged by lower numbers, too,
which must find fault: a judge that is content with everything proves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.chaos import notes, rules
from tests.chaos.case import Case, Final, name_of
from tests.chaos.judge import judge
from tests.chaos.places import PLACES
from tests.chaos.rules import Rate
from tests.support import postgres_server
from tests.support.redis_servers import binary

pytestmark = [pytest.mark.slow(35), pytest.mark.chaos, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SECONDS = 12
STORES = [
    name
    for name in PLACES
    if name == "sqlite" or (postgres_server.available() if name == "postgres" else binary("valkey"))
]


@pytest.mark.parametrize("store", STORES)
def test_limits_hold_and_nothing_is_lost_whatever_goes_wrong(store: str, tmp_path: Path):
    command = [
        "-m",
        "tests.chaos",
        "--engine",
        store,
        "--minutes",
        str(SECONDS / 60),
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    _judge_with_lower_numbers(tmp_path)


def _judge_with_lower_numbers(folder: Path) -> None:
    all, final = notes.read(folder), msgspec.json.decode((folder / "final.json").read_bytes(), type=Final)
    case = Case(all, final)
    assert judge(case) == []
    seen = {name_of(key) for life in case.lives if life.alive for key in life.keys}
    assert "customer" in seen
    for name in seen & rules.MAXIMA.keys() - {rules.ADJUSTED}:
        said = _first_complaint(all, final, name)
        assert said, f"{name} lowered to nothing"
        assert all_about(said, name)
    for name in seen & rules.WINDOWS.keys():
        assert judge(Case(all, final, windows={name: Rate(-1, per=1e6)})), f"{name} lowered to nothing"


def _first_complaint(all: list[notes.Note], final: Final, name: str) -> list[str]:
    """What is said when a number is lowered, by one where the key was full at any time, else until it was."""
    for number in reversed(range(rules.MAXIMA[name])):
        if said := judge(Case(all, final, maxima={**rules.MAXIMA, name: number})):
            return said
    return []


def all_about(said: list[str], name: str) -> bool:
    return all((each.startswith("limits_hold:") and f"on {name}" in each) or "… and" in each for each in said)

"""Every mutant still breaks what it says: its text occurs once, and there are enough of them in each store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.herds import HERDS
from tests.mutants.mutant import ROOT, SOURCE, Mutant

FEWEST = 40
ALL = [
    pytest.param(each, id=f"{name}-{number}")
    for name, herd in HERDS.items()
    for number, each in enumerate(herd.mutants)
]


@pytest.mark.parametrize("mutant", ALL)
def test_the_text_that_a_mutant_exchanges_occurs_once(mutant: Mutant):
    assert mutant.text.count(mutant.find) == 1, f"{mutant.file}: {mutant.find!r} ({mutant.breaks})"
    assert mutant.find != mutant.replace


@pytest.mark.parametrize("name", HERDS)
def test_each_store_has_enough_mutants_and_no_two_alike(name: str):
    mutants = HERDS[name].mutants
    assert len(mutants) >= FEWEST
    assert len({(each.file, each.find, each.replace) for each in mutants}) == len(mutants)
    assert len({f"{each.file}: {each.breaks}" for each in mutants}) == len(mutants)


@pytest.mark.parametrize("name", HERDS)
def test_the_tests_of_each_store_exist(name: str):
    for stage in HERDS[name].tests:
        for word in stage:
            if word.startswith("tests/"):
                assert (ROOT / word.partition("::")[0]).exists(), word


def test_a_mutant_is_made_in_a_copy(tmp_path: Path):
    mutant = HERDS["memory"].mutants[0]
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    copy.write_text(mutant.text)
    assert mutant.apply(tmp_path) == mutant.text == (SOURCE / mutant.file).read_text()
    assert mutant.replace in copy.read_text()

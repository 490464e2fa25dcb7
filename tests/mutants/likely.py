"""Which tests are asked first: those that say the same as a mutant in words, and those that noticed others."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache

from tests.mutants.mutant import Mutant
from tests.mutants.noticed import Noticed
from tests.mutants.telling import TELLING

STEM = 5
"""Letters of a word that count: "paused" and "pauses" are alike."""


def likely_first(tests: Sequence[str], mutant: Mutant, noticed: Noticed) -> list[str]:
    """What noticed it the last time, then by how much there is for it."""
    known = noticed.by(mutant)
    weights = _weights(tuple(tests))
    said = _stems(f"{mutant.file} {mutant.breaks}")
    all, near = noticed.counts(mutant)

    def hope(test: str) -> float:
        words = sum(weights[word] for word in _stems(test) & said)
        return (
            words + 2 * math.log1p(near[test]) + math.log1p(all[test]) + (test.partition("[")[0] in TELLING)
        )

    return sorted(tests, key=lambda test: (known is None or test != known.test, -hope(test)))


def _stems(text: str) -> set[str]:
    return {word[:STEM] for word in re.findall(r"[a-z]+", text.partition("[")[0].lower())}


@cache
def _weights(tests: tuple[str, ...]) -> dict[str, float]:
    """What a word of a test is worth: the rarer, the more."""
    found = Counter(word for test in tests for word in _stems(test))
    return {word: math.log(len(tests) / number) for word, number in found.items()}

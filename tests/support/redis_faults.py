"""Scripts that break in the middle: the tests load other texts into the server, the engine knows nothing of it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import pytest

from headgate.engine.redis import scripts

_READ = scripts.read


@contextmanager
def broken(place: Literal["start", "park"]) -> Generator[None]:
    """Meanwhile every script fails where it starts, or parks, a job: "broken on purpose"."""
    begin = f"function Ledger.{place}(job"

    def read(folder: str, name: str) -> str:
        text = _READ(folder, name)
        if (folder, name) != ("lib", "ledger"):
            return text
        before, found, behind = text.partition(begin)
        assert found, f"no {begin}…) in ledger.lua"
        head, _, body = behind.partition("\n")
        return f"{before}{found}{head}\n  if true then error('broken on purpose: {place}') end\n{body}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "read", read)
        _forget()
        try:
            yield
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    """Scripts and the library are made once, and remembered."""
    scripts.script.cache_clear()
    scripts.library.cache_clear()

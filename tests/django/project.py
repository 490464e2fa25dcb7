"""The project of `examples/django`, run by programs of its own: Django is set up once in a process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.docs_pages import ROOT
from tests.support.waiting import PATIENCE

EXAMPLE = ROOT / "examples" / "django"
SECONDS = 100
SCENES = Path(__file__).with_name("scenes.py")


@dataclass
class Project:
    """A copy of the example, its database migrated."""

    folder: Path
    python: str
    database: str
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def variables(self) -> dict[str, str]:
        """The environment of its programs."""
        return {**os.environ, "DJANGO_SETTINGS_MODULE": "mysite.settings", **self.environment}

    def run(self, *words: str, code: int = 0, cwd: Path | None = None) -> str:
        """What a program of the project prints, standard error included; `code` is how it has to end."""
        done = subprocess.run(
            [self.python, "-W", "error", *words],
            cwd=cwd or self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def manage(self, *words: str, code: int = 0, cwd: Path | None = None) -> str:
        """One command of manage.py."""
        return self.run(str(self.folder / "manage.py"), *words, code=code, cwd=cwd)

    @contextmanager
    def worker(self, *words: str, cwd: Path | None = None) -> Generator[None]:
        """A worker that is started by these words, and ends well when it is told to."""
        process = subprocess.Popen(words, cwd=cwd or self.folder, env=self.variables)
        try:
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()

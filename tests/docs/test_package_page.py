"""What a package index shows of this project, and what comes with the source distribution."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.support.docs_pages import ROOT

NAMED = re.compile(r"\(`([\w/.-]+)`\)")


@pytest.fixture(scope="module")
def page() -> str:
    command = [sys.executable, "-m", "hatch_fancy_pypi_readme"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_no_link_of_the_page_leads_nowhere(page: str):
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert [link for link in links if not re.match(r"https://", link)] == []


def test_the_files_that_the_page_names_are_in_the_source_distribution(page: str, tmp_path: Path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        files = {name.partition("/")[2] for name in tar.getnames()}
    folders = {str(folder) for name in files for folder in Path(name).parents}
    named = set(NAMED.findall(page))
    assert "docs/guides/web-applications.md" in named
    assert {name.removesuffix("/") for name in named} <= files | folders
    assert {"contrib/grafana/headgate-dashboard.json", "tests/conftest.py", "Makefile", "LICENSE"} <= files


def test_what_developers_need_is_no_extra_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert not {"dev", "test", "tests", "docs", "lint"} & set(project["project"]["optional-dependencies"])
    assert "pytest>=8.2" in project["dependency-groups"]["dev"]

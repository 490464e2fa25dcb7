"""URLs: which engine, which file, which mistakes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from headgate.engine.contract import Settings
from headgate.engine.open import check_url, make_engine, shown_url, sqlite_path
from headgate.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "must be a text such as"),
        (None, "must be a text such as"),
        ("jobs.db", "a file is written as sqlite:///jobs.db"),
        ("/var/jobs.db", "sqlite:////var/jobs.db"),
        ("mysql://host/db", "unknown scheme 'mysql'"),
        ("SQLITE:///x", "unknown scheme 'SQLITE'"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///dir/", "names no file"),
        ("sqlite://jobs.db", "three slashes are needed, as in sqlite:///jobs.db"),
        ("sqlite:///:memory:", "use memory:// instead"),
        ("sqlite:///a%00b", "NUL"),
        ("memory:///path", "at most a name"),
        ("memory://[", "not a URL"),
        ("memory://?x=1", "unknown option 'x'"),
        ("sqlite:///jobs.db?journal=off", "unknown option 'journal'; there is synchronous"),
        ("sqlite:///jobs#1.db", "written %23"),
    ],
)
def test_a_url_that_can_never_work_is_refused_at_once(url: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        check_url(url)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:///data/jobs.db", "data/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///a%20b%3F.db", "a b?.db"),
    ],
)
def test_a_sqlite_url_names_a_file(url: str, path: str):
    assert sqlite_path(urlsplit(check_url(url)), url) == path


def test_memory_stores_are_private_unless_they_are_named():
    assert make_engine("memory://", Settings()) is not make_engine("memory://", Settings())
    assert make_engine("memory://test-open", Settings()) is make_engine("memory://test-open", Settings())


def test_a_password_is_not_shown():
    assert "secret" not in shown_url("postgresql://user:secret@host/db")
    assert "secret" not in shown_url("postgresql://host/db?user=me&password=secret&schema=x")
    assert shown_url("postgresql:///db?password=secret&schema=x") == "postgresql:///db?password=…&schema=x"
    assert shown_url("sqlite:///jobs.db") == "sqlite:///jobs.db"

"""URLs of Redis and Valkey: what they name, and what in them is refused before anything is opened."""

from __future__ import annotations

import pytest

from headgate import App
from headgate.engine.open import redis_target
from headgate.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://h/zero", "database"),
        ("redis://h/0/1", "database"),
        ("redis://h/1?db=2", "two databases, 1 and 2"),
        ("redis://h?db=1&db=2", "twice"),
        ("redis://h?partition=2", "unknown option 'partition'; there are prefix, partitions, db"),
        ("redis://h?partitions=0", "partitions"),
        ("redis://h?prefix={x}", "braces"),
        ("redis://h:port", "port"),
        ("redis:// h", "no host and port"),
        ("redis://a,b", r"several servers; that is for redis\+sentinel://"),
        ("redis://h#1", "written %23"),
        ("redis://me@h", "a user without a password; a password alone is written redis://:password@host"),
        ("redis+sentinel://h", "names no master"),
        ("redis+sentinel://h/main/2", r"\?db=2"),
        ("redis+cluster://h?db=1", "only database 0"),
        ("redis+cluster://h/1", "only database 0"),
        ("unix://", "names no socket"),
        ("unix://run/valkey.sock", "names no socket"),
        ("unix:/run/valkey.sock", "begins with unix://"),
        ("redis:h", "begins with redis://"),
        ("redis://h?ca=x", "ca is for TLS; write rediss://"),
        ("unix:///run/s?ca=x", "ca is for TLS"),
        ("rediss://h?key=x", "needs its certificate"),
        ("rediss://h?verify=none", "full or ca"),
        ("redis://h?sentinel_password=x", r"for redis\+sentinel"),
    ],
)
def test_urls_that_cannot_work_are_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        App(url)


@pytest.mark.parametrize("mark", "/?#@")
@pytest.mark.parametrize("scheme", ["redis", "unix", "redis+sentinel", "redis+cluster"])
def test_a_password_with_marks_of_a_url_is_refused_and_not_shown(mark: str, scheme: str) -> None:
    """An @ alone is understood: the last one ends the password."""
    url = (
        f"{scheme}://:hush{mark}hush@{'' if scheme == 'unix' else 'h'}/{'main' if 'sent' in scheme else '0'}"
    )
    if mark == "@":
        assert redis_target(url).password == "hush@hush"
        return
    with pytest.raises(ConfigError, match="%2F for /") as caught:
        App(url)
    assert "hush" not in str(caught.value)


def test_the_password_of_sentinels_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="unknown option 'x'") as caught:
        App("redis+sentinel://h/main?sentinel_password=hush&x=1")
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(App("redis+sentinel://h/main?prefix=p&sentinel_password=hush"))


def test_urls_are_read() -> None:
    target = redis_target("rediss+sentinel://me:p%40ss@a,b:27000/main?partitions=4&prefix=x")
    assert target.addresses == (("a", 26379), ("b", 27000))
    assert (target.user, target.password, target.master, target.partitions) == ("me", "p@ss", "main", 4)
    assert target.tls
    assert redis_target("valkey://[::1]:7000/3").addresses == (("::1", 7000),)
    assert redis_target("redis://h/3").db == redis_target("redis://h?db=3").db == 3
    assert redis_target("redis+cluster://a:1,b:2/0").addresses == (("a", 1), ("b", 2))
    assert redis_target("unix:///run/my%20sock?db=3")[1:4] == ((), "/run/my sock", 3)
    socket = redis_target("unix://me:p%40ss@/run/s")
    assert (socket.path, socket.user, socket.password) == ("/run/s", "me", "p@ss")

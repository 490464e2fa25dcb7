"""What self-healing says of each thing that it mended (rule 20): the same sentences on every store."""

from __future__ import annotations

from headgate.keys import Key


def stray_holder(key: str, job: str, state: str | None) -> str:
    """A slot whose attempt is over."""
    return f"{shown_key(key)} was held by job {job!r}, which is {state or 'unknown'}: the slot was given back"


def forgotten_waiters(key: str, queue: str, job: str) -> str:
    """Room that was not offered."""
    return f"job {job!r} of queue {queue!r} waited on {shown_key(key)}, which has room for it: it was offered"


def late_timer(key: str) -> str:
    """A rate whose waiters would not have been looked at in time."""
    return f"jobs waited on the rate {shown_key(key)} without a timer that rings in time: it was armed"


def lost_worker(job: str, worker: str) -> str:
    """An attempt that no lease stands for."""
    return f"job {job!r} ran on worker {worker!r}, which is not registered: the attempt is lost"


def unreadable_job(job: str, what: str) -> str:
    """A stored job that no verb would have met."""
    return f"job {job!r} cannot be read ({what}): it failed"


def shown_key(ident: str) -> str:
    """A key as people read it; a text that is none as it stands."""
    try:
        key = Key.of(ident)
    except ValueError:
        return repr(ident)
    return f"{key.text!r} of tenant {key.tenant!r}" if key.tenant else repr(key.text)

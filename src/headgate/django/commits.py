"""`with atomic():`, Django's, whose jobs come with the commit, whatever store they are in."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from headgate.django.project import project_app


@contextmanager
def atomic(using: str | None = None, savepoint: bool = True, durable: bool = False) -> Generator[None]:
    """`django.db.transaction.atomic()`, which jobs that are enqueued inside are part of.

    Where the store is in this database they are rows of the transaction. Elsewhere they are stored after the commit,
    and lost if this process ends between the two.
    """
    alias = using or DEFAULT_DB_ALIAS
    of_django: Any = transaction.atomic(alias, savepoint, durable)
    with _jobs(alias), of_django:
        yield


def _jobs(alias: str) -> AbstractContextManager[Any]:
    app, connection = project_app(), connections[alias]
    if app.on_trial:
        return app.on_commit()
    if app.database == alias and connection.vendor == "postgresql":
        return app.transaction(connection)
    return app.on_commit(connection.on_commit)

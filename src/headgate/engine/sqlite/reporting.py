"""What a worker reports, settled behind the fence: successes in batches, all else one by one."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.contract import Progress, Report, Spent, Succeeded
from headgate.engine.sqlite.ledger import Claim
from headgate.engine.sqlite.rows import AT_END, GARBLED, EndedAttempt, read_uses, to_json
from headgate.engine.sqlite.statements import sql
from headgate.engine.sqlite.transaction import Claims, Transaction
from headgate.job import JobState
from headgate.keys import slots

Refused = list[tuple[str, int]]
"""Jobs and attempts whose reports the fence refused."""


def settle_reports(
    transaction: Transaction, worker: str, reports: Sequence[Report], claims: Claims
) -> Refused:
    """Settle what finished; returns the reports that the fence refused. Runs of successes are written together.

    `claims` are what this process claimed for the worker; a report about one takes it out. Jobs whose end is not that
    of any job are settled one by one.
    """
    refused: Refused = []
    successes: dict[str, Succeeded] = {}
    for report in reports:
        claim = claims.get(report.job)
        if not isinstance(report, Succeeded) or (claim is not None and claim.extras & AT_END):
            refused += _succeed(transaction, worker, successes, claims)
            successes = {}
            if not _report(transaction, worker, report, claims):
                refused.append((report.job, report.attempt))
        elif report.job in successes:
            refused += _succeed(transaction, worker, successes, claims)
            successes = {report.job: report}
        else:
            successes[report.job] = report
    return refused + _succeed(transaction, worker, successes, claims)


def _succeed(transaction: Transaction, worker: str, reports: dict[str, Succeeded], claims: Claims) -> Refused:
    if not reports:
        return []
    transaction.ledger.flush()
    own = _own(transaction, reports, claims)
    done = (
        _succeed_any(transaction, worker, reports)
        if own is None
        else _succeed_own(transaction, worker, reports, own)
    )
    transaction.admission.give_back(list(done.values()))
    transaction.ended = True
    rest = [report for report in reports.values() if report.job not in done]
    return [
        (report.job, report.attempt)
        for report in rest
        if own is not None or not _report(transaction, worker, report, claims)
    ]


def _own(transaction: Transaction, reports: dict[str, Succeeded], claims: Claims) -> list[Claim] | None:
    """What this process remembers of these jobs; None unless it is all, and all that they can hold."""
    found = [claims.pop(id, None) for id in reports]
    own = [claim for claim in found if claim is not None and claim.terms == transaction.book.terms]
    return own if len(own) == len(found) else None


def _succeed_own(
    transaction: Transaction, worker: str, reports: dict[str, Succeeded], own: list[Claim]
) -> dict[str, EndedAttempt]:
    before = transaction.connection.total_changes()
    rows = [(claim.seq, r.attempt, r.result, r.job) for claim, r in zip(own, reports.values(), strict=True)]
    common = worker, transaction.now, transaction.settings.keep_succeeded
    transaction.ledger.write_rows("succeed_own", rows, common, one="succeed_one")
    done = {
        id: EndedAttempt(claim.seq, slots(claim.uses) if claim.uses else ())
        for id, claim in zip(reports, own, strict=True)
    }
    if transaction.connection.total_changes() - before < len(rows):
        done = {id: ended for id, ended in done.items() if _ended_now(transaction, id, worker)}
    return done


def _ended_now(transaction: Transaction, id: str, worker: str) -> bool:
    job = transaction.look("job_by_id", id)
    return job is not None and (job.state, job.worker, job.ended_at) == (
        JobState.SUCCEEDED,
        worker,
        transaction.now,
    )


def _succeed_any(
    transaction: Transaction, worker: str, reports: dict[str, Succeeded]
) -> dict[str, EndedAttempt]:
    rows = to_json([(report.job, report.attempt, report.result) for report in reports.values()])
    done = transaction.execute(
        sql("succeed"), (rows, worker, transaction.now, transaction.settings.keep_succeeded)
    )
    seqs = to_json([seq for (seq,) in done.fetchall()])
    ended = transaction.execute(sql("ended_keys"), (seqs,)).fetchall()
    return {id: EndedAttempt(seq, _held_by(transaction, seq, *keys)) for seq, id, *keys in ended}


def _held_by(transaction: Transaction, seq: int, task: str, queue: str, uses: str | None) -> Sequence[str]:
    try:
        if isinstance(task, bytes) or isinstance(queue, bytes):
            raise ValueError
        return transaction.book.may_hold(task, queue, read_uses(uses))
    except GARBLED:
        return [key for (key,) in transaction.execute(sql("drop_all"), (seq,)).fetchall()]


def _report(transaction: Transaction, worker: str, report: Report, claims: Claims) -> bool:
    """The fence: a report counts only for a running attempt of this worker."""
    if isinstance(report, Progress):
        transaction.ledger.flush()
        transaction.execute(sql("progress"), (report.job, report.attempt, worker, report.value))
        transaction.ended = True
        return bool(transaction.connection.changes())
    if not isinstance(report, Spent):
        claims.pop(report.job, None)
    job = transaction.job(report.job)
    if (
        job is None
        or job.state is not JobState.RUNNING
        or job.worker != worker
        or job.attempt != report.attempt
    ):
        return False
    if isinstance(report, Spent):
        transaction.correct(job, report)
    else:
        transaction.settle(job, report)
    return True

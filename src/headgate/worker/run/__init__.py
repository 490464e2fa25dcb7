"""One run of a worker: from claims to outcomes.

worker_run.py        the whole run, until it retires      part_run.py    its work for one part of the store
exchange_loop.py     settle, claim, start                 messages.py    numbers, deadlines, doubt
lease.py             registration and renewals            watchdog.py    an event loop that stands still
capacity.py          places, shared by the parts          suspects.py    whose turn it is to claim suspects (rule 15)
runner.py            runs attempts                        threads.py     where synchronous ones run
running_attempt.py   one of them                          context.py     what its code sees: current_job()
outcome.py           how it ended                         error_text.py  what is kept of an exception
outbox.py            what the next exchange reports
"""

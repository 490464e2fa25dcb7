"""The demonstration: limits at work on two worker processes, one of which is killed, and a proof of what is claimed.

command.py          `headgate demo`
story.py            what happens, in order
workload.py         how much there is to do, and under which limits
tasks.py            the app that the workers run: an ordinary one
journal.py          what the jobs write down about themselves
worker_process.py   one worker process
scene.py            what can be seen at one moment     picture.py, plain.py   how it is shown: live, or in lines
dashboard.py        the page beside it, with --web
proof.py            what the journal proves
"""

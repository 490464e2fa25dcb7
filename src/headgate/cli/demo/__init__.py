"""The demonstration: limits at work on two worker processes, one of which is killed, and a proof of what is claimed.

work.py      how much there is to do, and under which limits
tasks.py     the app that the workers run: an ordinary one
journal.py   what the jobs write down about themselves
crew.py      the worker processes
story.py     what happens, in order
scene.py     what can be seen at one moment         picture.py, lines.py   how it is shown
proof.py     what the journal proves
"""

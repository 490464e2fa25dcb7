"""The command line: `headgate`. One module per group of commands; `program.py` lists them all.

Nothing of typer, rich or an engine is imported here, so that `entry.py` can say what is missing.
"""

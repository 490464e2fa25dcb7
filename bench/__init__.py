"""Benchmarks: Headgate beside its peers, measured in the same run. `python -m bench`; README.md says how to read it."""

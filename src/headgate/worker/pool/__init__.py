"""The pool of processes for tasks that compute, as a worker sees it. What runs in them is process/pool_child.py."""

POOL_PROCESS = "HEADGATE_POOL_PROCESS"
"""Environment variable with the id of the process of a pool that runs here: processes that it starts inherit it."""

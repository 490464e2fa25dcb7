"""What a program talks to.

app.py           App: declarations.py (what there is) and operations.py (what is asked of a store) with enqueueing
client.py        the way to the store: opened on first use      open_store.py   one that is open
task.py          a declared function and its jobs               signature.py, options.py
handle.py        one job                                        results.py      waiting for many to end
steering.py      one verb on many jobs                          filters.py      which jobs
importing.py     jobs from another system                       sync.py         the `*_sync` twins
info.py, explain.py, audit.py   what is shown to people
"""

"""Put on the path of a worker whose clocks are wrong: everything in it that asks Python for the time gets another one.

`CHAOS_SHIFT` seconds are added, and the wall clock jumps by as much again, forth and back, every few seconds. A store
without a server (SQLite) has no clock but `time.time_ns`, which is left alone unless `CHAOS_SHIFT_STORE` is set.
"""

import os
import time

_shift = float(os.environ.get("CHAOS_SHIFT", "0"))
if _shift:
    _time, _monotonic = time.time, time.monotonic
    _time_ns, _monotonic_ns = time.time_ns, time.monotonic_ns

    def _jump() -> float:
        return _shift * (1 + int(_monotonic() / 3) % 2)

    time.time = lambda: _time() + _jump()
    time.monotonic = lambda: _monotonic() + abs(_shift)
    time.monotonic_ns = lambda: _monotonic_ns() + int(abs(_shift) * 1e9)
    if os.environ.get("CHAOS_SHIFT_STORE"):
        time.time_ns = lambda: _time_ns() + int(_jump() * 1e9)

"""A process whose own code takes slots of limits that jobs have, too: from coroutines and from threads.

python -m tests.chaos.caller SEED
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress

from headgate import ConcurrencyLimit, RateLimit
from headgate.app import slots
from headgate.app.slots import QUEUE, Slot
from headgate.clock import SECOND
from headgate.errors import HeadgateError
from headgate.worker import Worker
from tests.chaos import rules
from tests.chaos.noted import noted_as
from tests.chaos.shop import app
from tests.chaos.wire import latest

TASK = "slot"
EACH = 3
"""How many coroutines, and how many threads."""
CUSTOMERS = 8


class Wish:
    """What is asked for one time."""

    def __init__(self, dice: random.Random) -> None:
        self.pause = dice.expovariate(5)
        self.seconds = dice.choice([0.001, 0.02, 0.1, 0.3])
        self.timeout = dice.choice([0.1, 1, 5])
        self.keys = ["desk"]
        self.limits: list[ConcurrencyLimit | RateLimit] = [
            ConcurrencyLimit(rules.MAXIMA["desk"], scope="desk")
        ]
        if dice.random() < 0.3:
            customer = dice.randrange(CUSTOMERS)
            self.keys.append(f"customer={customer}")
            self.limits.append(ConcurrencyLimit(1, scope="customer", key=str(customer)))

    def slot(self) -> Slot:
        return app.slot(*self.limits, timeout=self.timeout)

    def held(self, slot: Slot):
        return noted_as(slot.id, latest[slot.id], *self.keys, task=TASK, queue=QUEUE)


async def take_turns(dice: random.Random) -> None:
    """In a coroutine."""
    while True:
        wish = Wish(dice)
        await asyncio.sleep(wish.pause)
        with suppress(HeadgateError, TimeoutError):
            async with wish.slot() as slot:
                with wish.held(slot):
                    await asyncio.sleep(wish.seconds)


def take_turns_in_thread(dice: random.Random) -> None:
    """In a thread."""
    while True:
        wish = Wish(dice)
        time.sleep(wish.pause)
        with suppress(HeadgateError, TimeoutError), wish.slot() as slot, wish.held(slot):
            time.sleep(wish.seconds)


async def main() -> None:
    """Until it is told to stop."""
    seed = int(sys.argv[1])
    for number in range(EACH):
        dice = random.Random(seed + number)
        threading.Thread(target=take_turns_in_thread, args=(dice,), daemon=True).start()
    await asyncio.gather(*(take_turns(random.Random(seed + EACH + number)) for number in range(EACH)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # What holds slots has the usual lease, and what asks for them stands in line for a minute; here both are those of
    # the workers, so that of a killed caller nothing is left when the run ends.
    assert Worker.__init__.__kwdefaults__ is not None
    Worker.__init__.__kwdefaults__["lease"] = rules.LEASE
    slots.STAND = int(rules.LEASE * SECOND)
    asyncio.run(main())

"""How much the demonstration has to do, and under which limits."""

from __future__ import annotations

import random

import msgspec

CUSTOMERS = 20
SYNCS = 11
INVOICES = 5
PER_CUSTOMER = SYNCS + INVOICES
TOTAL = CUSTOMERS * PER_CUSTOMER

API_SLOTS = 8
MAILS = 10
MAIL_PERIOD = 1.0
LEASE = 3.0
CONCURRENCY = 6
WAVE = 2
WAVE_EVERY = 1.3
"""The jobs become due in waves: so many of each customer, every so many seconds."""


class Order(msgspec.Struct, frozen=True):
    """One job to enqueue: the `number`-th of its customer, due after `delay` seconds."""

    task: str
    customer: int
    number: int
    seconds: float
    fails: bool
    delay: float


def orders() -> list[Order]:
    """All of them, the customers taking turns; the same every time."""
    dice = random.Random(8)
    mails = {1, 4, 7, 10, 13}
    return [
        _order(dice, customer, n, n in mails) for n in range(PER_CUSTOMER) for customer in range(CUSTOMERS)
    ]


def _order(dice: random.Random, customer: int, number: int, mail: bool) -> Order:
    delay = number // WAVE * WAVE_EVERY
    if mail:
        return Order("send_invoice", customer, number, dice.uniform(0.05, 0.15), False, delay)
    return Order("sync_orders", customer, number, dice.uniform(0.15, 0.5), dice.random() < 0.07, delay)

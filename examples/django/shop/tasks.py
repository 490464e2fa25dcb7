"""Found by the worker: every `tasks.py` of an installed app is."""

from typing import Annotated

from letters.tasks import send

from headgate import ConcurrencyLimit
from headgate.django import app
from shop.models import Order


@app.task(max_concurrent=8)
def confirm(order: int, customer: Annotated[str, ConcurrencyLimit(1)]) -> str:
    """In a thread; for one customer one after the other."""
    found = Order.objects.get(pk=order)
    found.state = "confirmed"
    found.save()
    send.enqueue_sync(customer, f"Your {found.item} is on its way")
    return f"{found.item} for {customer}"


@app.task
async def cancel_old(state: str = "new") -> int:
    """On the event loop, with the asynchronous half of the ORM."""
    return await Order.objects.filter(state=state).aupdate(state="cancelled")

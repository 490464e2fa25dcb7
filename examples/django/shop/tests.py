"""`python manage.py test`. Inside `use_store` jobs are in memory, and run in the test's own thread and transaction."""

from django.test import TestCase

from headgate.django import app
from headgate.testing import assert_enqueued, use_store
from shop.models import Order
from shop.tasks import cancel_old, confirm


class OrderTest(TestCase):
    def setUp(self) -> None:
        self.enterContext(use_store(app))

    def test_an_order_is_confirmed(self) -> None:
        answer = self.client.post("/orders", {"item": "tea", "customer": "ada"})
        assert answer.status_code == 202
        assert_enqueued(app, confirm, {"customer": "ada"}, count=1)
        assert app.run_until_idle_sync(raise_errors=True) == 2
        assert Order.objects.get().state == "confirmed"
        status = self.client.get(answer.json()["status"]).json()
        assert status == {"state": "succeeded", "result": "tea for ada"}
        assert_enqueued(app, "send", {"to": "ada"})

    def test_a_task_is_a_function_too(self) -> None:
        order = Order.objects.create(item="milk", customer="bob")
        assert confirm(order.pk, "bob") == "milk for bob"

    async def test_asynchronous_tasks_see_the_test_s_transaction_as_well(self) -> None:
        await Order.objects.acreate(item="salt", customer="eve")
        job = await cancel_old.enqueue()
        await app.run_until_idle(raise_errors=True)
        assert await job.result() == 1

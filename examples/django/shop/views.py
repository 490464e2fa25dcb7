from django.http import HttpRequest, JsonResponse

from headgate import JobNotFound
from headgate.django import app, atomic
from shop.models import Order
from shop.tasks import confirm


def place(request: HttpRequest) -> JsonResponse:
    """The order and its job are there together, or neither is."""
    with atomic():
        order = Order.objects.create(item=request.POST["item"], customer=request.POST["customer"])
        job = confirm.enqueue_sync(order.pk, order.customer)
    return JsonResponse({"order": order.pk, "status": f"/jobs/{job.id}"}, status=202)


def job(request: HttpRequest, id: str) -> JsonResponse:
    try:
        found = app.handle(id).info_sync()
    except JobNotFound:
        return JsonResponse({"error": "there is no such job"}, status=404)
    return JsonResponse({"state": found.state, "result": found.result})

from __future__ import annotations

from headgate.web.asgi import ROUTES
from headgate.web.openapi import document
from headgate.web.problems import TITLES


def test_every_route_stands_in_the_document():
    described = document(ROUTES)
    operations = {
        operation["operationId"]: operation
        for path in described["paths"].values()
        for operation in path.values()
    }
    assert set(operations) == {route.name for route in ROUTES}
    assert len(ROUTES) == len(operations), "two routes share a name"
    assert all(operation["summary"] for operation in operations.values())


def test_every_reference_in_the_document_leads_somewhere():
    described = document(ROUTES)
    schemas = described["components"]["schemas"]

    def references(part):
        if isinstance(part, dict):
            if "$ref" in part:
                yield part["$ref"]
            for one in part.values():
                yield from references(one)
        elif isinstance(part, list):
            for one in part:
                yield from references(one)

    assert {reference.rpartition("/")[2] for reference in references(described)} <= set(schemas)


def test_every_problem_of_a_route_is_a_known_one():
    assert {kind for route in ROUTES for kind in route.problems} <= set(TITLES)


async def test_the_document_is_served_to_everyone(asking):
    described = await asking(None).get("/openapi.json")
    assert (described["openapi"], described["servers"]) == ("3.1.0", [{"url": "/api/v1"}])

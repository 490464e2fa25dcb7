"""What the OpenAPI document says is what the server does: requests that are made from the document, and beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headgate import App, ConcurrencyLimit, RateLimit
from headgate.web.asgi import ROUTES
from headgate.web.route import EVENT_STREAM
from tests.support.waiting import PATIENCE
from tests.web.serving import serving

CASES = 8
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip
PATHS = sorted(
    {
        (route.method, route.path.replace(":path}", "}"))
        for route in ROUTES
        if route.media_type != EVENT_STREAM
    }
)


@pytest.fixture(scope="module")
def schema() -> Iterator[schemathesis.BaseSchema]:
    """The document of a server that has a bit of everything."""
    app = App("memory://")

    @app.task(queue="crm")
    async def sync(
        customer: Annotated[int, ConcurrencyLimit(1)], api: Annotated[str, RateLimit(1, per=60)] = "a"
    ) -> int:
        return customer

    @app.task(every=60)
    async def tick() -> None: ...

    with serving(app) as port:
        document = f"http://127.0.0.1:{port}/api/v1/openapi.json"
        yield schemathesis.openapi.from_url(document, wait_for_schema=PATIENCE)


@pytest.mark.slow(1)
@pytest.mark.parametrize(("method", "path"), PATHS)
def test_no_request_is_answered_in_a_way_that_the_document_does_not_know(
    schema: schemathesis.BaseSchema, method: str, path: str
):
    operation = schema[path][method]

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=SLOW,
    )
    @given(case=operation.as_strategy())
    def ask(case: schemathesis.Case) -> None:
        for given_ in (case.query, case.body):
            if isinstance(given_, dict) and "wait" in given_:
                given_["wait"] = 0
        case.validate_response(case.call(timeout=PATIENCE), checks=CHECKS)

    ask()

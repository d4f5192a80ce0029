"""The OpenAPI description against the application: no request that it allows, or forbids, brings a 5xx."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from glassformer.serve.app import create_app
from glassformer.serve.settings import ServeSettings
from glassformer.translate import load
from tests.serving import toy_bundle

schemathesis = pytest.importorskip("schemathesis")
ROUTES = [
    *("POST /translate", "POST /detect", "GET /languages", "GET /health", "GET /frontend/settings"),
    *("GET /metrics", "GET /models", "GET /family", "POST /stream", "POST /words", "POST /inspect"),
]


@pytest.fixture(scope="module")
def api() -> Any:
    app = create_app([load(toy_bundle(), engine="torch")], ServeSettings(characters=200))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def hammer(api: Any, route: str, examples: int) -> None:
    method, path = route.split()
    operation = api[path][method]
    strategies = [operation.as_strategy()]
    if method == "POST":
        strategies.append(operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    for strategy in strategies:

        @given(strategy)
        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
        def nothing_breaks(case: Any) -> None:
            answer = case.call()
            assert answer.status_code < 500, answer.text
            if answer.status_code >= 400:
                assert set(answer.json()) == {"error"}

        nothing_breaks()


def test_every_route_is_here(api: Any) -> None:
    described = {f"{result.ok().method.upper()} {result.ok().path}" for result in api.get_all_operations()}
    assert described == set(ROUTES)


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_breaks_the_server(api: Any, route: str) -> None:
    hammer(api, route, 12)


@pytest.mark.full
@pytest.mark.parametrize("route", ROUTES)
def test_nothing_breaks_the_server_for_long(api: Any, route: str) -> None:
    hammer(api, route, 300)

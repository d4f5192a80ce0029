"""The application: routes, page, limits, put together. No request reaches the file system."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.middleware.cors import CORSMiddleware

from glassformer import __version__
from glassformer.bundle import Bundle
from glassformer.errors import ConfigError
from glassformer.model.families import Reader
from glassformer.serve import answers, explore, libretranslate
from glassformer.serve.family import Readers, router_for
from glassformer.serve.models import Models
from glassformer.serve.security import Shield
from glassformer.serve.service import Service
from glassformer.serve.settings import ServeSettings
from glassformer.translate import Translator

_PAGES = {"/": "index.html", "/docs": "docs.html", "/more": "family.html"}


def create_app(
    translators: Iterable[Translator],
    settings: ServeSettings | None = None,
    readers: Iterable[Bundle[Reader]] = (),
) -> FastAPI:
    """An ASGI application that serves these models; `readers` are those that do not translate."""
    settings = settings or ServeSettings()
    if problems := settings.problems():
        raise ConfigError(problems)
    family = Readers(readers)
    service = Service(Models.of(translators, may_be_none=bool(len(family))), settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="Glassformer",
        version=__version__,
        description="Translation with models that can be seen through. LibreTranslate's API, and more.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        default_response_class=Response,
    )
    app.state.service = service
    answers.install(app)
    app.include_router(libretranslate.router)
    app.include_router(explore.router)
    app.include_router(router_for(family))
    app.state.family = family
    _add_pages(app, home="/" if service.models.by_name else "/more")
    if settings.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors), allow_methods=["*"], allow_headers=["*"]
        )
    routes = {*app.openapi()["paths"], *_PAGES, "/openapi.json"}
    app.add_middleware(Shield, settings=settings, metrics=service.metrics, routes=routes)
    return app


def _add_pages(app: FastAPI, home: str) -> None:
    """The files of the page, read once: a request chooses among these names and reaches nothing else."""
    pages = {**_PAGES, "/": _PAGES[home]}
    assets = {}
    for file in files("glassformer.serve").joinpath("page").iterdir():
        if file.is_file():
            assets[file.name] = _asset(file.name, file.read_bytes())

    async def static(request: Request) -> Response:
        found = assets.get(request.path_params["name"])
        return _answer(request, found) if found else answers.error(404, "Not Found")

    async def page(request: Request) -> Response:
        return _answer(request, assets[pages[request.url.path]])

    for path in pages:
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/static/{name}", static, methods=["GET", "HEAD"], include_in_schema=False)


def _asset(name: str, content: bytes) -> dict[str, Any]:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    text = kind.startswith("text/") or kind.endswith(("javascript", "xml"))
    return {
        "content": content,
        "media_type": f"{kind}; charset=utf-8" if text else kind,
        "headers": {"etag": f'"{hashlib.sha256(content).hexdigest()[:24]}"', "cache-control": "no-cache"},
    }


def _answer(request: Request, asset: dict[str, Any]) -> Response:
    if request.headers.get("if-none-match") == asset["headers"]["etag"]:
        return Response(status_code=304, headers=asset["headers"])
    return Response(**asset)

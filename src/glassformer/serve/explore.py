"""What the page asks for beyond LibreTranslate's API: streams, other words, the inside of the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from glassformer.errors import RequestError
from glassformer.look.page import policy, render
from glassformer.look.trace import trace
from glassformer.serve import schemas
from glassformer.serve.answers import RefusedError
from glassformer.serve.batcher import BusyError
from glassformer.serve.fields import Fields
from glassformer.serve.libretranslate import allowed_fields, service_of
from glassformer.serve.models import Model
from glassformer.serve.service import Service, Wish
from glassformer.serve.words import next_words

router = APIRouter()


@router.get("/models", **schemas.models)
async def models(request: Request) -> JSONResponse:
    """The models by name."""
    return JSONResponse([model.describe() for model in service_of(request).models.by_name.values()])


@router.post("/stream", **schemas.stream)
async def stream(request: Request) -> StreamingResponse:
    """Translate a text and show it as it grows (server-sent events)."""
    service, fields = service_of(request), await allowed_fields(request)
    text, wish = _one_text(service, fields)
    return StreamingResponse(_events(service, text, wish), media_type="text/event-stream")


def _one_text(service: Service, fields: Fields) -> tuple[str, Wish]:
    text, source = fields.required("q"), fields.required("source")
    service.check_texts([text])
    if source == "auto":
        source = service.detect([text])[0].language
    target = service.language(fields.required("target"))
    return text, service.wish(fields, service.language(source), target)


async def _events(service: Service, text: str, wish: Wish) -> AsyncIterator[bytes]:
    """The answer has begun, so trouble becomes an event too. A client that leaves ends the iteration."""
    yield _event({"language": wish.source})
    try:
        async with asyncio.timeout(service.settings.seconds):
            async for event in service.stream(text, wish):
                yield _event(event)
    except RequestError as error:
        yield _event({"error": str(error)})
    except (TimeoutError, BusyError):
        yield _event({"error": "Slowdown: this took too long; send less text at once, or try again later"})


def _event(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()


@router.post("/words", **schemas.words)
async def words(request: Request) -> JSONResponse:
    """The words that may follow the beginning of a sentence's translation."""
    service, fields = service_of(request), await allowed_fields(request)
    text, wish = _one_text(service, fields)
    if wish.model is None:
        return JSONResponse([])
    work = service.batcher.call(next_words, wish.model.translator, text, wish.prefix)
    return JSONResponse(await service.within_limits(request, work))


@router.post("/inspect", **schemas.inspect)
async def inspect(request: Request) -> JSONResponse:
    """Everything that happens inside the model for one sentence."""
    fields = await allowed_fields(request)
    return JSONResponse(await _trace(request, fields))


@router.get("/inspect", include_in_schema=False)
async def inspect_page(request: Request) -> HTMLResponse:
    """The inspection page of a sentence."""
    fields = await allowed_fields(request)
    page = render(await _trace(request, fields), server=True)
    allowed = f"{policy(server=True)}; frame-ancestors 'none'"
    return HTMLResponse(page, headers={"content-security-policy": allowed})


async def _trace(request: Request, fields: Fields) -> dict[str, Any]:
    service = service_of(request)
    text = fields.required("text")
    if len(text) > service.settings.inspect_characters:
        raise RefusedError(
            400,
            f"Invalid request: request ({len(text)}) exceeds text limit "
            f"({service.settings.inspect_characters})",
        )
    model = _model(service, fields.text("model"))
    own = model.translator.bundle.config.search.beams
    work = partial(
        trace,
        model.translator,
        text,
        beams=fields.number("beams", own, 1, max(own, service.settings.beams)),
        prefix=fields.text_or_ids("prefix"),
        heads_off=fields.heads("heads_off"),
        continuations=0,
        ablations=False,
    )
    seen = await service.within_limits(request, service.batcher.call(work))
    seen["model"]["name"] = model.name  # by which the page may ask for it again
    return seen


def _model(service: Service, called: str) -> Model:
    """By name; without one, the first."""
    by_name = service.models.by_name
    if not by_name:
        raise RefusedError(400, "no model of this server translates, and only those can be looked into here")
    if called and called not in by_name:
        raise RefusedError(400, f"there is no model of this name; there are {', '.join(by_name)}")
    return by_name[called] if called else next(iter(by_name.values()))

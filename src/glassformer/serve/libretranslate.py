"""LibreTranslate's API, as its clients know it (version 1.9.6)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from glassformer.serve import schemas
from glassformer.serve.answers import RefusedError
from glassformer.serve.detect import Detection
from glassformer.serve.fields import Fields, read_fields
from glassformer.serve.languages import name
from glassformer.serve.markup import put_together, take_apart
from glassformer.serve.metrics import CONTENT_TYPE
from glassformer.serve.service import Service, Wish

router = APIRouter()


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


async def allowed_fields(request: Request) -> Fields:
    """The fields of a request whose API key is good."""
    fields = await read_fields(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token if scheme.lower() == "bearer" else ""
    service_of(request).keys.check(fields.text("api_key") or bearer)
    return fields


@router.post("/translate", **schemas.translate)
async def translate(request: Request) -> JSONResponse:
    """Translate a text, or a list of texts."""
    service, fields = service_of(request), await allowed_fields(request)
    texts, many = fields.texts("q")
    source, target = fields.required("source"), service.language(fields.required("target"))
    markup = fields.text("format") or "text"
    if markup not in ("text", "html"):
        raise RefusedError(400, f"{markup[:40]} format is not supported")
    service.check_texts(texts)
    detected = None
    if source == "auto":
        detected = service.detect(texts)[0]
        source = detected.language
    wish = service.wish(fields, service.language(source), target)
    work = _html(service, texts, wish) if markup == "html" else service.translate(texts, wish)
    found = await service.within_limits(request, work)
    return JSONResponse(_shape(found, many, detected, wish.alternatives > 0))


def _shape(
    found: list[tuple[str, list[str]]], many: bool, detected: Detection | None, alternatives: bool
) -> dict[str, Any]:
    """The answer: a list was asked, lists are given."""
    answer: dict[str, Any] = {"translatedText": [text for text, _ in found]}
    if alternatives:
        answer["alternatives"] = [others for _, others in found]
    if detected is not None:
        answer["detectedLanguage"] = [asdict(detected)] * len(found)
    return answer if many else {key: value[0] for key, value in answer.items()}


async def _html(service: Service, pages: list[str], wish: Wish) -> list[tuple[str, list[str]]]:
    """The texts of all pages go out together; alternatives of a page there are none, as in LibreTranslate."""
    apart = [take_apart(page) for page in pages]
    texts = [part.content for page in apart for part in page if part.is_text]
    found = iter([text for text, _ in await service.translate(texts, wish)])
    return [
        (put_together(page, [next(found) for part in page if part.is_text]), list[str]()) for page in apart
    ]


@router.post("/detect", **schemas.detect)
async def detect(request: Request) -> JSONResponse:
    """Which of the loaded languages a text is in; the confidence goes from 0 to 100."""
    service, fields = service_of(request), await allowed_fields(request)
    texts, _ = fields.texts("q")
    service.check_texts(texts)
    return JSONResponse([asdict(found) for found in service.detect(texts)])


@router.get("/languages", **schemas.languages)
async def languages(request: Request) -> JSONResponse:
    """The languages and what each can be translated into."""
    models = service_of(request).models
    return JSONResponse(
        [
            {"code": code, "name": name(code), "targets": models.targets(code)}
            for code in sorted(models.languages, key=name)
        ]
    )


@router.get("/health", **schemas.health)
async def health(request: Request) -> JSONResponse:
    """The server is up and its models are loaded."""
    return JSONResponse({"status": "ok"})


@router.get("/frontend/settings", **schemas.frontend)
async def frontend(request: Request) -> JSONResponse:
    """What a page that translates has to know."""
    service = service_of(request)
    first = next(iter(service.models.by_name.values()), None)
    sides = {"source": first.source, "target": first.target} if first else {}
    return JSONResponse(
        {
            "apiKeys": bool(service.keys),
            "keyRequired": bool(service.keys),
            "charLimit": service.settings.characters,
            "filesTranslation": False,
            "frontendTimeout": 250,
            "suggestions": False,
            "supportedFilesFormat": [],
            "language": {side: {"code": code, "name": name(code)} for side, code in sides.items()},
        }
    )


@router.get("/metrics", **schemas.metrics)
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus."""
    return Response(service_of(request).metrics.text(), media_type=CONTENT_TYPE)

"""What the routes take and give, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Error(BaseModel):
    error: str = Field(description="what is wrong, and what to do")


class Detection(BaseModel):
    language: str = Field(examples=["en"])
    confidence: float = Field(ge=0, le=100)


class Translated(BaseModel):
    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detection | list[Detection] | None = None


class Language(BaseModel):
    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(description="codes of the languages it can be translated into")


class Health(BaseModel):
    status: str


class Model(BaseModel):
    name: str
    source: str
    target: str
    beams: int = Field(description="beams if a request asks for none")


class FamilyModel(BaseModel):
    name: str
    task: str = Field(description="generate, classify, tag or fill: its route")


class Word(BaseModel):
    word: str = Field(description="empty: the sentence ends here")
    probability: float = Field(ge=0, le=1.001)


class Written(BaseModel):
    text: str = Field(description="the prompt and what follows it")
    log_prob: float
    score: float = Field(description="log_prob after the length penalty")
    tokens: int = Field(description="how many were written")
    finished: bool = Field(description="the line came to its end")


Q = {"type": "string", "description": "text", "example": "Hello, world."}
KEY = {"type": "string", "description": "API key, if the server asks for one"}
MODEL = {"type": "string", "description": "a model's name, as /models lists it"}
BEAMS = {"type": "integer", "minimum": 1, "description": "hypotheses kept at each step"}
PREFIX = {"type": "string", "description": "what the translation has to begin with, in whole words"}
LANGUAGES = {
    "source": {"type": "string", "description": "language code, or auto", "example": "auto"},
    "target": {"type": "string", "description": "language code"},
}
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": Error, "description": "the request makes no sense"},
    403: {"model": Error, "description": "the API key is missing or wrong"},
    408: {"model": Error, "description": "the request came too slowly"},
    413: {"model": Error, "description": "the body is too large"},
    429: {"model": Error, "description": "too much at once: try again in a moment"},
    500: {"model": Error, "description": "a mistake of the server"},
}


def _takes(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """A body as JSON or as a form; the same fields may stand in the query string."""
    schema = {"type": "object", "properties": properties, "required": required}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def _gives(model: Any, description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "description": description}}


def _route(tag: str, gives: dict[int | str, dict[str, Any]], takes: dict[str, Any] | None = None) -> Any:
    errors = ERRORS if takes else {status: ERRORS[status] for status in (408, 413, 500)}
    return {
        "tags": [tag],
        "responses": {**gives, **errors},
        "openapi_extra": takes,
        "response_model": None,
    }


_WISH = {**LANGUAGES, "model": MODEL, "beams": BEAMS, "prefix": PREFIX, "api_key": KEY}
translate = _route(
    "LibreTranslate",
    _gives(Translated, "the translation; lists for a list"),
    _takes(
        {
            "q": {
                "oneOf": [Q, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
                "description": "a text or a list of texts",
            },
            **_WISH,
            "format": {
                "type": "string",
                "enum": ["text", "html"],
                "default": "text",
                "description": "html: tags stay as they are",
            },
            "alternatives": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "how many other translations",
            },
        },
        ["q", "source", "target"],
    ),
)
detect = _route(
    "LibreTranslate",
    _gives(list[Detection], "the likeliest language first"),
    _takes({"q": Q, "api_key": KEY}, ["q"]),
)
languages = _route("LibreTranslate", _gives(list[Language], "the languages"))
health = _route("LibreTranslate", _gives(Health, "all is well"))
frontend = _route("LibreTranslate", _gives(dict[str, Any], "settings of a page"))
metrics = _route("Server", {200: {"content": {"text/plain": {}}, "description": "Prometheus' text format"}})
models = _route("Glassformer", _gives(list[Model], "the models"))
stream = _route(
    "Glassformer",
    {200: {"content": {"text/event-stream": {}}, "description": "one event a step, as JSON"}},
    _takes({"q": Q, **_WISH}, ["q", "source", "target"]),
)
words = _route(
    "Glassformer",
    _gives(list[Word], "the likeliest first"),
    _takes({"q": Q, **_WISH}, ["q", "source", "target"]),
)
family = _route("Family", _gives(list[FamilyModel], "the models that do not translate"))
generate = _route(
    "Family",
    _gives(Written, "the text; with stream, one event a part"),
    _takes(
        {
            "prompt": {"type": "string", "description": "how the text begins"},
            "max_tokens": {"type": "integer", "minimum": 1, "maximum": 512, "default": 60},
            "beams": BEAMS,
            "sample": {"type": "boolean", "default": False, "description": "draw at random"},
            "temperature": {"type": "number", "minimum": 0.01, "maximum": 100, "default": 1},
            "top_k": {"type": "integer", "minimum": 0, "default": 0},
            "top_p": {"type": "number", "minimum": 0.001, "maximum": 1, "default": 1},
            "seed": {"type": "integer", "minimum": 0, "default": 0},
            "stream": {"type": "boolean", "default": False},
            "model": MODEL,
            "api_key": KEY,
        },
        [],
    ),
)
_LABELLING = {
    "q": {"oneOf": [Q, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
    "model": MODEL,
    "api_key": KEY,
}
_COUNT = {"n_best": {"type": "integer", "minimum": 1, "maximum": 100, "default": 3}}
classify = _route(
    "Family", _gives(dict[str, Any], "labels, best first"), _takes({**_LABELLING, **_COUNT}, ["q"])
)
tag = _route("Family", _gives(dict[str, Any], "words with their labels"), _takes(_LABELLING, ["q"]))
fill = _route(
    "Family",
    _gives(dict[str, Any], "for each blank what may stand there, best first"),
    _takes(
        {**_LABELLING, **_COUNT, "q": {**Q, "description": "a text with a blank, ___, or several"}}, ["q"]
    ),
)
inspect = _route(
    "Glassformer",
    _gives(dict[str, Any], "everything that can be seen"),
    _takes(
        {
            "text": Q,
            "model": MODEL,
            "beams": BEAMS,
            "prefix": {"oneOf": [PREFIX, {"type": "array", "items": {"type": "integer", "minimum": 0}}]},
            "heads_off": {
                "type": "array",
                "items": {"type": "array", "items": {}, "minItems": 2, "maxItems": 2},
                "description": "[place, head] of the heads that are silent",
            },
            "api_key": KEY,
        },
        ["text"],
    ),
)

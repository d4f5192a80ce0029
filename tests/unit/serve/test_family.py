"""Serving models that do not translate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from glassformer.bundle import Bundle
from glassformer.errors import RequestError
from glassformer.fill import Filler
from glassformer.generate import Generator
from glassformer.label import Labeller
from glassformer.model.families import Reader
from glassformer.serve.app import create_app
from tests.family import make


@pytest.fixture(scope="module")
def writer() -> Bundle[Reader]:
    return make("language_model")


@pytest.fixture(scope="module")
def client(writer: Bundle[Reader]) -> Iterator[TestClient]:
    bundles = [writer, make("classify"), make("tag"), make("masked_language_model")]
    for bundle, name in zip(bundles, ("writer", "judge", "tagger", "guesser"), strict=True):
        bundle.path = Path(name)
    with TestClient(create_app([], readers=bundles), raise_server_exceptions=False) as client:
        yield client


def test_generate(client: TestClient, writer: Bundle[Reader]) -> None:
    answer = client.post("/generate", json={"prompt": "the old", "max_tokens": 5})
    expected = Generator(writer).generate("the old", max_tokens=5)[0]
    assert answer.status_code == 200
    assert answer.json()["text"] == expected.text
    drawn = {"prompt": "the", "sample": True, "seed": 3, "temperature": 2.0, "top_p": 0.9}
    first, again = (client.post("/generate", json=drawn).json() for _ in range(2))
    assert first == again
    assert client.post("/generate", data={"prompt": "the", "sample": "true", "seed": "3"}).status_code == 200


def test_a_stream_says_the_same(client: TestClient) -> None:
    asked = {"prompt": "a red", "max_tokens": 6}
    whole = client.post("/generate", json=asked).json()["text"]
    answer = client.post("/generate", json={**asked, "stream": True})
    events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line]
    assert "".join(event["text"] for event in events) == whole
    assert events[-1]["done"] is True


def test_classify_and_tag(client: TestClient) -> None:
    one = client.post("/classify", json={"q": "the dog", "n_best": 2}).json()["labels"]
    assert {label["name"] for label in one} == {"GOOD", "BAD"}
    both = client.post("/classify", json={"q": ["the dog", "a cat"], "model": "judge"}).json()["labels"]
    assert [label["name"] for label in both[0]] == [label["name"] for label in one]
    assert both[0][0]["probability"] == pytest.approx(one[0]["probability"], abs=1e-5)
    words = client.post("/tag", json={"q": "the old dog"}).json()["words"]
    assert [word["word"] for word in words] == ["the", "old", "dog"]
    assert words[0]["label"]["name"] == Labeller(make("tag")).tag(["the old dog"])[0][0].label.name


def test_fill(client: TestClient) -> None:
    asked = {"q": "the ___ dog ___", "n_best": 2, "model": "guesser"}
    blanks = client.post("/fill", json=asked).json()["blanks"]
    expected = Filler(make("masked_language_model")).fill(str(asked["q"]), 2)
    assert [[guess["name"] for guess in row] for row in blanks] == [
        [one.name for one in row] for row in expected
    ]
    assert blanks[0][0]["probability"] == pytest.approx(expected[0][0].probability, abs=1e-5)


@pytest.mark.parametrize(
    ("route", "fields", "said"),
    [
        ("/generate", {"prompt": "the", "model": "x"}, "there is no model of this name; there are writer"),
        ("/generate", {"prompt": "the", "sample": True, "temperature": 0}, "temperature must be from 0.01"),
        ("/generate", {"prompt": "the", "sample": "maybe"}, "sample must be true or false"),
        ("/generate", {"prompt": "the " * 40}, "the prompt has 40 tokens, and this model reads 32"),
        ("/generate", {"prompt": "the", "max_tokens": 9999}, "max_tokens parameter must be <= 512"),
        ("/classify", {"q": " "}, "nothing to label"),
        ("/classify", {}, "missing q"),
        ("/fill", {"q": "the dog"}, "write ___ where something is to be guessed"),
        ("/fill", {"q": "___", "n_best": 101}, "n_best parameter must be <= 100"),
        ("/tag", {"q": "the " * 40}, "the text has 40 tokens; this model reads 31"),
    ],
)
def test_what_is_wrong_is_said(client: TestClient, route: str, fields: dict[str, object], said: str) -> None:
    answer = client.post(route, json=fields)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_the_description_knows_the_routes_that_are_there(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/generate", "/classify", "/tag", "/fill"} <= set(paths)


def test_the_models_are_listed_and_have_a_page(client: TestClient) -> None:
    listed = client.get("/family").json()
    expected = [("writer", "generate"), ("judge", "classify"), ("tagger", "tag"), ("guesser", "fill")]
    assert [(model["name"], model["task"]) for model in listed] == expected
    for path in ("/", "/more"):
        assert "/static/family.js" in client.get(path).text


def test_what_only_translators_do_is_refused_and_not_a_mistake(client: TestClient) -> None:
    for path in ("/frontend/settings", "/languages", "/models", "/health"):
        assert client.get(path).status_code == 200
    asked = {"q": "the dog", "text": "the dog", "source": "auto", "target": "de"}
    for path in ("/translate", "/stream", "/words", "/inspect"):
        answer = client.post(path, json=asked)
        assert answer.status_code == 400, path
        assert answer.json()["error"]


def test_a_server_needs_something_to_serve() -> None:
    with pytest.raises(RequestError, match="at least one model"):
        create_app([])
    with pytest.raises(RequestError, match="two models are called model"):
        create_app([], readers=[make("tag"), make("masked_language_model")])

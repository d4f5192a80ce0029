"""The routes, without a network: LibreTranslate's behaviour, and what goes wrong."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from glassformer.errors import ConfigError, RequestError
from glassformer.serve.app import create_app
from glassformer.serve.settings import ServeSettings
from glassformer.translate import Translator, load
from tests.serving import PAIRS, SENTENCES, toy_bundle


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(toy_bundle(), engine="torch")


@pytest.fixture(scope="module")
def client(translator: Translator) -> Iterator[TestClient]:
    with TestClient(create_app([translator]), raise_server_exceptions=False) as client:
        yield client


def ask(client: TestClient, **fields: Any) -> Any:
    answer = client.post("/translate", json={"source": "en", "target": "zh", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_json_forms_and_query_strings(client: TestClient, translator: Translator) -> None:
    text = SENTENCES[0]
    fields = {"q": text, "source": "en", "target": "zh"}
    expected = {"translatedText": translator.translate(text).text}
    for sent in ({"json": fields}, {"data": fields}, {"params": fields}):
        answer = client.post("/translate", **sent)  # type: ignore[arg-type]
        assert (answer.status_code, answer.json()) == (200, expected)
    form = {name: (None, value) for name, value in fields.items()}
    assert client.post("/translate", files=form).json() == expected


def test_it_translates(client: TestClient) -> None:
    pairs = PAIRS[::40]
    found = ask(client, q=[source for source, _ in pairs])["translatedText"]
    right = sum(said == target for said, (_, target) in zip(found, pairs, strict=True))
    assert right >= 0.8 * len(pairs)


def test_a_list_gives_lists(client: TestClient, translator: Translator) -> None:
    found = ask(client, q=SENTENCES[:3], source="auto", alternatives=2)
    assert found["translatedText"] == [translator.translate(text, n_best=3).text for text in SENTENCES[:3]]
    assert all(1 <= len(others) <= 2 for others in found["alternatives"])
    assert [one["language"] for one in found["detectedLanguage"]] == ["en"] * 3


def test_one_text_gives_one(client: TestClient) -> None:
    answers = [ask(client, q=text, source="auto", alternatives="1") for text in SENTENCES[:5]]
    for found in answers:
        assert set(found) == {"translatedText", "alternatives", "detectedLanguage"}
        assert isinstance(found["translatedText"], str)
        assert len(found["alternatives"]) <= 1  # none, where all beams spell the same text
    others = [other for found in answers for other in found["alternatives"]]
    assert others
    assert all(isinstance(other, str) for other in others)
    assert found["detectedLanguage"]["confidence"] > 50
    assert set(ask(client, q=SENTENCES[0])) == {"translatedText"}


def test_sentences_lines_and_signs_keep_their_places(client: TestClient, translator: Translator) -> None:
    one, two = (translator.translate(text).text for text in SENTENCES[:2])
    found = ask(client, q=f"{SENTENCES[0]} {SENTENCES[1]}\n\n  🙂\n{SENTENCES[0]}\n")
    assert found["translatedText"] == f"{one}{two}\n\n  🙂\n{one}\n"
    assert ask(client, q="😀")["translatedText"] == "😀"
    assert ask(client, q=["", " \n"])["translatedText"] == ["", " \n"]


def test_html(client: TestClient, translator: Translator) -> None:
    said = translator.translate(SENTENCES[0]).text
    page = f"<p class='a'>{SENTENCES[0]}</p><script>{SENTENCES[0]}</script>"
    found = ask(client, q=page, format="html", alternatives=1)
    assert found["translatedText"] == f"<p class='a'>{said}</p><script>{SENTENCES[0]}</script>"
    assert ask(client, q=["<b>", "x"], format="html")["translatedText"][0] == "<b>"


@pytest.mark.parametrize("target", ["zh", "zh-Hans", "zh_CN", "ZH"])
def test_chinese_has_several_codes(client: TestClient, target: str) -> None:
    assert ask(client, q=SENTENCES[0], target=target) == ask(client, q=SENTENCES[0])


def test_the_same_language_stays(client: TestClient) -> None:
    assert ask(client, q="Hello  there.", target="en")["translatedText"] == "Hello  there."


def test_a_forced_beginning_is_translate_with_prefix(client: TestClient, translator: Translator) -> None:
    found = ask(client, q=SENTENCES[0], prefix="猫")["translatedText"]
    assert found == translator.translate(SENTENCES[0], prefix="猫").text
    assert found.startswith("猫")


def test_languages_detection_health_settings_models(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "zh-Hans", "name": "Chinese", "targets": ["zh-Hans"]},
        {"code": "en", "name": "English", "targets": ["en", "zh-Hans"]},
    ]
    assert client.post("/detect", data={"q": "我喜欢茶"}).json() == [
        {"language": "zh-Hans", "confidence": 100.0}
    ]
    assert client.get("/health").json() == {"status": "ok"}
    settings = client.get("/frontend/settings").json()
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert settings["keyRequired"] is False
    assert client.get("/models").json() == [
        {"name": "toy-en-zh", "source": "en", "target": "zh-Hans", "beams": 2}
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": 5}, "Invalid request: q must be text"),
        ({"q": ["a", 5]}, "Invalid request: q must be a text or a list of texts"),
        ({"q": "a", "source": ""}, "Invalid request: missing source parameter"),
        ({"q": "a", "target": None}, "Invalid request: missing target parameter"),
        ({"q": "a", "target": "zz"}, "zz is not supported"),
        ({"q": "a", "source": "zz"}, "zz is not supported"),
        ({"q": "a", "format": "xml"}, "xml format is not supported"),
        ({"q": "a", "alternatives": "abc"}, "Invalid request: alternatives parameter is not a number"),
        ({"q": "a", "alternatives": 99}, "Invalid request: alternatives parameter must be <= 7"),
        ({"q": "a", "beams": 99}, "Invalid request: beams parameter must be <= 8"),
        ({"q": "a" * 5001}, "Invalid request: request (5001) exceeds text limit (5000)"),
        ({"q": ["a"] * 257}, "Invalid request: request (257) exceeds text limit (256)"),
        ({"q": "a.\n" * 1600}, "Invalid request: request (1600 sentences) exceeds text limit (1024)"),
        ({"q": "a", "source": "zh", "target": "en"}, "not available as a target language from Chinese"),
        ({"q": "\ud800"}, "Invalid request: q holds a lone surrogate"),
    ],
)
def test_what_makes_no_sense_is_said(client: TestClient, fields: dict[str, Any], message: str) -> None:
    body = json.dumps({"source": "en", "target": "zh", **fields})
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize("path", ["/translate", "/detect", "/stream", "/words", "/inspect"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b"", "application/json"),
        (b'{"q": "\xff"}', "application/json"),
        (b"hello", "text/plain"),
        (b"\x00\x01", "application/octet-stream"),
        (b"q=%ff", "application/x-www-form-urlencoded"),
    ],
)
def test_malformed_bodies(client: TestClient, path: str, body: bytes, kind: str) -> None:
    answer = client.post(path, content=body, headers={"content-type": kind})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert "Traceback" not in answer.text


def test_unknown_paths_and_methods(client: TestClient) -> None:
    assert client.get("/nothing").json() == {"error": "Not Found"}
    assert client.get("/translate").status_code == 405
    assert client.get("/translate").json() == {"error": "Method Not Allowed"}


@pytest.mark.parametrize(
    "name",
    [
        "../../etc",
        "/etc/passwd",
        "..%2f..%2fetc",
        "http://169.254.169.254/",
        "\\\\host\\share",
        "a\x00b",
        ".",
    ],
)
def test_a_model_is_a_name_and_never_a_path(client: TestClient, name: str) -> None:
    fields = {"q": "a", "text": "a", "source": "en", "target": "zh", "model": name}
    for path in ("/translate", "/stream", "/words", "/inspect"):
        answer = client.post(path, json=fields)
        assert answer.status_code == 400
        assert "there are toy-en-zh" in answer.json()["error"]


def test_no_request_opens_a_file_or_a_socket(client: TestClient) -> None:
    opened: list[str] = []
    listening = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event in ("open", "socket.connect", "os.listdir", "subprocess.Popen"):
            opened.append(f"{event} {arguments}")

    def ask(name: str) -> None:
        fields = {"q": "a", "source": "en", "target": "zh", "model": name, "format": "html", "prefix": name}
        client.post("/translate", json=fields)
        client.post("/translate", params=fields)
        client.get(f"/static/{name}")
        client.get(f"/{name}")

    ask("toy-en-zh")  # what is loaded once is loaded now
    sys.addaudithook(hook)
    for name in ("../../etc/passwd", "/etc/passwd", "http://169.254.169.254/", "toy-en-zh"):
        ask(name)
    listening = False
    assert opened == []


@pytest.mark.parametrize("name", ["nothing.js", "../app.py", "..%2fapp.py", "%2e%2e%2fapp.py", "a%00b", "."])
def test_static_files_are_a_closed_list(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_streams_end_with_the_translation(client: TestClient, translator: Translator) -> None:
    fields = {"q": f"{SENTENCES[0]} 🙂\n{SENTENCES[1]}", "source": "auto", "target": "zh"}
    answer = client.post("/stream", json=fields)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.split("\n") if line]
    assert events[0] == {"language": "en"}
    done = [event for event in events[1:] if event["done"]]
    assert [event["text"] for event in done] == [
        translator.translate(SENTENCES[0]).text,
        "🙂",
        translator.translate(SENTENCES[1]).text,
    ]
    assert "".join(event["before"] + event["source"] for event in done) == fields["q"]


def test_a_beginning_that_is_too_long(client: TestClient) -> None:
    fields = {"q": "tea", "source": "en", "target": "zh"}
    for path in ("/translate", "/words", "/stream"):
        answer = client.post(path, json={**fields, "prefix": "x" * 5001})
        assert answer.status_code == 400
    for path in ("/translate", "/inspect"):
        answer = client.post(path, json={**fields, "text": "tea", "prefix": "猫" * 2000})
        assert answer.status_code == 400
        assert "prefix" in answer.json()["error"]
    assert "prefix" in client.post("/stream", json={**fields, "prefix": "猫" * 2000}).text


def test_what_happens_inside(client: TestClient, translator: Translator) -> None:
    seen = client.post("/inspect", json={"text": "The cat sees tea.", "model": "toy-en-zh"}).json()
    assert seen["model"]["name"] == "toy-en-zh"
    assert seen["target"]["text"] == translator.translate("The cat sees tea.").text
    answer = client.get("/inspect", params={"text": "The cat sees tea.</script><b>"})
    assert answer.headers["content-type"].startswith("text/html")
    assert "'sha256-" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "</script><b>" not in answer.text
    too_long = client.post("/inspect", json={"text": "a" * 601})
    assert too_long.json() == {"error": "Invalid request: request (601) exceeds text limit (600)"}
    assert client.get("/inspect").status_code == 400


def test_other_words(client: TestClient, translator: Translator) -> None:
    said = translator.translate(SENTENCES[0]).text
    fields = {"q": SENTENCES[0], "source": "en", "target": "zh"}
    found = client.post("/words", json=fields).json()
    assert said.startswith(found[0]["word"])
    chances = [one["probability"] for one in found]
    assert chances == sorted(chances, reverse=True)
    assert 0.9 < sum(chances) <= 1.001
    end = client.post("/words", json={**fields, "prefix": said}).json()
    assert end[0]["word"] == ""


def test_security_headers_are_everywhere(client: TestClient) -> None:
    for path in ("/", "/docs", "/health", "/nothing", "/openapi.json", "/static/page.js"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_the_pages_bring_no_inline_code_and_ask_nobody_else(client: TestClient) -> None:
    for path in ("/", "/docs"):
        page = client.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page)
        for address in re.findall(r"""(?:src|href)=["']([^"']+)""", page):
            assert re.match(r"/(?!/)|data:", address)
            if address.startswith("/static/"):
                assert client.get(address).status_code == 200


def test_pages_are_cached_by_their_content(client: TestClient) -> None:
    first = client.get("/static/page.css")
    again = client.get("/static/page.css", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304


def test_keys(translator: Translator) -> None:
    with TestClient(create_app([translator], ServeSettings(api_keys=("secret",)))) as client:
        fields = {"q": SENTENCES[0], "source": "en", "target": "zh"}
        for path in ("/translate", "/detect", "/stream", "/words"):
            assert client.post(path, json=fields).status_code == 403
            assert client.post(path, json={**fields, "api_key": "wrong"}).json() == {
                "error": "Invalid API key"
            }
            assert client.post(path, json={**fields, "api_key": "secret"}).status_code == 200
            assert client.post(path, json=fields, params={"api_key": "secret"}).status_code == 200
            bearer = {"authorization": "Bearer secret"}
            assert client.post(path, json=fields, headers=bearer).status_code == 200
        assert client.get("/languages").status_code == 200
        assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_cors_only_if_asked(translator: Translator) -> None:
    settings = ServeSettings(cors=("https://good.example",))
    with TestClient(create_app([translator], settings)) as client:
        good = client.get("/health", headers={"origin": "https://good.example"})
        assert good.headers["access-control-allow-origin"] == "https://good.example"
        bad = client.get("/health", headers={"origin": "https://bad.example"})
        assert "access-control-allow-origin" not in bad.headers


def test_several_models(translator: Translator) -> None:
    back = load(toy_bundle(turned=True), engine="torch")
    with TestClient(create_app([translator, back, translator])) as client:
        assert [model["name"] for model in client.get("/models").json()] == [
            *("toy-en-zh", "toy-zh-en", "toy-en-zh-2"),
        ]
        assert client.get("/languages").json()[0]["targets"] == ["en", "zh-Hans"]
        zh = PAIRS[0][1]
        there = client.post("/translate", json={"q": zh, "source": "auto", "target": "en"}).json()
        assert there["translatedText"] == back.translate(zh).text
        fields = {"q": SENTENCES[0], "source": "en", "target": "zh", "model": "toy-en-zh-2"}
        assert client.post("/translate", json=fields).status_code == 200
        wrong = client.post("/translate", json={**fields, "model": "toy-zh-en"})
        assert wrong.json() == {"error": "toy-zh-en translates from zh-Hans to en"}


def test_numbers_for_prometheus_say_nothing_private(client: TestClient) -> None:
    client.post("/translate", json={"q": "confidential", "source": "en", "target": "zh"})
    client.get("/secret-path?api_key=hidden")
    text = client.get("/metrics").text
    assert 'glassformer_requests_total{route="/translate",status="200"}' in text
    assert 'glassformer_requests_total{route="other",status="404"}' in text
    assert "glassformer_batch_sentences_bucket" in text
    for secret in ("confidential", "secret-path", "hidden", "127.0.0.1", "testclient"):
        assert secret not in text


def test_a_mistake_of_ours_is_a_500_in_json(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(translator, "translate", broken)
    with TestClient(create_app([translator]), raise_server_exceptions=False) as client:
        answer = client.post("/translate", json={"q": "a b", "source": "en", "target": "zh"})
    assert answer.status_code == 500
    assert set(answer.json()) == {"error"}
    assert "inside" not in answer.text


def test_too_late_is_said(translator: Translator) -> None:
    settings = ServeSettings(seconds=0.001)
    with TestClient(create_app([translator], settings)) as client:
        answer = client.post("/translate", json={"q": SENTENCES * 4, "source": "en", "target": "zh"})
    assert answer.status_code == 429
    assert "too long" in answer.json()["error"]


def test_a_full_queue_is_a_429(translator: Translator) -> None:
    settings = ServeSettings(queue=8, sentences=8)
    with TestClient(create_app([translator], settings)) as client:
        client.app.state.service.batcher.queue = 2  # type: ignore[attr-defined]
        answer = client.post("/translate", json={"q": SENTENCES[:3], "source": "en", "target": "zh"})
        assert answer.status_code == 429
        assert answer.json()["error"].startswith("Slowdown")
        assert answer.headers["retry-after"] == "1"
        assert "glassformer_refused_total 1.0" in client.get("/metrics").text


def test_servers_that_make_no_sense(translator: Translator) -> None:
    with pytest.raises(RequestError, match="at least one model"):
        create_app([])
    with pytest.raises(ConfigError, match="batch = 0"):
        create_app([translator], ServeSettings(batch=0))


def test_the_description_names_every_route(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {
        *("/translate", "/detect", "/languages", "/health", "/frontend/settings", "/metrics"),
        *("/models", "/family", "/stream", "/words", "/inspect"),
    }

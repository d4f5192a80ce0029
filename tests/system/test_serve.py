"""`glass serve` as a process: real clients, real sockets, signals, and clients that misbehave."""

from __future__ import annotations

import concurrent.futures
import json
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.translate import Translator, load
from tests.serving import SENTENCES, toy_bundle
from tests.serving_process import Running, command, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running_server("--model", str(toy_bundle()), "--engine", "torch", "--seconds", "20") as server:
        yield server


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(toy_bundle(), engine="torch")


def post(server: Running, path: str, body: Any, timeout: float = 60) -> tuple[int, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(
        server.address + path, content, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def translate(server: Running, text: str | list[str]) -> Any:
    status, answer = post(server, "/translate", {"q": text, "source": "en", "target": "zh"})
    assert status == 200, answer
    return answer["translatedText"]


def exchange(server: Running, *chunks: bytes, pause: float = 0.0, wait: float = 30.0) -> bytes:
    """Send bytes as they are; everything the server says until it hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as sock:
        try:
            for chunk in chunks:
                sock.sendall(chunk)
                time.sleep(pause)
        except OSError:
            pass  # it has hung up on us, which may be right
        found = b""
        try:
            while part := sock.recv(65536):
                found += part
        except ConnectionResetError:
            pass
        return found


def test_libretranslatepy(server: Running, translator: Translator) -> None:
    module = pytest.importorskip("libretranslatepy")
    client = module.LibreTranslateAPI(server.address)
    assert client.translate(SENTENCES[0], "en", "zh") == translator.translate(SENTENCES[0]).text
    assert client.detect("我喜欢茶。")[0]["language"] == "zh-Hans"
    assert [one["code"] for one in client.languages()] == ["zh-Hans", "en"]


def test_deep_translator(server: Running, translator: Translator) -> None:
    module = pytest.importorskip("deep_translator")
    client = module.LibreTranslator(
        source="en", target="zh", api_key="any", custom_url=f"{server.address}/", use_free_api=False
    )
    assert client.translate(SENTENCES[0]) == translator.translate(SENTENCES[0]).text
    assert client.translate_batch(SENTENCES[:2]) == [translator.translate(s).text for s in SENTENCES[:2]]


def test_many_clients_each_get_their_own_answer(server: Running, translator: Translator) -> None:
    expected = {text: translator.translate(text).text for text in SENTENCES}
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        texts = SENTENCES * 4
        for text, said in zip(texts, pool.map(lambda text: translate(server, text), texts), strict=True):
            assert said == expected[text]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused_before_it_is_read(server: Running, chunked: bool) -> None:
    before = server.memory()
    size = 100_000_000
    head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    block = b"x" * 65536
    if chunked:
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        blocks = (b"10000\r\n" + block + b"\r\n" for _ in range(size // 65536))
    else:
        head += f"Content-Length: {size}\r\n\r\n".encode()
        blocks = (block for _ in range(size // 65536))
    begun = time.monotonic()
    answer = _upload(server, head, blocks)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b'{"error": "the body is larger than 1048576 bytes"}' in answer
    assert time.monotonic() - begun < 20
    assert server.memory() - before < 30_000_000
    assert translate(server, SENTENCES[0])


def _upload(server: Running, head: bytes, blocks: Iterator[bytes]) -> bytes:
    """Send on while listening, as a patient client does."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(head)

        def pour() -> None:
            try:
                for block in blocks:
                    sock.sendall(block)
            except OSError:
                pass

        thread = threading.Thread(target=pour)
        thread.start()
        answer = b""
        while not answer.endswith(b"}"):
            answer += sock.recv(65536)
        sock.shutdown(socket.SHUT_RDWR)
        thread.join(30)
        return answer


def test_a_million_sentences_are_too_many(server: Running) -> None:
    status, answer = post(server, "/translate", {"q": ["a"] * 1_000_000, "source": "en", "target": "zh"})
    assert status == 413
    assert "larger" in answer["error"]


@pytest.mark.parametrize(
    "noise",
    [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"],
)
def test_what_is_not_http_gets_a_400_in_json(server: Running, noise: bytes) -> None:
    answer = exchange(server, noise + b"\r\n\r\n")
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]
    assert translate(server, SENTENCES[0])


def test_clients_that_hang_up_leave_nothing_behind(server: Running) -> None:
    body = json.dumps({"q": SENTENCES, "source": "en", "target": "zh"}).encode()
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(head.encode() + body)
    end = time.monotonic() + 20
    while "glassformer_waiting_sentences 0.0" not in _metrics(server):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert translate(server, SENTENCES[0])


def _metrics(server: Running) -> str:
    with urllib.request.urlopen(f"{server.address}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_several_slow_clients_do_not_stop_the_others(translator: Translator) -> None:
    with running_server("--model", str(toy_bundle()), "--patience", "1", "--engine", "torch") as server:
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        slow_head = [head[place : place + 1] for place in range(len(head))]
        slow_body = [head + b"Content-Length: 100\r\n\r\n", *[b"x"] * 100]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            begun = time.monotonic()
            slow = [
                pool.submit(exchange, server, *chunks, pause=0.1) for chunks in [slow_head, slow_body] * 4
            ]
            assert translate(server, SENTENCES[0]) == translator.translate(SENTENCES[0]).text
            for future in slow:
                assert b" 408 " in future.result()
            assert time.monotonic() - begun < 20


def test_a_long_request_does_not_hold_up_a_short_one(server: Running) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long = pool.submit(translate, server, SENTENCES * 4)
        end = time.monotonic() + 20
        while "glassformer_waiting_sentences 0.0" in _metrics(server):
            assert time.monotonic() < end
        assert translate(server, "The cat sees tea.")
        assert not long.done()
        assert len(long.result()) == 4 * len(SENTENCES)


def test_a_port_in_use_is_said_at_once(server: Running) -> None:
    begun = time.monotonic()
    done = subprocess.run(
        command("--port", str(server.port), "--model", str(toy_bundle())),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert f"port {server.port} on 127.0.0.1 is in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begun < 15
    assert translate(server, SENTENCES[0])


@pytest.mark.parametrize("damage", ["missing", "weights", "config"])
def test_a_bundle_that_is_missing_or_damaged_is_said(tmp_path: Path, damage: str) -> None:
    bundle = tmp_path / "m"
    if damage != "missing":
        bundle.mkdir()
        for file in toy_bundle().iterdir():
            (bundle / file.name).write_bytes(file.read_bytes())
        broken = bundle / {"weights": "model.safetensors", "config": "config.toml"}[damage]
        broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    done = subprocess.run(
        command("--port", "0", "--model", str(bundle)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert str(bundle) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminated_server_finishes_what_is_running(translator: Translator) -> None:
    with running_server("--model", str(toy_bundle()), "--batch", "1", "--engine", "torch") as server:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(translate, server, SENTENCES)
            end = time.monotonic() + 20
            while "glassformer_waiting_sentences 0.0" in _metrics(server):
                assert time.monotonic() < end
            server.process.send_signal(signal.SIGTERM)
            assert answer.result() == [one.text for one in translator.translate(SENTENCES)]
        assert server.process.wait(30) == 0
        assert server.process.stderr is not None
        assert "Traceback" not in server.process.stderr.read()


def test_killed_and_started_again_on_the_same_port(translator: Translator) -> None:
    with running_server("--model", str(toy_bundle()), "--engine", "torch") as server:
        port = server.port
        with socket.create_connection(("127.0.0.1", port)):
            server.process.kill()
            server.process.wait(10)
    with running_server("--model", str(toy_bundle()), "--engine", "torch", port=port) as again:
        assert again.port == port
        assert translate(again, SENTENCES[0]) == translator.translate(SENTENCES[0]).text


def test_it_listens_to_this_machine_alone(server: Running) -> None:
    listening = [
        line.split()[1]
        for line in Path(f"/proc/{server.process.pid}/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")
    ]
    assert listening == [f"0100007F:{server.port:04X}"]


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("first\n\n second \n", "utf-8")
    arguments = ("--model", str(toy_bundle()), "--engine", "torch", "--api-keys", str(tmp_path / "keys"))
    with running_server(*arguments) as server:
        fields = {"q": SENTENCES[0], "source": "en", "target": "zh"}
        assert post(server, "/translate", fields)[0] == 403
        assert post(server, "/translate", {**fields, "api_key": "second"})[0] == 200


def test_ctrl_c_is_a_quiet_end_and_the_log_holds_no_texts() -> None:
    with running_server("--model", str(toy_bundle()), "--engine", "torch") as server:
        translate(server, "My secret is tea.")
        urllib.request.urlopen(f"{server.address}/languages?api_key=hidden", timeout=10).close()
        server.process.send_signal(signal.SIGINT)
        out, err = server.process.communicate(timeout=30)
        assert server.process.returncode == 0
    assert out + err == ""

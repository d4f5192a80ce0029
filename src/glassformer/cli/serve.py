"""`glass serve`: a page and an API on your machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from glassformer.errors import ConfigError, DataError, MissingExtraError

SEVERAL = Parameter(consume_multiple=True, negative=())


def serve(
    *,
    model: Annotated[tuple[str, ...], SEVERAL] = (),
    host: str = "127.0.0.1",
    port: int = 5000,
    engine: Literal["auto", "torch", "ctranslate2", "ctranslate2-int8"] = "auto",
    threads: int = 0,
    workers: int = 1,
    batch: int = 64,
    queue: int = 4096,
    seconds: float = 30.0,
    patience: float = 10.0,
    characters: int = 5000,
    api_keys: Path | None = None,
    cors: Annotated[tuple[str, ...], SEVERAL] = (),
) -> None:
    """Serve models: a page to translate on, and LibreTranslate's API.

    Parameters
    ----------
    model
        bundles: directories, or names of those that the package brings; left out, all of these
    host
        where to listen; 127.0.0.1 is this machine alone, 0.0.0.0 everybody who can reach it
    port
        0 takes any free one
    engine
        what computes: auto takes the fastest that can; ctranslate2-int8 is faster, but rounds the weights
    threads
        parts into which the engine cuts a batch, each on one processor thread; 0 is one for each core
    workers
        batches translated at the same time; full ones keep all cores busy, so one is enough
    batch
        most sentences translated at once; 1 turns batching off
    queue
        sentences that may wait; more are refused with 429
    seconds
        time for an answer
    patience
        seconds for a client to send its headers, and again for its body
    characters
        longest text
    api_keys
        file with one key a line; only requests with one of them are answered
    cors
        origins of other pages that may use this server from a browser; * for all
    """
    try:
        from glassformer.serve.run import open_port, run
    except ImportError as error:
        raise MissingExtraError("glass serve", str(error.name), "serve") from None
    from glassformer.serve.settings import ServeSettings

    settings = ServeSettings(
        api_keys=_read_keys(api_keys) if api_keys else (),
        cors=cors,
        workers=workers,
        batch=batch,
        queue=queue,
        sentences=min(ServeSettings.sentences, queue),
        seconds=seconds,
        body_seconds=patience,
        characters=characters,
    )
    if problems := settings.problems():
        raise ConfigError(problems)
    sock = open_port(host, port)

    from glassformer.bundle import load_reader, shipped, task_of
    from glassformer.serve.app import create_app
    from glassformer.translate import load

    names = list(model or shipped())
    readers = [name for name in names if task_of(name) != "translate"]
    translators = [load(name, engine=engine, threads=threads) for name in names if name not in readers]
    app = create_app(translators, settings, [load_reader(name) for name in readers])
    for name, route in app.state.family.routes():
        print(f"{name}: POST /{route}")
    for served in app.state.service.models.by_name.values():
        print(f"{served.name}: {served.source} to {served.target}")
    address = f"[{host}]" if ":" in host else host
    print(f"open http://{address}:{sock.getsockname()[1]}/ in a browser; Ctrl-C ends it", flush=True)
    run(app, sock, settings)


def _read_keys(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"can't be read: {error}", path) from None
    keys = tuple(line.strip() for line in lines if line.strip())
    if not keys:
        raise DataError("holds no API key", path)
    return keys

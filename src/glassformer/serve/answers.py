"""Answers that say what is wrong: always JSON, always `{"error": …}`, never a traceback."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from glassformer.errors import RequestError
from glassformer.serve.batcher import BusyError


class RefusedError(Exception):
    """A request that is answered with an error on purpose."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


def error(status: int, message: str) -> JSONResponse:
    headers = {"Retry-After": "1"} if status == 429 else None
    return JSONResponse({"error": message}, status, headers)


def install(app: FastAPI) -> None:
    """Turn every exception into such an answer."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, problem: RefusedError) -> JSONResponse:
        return error(problem.status, problem.message)

    @app.exception_handler(RequestError)
    async def senseless(request: Request, problem: RequestError) -> JSONResponse:
        return error(400, str(problem))

    @app.exception_handler(BusyError)
    async def busy(request: Request, problem: BusyError) -> JSONResponse:
        request.app.state.service.metrics.refused.inc()
        return error(429, f"Slowdown: {problem}; try again in a moment")

    @app.exception_handler(TimeoutError)
    async def late(request: Request, problem: TimeoutError) -> JSONResponse:
        return error(429, "Slowdown: this took too long; send less text at once, or try again later")

    @app.exception_handler(HTTPException)
    async def http(request: Request, problem: HTTPException) -> JSONResponse:
        answer = error(problem.status_code, HTTPStatus(problem.status_code).phrase)
        answer.headers.update(problem.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def ours(request: Request, problem: Exception) -> JSONResponse:
        return error(500, "the server made a mistake; its log says more")

"""The HTTP application: which addresses there are, and how a waiting client and a working thread meet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from time import monotonic, time
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ragla.errors import IndexLocked, IndexUnusable, RaglaError, UsageError
from ragla.failure import Failure
from ragla.serve.guard import GONE, read_body, refused
from ragla.serve.library import Answered, Library, Stopped
from ragla.serve.protocol import ChatRequest, Refusal, SearchRequest, check, clean, parse
from ragla.serve.responses import DONE, Completion, event
from ragla.serve.worker import Closed, Job, QueueFull, Worker

ALIAS = "ragla"  # the model's other name, for clients that are set up before they know it
HEARTBEAT_S = 10.0  # a waiting stream says this often that it is alive
NO_RETRY = {"x-should-retry": "false"}  # openai's clients would ask the same again

OnProblem = Callable[[BaseException], None]
"""Told of what went wrong in a way that no request is to blame for."""


class Service:
    """What the routes share. ``name``: the model's; ``seconds``: the longest a request may take."""

    def __init__(
        self, library: Library, name: str, queue: int, seconds: float, on_problem: OnProblem
    ) -> None:
        self.library = library
        self.name = name
        self.seconds = seconds
        self.on_problem = on_problem
        self.answers = Worker("answers", queue)
        self.searches = Worker("searches", queue)
        self.began = int(time())

    def stop(self) -> None:
        """Stop what runs, and take no more."""
        self.close(0.0)

    def close(self, seconds: float) -> bool:
        """Stop what runs; whether all of it has ended within ``seconds``."""
        end = monotonic() + seconds
        ended = [worker.close(max(0.0, end - monotonic())) for worker in (self.answers, self.searches)]
        return all(ended)

    # --- routes ---------------------------------------------------------------------------------------------

    async def chat(self, request: Request) -> Response:
        """``POST /v1/chat/completions``."""
        asked = parse(ChatRequest, await read_body(request))
        if asked.model not in (None, "", self.name, ALIAS):
            raise Refusal(
                404, f"the model here is {self.name}, or {ALIAS}", code="model_not_found", param="model"
            )
        question = asked.question()
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()

        def push(piece: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def work(stopped: Callable[[], bool]) -> Answered:
            return self.library.answer(question, asked.settings, push if asked.stream else None, stopped)

        job = self.submit(self.answers, work)
        completion = Completion(self.name)
        if asked.stream:
            job.future.add_done_callback(lambda _: push(None))
            usage = asked.stream_options is not None and asked.stream_options.include_usage
            return await self.stream(request, job, pieces, completion, usage)
        answered = await self.result(request, job)
        return JSONResponse(completion.whole(answered.answer, answered.reason, answered.notices))

    async def search(self, request: Request) -> Response:
        """``GET`` and ``POST /search``."""
        if request.method == "POST":
            asked = parse(SearchRequest, await read_body(request))
        else:
            given: dict[str, Any] = {
                key: request.query_params.getlist(key) if key in ("paths", "types") else value
                for key, value in request.query_params.items()
            }
            asked = check(SearchRequest, given)
        if not clean(asked.query):
            raise Refusal(400, "query: nothing to search for", param="query")
        job = self.submit(self.searches, lambda stopped: self.library.search(asked))
        return JSONResponse(await self.result(request, job))

    async def models(self, request: Request) -> Response:
        """``GET /v1/models`` and ``/v1/models/NAME``."""
        row = {"id": self.name, "object": "model", "created": self.began, "owned_by": "ragla"}
        wanted = request.path_params.get("name")
        if wanted is None:
            return JSONResponse({"object": "list", "data": [row]})
        if wanted not in (self.name, ALIAS):
            raise Refusal(404, f"the model here is {self.name}", code="model_not_found", param="model")
        return JSONResponse(row)

    async def health(self, request: Request) -> Response:
        """``GET /health``: no token is needed, nothing of the documents is told."""
        alive = self.answers.alive and self.searches.alive
        document = {
            "schema": "ragla.health/1",
            "status": "ok" if alive else "ending",
            "answering": self.answers.busy,
            "waiting": self.answers.waiting,
        }
        return JSONResponse(document, 200 if alive else 503)

    # --- a client that waits, a thread that works ----------------------------------------------------------

    def submit(self, worker: Worker, work: Callable[[Callable[[], bool]], Any]) -> Job:
        """Queue work. Raises Refusal where there is no room, or the server ends."""
        try:
            return worker.submit(work, self.seconds)
        except QueueFull as full:
            raise Refusal(
                429, f"{worker.most_waiting} requests wait already", code="queue_full",
                headers={"Retry-After": str(full.retry_after_s)},
            ) from full  # fmt: skip
        except Closed as closed:
            raise self.refusal(closed) from closed

    async def result(self, request: Request, job: Job) -> Any:
        """What a job comes to; it is stopped when its client leaves. Raises Refusal."""
        gone = asyncio.ensure_future(disconnected(request))
        done = asyncio.ensure_future(ended(job))
        try:
            await asyncio.wait(
                {done, gone}, timeout=job.deadline - monotonic(), return_when=asyncio.FIRST_COMPLETED
            )
            if gone.done() and not done.done():
                raise Refusal(GONE, "the client has left")
            return self.outcome(job)
        finally:
            gone.cancel()
            done.cancel()
            job.stop()

    def outcome(self, job: Job) -> Any:
        """The result of a job that is done. Raises Refusal where there is none."""
        if not job.future.done() or job.future.cancelled():
            raise self.timed_out()
        error = job.future.exception()
        if error is not None:
            raise self.refusal(error, job) from error
        result = job.future.result()
        if isinstance(result, Answered) and result.answer.interrupted:
            raise self.refusal(Stopped(), job)
        return result

    async def stream(
        self,
        request: Request,
        job: Job,
        pieces: asyncio.Queue[str | None],
        completion: Completion,
        usage: bool,
    ) -> Response:
        """The response with an answer's text as it comes.

        What fails before the first word is a response of its own, unless that takes long.
        """
        first = asyncio.ensure_future(pieces.get())
        gone = asyncio.ensure_future(disconnected(request))
        await asyncio.wait({first, gone}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if gone.done():
            first.cancel()
            job.stop()
            raise Refusal(GONE, "the client has left")
        if first.done() and first.result() is None:
            self.outcome(job)  # raises what went wrong, if something did
        events = self.events(job, first, pieces, completion, usage)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def events(
        self,
        job: Job,
        first: asyncio.Future[str | None],
        pieces: asyncio.Queue[str | None],
        completion: Completion,
        usage: bool,
    ) -> AsyncIterator[str]:
        """The events of a stream. It is closed when the client leaves, and the job ends with it."""
        waited = first
        try:
            yield completion.first()
            while True:
                left = job.deadline - monotonic()
                await asyncio.wait({waited}, timeout=max(0.0, min(HEARTBEAT_S, left)))
                if not waited.done():
                    if left <= 0:
                        raise self.timed_out()
                    yield ": waiting\n\n"
                    continue
                piece = waited.result()
                if piece is None:
                    break
                yield completion.piece(piece)
                waited = asyncio.ensure_future(pieces.get())
            answered = self.outcome(job)
            yield completion.last(answered.answer, answered.reason, answered.notices)
            if usage:
                yield completion.usage(answered.answer)
            yield DONE
        except Refusal as refusal:
            yield event(refusal.as_json())
        finally:
            waited.cancel()
            job.stop()

    def timed_out(self) -> Refusal:
        """The refusal of what took too long."""
        return Refusal(504, f"not done after {self.seconds:.0f} s", code="timed_out", headers=NO_RETRY)

    def refusal(self, error: BaseException, job: Job | None = None) -> Refusal:
        """What a client is told of an error."""
        if isinstance(error, Closed) or (isinstance(error, Stopped) and not self.answers.alive):
            return Refusal(503, "the server is shutting down", code="shutting_down", headers=NO_RETRY)
        if isinstance(error, Stopped):
            return self.timed_out()
        if not isinstance(error, RaglaError):
            self.on_problem(error)
        failure = Failure.of(error if isinstance(error, Exception) else RuntimeError(str(error)))
        hint = f" ({failure.hint})" if failure.hint and isinstance(error, RaglaError) else ""
        status = 400 if isinstance(error, UsageError) else 500
        if isinstance(error, (IndexUnusable, IndexLocked)):
            status = 503
        return Refusal(status, f"{failure.message}{hint}", headers={} if status < 500 else NO_RETRY)


async def ended(job: Job) -> None:
    """Returns when a job has its result."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(done.set)

    job.future.add_done_callback(tell)
    await done.wait()


async def disconnected(request: Request) -> None:
    """Returns when the client has left. The body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def make_app(service: Service) -> Starlette:
    """The application, without its guard."""

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return refused(error)

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = f"{request.method} {request.url.path}: {error.detail}"
        return refused(Refusal(error.status_code, said, headers=dict(error.headers or {})))

    async def broken(request: Request, error: Exception) -> Response:
        return refused(service.refusal(error))

    return Starlette(
        routes=[
            Route("/v1/chat/completions", service.chat, methods=["POST"]),
            Route("/v1/models", service.models),
            Route("/v1/models/{name:path}", service.models),
            Route("/search", service.search, methods=["GET", "POST"]),
            Route("/health", service.health),
        ],
        exception_handlers={Refusal: refuse, HTTPException: unknown, Exception: broken},
    )

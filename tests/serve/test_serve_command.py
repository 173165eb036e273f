"""``ragla serve``: what it refuses to begin with, how it fails, and how it sees a new index."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import openai
import pytest
import uvicorn
from hashing_embedder import HashingEmbedder

from ragla.retrieve import Retriever
from ragla.serve.app import Service, make_app
from ragla.serve.guard import Guard
from ragla.serve.library import OpenIndex, Stopped
from ragla.serve.server import bind, url
from ragla.serve.worker import Closed, QueueFull, Worker
from tests.cli.tiny_world import QUESTION, Ragla, World
from tests.serve.test_openai_client import said, until

# --- before it begins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_machines_need_a_token(ragla: Ragla, world: World, host: str) -> None:
    told = ragla("serve", *world.flags, "--host", host, "--port", "0")
    assert told.exit_code == 2
    assert f"error: {host} can be reached from other machines: a token is needed" in told.stderr
    assert "--token-file" in told.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), ("", "at least 16"), ("short", "at least 16"), ("two words " * 3, "one word"),
     ("é" * 20, "ASCII")],
)  # fmt: skip
def test_a_token_that_is_none(
    ragla: Ragla, world: World, tmp_path: Path, content: str | None, says: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    told = ragla("serve", *world.flags, "--token-file", path)
    assert told.exit_code == 2
    assert says in told.stderr


def test_a_port_in_use_is_said_with_a_free_one(ragla: Ragla, world: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = ragla("serve", *world.flags, "--port", port)
    assert told.exit_code == 2
    first, mend = told.stderr.splitlines()
    assert first == f"error: port {port} of 127.0.0.1 is in use"
    assert int(mend.rpartition(" ")[2]) > port


def test_a_missing_extra_is_one_line(ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragla.cli_serve.find_spec", lambda name: None)
    told = ragla("serve", *world.flags)
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.splitlines() == [
        "error: ragla serve needs starlette and uvicorn", "  → pip install 'ragla[serve]'",
    ]  # fmt: skip


def test_a_server_is_one_process(ragla: Ragla, world: World) -> None:
    told = ragla("serve", *world.flags, "--set", "decode.parallel=tensor")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "ragla serve listens in one process" in told.stderr


def test_no_such_address_and_no_index(ragla: Ragla, world: World) -> None:
    assert "no such address" in ragla("serve", *world.flags, "--host", "no.such.host.invalid").stderr
    assert ragla("serve", "--profile", world.profile).exit_code == 3


# --- while it runs ----------------------------------------------------------------------------------------


class Gone(Exception):
    """What a library raises."""


@contextmanager
def in_a_thread(answer: Callable[..., Any], seconds: float = 30.0) -> Iterator[openai.OpenAI]:
    """The application with a library that does what ``answer`` does; its problems go nowhere."""

    class Library:
        def answer(self, *arguments: Any) -> Any:
            return answer(*arguments)

    library: Any = Library()
    service = Service(library, "llm", 4, seconds, lambda error: None)
    server = uvicorn.Server(
        uvicorn.Config(
            Guard(make_app(service), None, True, lambda *_: None), lifespan="off", log_config=None, ws="none"
        )
    )
    runner = Worker("server", 1)
    with bind("127.0.0.1", 0) as bound:
        job = runner.submit(lambda stopped: server.run(sockets=[bound]), 600.0)
        until(lambda: server.started)
        try:
            with openai.OpenAI(base_url=f"{url(bound)}/v1", api_key="none", max_retries=0) as client:
                yield client
        finally:
            server.should_exit = True
            job.future.result(30.0)
            service.close(10.0)
            runner.close(10.0)


def test_an_exception_while_answering_ends_the_stream_with_an_error() -> None:
    def fail(question: Any, settings: Any, on_text: Any, stopped: Any) -> None:
        if on_text:
            on_text("The limit ")
            sleep(0.2)  # the stream has begun
        raise Gone("the tensors are gone\nand more")

    with in_a_thread(fail) as client:
        stream = client.chat.completions.create(model="llm", messages=said(QUESTION), stream=True)
        read: list[str] = []
        with pytest.raises(openai.APIError, match="the tensors are gone"):
            read.extend(chunk.choices[0].delta.content or "" for chunk in stream)
        with pytest.raises(openai.InternalServerError) as whole:
            client.chat.completions.create(model="llm", messages=said(QUESTION))
        assert "Traceback" not in whole.value.response.text
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="llm", messages=said(QUESTION))  # the thread lives


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), StopIteration(), MemoryError()])
def test_nothing_that_is_raised_hangs_a_client(raised: BaseException) -> None:
    def fail(*arguments: Any) -> None:
        raise raised

    with in_a_thread(fail) as client, pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="llm", messages=said(QUESTION), stream=True)


def test_what_takes_too_long_ends_with_an_error_and_is_not_asked_again() -> None:
    def dawdle(question: Any, settings: Any, on_text: Any, stopped: Any) -> None:
        if on_text:
            on_text("The limit ")
        while not stopped():
            sleep(0.01)
        raise Stopped

    with in_a_thread(dawdle, 0.5) as client:
        retrying = client.with_options(max_retries=5)
        with pytest.raises(openai.InternalServerError) as late:
            retrying.chat.completions.create(model="llm", messages=said(QUESTION))
        assert late.value.status_code == 504
        stream = client.chat.completions.create(model="llm", messages=said(QUESTION), stream=True)
        with pytest.raises(openai.APIError, match="not done after"):
            list(stream)


def test_a_worker_refuses_what_it_has_no_room_for_and_ends() -> None:
    worker = Worker("jobs", 1)
    running = worker.submit(lambda stopped: until(stopped), 600.0)
    until(lambda: running.future.running())
    waiting = worker.submit(lambda stopped: "never", 600.0)
    with pytest.raises(QueueFull):
        worker.submit(lambda stopped: None, 600.0)
    waiting.stop()  # makes room
    last = worker.submit(lambda stopped: "neither", 600.0)
    assert worker.close(30.0)
    assert waiting.future.cancelled()
    with pytest.raises(Closed):
        last.future.result(0.0)
    with pytest.raises(Closed):
        worker.submit(lambda stopped: None, 1.0)


def test_a_new_index_is_seen_also_one_that_was_built_anew(tmp_path: Path) -> None:
    from ragla.config import RetrieveSettings
    from ragla.retrieve import index_folders

    docs, place = tmp_path / "docs", tmp_path / "index"
    docs.mkdir()
    (docs / "a.md").write_text("The zebra sleeps.", encoding="utf-8")
    embedder = HashingEmbedder()

    def build(**more: Any) -> None:
        index_folders([docs], place, RetrieveSettings(), embedder, **more)

    build()
    index = OpenIndex(place, Retriever.open(place, embedder))

    def found() -> set[str]:
        with index.reader() as retriever:
            return {hit.passage.path for hit in retriever.search("zebra giraffe", 9)}

    assert found() == {"a.md"}
    (docs / "b.md").write_text("The giraffe eats.", encoding="utf-8")
    build()
    assert found() == {"a.md", "b.md"}
    (docs / "a.md").unlink()
    with index.reader() as before:
        build(rebuild=True)
        with index.reader() as after:
            assert after is not before
            assert after.passage_count == 1
        assert before.passage_count == 2  # a reader keeps what it began with
    with pytest.raises(Exception, match="closed"):
        before.passage_count  # noqa: B018  its last reader has left
    assert found() == {"b.md"}

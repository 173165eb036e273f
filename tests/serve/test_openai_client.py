"""OpenAI's client talks to a server process: answers whole and streamed, and what is refused."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults
from tests.serve.conftest import TOKEN, Server

BOATS = "Where are boats moored, at which pier?"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


def said(*texts: str) -> list[Any]:
    """Messages of user and assistant in turn."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]


def request(
    server: Server, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """A request as any program might send it."""
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    try:
        connection.request(method, path, body, HEADERS | (headers or {}))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def is_idle(server: Server) -> bool:
    state = request(server, "GET", "/health")[1]
    return not state["answering"] and not state["waiting"]


def test_what_is_served_is_as_described(server: Server) -> None:
    found = [request(server, "GET", path)[1] for path in ("/health", "/search?query=hotel&top_k=1")]
    assert server.process.stdout is not None
    found.append(json.loads(server.process.stdout.readline()))
    assert [document["schema"] for document in found] == [
        "ragla.health/1",
        "ragla.search/1",
        "ragla.request/1",
    ]
    assert [fault for document in found for fault in faults(document)] == []


# --- answers ----------------------------------------------------------------------------------------------


def test_an_answer_is_that_of_the_command_with_its_sources(
    client: OpenAI, ragla: Ragla, world: World
) -> None:
    asked = document(ragla("ask", QUESTION, *world.flags, "--json"))
    answer = client.chat.completions.create(model="ragla", messages=said(QUESTION))
    assert answer.choices[0].message.content == asked["answer"]
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == asked["stats"]["prompt_tokens"]
    assert answer.usage.completion_tokens == asked["stats"]["tokens"] == 24
    extra = (answer.model_extra or {})["ragla"]
    assert [source["path"] for source in extra["sources"]] == [row["path"] for row in asked["sources"]]
    assert extra["stats"]["tokens_per_step"] >= 1.0
    assert "steps" not in extra


def test_a_stream_says_the_same_in_pieces(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="llm", messages=said(QUESTION))
    chunks = list(
        client.chat.completions.create(
            model="llm", messages=said(QUESTION), stream=True, stream_options={"include_usage": True}
        )
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole.choices[0].message.content
    assert len([piece for piece in pieces if piece]) > 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert (chunks[-2].model_extra or {})["ragla"]["answered"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 24
    assert len({chunk.id for chunk in chunks}) == 1


def test_passages_of_a_client_take_the_place_of_the_index(client: OpenAI) -> None:
    moon = [{"text": "The moon base has 4 rooms.", "id": "moon.md"}, {"text": "It has a garden."}]
    answer = client.chat.completions.create(
        model="llm", messages=said("How many rooms?"), extra_body={"documents": moon}
    )
    extra = (answer.model_extra or {})["ragla"]
    assert [source["path"] for source in extra["sources"]] == ["moon.md", "1"]
    large = [{"text": "a wall of words " * 2000}]
    with pytest.raises(openai.BadRequestError, match="no passage fits"):
        client.chat.completions.create(
            model="llm", messages=said("How many?"), extra_body={"documents": large}
        )


def test_limits_and_stop_strings_end_an_answer(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="llm", messages=said(QUESTION)).choices[0].message.content
    assert whole is not None
    short = client.chat.completions.create(model="llm", messages=said(QUESTION), max_tokens=3)
    assert (short.usage and short.usage.completion_tokens, short.choices[0].finish_reason) == (3, "length")
    word = whole[len(whole) // 2 :][:2]
    stopped = client.chat.completions.create(model="llm", messages=said(QUESTION), stop=word)
    assert stopped.choices[0].message.content == whole[: whole.index(word)].rstrip()
    assert stopped.choices[0].finish_reason == "stop"


def test_a_sampled_answer_comes_again_with_its_seed(client: OpenAI) -> None:
    first, again, other = (
        client.chat.completions.create(model="llm", messages=said(QUESTION), temperature=1.5, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first.choices[0].message.content == again.choices[0].message.content
    assert first.choices[0].message.content != other.choices[0].message.content


def test_what_was_said_before_is_part_of_the_prompt(client: OpenAI) -> None:
    alone = client.chat.completions.create(model="llm", messages=said(BOATS))
    after = client.chat.completions.create(
        model="llm", messages=[{"role": "system", "content": "Be rude."}, *said(QUESTION, "180 euros", BOATS)]
    )
    assert alone.usage is not None
    assert after.usage is not None
    assert after.usage.prompt_tokens > alone.usage.prompt_tokens
    assert "system" in (after.model_extra or {})["ragla"]["notices"][-1]


def test_parts_of_a_message_are_joined(client: OpenAI) -> None:
    parts: Any = [{"type": "text", "text": QUESTION[:9]}, {"type": "text", "text": QUESTION[9:]}]
    in_parts = client.chat.completions.create(model="llm", messages=[{"role": "user", "content": parts}])
    whole = client.chat.completions.create(model="llm", messages=said(QUESTION))
    assert in_parts.choices[0].message.content == whole.choices[0].message.content


def test_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["llm"]
    assert client.models.retrieve("llm").owned_by == "ragla"


def test_search_is_that_of_the_command(server: Server, ragla: Ragla, world: World) -> None:
    asked = document(ragla("search", "酒店上限", "-k", "2", *world.flags, "--json"))
    body = json.dumps({"query": "酒店上限", "top_k": 2}).encode()
    assert request(server, "POST", "/search", body) == (200, asked)
    status, found = request(server, "GET", "/search?query=harbour%20master&types=txt")
    assert status == 200
    assert all(passage["path"].endswith(".txt") for passage in found["passages"])


# --- many and gone ----------------------------------------------------------------------------------------


def test_two_at_once_are_answered_one_after_the_other(server: Server, client: OpenAI) -> None:
    alone = [
        client.chat.completions.create(model="llm", messages=said(text)).choices[0].message.content
        for text in (QUESTION, BOATS)
    ]
    together: dict[str, str | None] = {}

    def ask(text: str) -> None:
        with server.client() as own:
            answer = own.chat.completions.create(model="llm", messages=said(text))
            together[text] = answer.choices[0].message.content

    threads = [threading.Thread(target=ask, args=(text,)) for text in (QUESTION, BOATS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[QUESTION], together[BOATS]] == alone


def test_an_answer_ends_when_its_reader_leaves(server: Server, client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="llm", messages=said(QUESTION), max_tokens=3500, stream=True
    )
    assert next(iter(stream)).choices[0].delta.role == "assistant"
    assert not is_idle(server)
    stream.close()
    until(lambda: is_idle(server), 10.0)
    connection = http.client.HTTPConnection(*server.address, timeout=60)
    body = json.dumps({"messages": said(QUESTION), "max_tokens": 3500})
    connection.request("POST", "/v1/chat/completions", body, HEADERS)  # without stream
    until(lambda: not is_idle(server))
    connection.close()
    until(lambda: is_idle(server), 10.0)


def test_who_comes_when_the_queue_is_full_is_told_when_to_come_again(server: Server) -> None:
    with server.client() as first, server.client() as second, server.client() as third:
        running = first.chat.completions.create(
            model="llm", messages=said(QUESTION), max_tokens=3500, stream=True
        )
        next(iter(running))
        waiting = threading.Thread(
            target=lambda: second.chat.completions.create(model="llm", messages=said(BOATS))
        )
        waiting.start()
        until(lambda: request(server, "GET", "/health")[1]["waiting"] == 1)
        with pytest.raises(openai.RateLimitError) as full:
            third.chat.completions.create(model="llm", messages=said(BOATS))
        assert int(full.value.response.headers["Retry-After"]) >= 1
        assert full.value.code == "queue_full"
        status, _ = request(server, "GET", "/search?query=boats")  # has a queue of its own
        assert status == 200
        running.close()
        waiting.join(30.0)
        assert not waiting.is_alive()


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("logprobs", True),
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("response_format", {"type": "json_object"}),
        ("max_tokens", 0),
        ("temperature", 3),
        ("stop", ["a"] * 5),
        ("stop", ""),
        ("frobnicate", 1),
        ("documents", []),
        ("documents", "text"),
        ("documents", [{"title": "no text"}]),
        ("documents", [{"text": ""}]),
        ("documents", [{"text": "a"}] * 101),
    ],
)
def test_what_is_not_done_is_refused(client: OpenAI, field: str, value: Any) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="llm", messages=said(QUESTION), extra_body={field: value})
    assert refused.value.param == field or (refused.value.param or "").startswith(f"{field}.")
    assert refused.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        said(" "),
        said(QUESTION, "180 euros"),
        [{"role": "tool", "content": "x", "tool_call_id": "1"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    ],
    ids=["none", "blank", "answered", "tool", "picture"],
)
def test_messages_without_a_question_are_refused(client: OpenAI, messages: Any) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="llm", messages=messages)
    assert (refused.value.param or "").startswith("messages")


def test_fields_of_no_meaning_are_ignored(client: OpenAI) -> None:
    plain = client.chat.completions.create(model="llm", messages=said(QUESTION))
    more = client.chat.completions.create(
        model="llm", messages=said(QUESTION), user="u", n=1, tools=[], reasoning_effort="low", seed=3
    )
    assert more.choices[0].message.content == plain.choices[0].message.content


def test_another_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4o", messages=said(QUESTION))
    assert missing.value.code == "model_not_found"
    assert "llm" in missing.value.message


def test_a_question_the_window_cannot_hold_is_refused_also_in_a_stream(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="window"):
        client.chat.completions.create(model="llm", messages=said("word " * 3900), stream=True)
    with pytest.raises(openai.APIStatusError) as large:
        client.chat.completions.create(model="llm", messages=said("word " * 30_000))
    assert large.value.status_code == 413


@pytest.mark.parametrize("token", ["", "wrong", f"{TOKEN}x", "wörng"])
def test_a_wrong_token_is_refused(server: Server, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
    status, told = request(server, "GET", "/search?query=boats", headers=headers)
    assert (status, told["error"]["code"]) == (401, "invalid_api_key")
    if token.isascii() and token:
        with server.client(api_key=token) as client, pytest.raises(openai.AuthenticationError):
            client.models.list()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"[]", {}, 400),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', {}, 200),
        (b'{"messages": "hello"}', {}, 400),
        (b'{"messages": [], "messages": 1e999}', {}, 400),
        (b"x" * (2 << 20), {}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 415),
    ],
    ids=["empty", "cut", "no UTF-8", "deep", "a list", "half a pair", "text", "twice", "large", "type"],
)
def test_garbage_is_one_error(server: Server, body: bytes, headers: dict[str, str], status: int) -> None:
    got, told = request(server, "POST", "/v1/chat/completions", body, headers)
    assert got == status
    assert "choices" in told if status == 200 else told["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example:80"}, 403),
        ({"Host": "localhost"}, 200),
        ({"Host": "[::1]:99"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
    ids=lambda value: str(value),
)
def test_pages_of_other_sites_may_not_ask(server: Server, headers: dict[str, str], status: int) -> None:
    assert request(server, "GET", "/health", headers=headers)[0] == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/health", 405),
        ("GET", "/search", 400),
        ("GET", "/search?query=%20", 400),
        ("GET", "/search?query=x&top_k=0", 400),
        ("GET", "/search?query=x&types=pdf", 400),
        ("GET", "/v1/models/none", 404),
    ],
)
def test_other_addresses_are_errors_of_the_same_shape(
    server: Server, method: str, path: str, status: int
) -> None:
    got, told = request(server, method, path)
    assert (got, set(told["error"])) == (status, {"message", "type", "param", "code"})


# --- how it ends; the last test of this file ---------------------------------------------------------------


def test_ctrl_c_ends_an_answer_with_an_error_and_the_process_with_0(server: Server, client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="llm", messages=said(QUESTION), max_tokens=3500, stream=True
    )
    next(iter(stream))
    server.process.send_signal(signal.SIGINT)
    with pytest.raises(openai.APIError, match="shutting down"):
        list(stream)
    client.close()
    assert server.process.wait(30) == 0
    assert server.process.stderr is not None
    assert server.process.stderr.read() == ""

"""Servers that misbehave: each ends in one line with what mends it, and nothing is told to others."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.remote.fake_server import ONE_MODEL, Asked, FakeServer, Line, Say, saying, serving

KEY = "sesame-open-0123456789"


def ask(ragla: Ragla, world: World, fake: FakeServer, *more: str) -> Any:
    return ragla("ask", QUESTION, *world.flags, *fake.flags, *more)


def check_one_line(result: Any, code: int, *words: str) -> None:
    """One line of error, a hint, the exit code."""
    lines = result.stderr.splitlines()
    assert result.exit_code == code, result.output
    assert [line for line in lines if line.startswith("error: ")] == lines[-2:-1] or len(lines) == 1, lines
    for word in words:
        assert word in result.stderr


def status(line: str, document: Any, *headers: str) -> Say:
    return lambda to, asked: to.json(line, document, *headers)


def page(line: Line, asked: Asked) -> None:
    line.head("200 OK", "text/html")
    line.write(b"<html><title>Welcome</title></html>")


def cuts(line: Line, asked: Asked) -> None:
    line.head()
    line.piece("The hotel limit ")


def cuts_a_chunk(line: Line, asked: Asked) -> None:
    line.head("200 OK", "text/event-stream", "Transfer-Encoding: chunked")
    line.write(b"ff\r\ndata: {")


def garbage(line: Line, asked: Asked) -> None:
    line.head()
    line.write(b"data: \xff\xfe{]\n\n")


def no_list(line: Line, asked: Asked) -> None:
    line.head()
    for data in (
        "[1, 2]",
        '{"choices": 7}',
        '{"choices": [null]}',
        '{"choices": [{"delta": {"content": 3}}]}',
    ):
        line.write(f"data: {data}\n\n".encode())


def other_json(line: Line, asked: Asked) -> None:
    line.json("200 OK", {"choices": {"delta": "no"}, "usage": [1]})


def closes(line: Line, asked: Asked) -> None:
    pass


def dribbles(line: Line, asked: Asked) -> None:
    """A head that never ends."""
    line.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        line.write(b"x")
        time.sleep(0.05)


def comments(line: Line, asked: Asked) -> None:
    """A sign of life now and then, and nothing else."""
    line.head()
    while True:
        line.write(b": still here\n\n")
        time.sleep(0.05)


def no_http(line: Line, asked: Asked) -> None:
    line.write(b"220 mail.example.org ESMTP\r\n")


def huge_event(line: Line, asked: Asked) -> None:
    line.head()
    line.write(b"data: " + b"x" * (2 << 20) + b"\n\n")


def error_within(line: Line, asked: Asked) -> None:
    line.head()
    line.piece("The hotel ")
    line.event({"error": {"message": f"CUDA out of memory \x1b[2J {KEY}", "code": 500}})


def without_text(content: Any, reason: str | None) -> Say:
    """An answer that has ended, with something else than text."""

    def say(line: Line, asked: Asked) -> None:
        line.head()
        line.event({"choices": [{"delta": {"content": content}, "finish_reason": reason}]})
        line.write(b"data: [DONE]\n\n")

    return say


def ended_at_once(line: Line, asked: Asked) -> None:
    line.head()
    line.write(b"data: [DONE]\n\n")


FAULTS: dict[str, tuple[Say, int, tuple[str, ...]]] = {
    "page": (page, 5, ("sent text/html, no chat completion", "decode.remote_url")),
    "cuts": (cuts, 5, ("broke off after 16 characters of the answer",)),
    "cuts a chunk": (cuts_a_chunk, 5, ("broke off",)),
    "garbage": (garbage, 5, ("no JSON object",)),
    "no list": (no_list, 5, ("no chat completion",)),
    "no object": (other_json, 5, ("ended the answer before its first word",)),
    "no event": (lambda line, asked: line.head(), 5, ("before its first word", "decode.remote_window=N")),
    "tool": (without_text(None, "tool_calls"), 5, ("gave no answer: it wants to call a tool",)),
    "number": (without_text(7, "stop"), 5, ("gave no answer: no text came (it ended with stop)",)),
    "picture": (without_text([{"type": "image_url"}], None), 5, ("gave no answer: no text came",)),
    "blank": (without_text(" \n", "length"), 5, ("no text came (it ended with length)",)),
    "ended at once": (ended_at_once, 5, ("gave no answer: no text came",)),
    "204": (status("204 No Content", {}), 5, ("sent 204 No Content, no chat completion",)),
    "closes": (closes, 5, ("broke off",)),
    "no http": (no_http, 5, ("broke off",)),
    "huge event": (huge_event, 5, ("an event that is too large",)),
    "error within": (error_within, 5, ("ended the answer: CUDA out of memory",)),
    "401": (
        status("401 Unauthorized", {"error": {"message": f"bad key {KEY}"}}),
        5,
        ("does not take the key",),
    ),
    "404": (status("404 Not Found", {"error": "no such model"}), 5, ("no such model", "it has parrot-7b")),
    "400": (
        status("400 Bad Request", {"detail": "top_k: no"}),
        1,
        ("refuses the request: 400 Bad Request: top_k",),
    ),
    "too long": (
        status("400 Bad Request", {"message": "This model's maximum context length is 512 tokens"}),
        1,
        ("the prompt is too long", "--set decode.remote_window=N"),
    ),
    "500": (status("500 Internal Server Error", "oh"), 5, ("failed: 500 Internal Server Error: oh",)),
    "599": (status("599 What", {}), 5, ("failed: 599 unknown status",)),
    "redirect": (
        status("307 Temporary Redirect", {}, "Location: http://user:pw@example.org:81/v1?key=x"),
        5,
        ("redirects to http://example.org:81/v1", "the key is sent nowhere else"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_and_the_key_stays_secret(
    ragla: Ragla, world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say, code, words = FAULTS[name]
    monkeypatch.setenv("MY_SERVER", KEY)
    with serving(say) as fake:
        result = ask(ragla, world, fake, "-s", "decode.remote_key_env=MY_SERVER")
    check_one_line(result, code, *words)
    assert [asked.headers["authorization"] for asked in fake.asked] == [f"Bearer {KEY}"] * 2  # asked once
    for secret in (KEY, "user:pw", "\x1b"):
        assert secret not in result.output + result.stderr


def test_nobody_is_told_the_key_however_much_is_said(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tracebacks, settings and recordings name where the key is, never the key."""
    monkeypatch.setenv("MY_SERVER", KEY)
    named = ("-s", "decode.remote_key_env=MY_SERVER")
    recorded = tmp_path / "r.json"
    with serving(closes, cuts, error_within, no_http, saying("180 euros")) as fake:
        for _ in range(4):
            result = ragla("--debug", "ask", QUESTION, *world.flags, *fake.flags, *named)
            assert result.exit_code == 5
            assert "Traceback" in result.stderr
            assert KEY not in result.stderr
        assert ask(ragla, world, fake, *named, "-v", "--record", recorded).exit_code == 0
        shown = ragla("config", "show", *world.flags[2:], *fake.flags, *named)
    assert fake.asked[-1].headers["authorization"] == f"Bearer {KEY}"
    assert "MY_SERVER" in shown.stdout
    assert KEY not in shown.output + recorded.read_text(encoding="utf-8")
    told = ragla("ask", QUESTION, *world.flags, *fake.flags, "-s", f"decode.remote_key_env={KEY}")
    check_one_line(told, 2, "names a variable")
    assert KEY not in told.output + told.stderr


def test_a_key_that_is_quoted_in_an_answer_is_hidden(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_SERVER", KEY)
    recorded = tmp_path / "r.json"
    with serving(saying("The key is ", KEY[:9], KEY[9:], " and ses")) as fake:
        result = ask(ragla, world, fake, "-s", "decode.remote_key_env=MY_SERVER", "--record", recorded)
    assert result.stdout == "The key is *** and ses\n"
    assert KEY not in result.stderr + recorded.read_text(encoding="utf-8")


def test_no_text_is_no_word_about_the_documents(ragla: Ragla, world: World, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    asked = {"question": QUESTION, "reference": "180 euros"}
    questions.write_text(json.dumps(asked) + "\n", encoding="utf-8")
    with serving(without_text(None, "tool_calls")) as fake:
        flags = (*world.flags, *fake.flags)
        many = ragla("ask", "--file", questions, *flags, "--jsonl")
        talk = ragla("chat", *flags, "--jsonl", stdin=f"{QUESTION}\n")
        judged = ragla("eval", questions, *flags)
    for result in (many, talk, judged):
        assert result.exit_code == 5, result.output
        assert "it wants to call a tool" in result.stdout + result.stderr
        assert "do not answer" not in result.stdout + result.stderr


def test_settings_are_shown_without_what_is_secret_in_them(ragla: Ragla, world: World) -> None:
    for setting in (
        "decode.remote_url=http://u:secretpw@h/v1",
        "decode.remote_url=https://h/v1?api_key=secretpw",
        "retrieve.milvus_uri=https://root:secretpw@h/n",
        "decode.remote_key_env=secretpw-1",
        "retrieve.milvus_token_env=root:secretpw",
    ):
        for more in ([], ["--json"]):
            shown = ragla("config", "show", "-s", setting, *more)
            assert shown.exit_code == 0
            assert "***" in shown.stdout
            assert "secretpw" not in shown.output + shown.stderr


def test_a_redirect_is_not_followed_by_the_key(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVER", KEY)
    with serving(saying("yes")) as other:
        to = f"Location: {other.url}/models"
        for code in (
            "301 Moved Permanently",
            "302 Found",
            "307 Temporary Redirect",
            "308 Permanent Redirect",
        ):
            moved = status(code, {}, to)
            for says, models in ((moved, ONE_MODEL), (saying("yes"), moved)):
                with serving(says, models=models) as fake:
                    result = ask(ragla, world, fake, "-s", "decode.remote_key_env=MY_SERVER")
                check_one_line(result, 5, f"redirects to {other.url}/models", "the key is sent nowhere else")
        assert other.asked == []


def test_a_fault_is_a_document_too(ragla: Ragla, world: World) -> None:
    with serving(cuts) as fake:
        told = document(ask(ragla, world, fake, "--json"))
    assert (told["schema"], told["exit_code"]) == ("ragla.error/1", 5)


def test_an_answer_that_had_ended_needs_no_more(ragla: Ragla, world: World) -> None:
    def no_figures(line: Line, asked: Asked) -> None:
        line.head("200 OK", "text/event-stream", "Transfer-Encoding: chunked")
        event = {"choices": [{"delta": {"content": "180 euros"}, "finish_reason": "the_moon_is_full"}]}
        data = f"data: {json.dumps(event)}\n\n"
        line.write(f"{len(data):x}\r\n{data}\r\n".encode())

    with serving(no_figures) as fake:
        result = ask(ragla, world, fake)
    assert (result.exit_code, result.stdout) == (0, "180 euros\n")


def test_an_answer_without_end_is_ended(ragla: Ragla, world: World) -> None:
    def writes_on(line: Line, asked: Asked) -> None:
        line.head()
        while True:
            line.piece("and so on ")

    with serving(writes_on) as fake:
        told = document(ask(ragla, world, fake, "--json"))
        assert fake.hung_up.wait(10)
    assert told["answer"].startswith("and so on and so on")
    assert any("beyond decode.max_new_tokens" in notice for notice in told["notices"])


def test_silence_is_not_waited_for_for_ever(ragla: Ragla, world: World) -> None:
    def mumbles(line: Line, asked: Asked) -> None:
        line.head()
        while True:
            line.piece("")
            time.sleep(0.02)

    impatient = ("-s", "decode.remote_read_s=0.3", "-s", "decode.remote_connect_s=0.2")
    with serving(lambda line, asked: line.closed_by_client(), mumbles, comments, dribbles) as fake:
        for _ in range(4):
            result = ask(ragla, world, fake, *impatient)
            check_one_line(result, 5, "wrote nothing for 0.3 s", "--set decode.remote_read_s=0.6")
    for never in (dribbles, lambda line, asked: line.closed_by_client()):
        with serving(saying("yes"), models=never) as fake:
            check_one_line(ask(ragla, world, fake, *impatient), 5, "wrote nothing for 0.3 s")


def test_a_pause_that_was_asked_for_is_no_silence(ragla: Ragla, world: World) -> None:
    busy = status("429 Too Many Requests", {}, "Retry-After: 1")
    with serving(busy, saying("180 euros")) as fake:
        result = ask(ragla, world, fake, "-s", "decode.remote_read_s=0.4")
    assert (result.exit_code, result.stdout) == (0, "180 euros\n")
    assert "asked again in 1 s" in result.stderr


# --- asked again ------------------------------------------------------------------------------------------


def test_a_busy_server_is_asked_again_when_it_says(ragla: Ragla, world: World) -> None:
    busy = status("429 Too Many Requests", {"error": {"message": "later"}}, "Retry-After: 0")
    with serving(busy, saying("180 euros")) as fake:
        assert ask(ragla, world, fake).stdout == "180 euros\n"
    assert len(fake.bodies) == 2
    with serving(busy) as fake:
        check_one_line(ask(ragla, world, fake), 5, "is busy: 429 Too Many Requests: later")
    assert len(fake.bodies) == 2
    patient = status("503 Service Unavailable", {}, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT")
    with serving(patient) as fake:
        check_one_line(ask(ragla, world, fake), 5, "is busy: 503")
    assert len(fake.bodies) == 1


def test_nothing_is_asked_again_once_an_answer_has_begun(ragla: Ragla, world: World) -> None:
    with serving(cuts, saying("180 euros")) as fake:
        result = ask(ragla, world, fake)
    assert (result.exit_code, result.stdout, len(fake.bodies)) == (5, "The hotel limit\n", 1)


def test_a_server_that_is_not_there(ragla: Ragla, world: World) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    there = ("-s", "decode.backend=remote", "-s", f"decode.remote_url={url}", "-s", "decode.remote_retries=0")
    result = ragla("ask", QUESTION, *world.flags, *there)
    check_one_line(result, 5, "cannot be reached: Connection refused", "start it, or name another")
    looked = document(ragla("doctor", *world.flags, *there, "--json"))
    said = {one["name"]: one for one in looked["environment"]}
    assert said["model"]["state"] == "wrong"
    assert said["network"]["said"].startswith("not needed but to reach the server")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "/no/such.pem"),
        ("SSL_CERT_FILE", __file__),
        ("HTTPS_PROXY", "foo://me:pass-word@x"),
        ("ALL_PROXY", "socks5://127.0.0.1:1"),
        ("HTTPS_PROXY", "http://[::1"),
    ],
)
def test_proxies_and_certificates_that_are_none(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for other in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    far = ("-s", "decode.backend=remote", "-s", "decode.remote_url=https://192.0.2.1/v1")
    result = ragla("ask", QUESTION, *world.flags, *far)
    check_one_line(result, 2, "proxies or certificates of the environment", name)
    assert "pass-word" not in result.stderr


def test_no_proxy_is_asked_for_a_server_on_this_machine(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(saying("180 euros")) as fake:
        assert ask(ragla, world, fake).stdout == "180 euros\n"


# --- models and settings ----------------------------------------------------------------------------------


def test_a_list_of_models_that_is_none(ragla: Ragla, world: World) -> None:
    several = {"data": [{"id": "one"}, {"id": "two"}, {"id": 3}, "four"]}
    with serving(saying("yes"), models=several) as fake:
        check_one_line(ask(ragla, world, fake), 2, "has several models: one, two", "decode.remote_model=one")
        assert ask(ragla, world, fake, "-s", "decode.remote_model=two").exit_code == 0
    for models in ([], {"data": {}}, page, status("404 Not Found", {})):
        with serving(saying("yes"), models=models) as fake:
            check_one_line(ask(ragla, world, fake), 5, "names no model", "decode.remote_model=NAME")
            assert ask(ragla, world, fake, "-s", "decode.remote_model=two").exit_code == 0
    with serving(saying("yes"), models=status("401 Unauthorized", {})) as fake:
        check_one_line(ask(ragla, world, fake), 5, "asks for a key", "decode.remote_key_env=VARIABLE")


WRONG = {
    "ftp://host/v1": "is no address of a server",
    "host:8000": "is no address of a server",
    "http://": "is no address of a server",
    "http://[::1": "no address of a server",
    "http://host:99999/v1": "no address of a server",
    "http://me:secret@host/v1": "a name or password does not belong into an address",
    "http://host/v1?x=secret": "leave away what follows the path",
    "": "needs the address of a server",
}


@pytest.mark.parametrize("url", WRONG)
def test_an_address_that_is_none(ragla: Ragla, world: World, url: str) -> None:
    result = ragla(
        "ask", QUESTION, *world.flags, "-s", "decode.backend=remote", "-s", f"decode.remote_url={url}"
    )
    check_one_line(result, 2, WRONG[url])
    assert "secret" not in result.stderr


def test_a_key_comes_from_a_variable_or_a_file(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    named = ("-s", f"decode.remote_key_file={file}")
    with serving(saying("yes")) as fake:
        check_one_line(ask(ragla, world, fake, *named), 2, "cannot be read")
        for content in (b"", b"two words\n", b"\xff\xfe", "schlüssel".encode()):
            file.write_bytes(content)
            check_one_line(ask(ragla, world, fake, *named), 2, "decode.remote_key_file")
        file.write_text(f"{KEY}\n")
        assert ask(ragla, world, fake, *named).exit_code == 0
        assert fake.asked[-1].headers["authorization"] == f"Bearer {KEY}"
        check_one_line(
            ask(ragla, world, fake, "-s", "decode.remote_key_env=NO_SUCH"), 2, "NO_SUCH is not set"
        )
        monkeypatch.setenv("MY_SERVER", KEY)
        both = ask(ragla, world, fake, *named, "-s", "decode.remote_key_env=MY_SERVER")
        check_one_line(both, 2, "which of them")


NEEDS_A_MODEL_HERE = {
    "ask": (["--verify"], ["--exact"], ["--trace"], ["--no-reuse"], ["--check-answerable"],
            ["-s", "decode.bad_words=[maybe]"], ["-s", "decode.min_new_tokens=4"]),
    "bench": ([],),
    "serve": (["--port", "0"],),
}  # fmt: skip


@pytest.mark.parametrize("command", NEEDS_A_MODEL_HERE)
def test_what_needs_a_model_here_says_so(ragla: Ragla, world: World, tmp_path: Path, command: str) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"question": QUESTION}) + "\n", encoding="utf-8")
    what = {"ask": [QUESTION], "bench": ["--questions", str(questions)]}.get(command, [])
    with serving(saying("yes")) as fake:
        for more in NEEDS_A_MODEL_HERE[command]:
            result = ragla(command, *what, *world.flags, *fake.flags, *more)
            check_one_line(result, 2, "needs a model on this machine", "--set decode.backend=auto")
    assert fake.bodies == []


def test_a_folder_of_somebody_else_names_no_server(ragla: Ragla, world: World, elsewhere: Path) -> None:
    for key in ("remote_url", "remote_key_env", "remote_key_file"):
        (elsewhere / "ragla.yaml").write_text(f"decode:\n  {key}: http://example.org/v1\n")
        result = ragla("ask", QUESTION, *world.flags)
        check_one_line(result, 2, f"decode.{key} may not be set by a project file")

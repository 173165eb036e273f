"""A model elsewhere answers: the commands, flags and documents are those of a model here."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults
from tests.remote.fake_server import Asked, FakeServer, Line, saying, serving

COPIED = "The hotel limit in Paris is 180 euros a night, breakfast included."
USAGE = {"prompt_tokens": 200, "completion_tokens": 21, "prompt_tokens_details": {"cached_tokens": 64}}


def flags(world: World, fake: FakeServer, *more: str) -> list[str]:
    return [*world.flags, *fake.flags, *more]


def test_a_streamed_answer_with_its_sources(ragla: Ragla, world: World) -> None:
    with serving(
        saying("  The hotel limit in Paris is 180 eu", f"ros{COPIED[34 + 3 :]} [1]", usage=USAGE)
    ) as fake:
        result = ragla("ask", QUESTION, *flags(world, fake))
        told = document(ragla("ask", QUESTION, *flags(world, fake), "--json"))
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{COPIED} [1]\n"
    assert "copied" in result.stderr
    assert "21 tokens" in result.stderr
    assert "tokens/step" not in result.stderr
    assert faults(told) == []
    assert told["answer"] == f"{COPIED} [1]"
    assert told["remote"] is True
    [cited] = [source for source in told["sources"] if source["cited"]]
    [span] = told["provenance"]
    assert (told["answer"][span["start"] : span["end"]], span["path"]) == (COPIED, cited["path"])
    assert (told["stats"]["tokens"], told["stats"]["reused_tokens"]) == (21, 64)
    assert told["stats"]["tokens_per_step"] is told["stats"]["steps"] is cited["copied_tokens"] is None


def test_what_is_sent_is_the_prompt_of_a_model_here(ragla: Ragla, world: World) -> None:
    with serving(saying("yes")) as fake:
        assert ragla("ask", QUESTION, *flags(world, fake)).exit_code == 0
        sampled = ("-s", "decode.temperature=0.5", "-s", "decode.seed=3", "-s", "decode.stop=[END]")
        ragla("ask", QUESTION, *flags(world, fake, *sampled, "-s", "decode.top_k=9"))
    plain, other = fake.bodies
    assert [message["role"] for message in plain["messages"]] == ["system", "user"]
    user = plain["messages"][1]["content"]
    assert user.startswith('<passage number="1"')
    assert COPIED in user
    assert f"</passage>\n\nQuestion: {QUESTION}\n\nQuote the sentences" in user
    assert "<|im_end|>" not in user  # a passage has one
    assert "< |im_end|>" in user
    assert (plain["model"], plain["max_tokens"], plain["temperature"], plain["stream"]) == (
        "parrot-7b", 24, 0.0, True,
    )  # fmt: skip
    assert not plain.keys() & {"seed", "stop", "documents"}
    assert (other["temperature"], other["seed"], other["stop"], other["top_k"]) == (0.5, 3, ["END"], 9)


PLAINLY = {"top_p": 1.0, "min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}


@pytest.mark.parametrize(
    ("owner", "plain", "changed"),
    [
        ("vllm", PLAINLY | {"top_k": -1, "repetition_penalty": 1.0}, {"top_k": 9, "repetition_penalty": 1.2}),
        ("sglang", PLAINLY | {"top_k": -1, "repetition_penalty": 1.0}, {"top_k": 9}),
        ("llamacpp", PLAINLY | {"top_k": 0, "repeat_penalty": 1.0}, {"top_k": 9, "repeat_penalty": 1.2}),
        ("me", PLAINLY | {"top_k": 0, "repeat_penalty": 1.0}, {"repeat_penalty": 1.2}),
        ("somebody", {}, {"top_k": 9, "repetition_penalty": 1.2}),
        (["odd"], {}, {"top_k": 9}),
    ],
)
def test_no_default_of_a_server_changes_the_text(
    ragla: Ragla, world: World, owner: object, plain: dict[str, float], changed: dict[str, float]
) -> None:
    """A repetition penalty that a server takes from a model's files would spoil quotes."""
    models = {"data": [{"id": "m", "owned_by": owner}]}
    with serving(saying("yes"), models=models) as fake:
        assert ragla("ask", QUESTION, *flags(world, fake)).exit_code == 0
        more = ("-s", "decode.top_k=9", "-s", "decode.repetition_penalty=1.2")
        assert ragla("ask", QUESTION, *flags(world, fake, *more)).exit_code == 0
    about = ("top_k", "repetition_penalty", "repeat_penalty", *PLAINLY)
    first, second = ({name: body[name] for name in about if name in body} for body in fake.bodies)
    assert first == plain
    assert second.items() >= changed.items()


def test_figures_of_drafts_where_a_server_tells_them(ragla: Ragla, world: World) -> None:
    drafts = {"num_spec_steps": 3, "num_accepted_draft_tokens": 15, "num_draft_tokens": 30}
    vllm = saying(COPIED, usage=USAGE, metrics={"speculative_decoding": drafts})
    llamacpp = saying(
        COPIED, timings={"predicted_n": 21, "predicted_ms": 500.0, "draft_n": 30, "draft_n_accepted": 15}
    )
    with serving(vllm, vllm, llamacpp) as fake:
        shown = ragla("ask", QUESTION, *flags(world, fake)).stderr
        told = [document(ragla("ask", QUESTION, *flags(world, fake), "--json")) for _ in range(2)]
    assert "21 tokens in 5 steps · 4.0 tokens/step" in shown
    for stats in (one["stats"] for one in told):
        assert (stats["tokens"], stats["steps"], stats["tokens_per_step"]) == (21, 5, 4.0)
        assert (stats["drafted"], stats["accepted"]) == (30, 15)
    assert (told[1]["stats"]["decode_s"], told[1]["stats"]["decode_tokens_per_s"]) == (0.5, 40.0)


def test_nothing_is_zero_where_a_server_counts_nothing(ragla: Ragla, world: World) -> None:
    with serving(saying(COPIED)) as fake:
        result = ragla("ask", QUESTION, *flags(world, fake))
        told = document(ragla("ask", QUESTION, *flags(world, fake), "--json"))
    assert "token " not in result.stderr.replace("first token ", "")
    measured = {key for key, value in told["stats"].items() if value is not None}
    assert measured == {"ttft_s", "retrieval_s", "decode_s"}
    assert told["steps"] == []


FLAGS = (
    ["--explain"],
    ["--plain"],
    ["--path", "*.md"],
    ["--type", "md", "-v"],
    ["--path", "no/such/folder/"],
    ["--set", "retrieve.relevance_floor=0.99"],
    ["--set", "retrieve.top_k=1", "--set", "decode.max_new_tokens=4"],
)


@pytest.mark.parametrize("more", FLAGS, ids=" ".join)
def test_flags_and_documents_are_those_of_a_model_here(ragla: Ragla, world: World, more: list[str]) -> None:
    here = ragla("ask", QUESTION, *world.flags, *more, "--json")
    with serving(saying(COPIED, usage=USAGE)) as fake:
        there = ragla("ask", QUESTION, *flags(world, fake, *more), "--json")
    mine, other = document(here), document(there)
    assert there.exit_code == here.exit_code
    assert faults(other) == []
    assert other.keys() == mine.keys()
    for key in ("stats", "explain"):
        assert mine.get(key, {}).keys() == other.get(key, {}).keys()
    for key in ("path", "first_line", "score", "stale"):
        assert [one[key] for one in other.get("sources", ())] == [one[key] for one in mine.get("sources", ())]


def test_a_response_in_one_piece(ragla: Ragla, world: World) -> None:
    def whole(line: Line, asked: Asked) -> None:
        message = {"role": "assistant", "content": COPIED}
        line.json("200 OK", {"choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE})

    with serving(whole) as fake:
        result = ragla("ask", QUESTION, *flags(world, fake))
    assert (result.exit_code, result.stdout) == (0, f"{COPIED}\n")


def test_characters_come_whole(ragla: Ragla, world: World) -> None:
    """Bytes are cut within characters, and JSON spells halves of a pair in two events."""

    def cut(line: Line, asked: Asked) -> None:
        line.head()
        event = {"choices": [{"delta": {"content": "差旅 über "}}]}
        for byte in f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n".encode():
            line.write(bytes([byte]))
        line.write(b'data:{"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n')
        line.write(b': a word between\n\ndata: {"choices":[{"delta":\ndata: {"content":"\\ude00"}}]}\n\n')
        line.done()

    with serving(cut) as fake:
        told = document(ragla("ask", QUESTION, *flags(world, fake), "--json"))
    assert told["answer"] == "差旅 über 😀"


def test_no_answer_in_the_documents(ragla: Ragla, world: World) -> None:
    thinking = {"choices": [{"delta": {"reasoning_content": "hm " * 9}}]}

    def thinks(line: Line, asked: Asked) -> None:
        line.head()
        line.event(thinking)
        line.done()

    with serving(saying("The passages do not mention that."), thinks) as fake:
        refused = ragla("ask", QUESTION, *flags(world, fake))
        thought = ragla("ask", QUESTION, *flags(world, fake))
    assert (refused.exit_code, thought.exit_code) == (4, 4)
    assert thought.stdout == "The documents do not answer this question.\n"
    assert "thought without answering" in thought.stderr


def test_a_conversation_goes_on(ragla: Ragla, world: World, tmp_path: Path) -> None:
    own = world.with_index_of_its_own(tmp_path / "index")
    with serving(saying(COPIED), saying("And 190 in Rome.")) as fake:
        ragla("ask", QUESTION, *flags(own, fake))
        told = document(ragla("ask", "And in Rome?", *flags(own, fake), "--continue", "--json"))
        lines = ragla("chat", *flags(own, fake), "--jsonl", stdin=f"{QUESTION}\nAnd in Rome?\n").stdout
    assert told["conversation"] == {"turns": 1}
    for body in (fake.bodies[1], fake.bodies[3]):
        assert f"Earlier question: {QUESTION}" in body["messages"][1]["content"]
    assert len(lines.splitlines()) == 2


def test_questions_of_a_file_and_of_an_evaluation(ragla: Ragla, world: World, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"question": QUESTION, "reference": COPIED}) + "\n", encoding="utf-8")
    with serving(saying(COPIED)) as fake:
        lines = ragla("ask", "--file", questions, *flags(world, fake), "--jsonl").stdout.splitlines()
        measured = document(ragla("eval", questions, *flags(world, fake), "--json"))
        shown = ragla("eval", questions, *flags(world, fake)).stdout
        refused = ragla("eval", questions, *flags(world, fake), "--decoders", "greedy")
    assert [json.loads(line)["answer"] for line in lines] == [COPIED]
    assert faults(measured) == []
    assert measured["answers"]["remote"]["f1"] == 1.0
    assert measured["conditions"]["model"] == fake.url
    [row] = [line for line in shown.splitlines() if line.startswith("remote")]
    assert row.split()[-1] == "–"
    assert (refused.exit_code, len(fake.bodies)) == (2, 3)


def test_the_model_flag_names_the_server_s_model(ragla: Ragla, world: World) -> None:
    with serving(saying("yes")) as fake:
        assert ragla("ask", QUESTION, *flags(world, fake, "--model", "another")).exit_code == 0
    assert fake.bodies[0]["model"] == "another"


def test_the_window_bounds_prompt_and_answer(ragla: Ragla, world: World) -> None:
    said = [
        {"data": [{"id": "m", "max_model_len": 320}]},
        {"data": [{"id": "m", "meta": {"n_ctx": 320}, "owned_by": "llamacpp"}]},
    ]
    for models in said:
        with serving(saying("yes"), models=models) as fake:
            told = document(
                ragla("ask", QUESTION, *flags(world, fake, "-s", "decode.max_new_tokens=999"), "--json")
            )
        assert told["left_out"]
        assert 80 <= fake.bodies[0]["max_tokens"] < 120  # a quarter at least
    with serving(saying("yes"), models=said[0]) as fake:
        large = flags(world, fake, "-s", "decode.remote_window=9000", "-s", "decode.max_new_tokens=999")
        assert document(ragla("ask", QUESTION, *large, "--json"))["left_out"] == []
        small = ragla("ask", QUESTION, *flags(world, fake, "-s", "decode.remote_window=100"))
    assert fake.bodies[0]["max_tokens"] == 999
    assert small.exit_code == 2
    assert "the model's window 100" in small.stderr


@pytest.mark.usefixtures("heard_interrupts")
def test_an_interrupt_ends_the_stream(ragla: Ragla, world: World) -> None:
    gone: list[bool] = []

    def stays(line: Line, asked: Asked) -> None:
        line.head()
        line.piece("The hotel limit ")
        os.kill(os.getpid(), signal.SIGINT)
        gone.append(line.closed_by_client())

    def says_nothing(line: Line, asked: Asked) -> None:
        line.head()
        line.write(b": waiting\n\n")
        os.kill(os.getpid(), signal.SIGINT)
        gone.append(line.closed_by_client())

    with serving(stays, says_nothing) as fake:
        told = ragla("ask", QUESTION, *flags(world, fake), "--json")
        nothing = ragla("ask", QUESTION, *flags(world, fake))
        end = time.monotonic() + 20
        while len(gone) < 2 and time.monotonic() < end:
            time.sleep(0.01)
    assert (told.exit_code, nothing.exit_code, gone) == (130, 130, [True, True])
    assert nothing.stdout == ""

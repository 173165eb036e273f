"""What the command says when all goes well, where it says it, and the documents that scripts read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ragla import __version__
from ragla.cli import app
from tests.cli.tiny_world import QUESTION, Ragla, World, document

COMMANDS = [
    [],
    ["index"],
    ["info"],
    ["doctor"],
    ["remove"],
    ["search"],
    ["ask"],
    ["replay"],
    ["chat"],
    ["bench"],
    ["eval"],
    ["why-not"],
    ["answers"],
    ["answers", "list"],
    ["answers", "remove"],
    ["answers", "clear"],
    ["serve"],
    ["models"],
    ["models", "list"],
    ["models", "pull"],
    ["models", "path"],
    ["config"],
    ["config", "show"],
]


# --- what succeeds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(ragla: Ragla, words: list[str]) -> None:
    result = ragla(*words, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout
    assert result.stderr == ""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    for parameter in command.params:
        for option in parameter.opts:
            assert option in result.stdout or not option.startswith("--")


def test_the_commands_above_are_all(ragla: Ragla) -> None:
    root: Any = typer.main.get_command(app)
    assert set(root.commands) == {words[0] for words in COMMANDS if words}
    for group in ("answers", "models", "config"):
        names = {words[1] for words in COMMANDS if words[:1] == [group] and len(words) == 2}
        assert set(root.commands[group].commands) == names


def test_version(ragla: Ragla) -> None:
    assert ragla("--version").stdout == f"ragla {__version__}\n"


def test_indexing_twice_reads_nothing_the_second_time(ragla: Ragla, world: World, tmp_path: Path) -> None:
    flags = ["--index", tmp_path / "new", "--profile", world.profile, "--json"]
    first, second = document(ragla("index", world.docs, *flags)), document(ragla("index", *flags))
    assert first["schema"] == "ragla.index/1"
    assert set(first) == {
        "schema", "index", "indexed", "unchanged", "removed", "skipped", "remarks", "passages",
        "total_passages", "seconds",
    }  # fmt: skip
    assert (first["indexed"], first["unchanged"]) == (4, 0)
    assert (second["indexed"], second["unchanged"]) == (0, 4)
    assert first["index"] == str(tmp_path / "new")
    assert first["total_passages"] == second["total_passages"] == first["passages"] >= 4


def test_index_says_what_it_did_on_stderr(ragla: Ragla, world: World, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "empty.md").write_text("")
    (tmp_path / "docs" / "one.md").write_text("The pier is open.\n")
    result = ragla("index", tmp_path / "docs", "--index", tmp_path / "new", "--profile", world.profile)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert re.match(r"1 indexed, 0 unchanged, 0 removed, 1 skipped · 1 passage in ", result.stderr)
    assert "empty.md: " in result.stderr


def test_search_shows_passages_best_first(ragla: Ragla, world: World) -> None:
    found = document(ragla("search", QUESTION, *world.flags, "--json"))
    assert (found["schema"], found["query"]) == ("ragla.search/1", QUESTION)
    first = found["passages"][0]
    assert set(first) == {
        "path", "first_line", "last_line", "page", "title", "text", "score", "dense", "lexical",
        "copies",
    }  # fmt: skip
    assert first["path"] == "travel.md"
    lines = (world.docs / "travel.md").read_text().splitlines()
    assert "180 euros" in "\n".join(lines[first["first_line"] - 1 : first["last_line"]])
    scores = [passage["score"] for passage in found["passages"]]
    assert scores == sorted(scores, reverse=True)
    assert len(document(ragla("search", QUESTION, *world.flags, "--json", "-k", "1"))["passages"]) == 1


def test_search_finds_chinese_text_and_writes_it_as_it_is(ragla: Ragla, world: World) -> None:
    result = ragla("search", "差旅报销发票", *world.flags, "-k", "1")
    assert result.stdout.startswith("[1] 差旅.md:1-3  score ")
    assert "差旅报销需要发票。" in result.stdout


def test_long_lines_are_not_wrapped_off_a_terminal(ragla: Ragla, world: World) -> None:
    line = "The hotel limit in Paris is 180 euros a night, breakfast included."
    assert any(
        line in row and len(row) > 80 for row in ragla("search", QUESTION, *world.flags).stdout.split("\n")
    )


def test_ask_writes_the_answer_to_stdout_and_the_rest_to_stderr(ragla: Ragla, world: World) -> None:
    told = document(ragla("ask", QUESTION, *world.flags, "--json"))
    result = ragla("ask", QUESTION, *world.flags)
    assert result.exit_code == 0
    assert result.stdout.endswith("\n")
    assert re.sub("[\x00-\x1f\x7f-\x9f]", "\ufffd", told["answer"]) == result.stdout[:-1].replace(
        "\n", "\ufffd"
    )
    assert "24 tokens in " in result.stderr
    assert "tokens/step" in result.stderr
    assert result.stdout.strip() not in result.stderr


def test_the_json_of_ask(ragla: Ragla, world: World) -> None:
    result = ragla("ask", QUESTION, *world.flags, "--json")
    answer = document(result)
    assert result.stderr == ""
    assert set(answer) == {
        "schema", "question", "answer", "answered", "interrupted", "sources", "left_out", "stats", "steps",
        "notices", "judged", "provenance", "unsupported", "remote",
    }  # fmt: skip
    assert (answer["schema"], answer["question"], answer["answered"]) == ("ragla.ask/1", QUESTION, True)
    assert answer["answer"] == answer["answer"].strip() != ""
    for source in answer["sources"]:
        assert set(source) == {
            "number", "path", "first_line", "last_line", "score", "cited", "copied_tokens", "copied_share",
            "stale", "stale_reason",
        }  # fmt: skip
        assert (world.docs / source["path"]).is_file()
        assert 1 <= source["first_line"] <= source["last_line"]
    assert [source["number"] for source in answer["sources"]] == list(range(1, len(answer["sources"]) + 1))
    check_numbers(answer["stats"], answer["steps"])


def check_numbers(stats: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """The totals follow from the steps."""
    assert set(stats) == {
        "prompt_tokens", "reused_tokens", "tokens", "steps", "tokens_per_step", "nodes_per_step",
        "decided_alone", "drafted", "accepted", "accepted_share", "copied_share",
        "ttft_s", "retrieval_s", "prefill_s", "decode_s", "decode_tokens_per_s",
    }  # fmt: skip
    for step in steps:
        assert set(step) == {"nodes", "drafted", "accepted", "committed", "forward_s", "draft_s"}
        assert step["nodes"] == step["drafted"] + 1
        assert step["accepted"] <= min(step["drafted"], step["committed"])
        assert step["committed"] in (step["accepted"], step["accepted"] + 1)
    assert stats["tokens"] == 24 == 1 + sum(step["committed"] for step in steps)
    assert stats["steps"] == len(steps)
    assert stats["nodes_per_step"] == pytest.approx(sum(step["nodes"] for step in steps) / len(steps))
    assert (stats["reused_tokens"], stats["decided_alone"]) == (0, 0)
    assert stats["tokens_per_step"] == pytest.approx(23 / len(steps))
    assert stats["drafted"] == sum(step["drafted"] for step in steps)
    assert stats["accepted"] == sum(step["accepted"] for step in steps)
    assert 0 < stats["retrieval_s"] < stats["ttft_s"]
    assert stats["decode_tokens_per_s"] == pytest.approx(23 / stats["decode_s"])


def test_the_model_is_asked_first_whether_the_passages_say_it(ragla: Ragla, world: World) -> None:
    asked = document(ragla("ask", QUESTION, *world.flags, "--check-answerable", "--json"))
    chance = asked["judged"]
    assert 0.0 < chance < 1.0
    assert asked["answered"] == (chance >= 0.5)
    refused = ragla("ask", QUESTION, *world.flags, "--set", "retrieve.judge=1.0")
    assert refused.exit_code == 4
    assert refused.stdout.strip() == "The documents do not answer this question."
    assert f"yes {chance:.2f}, retrieve.judge asks for 1.00" in refused.stderr


@pytest.mark.parametrize("shape", ["tree", "parallel", "single"])
def test_drafting_does_not_change_the_answer(ragla: Ragla, world: World, shape: str) -> None:
    plain, drafted = (
        document(ragla("ask", QUESTION, *world.flags, "--json", *more))
        for more in (
            ["-s", "decode.draft_budget=1"],
            ["-s", f"decode.shape={shape}", "-s", "decode.cost_aware=false"],
        )
    )
    assert plain["answer"] == drafted["answer"]
    assert plain["stats"]["drafted"] == 0 < drafted["stats"]["drafted"]


def test_sampling_with_a_seed_is_repeatable(ragla: Ragla, world: World) -> None:
    def answer(seed: int) -> str:
        settings = ["-s", "decode.temperature=0.7", "-s", f"decode.seed={seed}"]
        return str(document(ragla("ask", QUESTION, *world.flags, "--json", *settings))["answer"])

    assert answer(1) == answer(1) != answer(2)


def test_the_shortest_answer(ragla: Ragla, world: World) -> None:
    answer = document(ragla("ask", QUESTION, *world.flags, "--json", "-s", "decode.max_new_tokens=1"))
    assert (answer["stats"]["tokens"], answer["steps"]) == (1, [])


def test_a_stop_string_ends_the_answer_and_is_no_part_of_it(ragla: Ragla, world: World) -> None:
    whole = document(ragla("ask", QUESTION, *world.flags, "--json"))["answer"]
    stop = whole[6:9]
    settings = ["-s", f"decode.stop={json.dumps([stop])}"]
    cut = document(ragla("ask", QUESTION, *world.flags, "--json", *settings))["answer"]
    assert cut == whole[: whole.index(stop)].strip()
    assert ragla("ask", QUESTION, *world.flags, *settings).stdout.strip() == cut


def test_the_trace_shows_every_draft_tree(ragla: Ragla, world: World) -> None:
    flags = [*world.flags, "--trace", "-s", "decode.cost_aware=false"]
    plain, traced = ragla("ask", QUESTION, *world.flags), ragla("ask", QUESTION, *flags)
    assert traced.stdout == plain.stdout
    roots = [line for line in traced.stderr.splitlines() if re.match(r"step \d+ · ", line)]
    steps = re.search(r"tokens? in (\d+) steps?", traced.stderr)
    assert steps
    assert len(roots) == int(steps[1])
    assert re.search(r"^[├└]── [✓·] '.*' 0\.\d\d", traced.stderr, re.M)


@pytest.mark.parametrize(
    ("words", "stdin"), [((), QUESTION), (("-",), QUESTION), (("-",), f"\n {QUESTION} \n")]
)
def test_the_question_may_come_from_stdin(
    ragla: Ragla, world: World, words: tuple[str, ...], stdin: str
) -> None:
    assert document(ragla("search", *words, *world.flags, "--json", stdin=stdin))["query"] == QUESTION


def test_a_question_in_another_encoding_is_read_as_well_as_can_be(ragla: Ragla, world: World) -> None:
    found = document(ragla("search", "-", *world.flags, "--json", stdin="caf\xe9 hours".encode("latin-1")))
    assert found["query"] == "caf\ufffd hours"
    found = document(ragla("search", "caf\udce9 hours", *world.flags, "--json"))
    assert found["query"] == "caf\ufffd hours"


def test_documents_cannot_command_the_terminal(ragla: Ragla, world: World) -> None:
    result = ragla("search", "lighthouse rules", *world.flags)
    assert "lighthouse rules" in result.stdout
    assert "\x1b" not in result.output
    assert "\x07" not in result.output


def test_the_index_is_found_upward(
    ragla: Ragla, world: World, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ragla("index", world.docs, "--profile", world.profile).exit_code == 0
    assert (elsewhere / ".ragla" / "current").is_file()
    deep = elsewhere / "one" / "two"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert ragla("search", QUESTION, "--profile", world.profile).exit_code == 0
    monkeypatch.setenv("RAGLA_INDEX", str(elsewhere / "other"))
    result = ragla("search", QUESTION, "--profile", world.profile)
    assert result.exit_code == 3
    assert f"no index at {elsewhere / 'other'}" in result.stderr
    monkeypatch.setenv("RAGLA_INDEX", str(world.index))
    assert ragla("search", QUESTION, "--profile", world.profile).exit_code == 0
    assert ragla("search", QUESTION, "--profile", world.profile, "--index", "nowhere").exit_code == 3


def test_models_are_listed_and_located(ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")  # of the terminal that is not there
    listed = document(ragla("models", "list", "--json"))
    assert listed["schema"] == "ragla.models/1"
    assert all(set(row) == {"name", "kind", "licence", "bytes", "state", "path"} for row in listed["models"])
    table = ragla("models", "list").stdout
    assert all(row["name"] in table for row in listed["models"])
    folder = world.folder / "llm"
    assert ragla("models", "path", folder).stdout == f"{folder}\n"
    assert document(ragla("models", "path", folder, "--json"))["path"] == str(folder)


def test_bench_compares_decoders(ragla: Ragla, world: World, tmp_path: Path) -> None:
    asked = tmp_path / "questions.jsonl"
    asked.write_text(json.dumps({"question": QUESTION, "reference": "180 euros"}) + "\n")
    flags = [*world.flags, "--questions", asked, "-s", "decode.max_new_tokens=8"]
    result = document(ragla("bench", *flags, "--compare", "greedy,hf-greedy", "--json"))
    assert result["schema"].startswith("ragla.bench/")
    text = ragla("bench", *flags)
    assert text.exit_code == 0
    assert "\x1b" not in text.output

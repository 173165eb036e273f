"""What is drawn: no document and no model can command the terminal, or pretend to be another line."""

from __future__ import annotations

import io
import math
import unicodedata

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from ragla import render, render_answer
from ragla.answer import Answer
from ragla.decode.stats import DecodeStats, StepStats
from ragla.evidence import Source
from ragla.models import ModelRow
from ragla.profiles import load
from ragla.retrieve import IndexReport
from ragla.retrieve.passage import Passage, ScoredPassage


@given(st.text())
def test_safe_text_holds_no_control_characters_and_keeps_the_rest(text: str) -> None:
    expected = "".join(
        "\ufffd" if render.CONTROL.match(character) else character
        for character in text
        if not render.UNSEEN.match(character)
    )
    shown = render.safe(text)
    assert shown == expected
    controls = [character for character in shown if unicodedata.category(character) == "Cc"]
    assert set(controls) <= {"\t", "\n"}
    assert "\n" not in render.one_line(text)


REORDERING = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))]


@pytest.mark.parametrize("trick", REORDERING)
def test_text_cannot_be_read_in_another_order_than_it_has(trick: str) -> None:
    assert render.safe(f"a{trick}b") == "a\ufffdb"
    assert render.one_line(f"a{trick}b") == "a\ufffdb"


@pytest.mark.parametrize("trick", ["\u200b", "\u2060", "\ufeff", "\xad", "\u3164", "\U000e0041"])
def test_what_is_not_seen_hides_nothing(trick: str) -> None:
    assert render.safe(f"pay{trick}pal") == "paypal"
    assert render.one_line(f"pay{trick}pal") == "pay\ufffdpal"  # two names that look alike do not


@pytest.mark.parametrize("joined", ["می\u200cخواهم", "क्\u200dष", "👩\u200d💻", "a\u200fb"])
def test_what_a_language_needs_is_left_in_its_text_and_shown_in_a_name(joined: str) -> None:
    assert render.safe(joined) == joined
    assert "\ufffd" in render.one_line(joined)


ESCAPES = ["\x1b[31m", "\x9b31m", "\x1b]8;;http://evil\x07", "a\rb", "a\x08b"]


@pytest.mark.parametrize("escape", ESCAPES)
def test_nothing_a_document_says_reaches_the_terminal_raw(escape: str) -> None:
    passage = Passage(1, 1, f"{escape}\n.md", "/x", f"title {escape}", f"text {escape}", 0, 9, 1, 2)
    lines = [
        *render.passage_lines(1, ScoredPassage(passage, 0.5, 0.5, 0.5)),
        *render_answer.source_lines([Source(1, f"{escape}.md", 1, 2, 0.5, True, 3)]),
        *render.index_lines(IndexReport(0, 0, 0, ((f"{escape}.md", escape),), (), 0, 0, 0.1), "ix"),
        *render.config_lines(load({"prompt.instruction": escape}, environ={})),
    ]
    assert all(not set("\x1b\x9b\r\x08\x07") & set(line.plain) for line in lines)
    assert "\n" not in lines[0].plain


def answer(**changes: object) -> Answer:
    steps = [StepStats(8, 5, 6, 0.1, 0.01), StepStats(8, 1, 2, 0.1, 0.01)]
    stats = DecodeStats(prompt_tokens=100, tokens=9, copied=6, decode_s=0.5, steps=steps)
    return Answer("q", "text", True, stats=stats, ttft_s=1.25)


def test_the_stats_line_says_what_the_steps_add_up_to() -> None:
    assert render_answer.stats_line(answer()).plain == (
        "9 tokens in 2 steps · 4.0 tokens/step · 67% accepted · first token 1.2 s · 16.0 tokens/s"
    )


def test_what_was_kept_and_what_was_decided_alone_is_said_where_it_happened() -> None:
    told = answer()
    told.stats.reused, told.stats.decided_alone = 40, 1
    line = render_answer.stats_line(told).plain
    assert line.endswith("tokens/s · 40 of 100 prompt tokens kept · 1 near-tie decided alone")


def test_what_came_with_the_prompt_is_said_also_where_no_step_was_needed() -> None:
    told = answer()
    told.stats.tokens, told.stats.prefill_drafted, told.stats.prefill_accepted = 12, 7, 3
    assert render_answer.stats_line(told).plain == (
        "12 tokens in 2 steps · 5.5 tokens/step · 75% accepted, 3 with the prompt · first token 1.2 s"
        " · 16.0 tokens/s"
    )
    told.stats.steps, told.stats.tokens, told.stats.decode_s = [], 4, 0.0
    [line] = render_answer.cost_lines(told)
    assert line.plain == ("4 tokens in 0 steps · 75% accepted, 3 with the prompt · first token 1.2 s")


def test_the_nodes_of_each_step_are_drawn_over_time() -> None:
    told = answer()
    told.stats.steps = [StepStats(nodes - 1, 0, 1, 0.1, 0.01) for nodes in (1, 8, 64, 64)]
    lines = [line.plain for line in render_answer.cost_lines(told)]
    assert lines[1] == "1–64 nodes a step, median 36  ▁▂██"
    assert [row["nodes"] for row in render_answer.step_rows(told.stats)] == told.stats.nodes == [1, 8, 64, 64]
    assert render_answer.stats_json(told)["nodes_per_step"] == 137 / 4
    told.stats.steps = [StepStats(0, 0, 1, 0.1, 0.0)] * 3
    assert len(list(render_answer.cost_lines(told))) == 1  # nothing was drafted
    told.stats.steps = []
    assert list(render_answer.cost_lines(told)) == []


def test_the_json_has_the_same_numbers_unrounded() -> None:
    numbers = render_answer.stats_json(answer())
    assert numbers["tokens_per_step"] == 4.0
    assert (numbers["drafted"], numbers["accepted"]) == (16, 6)
    assert numbers["accepted_share"] == numbers["copied_share"] == pytest.approx(2 / 3)
    assert numbers["ttft_s"] == 1.25


def test_only_the_first_skipped_files_are_listed() -> None:
    skipped = tuple((f"{n}.bin", "binary file") for n in range(12))
    lines = [line.plain for line in render.index_lines(IndexReport(1, 2, 3, skipped, (), 4, 5, 6.0), "ix")]
    assert lines[0] == "1 indexed, 2 unchanged, 3 removed, 12 skipped · 5 passages in ix · 6.0 s"
    assert lines[1] == "  skipped: 0.bin: binary file"
    assert lines[-1] == "  … and 2 more; --json lists them all"
    assert len(lines) == 12


def test_an_index_of_nothing_says_so() -> None:
    report = IndexReport(0, 0, 0, (), (), 0, 0, 0.1)
    lines = [line.plain for line in render.index_lines(report, "ix")]
    assert lines[-1] == "  there is nothing in it to find: no document with text was found"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_in_the_table_of_models_are_never_cut(width: int) -> None:
    row = ModelRow("an-organisation--a-rather-long-name", "llm", "Apache-2.0", 3_600_000_000, "ready", None)
    console = Console(file=io.StringIO(), width=width)
    console.print(render.models_table([row]))
    file = console.file
    assert isinstance(file, io.StringIO)
    shown = "".join(line.split()[0] for line in file.getvalue().splitlines()[1:])
    assert shown == row.name
    assert max(map(len, file.getvalue().splitlines())) <= width


def test_markup_in_data_is_data() -> None:
    [line] = render_answer.source_lines([Source(1, "[bold red]x.md", 1, 2, 0.5, True)])
    assert isinstance(line, Text)
    assert "[bold red]x.md:1-2" in line.plain


@pytest.mark.parametrize(
    "value",
    [
        None, "-", True, 4, -1.0, 1e-7, 3e20, math.inf, "",
        "auto", "true", "null", "1e5", " a", "a: b", "[1]", "中文 a, b", "'",
        "Say so.\nThen end. " + "word " * 60, {"load_in_8bit": True, "quant_method": "x y"}, ["a, b", None],
    ],
)  # fmt: skip
def test_a_setting_is_written_as_yaml_reads_it(value: object) -> None:
    written = render.as_yaml(value)
    assert "\n" not in written
    assert yaml.safe_load(written) == value
    assert written == value or not isinstance(value, str) or written.startswith('"')

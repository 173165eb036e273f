from __future__ import annotations

import io
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ragla.bench import DECODERS, BenchQuestion, BenchResult, Report, run_bench
from ragla.bench.machine import cpu_name
from ragla.bench.result import Difference, Interval
from ragla.config import Profile
from ragla.decode.model import TargetModel


def printed(result: BenchResult, width: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(Report(result))
    return stream.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def result(profile: Profile, target: TargetModel, questions: list[BenchQuestion]) -> BenchResult:
    """Measured conditions with numbers that are the same each time."""
    measured = run_bench(profile, target, questions, DECODERS)
    decoders = {
        name: replace(
            found,
            tokens_per_s=Interval(12.34, 11.0, 13.0),
            ttft_s=1.5,
            speedup_vs_greedy=Interval(2.5, 2.25, 12.75),
            speedup_vs_hf_greedy=Interval(3.5, 3.25, 13.75),
            contains=0.25,
            token_f1=0.75,
        )
        for name, found in measured.decoders.items()
    }
    return replace(measured, decoders=decoders)


@pytest.mark.parametrize("width", [80, 40])
def test_every_line_fits_and_no_number_is_lost(result: BenchResult, width: int) -> None:
    text = printed(result, width)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    for name in DECODERS:
        assert name in text
    for number in ("12.3", "1.50", "2.50", "2.25–12.75", "3.50", "3.25–13.75", "3/3"):
        assert text.count(number) >= len(DECODERS), number


def test_a_wide_terminal_has_a_row_a_decoder_and_a_narrow_one_a_block(result: BenchResult) -> None:
    lines = printed(result, 80).split("\n\n")[0].splitlines()
    wide = [line for line in lines if line.startswith("lookahead")]
    assert len(wide) == 1
    assert "12.3" in wide[0]
    assert "3/3" in wide[0]
    narrow = printed(result, 40).splitlines()
    assert "lookahead" in [line.rstrip() for line in narrow]
    assert [line.split() for line in narrow if line.startswith("  tokens/step")] == [
        ["tokens/step", f"{found.tokens_per_step:.2f}"] for found in result.decoders.values()
    ]


def test_the_conditions_are_all_there(result: BenchResult) -> None:
    env = result.environment
    text = flat(printed(result, 80))
    for said in (
        f"{env.model}, float32, cpu backend",
        flat(env.cpu),
        f"{env.threads} thread",
        "budget 64 by step cost, depth 64, tree",
        "3 questions, 1 run",
        f"prompts of {env.prompt_tokens.min}–{env.prompt_tokens.max} (median ",
        "answers of 24, at most 24",
        f"Python {env.python}, torch {env.torch}",
        "hf-*: unmodified model in float32",
        "intervals are those of 95 %",
    ):
        assert said in text


def test_what_was_not_measured_is_not_shown(
    profile: Profile, target: TargetModel, questions: list[BenchQuestion]
) -> None:
    measured = run_bench(profile, target, questions[:1], [])
    quiet = replace(measured.environment, load_average=0.0, other_cores=0.0)  # as this machine may not be
    text = flat(printed(replace(measured, environment=quiet), 80))
    for unsaid in (
        "greedy",
        "hf-",
        "interval",
        "token F1",
        "differs",
        "too short",
        "None",
        "category",
        "busy",
    ):
        assert unsaid not in text


def test_a_single_question_shows_no_spread(result: BenchResult) -> None:
    drawn = replace(result.decoders["lookahead"], speedup_vs_greedy=Interval(4.5, 4.5, 4.5))
    text = printed(replace(result, decoders={**result.decoders, "lookahead": drawn}), 80)
    assert "4.50" in text
    assert "4.50–4.50" not in text


def test_quality_differences_and_what_was_left_out_are_said(result: BenchResult) -> None:
    difference = Difference("h07", 12, "the red [fox]", "the red\nfox")
    drafted = replace(result.decoders["lookahead"], first_difference=difference, too_short=2, token_f1=0.5)
    text = flat(
        printed(
            replace(result, decoders={**result.decoders, "lookahead": drafted}, unanswered=("h35", "h36")),
            80,
        )
    )
    assert (
        r"lookahead first differs at question h07, token 12: 'the red\nfox' instead of 'the red [fox]'"
        in text
    )
    assert "expected text found: 0.25, all decoders" in text
    assert "token F1: lookahead 0.50, greedy 0.75" in text
    assert "2 answers too short for a speed" in text
    assert "nothing relevant in the index: h35, h36" in text


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc/cpuinfo")
def test_the_processors_name(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nmodel name\t: Fast: 3000\nprocessor : 1\nmodel name : Fast\n")
    assert cpu_name(cpuinfo) == "Fast: 3000"
    cpuinfo.write_text("processor : 0\nmodel name :\n")
    assert cpu_name(cpuinfo) == (platform.processor() or platform.machine())
    assert cpu_name(tmp_path / "absent") == cpu_name(cpuinfo)

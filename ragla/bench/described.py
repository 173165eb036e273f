"""What the numbers of a bench hold for, in words: conditions, first differences, the first answer."""

from __future__ import annotations

from ragla.bench.environment import TokenRange
from ragla.bench.names import STOCK_DECODERS
from ragla.bench.result import BenchResult, Difference, Times
from ragla.render import counted, one_line

SHORTEST = 0.05  # seconds that are worth a word


def conditions(result: BenchResult) -> str:
    """One paragraph."""
    env = result.environment
    device = f" on {env.device_name or env.device}" if env.device != "cpu" else ""
    compiled = " without compiled kernels" if env.compiled is False and env.backend == "cpu" else ""
    parts = [
        f"{one_line(env.model)}, {env.dtype}, {env.backend} backend{device}{compiled}",
        f"{env.cpu}, {counted(env.threads, 'thread')} of {counted(env.cores, 'core')}",
        f"budget {env.draft_budget}{' by step cost' if env.cost_aware else ''}, "
        f"depth {env.max_depth}, {env.shape}",
        _questions(result),
    ]
    if any(name in STOCK_DECODERS for name in result.decoders):
        parts.append(f"hf-*: unmodified model in {env.stock_dtype}")
    if any(found.speedup_vs_greedy or found.speedup_vs_hf_greedy for found in result.decoders.values()):
        parts.append("tokens/s and × are medians over questions, intervals are those of 95 %")
    if result.exact is not None:
        parts.append("same text: as greedy in the same precision")
    if short := max(found.too_short for found in result.decoders.values()):
        parts.append(f"{counted(short, 'answer')} too short for a speed")
    if result.unanswered:
        left_out = ", ".join(one_line(name) for name in result.unanswered)
        parts.append(f"left out, nothing relevant in the index: {left_out}")
    if result.answers < result.planned:
        parts.append(f"interrupted after {result.answers} of {result.planned} answers")
    load = "" if env.load_average is None else f", load {env.load_average:g} at the start"
    load += "" if env.other_cores is None else f", {env.other_cores:g} cores used by others"
    parts.append(
        f"ragla {env.ragla}, Python {env.python}, torch {env.torch}, transformers {env.transformers}"
        f"{load}, {env.date[:10]}"
    )
    return "; ".join(parts) + "."


def busy_line(result: BenchResult) -> str | None:
    """What must be said of times that were measured beside other programs; None for a quiet machine."""
    env = result.environment
    if not env.busy:
        return None
    if env.other_cores is None:
        what = f"load {env.load_average:g} on {env.cores} cores"
    else:
        what = f"other programs used {env.other_cores:g} of {env.cores} cores"
    return f"The machine was busy ({what}): these are not the times of a quiet one."


def _questions(result: BenchResult) -> str:
    env = result.environment
    follow_ups = f" ({counted(result.follow_ups, 'follow-up')} among them)" if result.follow_ups else ""
    answers = f"answers of up to {env.max_new_tokens}"
    if env.answer_tokens is not None:
        answers = f"answers of {token_range(env.answer_tokens)}, at most {env.max_new_tokens}"
    return (
        f"{counted(result.questions, 'question')}{follow_ups}, {counted(env.runs, 'run')}, "
        f"prompts of {token_range(env.prompt_tokens)} tokens, {answers}"
    )


def token_range(tokens: TokenRange) -> str:
    """``12–80 (median 31)``."""
    if tokens.min == tokens.max:
        return str(tokens.min)
    return f"{tokens.min}–{tokens.max} (median {tokens.median:g})"


def quality_lines(result: BenchResult) -> list[str]:
    """How far each decoder's answers agree with the references, where there are any."""
    lines = []
    for title, values in (
        ("expected text found", {name: found.contains for name, found in result.decoders.items()}),
        ("token F1", {name: found.token_f1 for name, found in result.decoders.items()}),
    ):
        known = {name: f"{value:.2f}" for name, value in values.items() if value is not None}
        if len(known) > 1 and len(set(known.values())) == 1:
            lines.append(f"{title}: {next(iter(known.values()))}, all decoders")
        elif known:
            lines.append(f"{title}: {', '.join(f'{name} {value}' for name, value in known.items())}")
    return lines


def difference_lines(result: BenchResult) -> list[str]:
    """Where each decoder's text first leaves the reference text."""
    found = {name: decoder.first_difference for name, decoder in result.decoders.items()}
    return [_difference(name, difference) for name, difference in found.items() if difference is not None]


def _difference(name: str, found: Difference) -> str:
    return (
        f"{name} first differs at question {one_line(found.id)}, token {found.position}: "
        f"{found.text!r} instead of {found.reference!r}"
    )


def first_answer_line(result: BenchResult) -> str | None:
    """What the first answer of a process costs, and what the same one costs later."""
    first = result.first_answer
    if first is None:
        return None
    loading = f"model loaded in {first.load_s:.1f} s, " if first.load_s is not None else ""
    line = (
        f"First answer of the process, lookahead: {loading}{_times(first.cold)}; later: {_times(first.warm)}"
    )
    if first.calibration_s >= SHORTEST:
        line += f"; measuring what steps cost: {first.calibration_s:.1f} s, once"
    return line + "."


def _times(times: Times) -> str:
    searched = f"searched in {times.retrieval_s:.2f} s, " if times.retrieval_s else ""
    speed = f", {times.tokens_per_s:.1f} tokens/s" if times.tokens_per_s is not None else ""
    return f"{searched}first token {times.ttft_s:.2f} s{speed}"

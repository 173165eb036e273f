"""A bench result with numbers that are the same each time, as no clock gives them."""

from __future__ import annotations

from ragla.bench.environment import Environment, TokenRange
from ragla.bench.result import (
    BenchResult,
    DecoderResult,
    Difference,
    FirstAnswer,
    Interval,
    Point,
    Position,
    Seconds,
    Times,
)

NAMES = ("lookahead", "greedy", "hf-greedy", "hf-prompt-lookup")


def made_decoder(name: str, *, exact: bool = False) -> DecoderResult:
    """Numbers that depend on the decoder's name alone."""
    plain, stock = "greedy" in name, name.startswith("hf-")
    tokens = 1.0 if plain else 2.5
    return DecoderResult(
        tokens_per_step=tokens,
        accepted_share=0.0 if plain else 0.6,
        decode_tokens_per_s=13.0 if stock else 70.0,
        ttft_s=1.25,
        speedup_vs_greedy=Interval(1.0, 1.0, 1.0) if name == "greedy" else Interval(1.58, 1.31, 1.89),
        speedup_vs_hf_greedy=Interval(7.7, 6.1, 10.04),
        too_short=0,
        identical=(3, 3),
        first_difference=Difference("c|1", 7, "a < b", "a > b\n") if name == "hf-greedy" else None,
        contains=0.5,
        token_f1=0.25,
        tokens_per_s=Interval(14.0, 12.0, 15.0) if stock else Interval(68.5, 60.0, 75.0),
        ttft=Interval(1.25, 1.0, 1.5),
        step_tokens=Interval(tokens, 1.0, 1.0) if plain else Interval(2.5, 2.25, 2.75),
        nodes_per_step=None if stock else 4.0,
        lengths=(40,) if plain else (*[5] * 9, 0, 0, 0, 0, 0, 0, 0, 0, 4),
        positions=tuple(Position(16 * at, 4 + at % 3, 8 + at) for at in range(12)),
        seconds=Seconds(0.1, 0.05, 0.05, 1.0, None if stock else 0.1, None if stock else 2.0, 0.2),
        points=(
            Point("a", "qa", tokens, 70.0, 1.5), Point("b", "rag", tokens + 1, 80.0, 2.5),
            Point("c|1", "rag", None, None, None),
        ),
        same_as_exact=(2, 3) if exact else None,
        agreement=0.96 if exact else None,
    )  # fmt: skip


def made_result(names: tuple[str, ...] = NAMES, *, exact: str | None = None) -> BenchResult:
    """A comparison of some decoders in two categories of questions."""
    environment = Environment(
        ragla="1.2.3", python="3.11.7", torch="2.9.0", transformers="5.24.0", cpu="Some CPU", cores=2,
        threads=2, device="cpu", device_name=None, model="问$x$|<b>", dtype="int8" if exact else "float32",
        stock_dtype="float32", backend="cpu", draft_budget=64, cost_aware=True, max_depth=64, shape="tree",
        max_new_tokens=128, prompt_tokens=TokenRange(700, 800.5, 900), runs=1,
        date="2024-01-02T03:04:05+00:00", dtypes=("int8", "float32") if exact else ("float32",),
        system="Linux 6", compiled=True, window=8192, answer_tokens=TokenRange(10, 50, 128), load_average=0.1,
    )  # fmt: skip
    decoders = {name: made_decoder(name, exact=exact is not None) for name in names}
    first = FirstAnswer("a", 2.5, 1.5, Times(0.5, 3.0, 20.0), Times(0.01, 1.25, 70.0))
    categories = {"qa": decoders, "问答|": decoders}
    return BenchResult(environment, 3, ("u1",), decoders, (), categories, first, exact, 1, 3, 3)

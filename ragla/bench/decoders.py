"""The decoders a bench can run, each as a function from a task to what it committed and how long it took.

All of them get the same prompt tokens, the same end-of-sequence ids and the same bound on new tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from ragla.answer import Answerer, Prepared
from ragla.bench.names import AS_REPLAYED, BUDGET, SHAPE, SHAPES, STOCK_DECODERS, WITHOUT, dtype_of, kind
from ragla.bench.stock import StockModel
from ragla.conditions import decode_request
from ragla.config import DecodeSettings
from ragla.decode.budget import StepCost
from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.request import Block, DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.errors import UsageError
from ragla.models import locate
from ragla.trie import LIVE_SOURCES, DraftLimits


@dataclass(frozen=True)
class Decoded:
    """One answer. Times in seconds.

    ``prefill_tokens``: tokens committed by the prefill's forward, one except where that forward verified a
    draft too. ``steps``: forward passes after it. ``accepted``: draft tokens committed, no bonus tokens.
    ``ttft_s`` goes from the prompt's tokens to the first answer token, ``seed_s`` of it to the drafter;
    ``decode_s`` starts there. ``commits``: tokens committed by each step. ``nodes``: rows of all steps,
    ``draft_s`` and ``verify_s``: parts of ``decode_s``; None where the decoder does not tell.
    ``calibration_s`` is no part of any other time.
    """

    token_ids: tuple[int, ...]
    prefill_tokens: int
    steps: int
    accepted: int
    ttft_s: float
    decode_s: float
    commits: tuple[int, ...] = ()
    nodes: int | None = None
    seed_s: float = 0.0
    draft_s: float | None = None
    verify_s: float | None = None
    calibration_s: float = 0.0

    @property
    def later_tokens(self) -> int:
        """Tokens after the first; prefill may have given some of them, too."""
        return len(self.token_ids) - 1

    @property
    def step_tokens(self) -> int:
        """Tokens committed after prefill."""
        return len(self.token_ids) - self.prefill_tokens

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens committed after prefill per second spent after it; None where there were none."""
        return self.step_tokens / self.decode_s if self.step_tokens > 0 and self.decode_s > 0 else None


@dataclass(frozen=True)
class Run:
    """A decoder: ``decode`` answers; ``reset`` forgets what earlier questions gave away."""

    decode: Callable[[Prepared, DecodeRequest], Decoded]
    reset: Callable[[], None] = lambda: None


def check_settings(settings: DecodeSettings, names: Sequence[str]) -> None:
    """Refuse settings under which the decoders could not be compared. Raises UsageError."""
    if settings.temperature > 0:
        raise UsageError(
            f"the bench compares greedy text, decode.temperature is {settings.temperature:g}",
            "add --set decode.temperature=0",
        )
    stock = [name for name in names if name in STOCK_DECODERS]
    if stock and settings.stop:
        raise UsageError(
            f"{stock[0]} runs without stop strings, decode.stop has some", "add --set 'decode.stop=[]'"
        )


def make_runs(
    names: Sequence[str], answerer: Answerer, others: Mapping[str, Answerer] | None = None
) -> dict[str, Run]:
    """A function for each decoder; loads the stock model only when one of them needs it.

    ``others``: precision → what answers in it, for the names that carry one.
    """
    runs = {}
    for name in names:
        if name in STOCK_DECODERS:
            continue
        dtype = dtype_of(name)
        its = answerer if dtype is None else (others or {})[dtype]
        runs[name] = Run(_greedy(its)) if kind(name) == "greedy" else _drafting(its, kind(name))
    if any(name in STOCK_DECODERS for name in names):
        stock = StockModel.load(
            locate(answerer.profile.decode.model), answerer.target, answerer.profile.decode
        )
        for name, lookup in STOCK_DECODERS.items():
            runs[name] = Run(_stock(stock, lookup))
    return {name: runs[name] for name in names}


def request_for(answerer: Answerer, prepared: Prepared, max_new_tokens: int | None = None) -> DecodeRequest:
    """The conditions of one answer, the same for every decoder."""
    settings = answerer.profile.decode
    if max_new_tokens is not None:
        settings = settings.model_copy(update={"max_new_tokens": max_new_tokens})
    prompt = prepared.prompt
    return decode_request(settings, answerer.target, prompt.token_ids, prompt.cuts)


def _drafting(answerer: Answerer, name: str) -> Run:
    """Lookahead with a drafter of its own, with what ``name`` switches off or sets."""
    replayed = name == AS_REPLAYED
    without: Sequence[str] = LIVE_SOURCES if replayed else ()
    if name.startswith(WITHOUT):
        without = (name.removeprefix(WITHOUT),)
    drafter = answerer.new_drafter(without)
    alike = None if replayed else answerer.spelling.alike  # a transcript has no texts

    def decode(prepared: Prepared, request: DecodeRequest) -> Decoded:
        if replayed:
            drafter.forget()
        began = perf_counter()
        drafter.begin(prepared.prompt.token_ids, prepared.seeds, alike)
        seeded_s = perf_counter() - began
        stats = DecodeStats()
        limits, cost = _draft_size(answerer, name)
        blocks = lookahead(answerer.target.backend, drafter, request, stats, limits, cost)
        decoded = _drained(blocks, stats, seeded_s)
        drafter.end(decoded.token_ids)
        return decoded

    return Run(decode, drafter.forget)


def _draft_size(answerer: Answerer, name: str) -> tuple[DraftLimits, StepCost | None]:
    """The bounds of a draft, and what chooses its size; a fixed budget is verified whatever it costs."""
    shapes = {SHAPE + shape: shape for shape in SHAPES}
    if name in shapes:
        return replace(answerer.limits, shape=shapes[name]), answerer.cost
    if name.startswith(BUDGET):
        return replace(answerer.limits, budget=int(name.removeprefix(BUDGET))), None
    return answerer.limits, answerer.cost


def _greedy(answerer: Answerer) -> Callable[[Prepared, DecodeRequest], Decoded]:
    def run(prepared: Prepared, request: DecodeRequest) -> Decoded:
        stats = DecodeStats()
        return _drained(greedy(answerer.target.backend, request, stats), stats, 0.0)

    return run


def _drained(blocks: Iterator[Block], stats: DecodeStats, seeded_s: float) -> Decoded:
    """Decode to the end and do nothing between steps, so that the decoder's clock counts decoding only."""
    token_ids = tuple(token for block in blocks for token in block.token_ids)
    commits = tuple(step.committed for step in stats.steps)
    return Decoded(
        token_ids,
        prefill_tokens=len(token_ids) - sum(commits),
        steps=len(stats.steps),
        accepted=stats.accepted,
        ttft_s=seeded_s + stats.prefill_s,
        decode_s=stats.decode_s,
        commits=commits,
        nodes=sum(stats.nodes),
        seed_s=seeded_s,
        draft_s=sum(step.draft_s for step in stats.steps),
        verify_s=sum(step.forward_s for step in stats.steps),
        calibration_s=stats.calibration_s,
    )


def _stock(stock: StockModel, lookup_tokens: int | None) -> Callable[[Prepared, DecodeRequest], Decoded]:
    def run(prepared: Prepared, request: DecodeRequest) -> Decoded:
        token_ids, watch = stock.generate(request, lookup_tokens)
        # every forward gives one token that was not drafted
        accepted = max(0, len(token_ids) - watch.forwards)
        return Decoded(
            token_ids,
            watch.prefill_tokens,
            watch.steps,
            accepted,
            watch.ttft_s,
            watch.decode_s,
            watch.commits(len(token_ids)),
        )

    return run

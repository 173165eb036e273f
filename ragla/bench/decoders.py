"""The decoders a bench can run, each as a function from a task to what it committed and how long it took.

All of them get the same prompt tokens, the same end-of-sequence ids and the same bound on new tokens.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from ragla.answer import Answerer, Prepared
from ragla.bench.stock import PROMPT_LOOKUP_TOKENS, StockModel
from ragla.conditions import decode_request
from ragla.config import DecodeSettings
from ragla.decode.decoder import lookahead
from ragla.decode.greedy import greedy
from ragla.decode.request import Block, DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.errors import UsageError
from ragla.models import locate
from ragla.trie import LIVE_SOURCES, SOURCES

STOCK_DECODERS = {"hf-greedy": None, "hf-prompt-lookup": PROMPT_LOOKUP_TOKENS}
WITHOUT = "without:"
AS_REPLAYED = "as-replayed"
"""Lookahead from what a replay of recorded answers knows: no live sources, nothing of earlier questions."""
DECODERS = ("lookahead", "greedy", *STOCK_DECODERS)
ABLATIONS = (AS_REPLAYED, *(WITHOUT + source for source in SOURCES))


@dataclass(frozen=True)
class Decoded:
    """One answer. Times in seconds.

    ``prefill_tokens``: tokens committed by the prefill's forward, one except where that forward verified a
    draft too. ``steps``: forward passes after it. ``accepted``: draft tokens committed, no bonus tokens.
    ``ttft_s`` goes from the prompt's tokens to the first answer token; ``decode_s`` starts there.
    """

    token_ids: tuple[int, ...]
    prefill_tokens: int
    steps: int
    accepted: int
    ttft_s: float
    decode_s: float

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


def parse_decoders(compare: Iterable[str] = ()) -> tuple[str, ...]:
    """``lookahead`` and the decoders named in ``compare``, where one entry may hold several, with commas.

    Raises UsageError for a name that is no decoder.
    """
    names = ["lookahead"]
    for name in (part.strip() for entry in compare for part in entry.split(",")):
        known = (*DECODERS, *ABLATIONS)
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            shown = ", ".join([*DECODERS, AS_REPLAYED, WITHOUT + "SOURCE"])
            raise UsageError(
                f"--compare {name}: no such decoder",
                f"{hint}decoders: {shown}; a SOURCE is one of {', '.join(SOURCES)}",
            )
        if name not in names:
            names.append(name)
    return tuple(names)


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


def make_runs(names: Sequence[str], answerer: Answerer) -> dict[str, Run]:
    """A function for each decoder; loads the stock model only when one of them needs it."""
    runs = {name: _drafting(answerer, name) for name in names if name not in ("greedy", *STOCK_DECODERS)}
    runs["greedy"] = Run(_greedy(answerer))
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
    """Lookahead with a drafter of its own, some sources switched off where ``name`` says so."""
    replayed = name == AS_REPLAYED
    sources_off = {"lookahead": (), AS_REPLAYED: LIVE_SOURCES}
    drafter = answerer.new_drafter(sources_off.get(name, (name.removeprefix(WITHOUT),)))
    alike = None if replayed else answerer.spelling.alike  # a transcript has no texts

    def decode(prepared: Prepared, request: DecodeRequest) -> Decoded:
        if replayed:
            drafter.forget()
        began = perf_counter()
        drafter.begin(prepared.prompt.token_ids, prepared.seeds, alike)
        seeded_s = perf_counter() - began
        stats = DecodeStats()
        blocks = lookahead(answerer.target.backend, drafter, request, stats, answerer.limits, answerer.cost)
        decoded = _drained(blocks, stats, seeded_s)
        drafter.end(decoded.token_ids)
        return decoded

    return Run(decode, drafter.forget)


def _greedy(answerer: Answerer) -> Callable[[Prepared, DecodeRequest], Decoded]:
    def run(prepared: Prepared, request: DecodeRequest) -> Decoded:
        stats = DecodeStats()
        return _drained(greedy(answerer.target.backend, request, stats), stats, 0.0)

    return run


def _drained(blocks: Iterator[Block], stats: DecodeStats, before_s: float) -> Decoded:
    """Decode to the end and do nothing between steps, so that the decoder's clock counts decoding only."""
    token_ids = tuple(token for block in blocks for token in block.token_ids)
    return Decoded(token_ids, 1, len(stats.steps), stats.accepted, before_s + stats.prefill_s, stats.decode_s)


def _stock(stock: StockModel, lookup_tokens: int | None) -> Callable[[Prepared, DecodeRequest], Decoded]:
    def run(prepared: Prepared, request: DecodeRequest) -> Decoded:
        token_ids, watch = stock.generate(request, lookup_tokens)
        # every forward gives one token that was not drafted
        accepted = max(0, len(token_ids) - watch.forwards)
        return Decoded(token_ids, watch.prefill_tokens, watch.steps, accepted, watch.ttft_s, watch.decode_s)

    return run

"""Near-ties: decided by a single row where that is asked for, told from bugs where an answer is rechecked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.backend.eager import EagerBackend
from ragla.decode.decoder import lookahead
from ragla.decode.kv_cache import KVCache
from ragla.decode.recheck import recheck
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.ties import TOLERANCE
from ragla.decode.tree_attention import QueryRows
from ragla.decode.verify import SamplingSettings
from ragla.errors import UsageError
from ragla.trie import Drafter, DraftLimits
from tests.decode.tiny_models import VOCABULARY, few, plain

TIE = TOLERANCE["bfloat16"]
PROMPT = [3 + (index * 37) % 110 for index in range(30)]
REQUEST = DecodeRequest(PROMPT, 40)
LIMITS = DraftLimits(budget=12)


class CoarseBackend(EagerBackend):
    """A model in which each logit of a tree is off by up to half a near-tie, as rounding would have it."""

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        logits = super().forward(rows, cache, last=last)
        if last or len(rows) == 1:
            return logits
        noise = torch.rand(logits.shape, generator=torch.Generator().manual_seed(cache.length)) * 2 - 1
        return logits + noise * logits.amax(-1, keepdim=True).abs().clamp_min(1.0) * TIE / 2.2


@pytest.fixture(scope="module")
def coarse(load_tiny: Any) -> CoarseBackend:
    return CoarseBackend(load_tiny("llama", "eager").backend.model)


def drafted(
    backend: Any, request: DecodeRequest, seed: list[int], tie: float
) -> tuple[list[int], DecodeStats]:
    drafter, stats = Drafter(), DecodeStats()
    drafter.begin(request.prompt_ids, [("seed", seed)])
    blocks = list(lookahead(backend, drafter, request, stats, LIMITS, tie=tie))
    return [token for block in blocks for token in block.token_ids], stats


def prompts() -> Any:
    return st.lists(st.integers(3, VOCABULARY - 1), min_size=1, max_size=30)


@few(5)
@given(prompt=prompts(), penalty=st.sampled_from([1.0, 1.0, 1.2]))
def test_ties_decided_alone_give_the_plain_answer(
    coarse: CoarseBackend, prompt: list[int], penalty: float
) -> None:
    request = DecodeRequest(prompt, 40, frozenset([7]), sampling=SamplingSettings(repetition_penalty=penalty))
    expected = plain(coarse, request)
    found, stats = drafted(coarse, request, expected, TIE)
    assert found == expected
    assert stats.tokens == len(expected) == 1 + sum(step.committed for step in stats.steps)


def test_some_ties_are_met_and_fall_differently_otherwise(coarse: CoarseBackend) -> None:
    """The test above would prove nothing if the noise never mattered, or if no draft were accepted."""
    alone = differing = accepted = 0
    for first in range(3, 18):
        request = replace(REQUEST, prompt_ids=[first, *PROMPT])
        expected = plain(coarse, request)
        _, stats = drafted(coarse, request, expected, TIE)
        differing += drafted(coarse, request, expected, 0.0)[0] != expected
        alone, accepted = alone + stats.decided_alone, accepted + stats.accepted
    assert differing > 0
    assert alone > 0
    assert accepted > 30


def first_flip(coarse: CoarseBackend) -> tuple[DecodeRequest, list[int], list[int]]:
    for first in range(3, 43):
        request = replace(REQUEST, prompt_ids=[first, *PROMPT])
        expected = plain(coarse, request)
        found, stats = drafted(coarse, request, expected, 0.0)
        assert stats.decided_alone == 0
        if found != expected:
            return request, expected, found
    raise AssertionError("no near-tie among forty answers")


def test_a_near_tie_is_told_from_a_bug_by_the_number_format(coarse: CoarseBackend) -> None:
    request, expected, found = first_flip(coarse)
    at = next(index for index, (one, other) in enumerate(zip(expected, found, strict=True)) if one != other)
    for dtype, word in [("bfloat16", "near-tie"), ("float32", "bug"), ("int8", "bug")]:
        verdict = recheck(coarse, request, found, dtype)
        assert verdict.word == word
        assert verdict.tokens == at
        difference = verdict.difference
        assert difference is not None
        assert (difference.position, difference.said, difference.plain) == (at, found[at], expected[at])
        gap = difference.gap
        assert gap is not None
        assert (gap.better, gap.worse) == (expected[at], found[at])
        assert 0 <= gap.width == gap.better_logit - gap.worse_logit <= TIE * max(1, abs(gap.better_logit))
        assert difference.tolerance == TOLERANCE[dtype] * max(1.0, abs(gap.better_logit))


def test_an_equal_answer_is_equal_in_every_format(load_tiny: Any) -> None:
    for backend, dtype in [("eager", "float32"), ("cpu", "float32"), ("cpu", "int8"), ("eager", "bfloat16")]:
        target = load_tiny("llama", backend, dtype)
        verdict = recheck(target.backend, REQUEST, plain(target.backend, REQUEST), target.dtype)
        assert (verdict.word, verdict.tokens, verdict.difference) == ("equal", 40, None)


def test_a_token_that_is_no_second_best_is_a_bug(coarse: CoarseBackend) -> None:
    expected = plain(coarse, REQUEST)
    for at in (0, 13, 39):
        wrong = list(expected)
        wrong[at] = (wrong[at] + 1) % VOCABULARY
        verdict = recheck(coarse, REQUEST, wrong, "float32")
        assert (verdict.word, verdict.tokens) == ("bug", at)


def test_an_answer_of_another_length_is_a_bug_unless_it_was_interrupted(coarse: CoarseBackend) -> None:
    expected = plain(coarse, REQUEST)
    for ids, at in [(expected[:5], 5), ([*expected, 9], 40), ([], 0)]:
        verdict = recheck(coarse, REQUEST, ids, "bfloat16")
        assert (verdict.word, verdict.tokens) == ("bug", at)
        assert verdict.difference is not None
        assert verdict.difference.gap is None
    for ids in (expected[:5], []):
        verdict = recheck(coarse, REQUEST, ids, "float32", whole=False)
        assert (verdict.word, verdict.tokens) == ("equal", len(ids))


def test_penalties_count_in_a_recheck(coarse: CoarseBackend) -> None:
    sampling = SamplingSettings(repetition_penalty=1.5, min_new_tokens=6)
    request = replace(REQUEST, sampling=sampling, end_ids=frozenset(range(20, 60)))
    expected = plain(coarse, request)
    assert len(expected) >= 6
    assert recheck(coarse, request, expected, "float32").word == "equal"
    unpenalised = plain(coarse, replace(request, sampling=SamplingSettings()))
    assert recheck(coarse, request, unpenalised, "float32").word == "bug"


def test_what_was_drawn_cannot_be_rechecked(coarse: CoarseBackend) -> None:
    request = replace(REQUEST, sampling=SamplingSettings(temperature=0.5))
    with pytest.raises(UsageError, match=r"decode.temperature is 0\.5"):
        recheck(coarse, request, [5], "float32")

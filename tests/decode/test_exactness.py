"""Drafted decoding gives the plain loop's tokens: any prompt, budget, shape and seed on a few families.

Every other family is in ``test_matrix.py``, with fewer prompts.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.request import DecodeRequest
from ragla.decode.verify import SamplingSettings
from ragla.trie import DraftLimits
from tests.decode.tiny_configs import END, VOCABULARY
from tests.decode.tiny_models import drafted, few, generated, plain

FAMILIES = ["llama", "qwen2", "qwen2-window", "qwen3", "mistral", "gemma3_text", "gpt2", "glm"]
KINDS = [("eager", "float32"), ("cpu", "float32"), ("cpu", "int8")]

TOKENS = st.integers(3, VOCABULARY - 1)
LIMITS = st.builds(
    DraftLimits,
    budget=st.integers(1, 64),
    max_depth=st.integers(1, 14),
    shape=st.sampled_from(["tree", "parallel", "single"]),
)
SAMPLING = st.builds(
    SamplingSettings,
    temperature=st.sampled_from([0.4, 1.0, 1.7]),
    top_k=st.sampled_from([0, 5, 40]),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    min_p=st.sampled_from([0.0, 0.05]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.3, -0.3]),
    bad_words=st.sampled_from([(), ((7,), (9, 10))]),
    min_new_tokens=st.sampled_from([0, 10]),
    seed=st.integers(0, 2**32),
)


@st.composite
def prompts(draw: st.DrawFn) -> list[int]:
    """1 … 72 tokens, often with a passage that occurs twice."""
    ids = draw(st.lists(TOKENS, min_size=1, max_size=24))
    return ids * draw(st.integers(1, 3))


def seeds_for(answer: list[int], truth: str) -> list[list[int]]:
    """What the drafter reads beforehand, from the very answer to a misleading one."""
    near = [token if index % 4 else token % 100 + 5 for index, token in enumerate(answer)]
    crossed = [ids for token in answer for ids in (token, (token * 7 + 1) % VOCABULARY)]
    return {"the answer": [answer], "nearly": [near], "garbage": [crossed], "both": [near, answer, crossed]}[
        truth
    ]


TRUTHS = st.sampled_from(["the answer", "nearly", "garbage", "both"])


def assert_exact(backend: Any, request: DecodeRequest, limits: DraftLimits, truth: str) -> None:
    expected = plain(backend, request)
    found, stats = drafted(backend, request, limits, seeds_for(expected, truth))
    assert found == expected
    assert stats.tokens == len(expected) == 1 + sum(step.committed for step in stats.steps)


@pytest.mark.parametrize(("backend", "dtype"), KINDS)
@pytest.mark.parametrize("family", FAMILIES)
@few(16)
@given(prompt=prompts(), limits=LIMITS, truth=TRUTHS, length=st.integers(1, 40))
def test_greedy(
    load_tiny: Any,
    family: str,
    backend: str,
    dtype: str,
    prompt: list[int],
    limits: DraftLimits,
    truth: str,
    length: int,
) -> None:
    target = load_tiny(family, backend, dtype)
    assert target.backend.drafts
    assert_exact(target.backend, DecodeRequest(prompt, length, target.end_ids), limits, truth)


@pytest.mark.parametrize(("backend", "dtype"), KINDS)
@few(12)
@given(prompt=prompts(), limits=LIMITS, truth=TRUTHS, sampling=SAMPLING)
def test_sampling_with_a_seed(
    load_tiny: Any,
    backend: str,
    dtype: str,
    prompt: list[int],
    limits: DraftLimits,
    truth: str,
    sampling: SamplingSettings,
) -> None:
    """Every key, and penalties that count each token once, not once a step."""
    target = load_tiny("llama", backend, dtype)
    request = DecodeRequest(prompt, 25, target.end_ids, sampling=sampling)
    assert_exact(target.backend, request, limits, truth)


@few(12)
@given(prompt=prompts(), limits=LIMITS, truth=TRUTHS, penalty=st.sampled_from([1.1, 1.5, 3.0]))
def test_repetition_penalty_without_sampling(
    load_tiny: Any, prompt: list[int], limits: DraftLimits, truth: str, penalty: float
) -> None:
    target = load_tiny("qwen2", "cpu")
    request = DecodeRequest(prompt, 25, target.end_ids, sampling=SamplingSettings(repetition_penalty=penalty))
    assert_exact(target.backend, request, limits, truth)


@pytest.mark.parametrize("backend", ["eager", "cpu"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_known_answer_is_accepted_and_garbage_is_not(load_tiny: Any, family: str, backend: str) -> None:
    """The tests above would prove nothing if nothing were ever accepted, or nothing rejected."""
    target = load_tiny(family, backend)
    request = DecodeRequest(list(range(10, 40)), 40, frozenset())
    expected = plain(target.backend, request)
    limits = DraftLimits(budget=16)
    found, stats = drafted(target.backend, request, limits, seeds_for(expected, "the answer"))
    assert found == expected
    assert stats.tokens_per_step > 4
    found, stats = drafted(target.backend, request, limits, seeds_for(expected, "garbage"))
    assert found == expected
    assert stats.accepted < stats.drafted


@pytest.mark.parametrize("backend", ["eager", "cpu"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_plain_loop_is_what_transformers_generates(load_tiny: Any, family: str, backend: str) -> None:
    """Past every sliding window, which a single mask would have lost."""
    prompt = [3 + (index * 37) % 110 for index in range(50)]
    model = load_tiny(family, "eager", "float32").backend.model
    found = plain(load_tiny(family, backend, "float32").backend, DecodeRequest(prompt, 30, frozenset([END])))
    assert found == generated(model, prompt, 30, eos_token_id=END)


@pytest.mark.parametrize("backend", ["eager", "cpu"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3_text"])
def test_a_prompt_in_chunks_is_the_prompt_at_once(load_tiny: Any, family: str, backend: str) -> None:
    target = load_tiny(family, backend)
    prompt = [3 + (index * 41) % 110 for index in range(60)]
    answers = [
        plain(target.backend, DecodeRequest(prompt, 30, prefill_rows=rows)) for rows in (1, 7, 59, 60, 512)
    ]
    assert all(answer == answers[0] for answer in answers)


def test_bfloat16_runs_and_ends(load_tiny: Any) -> None:
    target = load_tiny("llama", "eager", "bfloat16")
    assert target.dtype == "bfloat16"
    assert target.backend.model.dtype == torch.bfloat16
    request = DecodeRequest(list(range(10, 40)), 20, frozenset())
    expected = plain(target.backend, request)
    found, _ = drafted(target.backend, request, DraftLimits(budget=8), [expected])
    assert len(found) == 20

"""What drafts must not change: the distribution that tokens are drawn from, and the draws themselves."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LogitsProcessorList

from ragla.decode.kv_cache import KVCache
from ragla.decode.request import DecodeRequest
from ragla.decode.tree_attention import QueryRows
from ragla.decode.verify import AnswerPenalty, SamplingSettings, TokenChooser
from ragla.trie import DraftLimits
from tests.decode.tiny_configs import END
from tests.decode.tiny_models import drafted, few, generated, plain

WORDS = 5
PROMPT = [0, 1, 2, 3, 0, 1]
LENGTH = 3
DRAWS = 1500
READINGS = [[0, 1, 2, 3, 4], [0, 1, 4, 4, 2], [1, 3, 3, 3, 0]]


class TableBackend:
    """A model of five words whose logits are a table: they depend on the token and its position."""

    name = "table"
    device = torch.device("cpu")
    drafts = drafts_with_prompt = True
    context_end = 1000

    def __init__(self) -> None:
        self.table = 1.5 * torch.randn(WORDS, 16, WORDS, generator=torch.Generator().manual_seed(4))

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, capacity)

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        cache.rows[0].update(rows.token_ids[None, None, :, None].float(), rows.positions[None, None, :, None])
        logits = self.table[rows.token_ids, rows.positions]
        return logits[-last:]

    def after(self, text: list[int]) -> torch.Tensor:
        """The logits after a text, float [5]."""
        return self.table[text[-1], len(text) - 1]


def softened(logits: torch.Tensor, answer: list[int], temperature: float) -> torch.Tensor:
    """Temperature, written out."""
    return torch.softmax(logits.double() / temperature, -1)


def cut(logits: torch.Tensor, answer: list[int], best: int, floor: float) -> torch.Tensor:
    """The ``best`` most probable, of those as probable as a share of the first, written out."""
    chances = torch.softmax(logits.double(), -1)
    ranked = sorted(range(WORDS), key=lambda token: -float(chances[token]))[:best]
    kept = torch.zeros(WORDS, dtype=torch.double)
    for token in ranked:
        if chances[token] >= floor * chances[ranked[0]]:
            kept[token] = chances[token]
    return kept / kept.sum()


def penalised(logits: torch.Tensor, answer: list[int], presence: float, frequency: float) -> torch.Tensor:
    """Both penalties on the answer's tokens, written out."""
    changed = logits.double().clone()
    for token, count in Counter(answer).items():
        changed[token] -= presence + frequency * count
    return torch.softmax(changed, -1)


RULES: dict[str, tuple[SamplingSettings, Any]] = {
    "temperature": (SamplingSettings(1.4), lambda logits, answer: softened(logits, answer, 1.4)),
    "top-k and min-p": (
        SamplingSettings(1.0, top_k=4, min_p=0.1), lambda logits, answer: cut(logits, answer, 4, 0.1)
    ),
    "penalties": (
        SamplingSettings(1.0, presence_penalty=0.8, frequency_penalty=0.6),
        lambda logits, answer: penalised(logits, answer, 0.8, 0.6),
    ),
}  # fmt: skip


def exact_distribution(backend: TableBackend, rule: Any) -> dict[tuple[int, ...], float]:
    """The probability of each answer of three tokens, from the written-out rule."""
    chances = {}
    for answer in product(range(WORDS), repeat=LENGTH):
        chance = 1.0
        for index, token in enumerate(answer):
            before = list(answer[:index])
            chance *= float(rule(backend.after(PROMPT + before), before)[token])
        chances[answer] = chance
    assert abs(sum(chances.values()) - 1.0) < 1e-6
    return chances


def p_value(counts: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> float:
    """Pearson's chi-square test; answers expected less than five times are one bin."""
    draws = counts.total()
    common = [answer for answer, chance in chances.items() if draws * chance >= 5]
    bins = [(counts[answer], draws * chances[answer]) for answer in common]
    rest = draws - sum(count for count, _ in bins)
    expected_rest = draws - sum(expected for _, expected in bins)
    if expected_rest > 1:
        bins.append((rest, expected_rest))
    else:
        assert rest <= 10
    statistic = sum((count - expected) ** 2 / expected for count, expected in bins)
    degrees = torch.tensor((len(bins) - 1) / 2, dtype=torch.double)
    return float(torch.special.gammaincc(degrees, torch.tensor(statistic / 2, dtype=torch.double)))


@pytest.mark.parametrize("rule", RULES)
def test_drafted_draws_have_plain_samplings_distribution(rule: str) -> None:
    settings, written_out = RULES[rule]
    backend = TableBackend()
    chances = exact_distribution(backend, written_out)
    counts: Counter[tuple[int, ...]] = Counter()
    accepted = rejected = 0
    for seed in range(DRAWS):
        sampling = SamplingSettings(**{**vars(settings), "seed": seed})
        request = DecodeRequest(PROMPT, LENGTH, sampling=sampling)
        shape = ("tree", "parallel", "single")[seed % 3]
        answer, stats = drafted(backend, request, DraftLimits(2 + seed % 7, shape=shape), READINGS)  # type: ignore[arg-type]
        counts[tuple(answer)] += 1
        accepted, rejected = accepted + stats.accepted, rejected + stats.drafted - stats.accepted
    assert accepted > DRAWS / 4
    assert rejected > DRAWS / 4
    assert p_value(counts, chances) > 0.001
    off = exact_distribution(backend, lambda logits, answer: softened(logits, answer, 0.9))
    assert p_value(counts, off) < 1e-6  # the test would notice another distribution


@few(1)
@given(
    seed=st.integers(0, 2**40),
    budget=st.integers(1, 20),
    shape=st.sampled_from(["tree", "parallel", "single"]),
    length=st.integers(1, 9),
    settings=st.builds(
        SamplingSettings,
        temperature=st.sampled_from([0.0, 0.7, 1.0, 2.0]),
        top_k=st.integers(0, 5),
        top_p=st.sampled_from([1.0, 0.8]),
        min_p=st.sampled_from([0.0, 0.2]),
        repetition_penalty=st.sampled_from([1.0, 1.5]),
        presence_penalty=st.sampled_from([0.0, -1.0, 1.0]),
        frequency_penalty=st.sampled_from([0.0, 0.5]),
        bad_words=st.sampled_from([(), ((3,),), ((2,), (0, 1))]),
        min_new_tokens=st.integers(0, 5),
    ),
)
def test_a_shared_seed_draws_the_same_tokens(
    seed: int, budget: int, shape: Any, length: int, settings: SamplingSettings
) -> None:
    sampling = SamplingSettings(**{**vars(settings), "seed": seed})
    request = DecodeRequest(PROMPT, length, frozenset([4]), sampling=sampling)
    backend = TableBackend()
    expected = plain(backend, request)
    assert drafted(backend, request, DraftLimits(budget, shape=shape), [*READINGS, expected])[0] == expected
    assert 4 not in expected[: settings.min_new_tokens]
    text = PROMPT + expected
    for words in settings.bad_words:
        places = range(len(PROMPT), len(text))
        assert not any(tuple(text[place - len(words) + 1 : place + 1]) == words for place in places)


STOCK_PROMPT = [3 + (index * 37) % 110 for index in range(40)]
SEARCHES: dict[str, tuple[SamplingSettings, dict[str, Any]]] = {
    "repetition": (SamplingSettings(repetition_penalty=1.4), {"repetition_penalty": 1.4}),
    "bad words": (
        SamplingSettings(bad_words=((61,), (62, 63), (70,), (71,), (72,))),
        {"bad_words_ids": [[61], [62, 63], [70], [71], [72]]},
    ),
    "presence and frequency": (
        SamplingSettings(presence_penalty=1.5, frequency_penalty=0.7),
        {"logits_processor": LogitsProcessorList([AnswerPenalty(len(STOCK_PROMPT), 1.5, 0.7)])},
    ),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_greedy_search_with_processors_is_transformers_own(load_tiny: Any, search: str) -> None:
    settings, keywords = SEARCHES[search]
    backend = load_tiny("llama", "eager").backend
    usual = generated(backend.model, STOCK_PROMPT, 24)
    if search == "bad words":  # what the model would say first is among them
        settings = SamplingSettings(bad_words=((usual[0],), (usual[3], usual[4]), *settings.bad_words))
        keywords = {"bad_words_ids": [list(words) for words in settings.bad_words]}
    expected = generated(backend.model, STOCK_PROMPT, 24, **keywords)
    assert expected != usual
    request = DecodeRequest(STOCK_PROMPT, 24, sampling=settings)
    assert plain(backend, request) == expected
    assert drafted(backend, request, DraftLimits(24), [usual, expected])[0] == expected


def test_no_end_before_the_least_length_as_in_transformers(load_tiny: Any) -> None:
    """The token that would come third is made an end, and a draft of the usual answer offers it."""
    backend = load_tiny("llama", "eager").backend
    usual = generated(backend.model, STOCK_PROMPT, 24)
    ends = frozenset([usual[2], END])
    request = DecodeRequest(STOCK_PROMPT, 24, ends)
    assert plain(backend, request) == usual[:3]
    late = DecodeRequest(STOCK_PROMPT, 24, ends, sampling=SamplingSettings(min_new_tokens=9))
    expected = generated(
        backend.model, STOCK_PROMPT, 24, min_new_tokens=9, eos_token_id=sorted(ends), pad_token_id=0
    )
    assert len(expected) > 9
    assert plain(backend, late) == expected
    assert drafted(backend, late, DraftLimits(24), [usual, expected])[0] == expected


def test_the_processed_distribution_is_transformers_own(load_tiny: Any) -> None:
    """Every key at once: on the path that ``generate`` took, its scores are ours."""
    model = load_tiny("llama", "eager").backend.model
    settings = SamplingSettings(
        0.8, top_k=40, top_p=0.95, repetition_penalty=1.2, min_p=0.03, presence_penalty=0.4,
        frequency_penalty=0.2, bad_words=((9,), (10, 11)), min_new_tokens=6,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.inference_mode():
        output = model.generate(
            torch.tensor([STOCK_PROMPT]), attention_mask=torch.ones(1, len(STOCK_PROMPT), dtype=torch.long),
            do_sample=True, temperature=0.8, top_k=40, top_p=0.95, repetition_penalty=1.2, min_p=0.03,
            bad_words_ids=[[9], [10, 11]], min_new_tokens=6, max_new_tokens=20, pad_token_id=0,
            logits_processor=LogitsProcessorList([AnswerPenalty(len(STOCK_PROMPT), 0.4, 0.2)]),
            output_scores=True, output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
    answer = output.sequences[0, len(STOCK_PROMPT) :].tolist()
    assert len(answer) >= 6
    chooser = TokenChooser(settings, STOCK_PROMPT, [END])
    for index, (raw, scores) in enumerate(zip(output.logits, output.scores, strict=True)):
        ids = torch.tensor([STOCK_PROMPT + answer[:index]])
        assert torch.equal(chooser.processors(ids, raw.clone()), scores)  # type: ignore[arg-type]


def test_presence_counts_once_and_frequency_each_time() -> None:
    scores = AnswerPenalty(2, 0.5, 0.25)(torch.tensor([[0, 1, 2, 2, 3]]), torch.zeros(1, 6))
    assert scores.tolist() == [[0.0, 0.0, -1.0, -0.75, 0.0, 0.0]]


def test_a_bad_word_that_is_an_end_stays_an_end() -> None:
    chooser = TokenChooser(SamplingSettings(bad_words=((3,), (1,))), [0], [3])
    assert chooser.choose(torch.tensor([0.0, 5.0, 1.0, 4.0])) == 3

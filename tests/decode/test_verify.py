"""Choosing tokens from logits, and the ids that are recycled."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.verify import SamplingSettings, TokenChooser, best_ids, second_thoughts
from tests.decode.tiny_models import few

DRAWS = 4000


def logits_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@few(2)
@given(
    rows=st.integers(1, 5),
    vocabulary=st.sampled_from([1, 5, 8, 120, 256, 2048, 2304, 2305, 2600, 5000]),
    seed=st.integers(0, 1000),
    count=st.integers(1, 8),
)
def test_best_ids_are_the_top_k(rows: int, vocabulary: int, seed: int, count: int) -> None:
    # distinct values, so that there is one right order
    order = torch.randperm(rows * vocabulary, generator=torch.Generator().manual_seed(seed))
    logits = order.view(rows, vocabulary).float()
    expected = logits.topk(min(count, vocabulary)).indices.tolist()
    assert best_ids(logits, count) == expected


def frequencies(settings: SamplingSettings, logits: torch.Tensor, prompt: list[int]) -> torch.Tensor:
    chooser = TokenChooser(settings, prompt)
    counts = torch.zeros(len(logits))
    for _ in range(DRAWS):
        counts[chooser.choose(logits)] += 1
        chooser.ids = list(prompt)  # the same position each time
    return counts / DRAWS


def test_temperature_one_draws_the_softmax() -> None:
    logits = logits_of(6)
    found = frequencies(SamplingSettings(temperature=1.0), logits, [0])
    assert (found - logits.softmax(-1)).abs().max() < 0.03


def test_temperature_sharpens() -> None:
    logits = logits_of(6)
    found = frequencies(SamplingSettings(temperature=0.5), logits, [0])
    assert (found - (logits / 0.5).softmax(-1)).abs().max() < 0.03


def test_top_k_and_top_p_cut_the_tail() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    top_k = frequencies(SamplingSettings(temperature=1.0, top_k=2), logits, [0])
    assert (top_k - torch.tensor([4 / 7, 3 / 7, 0.0, 0.0])).abs().max() < 0.03
    top_p = frequencies(SamplingSettings(temperature=1.0, top_p=0.65), logits, [0])
    assert (top_p - torch.tensor([4 / 7, 3 / 7, 0.0, 0.0])).abs().max() < 0.03


def test_the_penalty_counts_prompt_and_answer() -> None:
    logits = torch.tensor([1.0, 0.9, 0.8])
    chooser = TokenChooser(SamplingSettings(repetition_penalty=2.0), [])
    assert [chooser.choose(logits) for _ in range(4)] == [0, 1, 2, 0]
    assert TokenChooser(SamplingSettings(repetition_penalty=2.0), [0, 1]).choose(logits) == 2


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_a_seed_repeats_its_draws(seed: int) -> None:
    settings = SamplingSettings(temperature=1.0, seed=seed)
    rows = logits_of(30, 50, seed=3)
    first, second = TokenChooser(settings, [1]), TokenChooser(settings, [1])
    assert [first.choose(row) for row in rows] == [second.choose(row) for row in rows]


def test_other_seeds_draw_otherwise() -> None:
    rows = logits_of(30, 50, seed=3)
    answers = set()
    for seed in range(3):
        chooser = TokenChooser(SamplingSettings(temperature=1.0, seed=seed), [1])
        answers.add(tuple(chooser.choose(row) for row in rows))
    assert len(answers) == 3


def test_logits_are_not_changed() -> None:
    logits = logits_of(20)
    before = logits.clone()
    TokenChooser(SamplingSettings(1.0, 5, 0.9, 1.5), [1, 2, 3]).choose(logits)
    assert logits.equal(before)


def test_second_thoughts_are_the_best_ids_with_their_probabilities_among_themselves() -> None:
    logits = torch.randn(5, 3000)
    ids, chances = second_thoughts(logits, 8)
    assert ids == best_ids(logits, 8)
    expected = torch.softmax(logits.topk(8, dim=-1).values, dim=-1)
    torch.testing.assert_close(torch.tensor(chances), expected)

"""What is fetched of a pass in one piece is what is computed figure by figure."""

from __future__ import annotations

import pytest
import torch

from ragla.decode.ranked import RankedRows
from ragla.decode.request import DecodeRequest, Ending
from ragla.decode.ties import Judge
from ragla.decode.verify import SamplingSettings, TokenChooser
from ragla.trie import DraftTree


def logits_of(vocabulary: int, dtype: torch.dtype) -> torch.Tensor:
    logits = torch.randn(9, vocabulary, generator=torch.Generator().manual_seed(vocabulary)).to(dtype)
    logits[0] = 1.0  # all equally good
    logits[1, 3:5] = 9.0
    return logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocabulary", [5, 120, 152_000])
def test_fetched_figures_are_the_computed_ones(vocabulary: int, dtype: torch.dtype) -> None:
    logits = logits_of(vocabulary, dtype)
    lazy, fetched = RankedRows(logits, fetch=False), RankedRows(logits, fetch=True)
    for node in range(len(logits)):
        assert fetched.first(node) == lazy.first(node) == int(logits[node].argmax())
        assert fetched.two_best(node)[2:] == lazy.two_best(node)[2:]
        if node > 1 and dtype == torch.float32:  # in half precision equals abound, in any order
            assert fetched.two_best(node) == lazy.two_best(node)
    assert fetched.second_thoughts()[0] == lazy.second_thoughts()[0]
    for some, others in zip(fetched.second_thoughts()[1], lazy.second_thoughts()[1], strict=True):
        assert some == pytest.approx(others, abs=1e-6)


@pytest.mark.parametrize("sampling", [SamplingSettings(), SamplingSettings(repetition_penalty=2.0)])
@pytest.mark.parametrize("tie", [0.0, 0.01])
@pytest.mark.parametrize("fetch", [False, True])
def test_a_judge_on_either(sampling: SamplingSettings, tie: float, fetch: bool) -> None:
    """Near-ties are left open, all else is decided as the plain loop decides; penalties change both."""
    logits = logits_of(120, torch.float32)
    request = DecodeRequest([int(logits[2].argmax())], 20)
    ending = Ending(request, 100)
    chooser = TokenChooser(sampling, request.prompt_ids)
    judge = Judge(chooser, ending, tie)
    tree = DraftTree([5])
    tree.add(6, 0)
    rows = RankedRows(logits, fetch=fetch)
    assert judge.choose(tree, rows, 1) == (None if tie else 3)
    best = logits[2].clone()
    for token in set(chooser.ids):  # empty without a penalty; all of these logits are positive
        best[token] /= 2.0
    assert judge.choose(tree, rows, 2) == int(best.argmax())
    assert ending.token_ids[-1] == int(best.argmax())

"""A first draft that goes through the model with the prompt's end: the same ids, fewer steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.backend.eager import EagerBackend
from ragla.decode.budget import StepCost
from ragla.decode.decoder import lookahead
from ragla.decode.kv_cache import KVCache
from ragla.decode.model import LoadSettings, load_target
from ragla.decode.prefill import PromptCache
from ragla.decode.request import DecodeRequest
from ragla.decode.stats import DecodeStats
from ragla.decode.tree_attention import QueryRows, causal_rows, text_and_tree_rows, tree_rows
from ragla.decode.verify import SamplingSettings
from ragla.trie import Answers, Drafter, DraftLimits, DraftTree
from tests.decode.random_trees import random_tree
from tests.decode.test_shortage import SmallMemory
from tests.decode.tiny_configs import tiny_config
from tests.decode.tiny_models import VOCABULARY, ScriptedBackend, drafted, few, plain, save_tiny

CPU = torch.device("cpu")
PROMPT = [5, 6, 7]
LIMITS = DraftLimits(budget=16)
KINDS = [
    ("llama", "eager", "float32"),
    ("gemma3_text", "cpu", "float32"),
    ("mistral", "cpu", "float32"),
    ("llama", "cpu", "int8"),
]


def following(token: int, position: int) -> int:
    return 3 + (token * 3 + position) % 90


def scripted() -> ScriptedBackend:
    return ScriptedBackend(following)


ANSWER = plain(scripted(), DecodeRequest(PROMPT, 40))


@given(nodes=st.integers(1, 12), text=st.integers(1, 9), prefix=st.integers(0, 9), window=st.integers(1, 20))
def test_the_rows_are_the_texts_and_then_the_trees(nodes: int, text: int, prefix: int, window: int) -> None:
    tree = random_tree(nodes, nodes)
    ids = [*range(20, 20 + text - 1), tree.token_ids[0]]
    rows = text_and_tree_rows(ids, tree, prefix, CPU)
    alone, draft = causal_rows(ids, prefix, CPU), tree_rows(tree, prefix + text - 1, CPU)
    assert rows.token_ids.tolist() == [*ids, *tree.token_ids[1:]]
    assert torch.equal(rows.positions[text - 1 :], draft.positions)
    for mask, of_text, of_draft in [
        (rows.visible, alone.visible, draft.visible),
        (rows.within(window), alone.within(window), draft.within(window)),
    ]:
        assert torch.equal(mask[:text, : prefix + text], of_text)
        assert not mask[:text, prefix + text :].any()
        assert torch.equal(mask[text - 1 :], of_draft)


def test_what_is_accepted_needs_no_step() -> None:
    backend = scripted()
    request = DecodeRequest(PROMPT, 12)
    found, stats = drafted(backend, request, LIMITS, earlier=[ANSWER[:5]])
    assert found == ANSWER[:12]
    assert backend.forwards[0] == len(PROMPT) + stats.prefill_drafted
    assert stats.prefill_accepted == 5
    assert stats.tokens == 12 == 1 + 5 + sum(step.committed for step in stats.steps)
    assert stats.tokens_per_step == 11 / len(stats.steps)
    assert stats.accepted == 5 + sum(step.accepted for step in stats.steps)
    assert stats.drafted == stats.prefill_drafted + sum(step.drafted for step in stats.steps)


def test_a_whole_answer_may_come_with_the_prompt() -> None:
    request = DecodeRequest(PROMPT, 5, frozenset([ANSWER[4]]))
    backend = scripted()
    found, stats = drafted(backend, request, LIMITS, earlier=[ANSWER])
    assert (found, stats.steps, len(backend.forwards)) == (ANSWER[:5], [], 1)
    assert (stats.tokens_per_step, stats.decode_tokens_per_s) == (0.0, 0.0)


@pytest.mark.parametrize("new_tokens", [1, 2, 3, 8])
def test_no_more_is_drafted_than_may_come(new_tokens: int) -> None:
    backend = ScriptedBackend(following, context_end=len(PROMPT) + 8)
    found, stats = drafted(backend, DecodeRequest(PROMPT, new_tokens), LIMITS, earlier=[ANSWER])
    assert found == ANSWER[:new_tokens]
    assert (stats.prefill_drafted > 0) == (new_tokens > 1)
    assert stats.prefill_accepted <= new_tokens - 1
    found, _ = drafted(backend, DecodeRequest(PROMPT, 100), LIMITS, earlier=[ANSWER])
    assert found == ANSWER[:8]  # the window's end


@pytest.mark.parametrize("at", range(7))
def test_an_answer_ends_where_it_would(at: int) -> None:
    """At an end-of-sequence token, which may be drafted here, and at a stop string over two tokens."""
    for request in (
        DecodeRequest(PROMPT, 30, frozenset([ANSWER[at]])),
        DecodeRequest(PROMPT, 30, stop=(f"<{ANSWER[at]}><{ANSWER[at + 1]}",), detokenize=written),
        DecodeRequest(PROMPT, 30, stop=(f"{ANSWER[at]}>",), detokenize=written),
    ):
        expected = plain(scripted(), request)
        found, stats = drafted(scripted(), request, LIMITS, earlier=[ANSWER])
        assert found == expected
        assert stats.tokens == len(expected)


def written(token_ids: list[int]) -> str:
    return "".join(f"<{token}>" for token in token_ids)


def test_a_block_says_where_its_tokens_were_read() -> None:
    drafter = Drafter(answers=Answers(8, 1000))
    drafter.end(ANSWER[:3], "earlier")
    drafter.begin(PROMPT)
    seen: list[Any] = []
    blocks = list(
        lookahead(
            scripted(), drafter, DecodeRequest(PROMPT, 9), DecodeStats(), LIMITS,
            observe=lambda number, tree, nodes: seen.append((number, len(nodes))),
        )
    )  # fmt: skip
    assert blocks[0].token_ids == ANSWER[:4]
    assert blocks[0].origins == [("earlier", 0), ("earlier", 1), ("earlier", 2), None]
    assert [number for number, _ in seen] == [*range(len(blocks))]
    assert seen[0] == (0, 3)


@pytest.mark.parametrize(("family", "backend", "dtype"), KINDS)
@few(20)
@given(
    prompt=st.lists(st.integers(3, VOCABULARY - 1), min_size=1, max_size=60),
    rows=st.integers(1, 40),
    cut=st.integers(0, 60),
    budget=st.integers(1, 64),
    shape=st.sampled_from(["tree", "parallel", "single"]),
    known=st.integers(0, 12),
    sampling=st.sampled_from([SamplingSettings(), SamplingSettings(0.8, seed=3, repetition_penalty=1.2)]),
    rank=st.booleans(),
)
def test_the_ids_are_the_plain_loops(
    load_tiny: Any, family: str, backend: str, dtype: str, prompt: list[int], rows: int, cut: int,
    budget: int, shape: Any, known: int, sampling: SamplingSettings, rank: bool,
) -> None:  # fmt: skip
    """Over chunks, budgets, shapes, windows and draws; answers decoded over kept rows in between."""
    target = load_tiny(family, backend, dtype)
    request = DecodeRequest(
        prompt, 12, target.end_ids, sampling=sampling, prefill_rows=rows, cuts=(cut,), rank_prompt=rank
    )
    expected = plain(target.backend, request)
    false = [(token * 7 + 1) % VOCABULARY for token in expected]
    earlier = [[*expected[:known], *false], expected[:2] + false, [4, 5]]
    kept = PromptCache()
    for _ in range(2):
        limits = DraftLimits(budget, shape=shape)
        found, stats = drafted(target.backend, request, limits, [false], earlier, kept)
        assert found == expected
        assert stats.prefill_drafted <= budget - 1


@pytest.mark.parametrize(("family", "backend", "dtype"), KINDS)
def test_a_draft_beside_the_prompt_leaves_its_rows_alone(
    load_tiny: Any, family: str, backend: str, dtype: str
) -> None:
    """To the bit where rows stand alone, and the ranks of the prompt, too."""
    target = load_tiny(family, backend, dtype).backend
    ids, tree = [*range(20, 60)], random_tree(9, 4)
    kept, ranks = [], []
    for rows in (causal_rows(ids, 0, CPU), text_and_tree_rows(ids, tree, 0, CPU)):
        cache = target.new_cache(80)
        logits, ranked = target.forward_ranked(rows, cache, 4, last=len(rows) - 39)
        states = [part[:, :, :40] for layer in cache.rows for part in (layer.keys, layer.values)]
        kept.append([*states, logits[:1]])
        ranks.append(ranked[:40])
        assert len(ranked) == len(rows)
        assert torch.equal(logits, target.forward(rows, target.new_cache(80), last=len(rows) - 39))
    for alone, beside in zip(*kept, strict=True):
        if backend == "cpu" and target.drafts_with_prompt:
            assert torch.equal(alone, beside)
        else:
            torch.testing.assert_close(alone, beside)
    assert ranks[0] == ranks[1]


def test_a_chunk_with_a_draft_beside_it_is_not_kept() -> None:
    backend = scripted()
    kept, told = PromptCache(), []
    kept.on_rows = lambda rows, wanted: told.append((rows, wanted))
    request = DecodeRequest([*PROMPT, 8, 9], 1, cuts=(3,))
    longer = DecodeRequest([*PROMPT, 8, 9, 10], 3, cuts=(3, 5))
    drafted(backend, DecodeRequest([*PROMPT, 8, 9], 3, cuts=(3,)), LIMITS, earlier=[[1, 2]], kept=kept)
    assert kept.ends == [3]
    assert told[-1] == (5, 5)
    backend.forwards.clear()
    plain_answer = plain(scripted(), longer)
    assert drafted(backend, longer, LIMITS, kept=kept)[0] == plain_answer
    assert backend.forwards[:2] == [2, 1]
    drafted(backend, request, LIMITS, kept=PromptCache())
    assert kept.ends == [3, 5, 6]


def test_where_memory_runs_out_the_draft_is_left_out_first(load_tiny: Any) -> None:
    small = SmallMemory(load_tiny("llama", "eager").backend.model)
    request = DecodeRequest([3 + (index * 37) % 110 for index in range(30)], 20)
    expected = plain(small, request)
    small.most, small.seen = 32, []
    kept = PromptCache()
    limits = DraftLimits(budget=16)
    found, stats = drafted(small, request, limits, [expected], [expected, [4, 5]], kept)
    assert found == expected
    assert small.seen[1] == 30 < 32 < small.seen[0]
    assert (stats.prefill_drafted, kept.limits.prefill, kept.limits.draft) == (0, None, None)
    assert kept.limits.notice() is None
    small.seen.clear()
    assert drafted(small, request, limits, [expected], [expected, [4, 5]], kept)[0] == expected
    assert max(small.seen) <= 32  # it was learned
    small.most = 7
    assert drafted(small, request, limits, [expected], [expected], PromptCache())[0] == expected


def test_near_ties_that_are_left_open_are_not_drafted_with_the_prompt(load_tiny: Any) -> None:
    backend = load_tiny("llama", "eager").backend
    drafter, stats = Drafter(answers=Answers(8, 1000)), DecodeStats()
    drafter.end([4, 5])
    drafter.begin(PROMPT)
    request = DecodeRequest(PROMPT, 9)
    blocks = lookahead(backend, drafter, request, stats, LIMITS, tie=0.01)
    assert [token for block in blocks for token in block.token_ids] == plain(backend, request)
    assert stats.prefill_drafted == 0


def test_a_backend_may_decline() -> None:
    backend = scripted()
    backend.drafts_with_prompt = False
    found, stats = drafted(backend, DecodeRequest(PROMPT, 9), LIMITS, earlier=[ANSWER])
    assert (found, stats.prefill_drafted, backend.forwards[0]) == (ANSWER[:9], 0, 3)


class Recorded(EagerBackend):
    """Counts the rows of its passes."""

    seen: list[int]

    def forward(self, rows: QueryRows, cache: KVCache, *, last: int = 0) -> torch.Tensor:
        self.seen.append(len(rows))
        return super().forward(rows, cache, last=last)


def test_costs_are_measured_behind_the_first_draft(load_tiny: Any) -> None:
    """Its accepted rows stay as they are; without a measurement there is none."""
    backend = Recorded(load_tiny("llama", "eager").backend.model)
    backend.seen = []
    request = DecodeRequest([*range(10, 40)], 20)
    expected = plain(backend, request)
    cost = StepCost()
    for known in (False, True):
        drafter, stats = Drafter(answers=Answers(8, 1000)), DecodeStats()
        drafter.end(expected)
        drafter.begin(request.prompt_ids)
        backend.seen.clear()
        blocks = lookahead(backend, drafter, request, stats, LIMITS, cost)
        assert [token for block in blocks for token in block.token_ids] == expected
        assert (stats.prefill_drafted > 0) == known
        assert backend.seen[0] == 30 + stats.prefill_drafted
        assert stats.calibration_s > 0.0
        cost = StepCost({4: dict.fromkeys((1, 2, 4, 8), 0.01)})  # of another length: more is measured


def test_a_node_is_worth_a_row_where_it_saves_more_than_the_row_takes() -> None:
    tree = DraftTree([1])
    for chance in (0.9, 0.5, 0.2, 0.1, 0.05):
        tree.add(2, 0, chance)
    cheap = StepCost({10: {1: 0.010, 16: 0.016}})  # a row at most 1 ms, a token at best 10.4 / 2.75 ms
    assert len(cheap.trim_beside(tree, 1000)) == 3
    assert len(StepCost({10: {1: 0.010, 16: 0.0101}}).trim_beside(tree, 1000)) == 4
    assert len(StepCost({10: {1: 0.010, 16: 0.160}}).trim_beside(tree, 1000)) == 1
    assert len(StepCost().trim_beside(tree, 1000)) == 1
    assert len(cheap.trim_beside(DraftTree([1]), 1000)) == 1


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("text", [250, 300])
def test_heads_of_any_width_have_the_bits_of_steps(tmp_path: Path, dtype: Any, text: int) -> None:
    """Of prompts longer than any draft, too, which once were read in another precision than steps."""
    folder = save_tiny(tmp_path / "odd", tiny_config("llama", head_dim=12))
    target = load_target(folder, LoadSettings(backend="cpu", dtype=dtype)).backend
    ids = [3 + at % 50 for at in range(text)]
    tree = DraftTree(ids[-1:])
    tree.add(7, 0)
    tree.add(9, 1)
    together = target.forward(text_and_tree_rows(ids, tree, 0, CPU), target.new_cache(text + 3), last=3)
    cache = target.new_cache(text + 3)
    apart = [target.forward(causal_rows(ids, 0, CPU), cache, last=1)]
    cache.committed(text)
    for token in (7, 9):
        apart.append(target.forward(causal_rows([token], cache.length, CPU), cache))
        cache.committed(1)
    assert torch.equal(together, torch.cat(apart))

"""What every draft promises, whatever the prompt; and the faults drafted decoding is known for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import Drafter, DraftLimits, DraftTree, Origin

TOKENS = st.integers(0, 6)
IDS = st.lists(TOKENS, min_size=1, max_size=40)


@dataclass
class Scene:
    """A drafter in the middle of an answer, and everything it has seen."""

    drafter: Drafter
    last_token: int
    sequences: list[list[int]]
    recycled: dict[int, list[int]]

    def draft(self, limits: DraftLimits) -> DraftTree:
        return self.drafter.draft(self.last_token, limits)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    drafter = Drafter(order=draw(st.integers(1, 5)), answer_trie_nodes=draw(st.sampled_from([0, 50, 1000])))
    earlier = draw(st.lists(IDS, max_size=2)) if drafter.answers is not None else []
    for answer in earlier:
        drafter.end(answer)
    seeds = draw(st.lists(IDS, max_size=2))
    prompt = draw(IDS)
    drafter.begin(prompt, [(f"seed {index}", ids) for index, ids in enumerate(seeds)])
    recycled = draw(st.dictionaries(TOKENS, st.lists(TOKENS, max_size=8, unique=True), max_size=5))
    for token, best in recycled.items():
        drafter.recycle(token, best)
    answer = draw(st.lists(TOKENS, max_size=15))
    drafter.commit(answer)
    text = prompt + answer
    return Scene(drafter, text[-1], [*earlier, *seeds, text], recycled)


LIMITS = st.builds(
    DraftLimits,
    budget=st.integers(1, 40),
    max_depth=st.integers(0, 10),
    shape=st.sampled_from(["tree", "parallel", "single"]),
    forbidden=st.frozensets(TOKENS, max_size=2),
    barred_anchors=st.frozensets(TOKENS, max_size=2),
)


@given(scenes(), LIMITS)
def test_a_draft_stays_within_its_limits(scene: Scene, limits: DraftLimits) -> None:
    tree = scene.draft(limits)
    assert tree.token_ids[0] == scene.last_token
    assert len(tree) <= limits.budget
    assert max(tree.depths()) <= limits.max_depth
    assert not limits.forbidden & set(tree.token_ids[1:])
    assert all(0 <= parent < node for node, parent in enumerate(tree.parents) if node)


@given(scenes(), LIMITS)
def test_siblings_differ(scene: Scene, limits: DraftLimits) -> None:
    tree = scene.draft(limits)
    edges = [(tree.parents[node], tree.token_ids[node]) for node in range(1, len(tree))]
    assert len(edges) == len(set(edges))


@given(scenes(), LIMITS)
def test_the_shape_is_the_one_asked_for(scene: Scene, limits: DraftLimits) -> None:
    parents = scene.draft(limits).parents[1:]
    if limits.shape == "single":
        assert parents == list(range(len(parents)))
    if limits.shape == "parallel":
        below = [parent for parent in parents if parent != 0]
        assert len(below) == len(set(below))


@given(scenes(), LIMITS)
def test_probabilities_fall_and_add_up(scene: Scene, limits: DraftLimits) -> None:
    tree = scene.draft(limits)
    assert tree.probabilities[0] == 1.0
    assert all(before >= after for before, after in pairwise(tree.probabilities))
    for parent, children in enumerate(tree.children()):
        mass = sum(tree.probabilities[node] for node in children.values())
        assert mass <= tree.probabilities[parent] * (1 + 1e-9)
    assert sum(tree.probabilities[1:]) <= limits.max_depth + 1e-9


@given(scenes(), LIMITS)
def test_a_drafted_token_was_seen_there_or_recycled(scene: Scene, limits: DraftLimits) -> None:
    """With an origin it followed its parent somewhere; without one the model ranked it after its parent."""
    tree = scene.draft(limits)
    seen = {pair for sequence in scene.sequences for pair in pairwise(sequence)}
    for node in range(1, len(tree)):
        parent_token = tree.token_ids[tree.parents[node]]
        if tree.origins[node] is None:
            assert tree.token_ids[node] in scene.recycled[parent_token]
        else:
            assert (parent_token, tree.token_ids[node]) in seen


@given(scenes(), LIMITS)
def test_a_smaller_budget_drafts_the_beginning_of_the_larger_one(scene: Scene, limits: DraftLimits) -> None:
    """So that cutting a draft loses the least likely nodes."""
    whole = scene.draft(replace(limits, budget=40, shape="tree"))
    part = scene.draft(replace(limits, budget=min(limits.budget, 40), shape="tree"))
    assert sum(part.probabilities) == pytest.approx(sum(whole.probabilities[: len(part)]))


@given(scenes(), LIMITS)
def test_drafting_changes_nothing(scene: Scene, limits: DraftLimits) -> None:
    assert scene.draft(limits) == scene.draft(limits)


def test_origins_name_the_source_and_the_offset() -> None:
    drafter = Drafter()
    drafter.begin([1, 2, 3], [("passage:0", [9, 8, 7, 1, 2, 3, 4, 5])])
    tree = drafter.draft(3, DraftLimits(budget=3))
    assert tree.token_ids == [3, 4, 5]
    assert tree.origins[1:] == [Origin("passage:0", 6), Origin("passage:0", 7)]


def test_a_barred_anchor_alone_drafts_nothing() -> None:
    drafter = Drafter()
    drafter.begin([5, 6, 1, 7, 8, 1])
    assert drafter.draft(1, DraftLimits()).token_ids[1:2] == [7]
    assert len(drafter.draft(1, DraftLimits(barred_anchors=frozenset([1])))) == 1
    drafter.begin([5, 6, 1, 7, 8, 6, 1])
    assert drafter.draft(1, DraftLimits(barred_anchors=frozenset([1]))).token_ids[1:2] == [7]


def test_recycled_ranks_draft_where_nothing_was_read() -> None:
    drafter = Drafter()
    drafter.begin([1, 2, 3])
    drafter.recycle(3, [40, 50])
    tree = drafter.draft(3, DraftLimits(budget=4))
    assert tree.token_ids[1:] == [40, 50]
    assert tree.origins[1:] == [None, None]


def test_special_tokens_do_not_cut_the_prompt() -> None:
    """A chat prompt holds end-of-turn tokens between the documents; all of it must reach the trie."""
    end = 0
    drafter = Drafter()
    drafter.begin([1, 2, 3, end, 4, 5, 6, end, 7, 8, 9, end, 1, 2])
    assert drafter.draft(2, DraftLimits(budget=3)).token_ids == [2, 3, end]
    drafter.commit([7])
    tree = drafter.draft(7, DraftLimits(budget=8, forbidden=frozenset([end])))
    assert tree.token_ids == [7, 8, 9]


def test_documents_are_not_crowded_out_by_earlier_answers() -> None:
    drafter = Drafter(answer_trie_nodes=10_000)
    for _ in range(200):
        drafter.end([1, 2, 99, 98, 97])
    drafter.begin([50, 1, 2, 3, 4, 5, 6, 51, 1, 2])
    tree = drafter.draft(2, DraftLimits(budget=4))
    assert tree.token_ids[1] == 3


def test_the_next_question_forgets_the_last() -> None:
    drafter = Drafter()
    drafter.begin([1, 2, 3, 4, 5, 1, 2], [("passage:0", [2, 6, 7])])
    drafter.commit([3, 4])
    drafter.begin([2])
    assert len(drafter.draft(2, DraftLimits())) == 1
    assert drafter.question.trie.node_count == 1


def test_earlier_answers_stay() -> None:
    drafter = Drafter(answer_trie_nodes=1000)
    drafter.begin([1, 2])
    drafter.commit([5, 6, 7])
    drafter.end([5, 6, 7])
    drafter.begin([9, 5])
    assert drafter.draft(5, DraftLimits(budget=3)).token_ids == [5, 6, 7]


def test_earlier_answers_are_bounded() -> None:
    drafter = Drafter(answer_trie_nodes=500)
    assert drafter.answers is not None
    for start in range(0, 4000, 40):
        drafter.end(list(range(start, start + 40)))
        assert drafter.answers.trie.node_count <= 500


def test_confidence_is_learned_from_predictions_only() -> None:
    """A context without followers predicted nothing, so it was not wrong."""
    drafter = Drafter(answer_trie_nodes=1000)
    drafter.end([5, 6, 7])
    before = [list(source.confidence) for source in drafter._sources()]
    drafter.begin([5, 6, 7])
    drafter.commit([8])
    assert [source.confidence for source in drafter._sources()] == before


def test_confidence_follows_hits_and_misses() -> None:
    drafter = Drafter(order=2)
    drafter.begin([1, 2, 3, 1, 2])
    before = list(drafter.question.confidence)
    drafter.commit([3])
    assert drafter.question.confidence[2] > before[2]
    assert drafter.question.confidence[1] == before[1]  # not asked: the longer context was right
    drafter.begin([1, 2, 3, 1, 2])
    risen = list(drafter.question.confidence)
    drafter.commit([9])
    assert drafter.question.confidence[2] < risen[2]
    assert drafter.question.confidence[1] < risen[1]


def test_a_drafter_that_has_not_begun_drafts_nothing() -> None:
    drafter = Drafter()
    assert len(drafter.draft(3, DraftLimits())) == 1
    drafter.commit([3, 4, 3])
    assert drafter.draft(3, DraftLimits(budget=2)).token_ids == [3, 4]


def test_drafting_does_not_slow_with_the_prompt() -> None:
    """A follower's look-up must not grow with the prompt, not even after its commonest token."""

    def seconds(words: int) -> float:
        drafter = Drafter()
        common = 0
        prompt = [token for word in range(1, words + 1) for token in (word, common)]
        drafter.begin(prompt)
        limits = DraftLimits(budget=64)
        times = []
        for _ in range(5):
            began = perf_counter()
            drafter.draft(common, limits)
            times.append(perf_counter() - began)
        return min(times)

    assert seconds(25_000) < 20 * seconds(250) + 0.005

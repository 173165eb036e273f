"""What every draft promises, whatever the prompt; and the faults drafted decoding is known for."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from itertools import pairwise
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import SOURCES, Answers, Drafter, DraftLimits, DraftTree, Origin
from ragla.trie.growth import CLASSES, KINDS
from ragla.trie.windows import SINGLE

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
    order = draw(st.integers(1, 5))
    nodes = draw(st.sampled_from([0, 50, 1000]))
    without = draw(st.frozensets(st.sampled_from(SOURCES), max_size=3))
    drafter = Drafter(order, Answers(order, nodes) if nodes else None, without)
    earlier = draw(st.lists(IDS, max_size=2)) if drafter.answers is not None else []
    for index, answer in enumerate(earlier):
        drafter.end(answer, f"answer {index}")
    seeds = draw(st.lists(IDS, max_size=2))
    prompt = draw(IDS)
    drafter.begin(prompt, [(f"seed {index}", ids) for index, ids in enumerate(seeds)])
    recycled = draw(st.dictionaries(TOKENS, st.lists(TOKENS, max_size=8, unique=True), max_size=5))
    drafter.recycle(list(recycled), list(recycled.values()))
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
    stops=st.lists(st.lists(TOKENS, min_size=1, max_size=3).map(tuple), max_size=2).map(tuple),
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
def test_a_token_with_an_origin_was_read_there(scene: Scene, limits: DraftLimits) -> None:
    """It followed its parent somewhere. One without an origin is a second thought or a frequent token."""
    tree = scene.draft(limits)
    seen = {pair for sequence in scene.sequences for pair in pairwise(sequence)}
    thoughts = {token for best in scene.recycled.values() for token in best}
    known = thoughts | {token for sequence in scene.sequences for token in sequence}
    for node in range(1, len(tree)):
        parent_token = tree.token_ids[tree.parents[node]]
        if tree.origins[node] is None:
            assert tree.token_ids[node] in known
        else:
            assert (parent_token, tree.token_ids[node]) in seen


@given(scenes(), LIMITS)
def test_nothing_is_drafted_behind_a_stop_sequence(scene: Scene, limits: DraftLimits) -> None:
    tree = scene.draft(limits)
    for node, path in enumerate(tree.ancestors()):
        parents = [tree.token_ids[step] for step in path[:-1]]
        if len(parents) > 1:
            text = [*scene.sequences[-1], *parents[1:]]
            assert not any(text[-len(stop) :] == list(stop) for stop in limits.stops), node


@given(scenes(), LIMITS)
def test_a_smaller_budget_drafts_the_beginning_of_the_larger_one(scene: Scene, limits: DraftLimits) -> None:
    """So that cutting a draft loses the least likely nodes."""
    whole = scene.draft(replace(limits, budget=40, shape="tree"))
    part = scene.draft(replace(limits, budget=min(limits.budget, 40), shape="tree"))
    assert sum(part.probabilities) == pytest.approx(sum(whole.probabilities[: len(part)]))


@given(scenes(), LIMITS)
def test_drafting_changes_nothing(scene: Scene, limits: DraftLimits) -> None:
    assert scene.draft(limits) == scene.draft(limits)


@given(scenes(), LIMITS, st.data())
def test_whatever_is_accepted_the_next_draft_is_as_sound(
    scene: Scene, limits: DraftLimits, data: st.DataObject
) -> None:
    """Learning keeps every belief within bounds."""
    for _ in range(3):
        tree = scene.draft(limits)
        node, accepted = 0, []
        while children := list(tree.children()[node].values()):
            if data.draw(st.booleans()):
                break
            node = data.draw(st.sampled_from(children))
            accepted.append(node)
        bonus = data.draw(TOKENS)
        scene.drafter.learn(tree, accepted)
        scene.drafter.commit([*[tree.token_ids[node] for node in accepted], bonus])
        scene.drafter.recycle(tree.token_ids, [[bonus, 1]] * len(tree), [0, *accepted])
        scene.last_token = bonus
    tree = scene.draft(limits)
    assert all(0.0 < p <= 1.0 for p in tree.probabilities)
    confidences = [value for source in scene.drafter._sources for value in source.confidence.values]
    assert all(0.0 <= value <= 1.0 for value in confidences)


def test_origins_name_the_source_and_the_offset() -> None:
    drafter = Drafter()
    drafter.begin([1, 2, 3], [("passage:0", [9, 8, 7, 1, 2, 3, 4, 5])])
    tree = drafter.draft(3, DraftLimits(budget=3))
    assert tree.token_ids == [3, 4, 5]
    assert tree.origins[1:] == [Origin("passage:0", 6), Origin("passage:0", 7)]


LITERAL = ("frequent", "recent", "anchor")  # sources that also draft what was never read there


def test_a_barred_anchor_alone_drafts_nothing() -> None:
    drafter = Drafter(without=LITERAL)
    drafter.begin([5, 6, 1, 7, 8, 1])
    assert drafter.draft(1, DraftLimits()).token_ids[1:2] == [7]
    assert len(drafter.draft(1, DraftLimits(barred_anchors=frozenset([1])))) == 1
    drafter.begin([5, 6, 1, 7, 8, 6, 1])
    assert drafter.draft(1, DraftLimits(barred_anchors=frozenset([1]))).token_ids[1:2] == [7]


def test_recycled_ranks_draft_where_nothing_was_read() -> None:
    drafter = Drafter(without=LITERAL)
    drafter.begin([1, 2, 3])
    drafter.recycle([3], [[40, 50]])
    tree = drafter.draft(3, DraftLimits(budget=4))
    assert tree.token_ids[1:] == [40, 50]
    assert tree.origins[1:] == [None, None]


def test_ranks_of_rejected_nodes_are_recycled_unless_that_is_switched_off() -> None:
    for without, drafted in (((), [40]), (("rejected",), []), (("recycled",), [])):
        drafter = Drafter(without=(*LITERAL, *without))
        drafter.begin([1, 2, 3])
        drafter.recycle([3, 9], [[4], [40]], visited=[0])
        assert drafter.draft(9, DraftLimits(budget=2)).token_ids[1:] == drafted


def test_ranks_of_the_prompt_are_recycled_unless_that_is_switched_off() -> None:
    for without, drafted in (((), [40]), (("prompt-ranks",), []), (("recycled",), [])):
        drafter = Drafter(without=(*LITERAL, *without))
        drafter.begin([1, 2, 3])
        drafter.recycle_prompt([1, 2, 3], [[7], [8], [40]])
        assert drafter.draft(3, DraftLimits(budget=2)).token_ids[1:] == drafted


def test_ranks_are_bounded_and_the_oldest_leave() -> None:
    drafter = Drafter()
    drafter.recycle(range(30_000), [[1]] * 30_000)
    assert len(drafter.ranks) == 20_000
    assert 29_999 in drafter.ranks
    assert 0 not in drafter.ranks


def test_what_the_model_nearly_said_is_drafted_soon_after() -> None:
    drafter = Drafter(without=("frequent",))
    drafter.begin([1, 2, 3])
    drafter.commit([7])
    drafter.recycle([3], [[7, 50, 51]], visited=[0])
    assert set(drafter.draft(7, DraftLimits(budget=4)).token_ids[1:]) == {50, 51}


def test_frequent_tokens_are_drafted_where_nothing_is_known() -> None:
    drafter = Drafter()
    drafter.begin([1, 9, 2, 9, 3, 9, 4])
    assert drafter.draft(77, DraftLimits(budget=2)).token_ids == [77, 9]


def test_a_copy_goes_on_after_an_edit_of_one_to_three_tokens() -> None:
    passage = [*range(10, 40)]
    for edit in ([90], [90, 91], [90, 91, 92]):
        drafter = Drafter(without=("frequent", "recent"))
        drafter.begin([*passage, 1, 2])
        drafter.commit([*passage[:8], *edit])
        tree = drafter.draft(edit[-1], DraftLimits(budget=8))
        assert tree.token_ids[1] == passage[8]
        assert tree.token_ids[2] in passage[8:12]
    drafter.commit([93])
    assert len(drafter.draft(93, DraftLimits(budget=8))) == 1


def test_an_unread_token_is_followed_like_one_that_is_written_alike() -> None:
    drafter = Drafter(without=LITERAL)
    drafter.begin([20, 21, 22, 1], alike=lambda ids: {token: (token + 100,) for token in ids})
    drafter.commit([120])
    tree = drafter.draft(120, DraftLimits(budget=3))
    assert tree.token_ids == [120, 21, 22]
    assert tree.origins[1] == Origin("prompt", 1)
    drafter.begin([20, 21, 22, 1])
    drafter.commit([120])
    assert len(drafter.draft(120, DraftLimits(budget=3))) == 1


def test_sources_can_be_switched_off() -> None:
    for without, drafted in (((), [5]), (("documents",), [])):
        drafter = Drafter(without=(*LITERAL, *without))
        drafter.begin([1, 4], [("document:a", [4, 5])])
        assert drafter.draft(4, DraftLimits(budget=2)).token_ids[1:] == drafted
    for without, drafted in (((), [5]), (("prompt",), [])):
        drafter = Drafter(without=(*LITERAL, *without))
        drafter.begin([4, 5, 4])
        assert drafter.draft(4, DraftLimits(budget=2)).token_ids[1:] == drafted
    for without, drafted in (((), [8]), (("answer",), [])):
        drafter = Drafter(without=(*LITERAL, *without))
        drafter.begin([4])
        drafter.commit([7, 8, 7])
        assert drafter.draft(7, DraftLimits(budget=2)).token_ids[1:] == drafted
    with pytest.raises(ValueError, match="no such sources: nonsense"):
        Drafter(without=["nonsense"])


@given(st.integers(1, 3000), st.lists(st.integers(1, 3000), max_size=3), st.sampled_from([0.01, 0.1, 1.0]))
def test_a_questions_trie_stays_within_its_cap(prompt: int, documents: list[int], mebibytes: float) -> None:
    drafter = Drafter(question_mebibytes=mebibytes)
    seeds = [(f"document:{index}", list(range(size))) for index, size in enumerate(documents)]
    drafter.begin(list(range(10_000, 10_000 + prompt)), seeds)
    drafter.commit(range(500))
    assert drafter.question.trie.mebibytes <= mebibytes


def test_a_long_document_fills_what_the_prompt_leaves_with_its_middle() -> None:
    drafter = Drafter(question_mebibytes=1.0)
    drafter.begin([*range(50), 1], [("document:a", list(range(1000, 101_000)))])
    assert 0.5 < drafter.question.trie.mebibytes <= 1.0
    assert drafter.draft(1, DraftLimits(budget=2)).token_ids == [1, 2]
    drafter.commit([51_000])
    tree = drafter.draft(51_000, DraftLimits(budget=2))
    assert tree.origins[1] == Origin("document:a", 50_001)


def test_a_prompt_over_the_cap_keeps_both_ends_and_true_offsets() -> None:
    drafter = Drafter(question_mebibytes=1.0)
    drafter.begin(list(range(100_000)))
    for token in (3, 99_990):
        drafter.commit([token])
        tree = drafter.draft(token, DraftLimits(budget=2))
        assert tree.token_ids == [token, token + 1]
        assert tree.origins[1] == Origin("prompt", token + 1)


def test_special_tokens_do_not_cut_the_prompt() -> None:
    """A chat prompt holds end-of-turn tokens between the documents; all of it must reach the trie."""
    end = 0
    drafter = Drafter()
    drafter.begin([1, 2, 3, end, 4, 5, 6, end, 7, 8, 9, end, 1, 2])
    assert drafter.draft(2, DraftLimits(budget=3)).token_ids == [2, 3, end]
    drafter.commit([7])
    tree = drafter.draft(7, DraftLimits(budget=3, forbidden=frozenset([end])))
    assert tree.token_ids == [7, 8, 9]


def test_documents_are_not_crowded_out_by_earlier_answers() -> None:
    drafter = Drafter(answers=Answers(8, max_nodes=10_000))
    for index in range(200):
        drafter.end([1, 2, 99, 98, 97], f"answer {index}")
    drafter.begin([50, 1, 2, 3, 4, 5, 6, 51, 1, 2])
    tree = drafter.draft(2, DraftLimits(budget=4))
    assert tree.token_ids[1] == 3


def test_the_next_question_forgets_the_last() -> None:
    drafter = Drafter()
    drafter.begin([1, 2, 3, 4, 5, 1, 2], [("passage:0", [2, 6, 7])])
    drafter.commit([3, 4])
    drafter.begin([2])
    assert drafter.question.trie.node_count == 1
    assert set(drafter.draft(2, DraftLimits()).token_ids) == {2}


def test_earlier_answers_stay() -> None:
    drafter = Drafter(answers=Answers(8, max_nodes=1000))
    drafter.begin([1, 2])
    drafter.commit([5, 6, 7])
    drafter.end([5, 6, 7])
    drafter.begin([9, 5])
    assert drafter.draft(5, DraftLimits(budget=3)).token_ids == [5, 6, 7]


def test_earlier_answers_are_bounded() -> None:
    answers = Answers(8, max_nodes=500)
    drafter = Drafter(answers=answers)
    for start in range(0, 4000, 40):
        drafter.end(list(range(start, start + 40)), f"answer {start}")
        assert answers.trie.node_count <= 500


def test_confidence_is_learned_from_predictions_only() -> None:
    """A context without followers predicted nothing, so it was not wrong."""
    drafter = Drafter(answers=Answers(8, max_nodes=1000))
    drafter.end([5, 6, 7])
    before = [list(source.confidence.values) for source in drafter._sources]
    drafter.begin([5, 6, 7])
    drafter.commit([8])
    assert [list(source.confidence.values) for source in drafter._sources] == before


def test_confidence_follows_hits_and_misses() -> None:
    drafter = Drafter(order=2)
    confidence = drafter.question.confidence
    longest = 2 * KINDS + SINGLE  # the shorter context saw nothing that the longer one did not
    drafter.begin([1, 2, 3, 1, 2])
    before = list(confidence.values)
    drafter.commit([3])
    assert confidence[longest] > before[longest]
    risen = list(confidence.values)
    assert [place for place, value in enumerate(risen) if value != before[place]] == [longest]
    drafter.begin([1, 2, 3, 1, 2])
    drafter.commit([9])
    assert confidence[longest] < risen[longest]


def test_an_occurrence_is_evidence_once() -> None:
    """One passage read once is no surer because each of its shorter contexts says the same."""
    drafter = Drafter(without=LITERAL)
    drafter.begin([*range(10, 30), 1, *range(10, 18)])
    drafter.calibration.values[:] = array("d", [1.0, 0.0] * CLASSES)
    tree = drafter.draft(17, DraftLimits(budget=2))
    assert tree.token_ids == [17, 18]
    assert tree.probabilities[1] == pytest.approx(drafter.question.confidence[8 * KINDS + SINGLE])


def test_expectations_become_honest() -> None:
    """Drafts that never come true are expected ever less, those that always do ever more."""
    drafter = Drafter(without=LITERAL)
    expected = []
    for _ in range(200):
        drafter.begin([1, 2, 3, 1])
        tree = drafter.draft(1, DraftLimits(budget=2))
        expected.append(sum(tree.probabilities[1:]))
        drafter.learn(tree, [])
    assert expected[-1] < expected[0] / 2
    for _ in range(200):
        drafter.begin([1, 2, 3, 1])
        tree = drafter.draft(1, DraftLimits(budget=2))
        drafter.learn(tree, [1])
    assert sum(tree.probabilities[1:]) > expected[0]


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


def test_an_answer_is_expected_to_end_where_answers_ended_before() -> None:
    """After a full stop a copy goes on, the answer often does not."""
    stop, end = 9, 0
    prompt = [1, 2, 3, stop, 4, 5, 6, 7, 8, 1]
    limits = DraftLimits(budget=6, forbidden=frozenset([end]))

    def beyond(drafter: Drafter) -> float:
        drafter.begin(prompt)
        tree = drafter.draft(1, limits)
        return tree.probabilities[tree.token_ids.index(4)] / tree.probabilities[tree.token_ids.index(stop)]

    for ended in ([2, 3, stop, end], [2, 3, stop]):
        drafter = Drafter(without=LITERAL)
        before = beyond(drafter)
        for _ in range(5):
            drafter.draft(1, limits)
            drafter.end(ended)
        assert (beyond(drafter) < before / 2) == (ended[-1] == end)
        fresh = Drafter(without=LITERAL)
        fresh.relearn(drafter.learned())
        assert fresh.endings.going_on == drafter.endings.going_on


def test_what_the_model_would_have_said_beside_the_path_is_drafted_next() -> None:
    drafter = Drafter(without=LITERAL)
    drafter.begin([1, 2, 3, 1])
    tree = drafter.draft(1, DraftLimits(budget=2))
    assert tree.token_ids == [1, 2]
    drafter.learn(tree, [])
    drafter.commit([7])
    drafter.recycle(tree.token_ids, [[7, 8], [50, 51]], visited=[0])
    assert drafter.draft(7, DraftLimits(budget=3)).token_ids == [7, 50, 51]
    drafter.commit([9])
    assert len(drafter.draft(9, DraftLimits(budget=3))) == 1  # it spoke of one position only


def test_a_step_without_a_draft_recycles_no_row_of_the_last_one() -> None:
    drafter = Drafter()
    drafter.begin([1, 2, 3, 1])
    tree = drafter.draft(1, DraftLimits())
    drafter.learn(tree, [])
    for _ in range(2):
        drafter.commit([7])
        drafter.recycle(tree.token_ids, [[7, 8]] * len(tree), visited=[0])
        tree = DraftTree([7])
        drafter.learn(tree, [])


def test_a_second_thought_counts_by_how_probable_the_model_found_it() -> None:
    for without, drafted in ((LITERAL[:1], [60, 50, 51]), ((*LITERAL[:1], "chances"), [50, 60, 51])):
        drafter = Drafter(without=without)
        drafter.begin([1, 2, 3])
        drafter.commit([7, 8])
        rows, chances = [[7, 50, 51], [8, 60, 61]], [[0.9, 0.02, 0.002], [0.5, 0.45, 0.001]]
        drafter.recycle([3, 7], rows[::-1], visited=[0, 1], chances=chances[::-1])
        tree = drafter.draft(8, DraftLimits(budget=4))
        assert tree.token_ids[1:] == drafted

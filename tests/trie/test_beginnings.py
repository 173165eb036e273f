"""What is known of how answers begin: from those that are kept, and from nothing else."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import LIVE_SOURCES, Answers, Drafter, DraftLimits, DraftTree
from ragla.trie.answer_store import AnswerStore
from ragla.trie.answers import KeptAnswer
from ragla.trie.beginnings import ANSWERS, TOKENS, Beginnings
from ragla.trie.token_trie import Origin
from tests.trie.stored_answers import lesson

LIMITS = DraftLimits(budget=16)
PROMPT = [50, 51, 52, 53]


def drafter(*answers: list[int], without: tuple[str, ...] = (), order: int = 8) -> Drafter:
    kept = Answers(order, 100_000)
    for index, answer in enumerate(answers):
        kept.keep(answer, f"answer {index}")
    return Drafter(order, kept, without)


def first_draft(drafter: Drafter, limits: DraftLimits = LIMITS) -> DraftTree:
    drafter.begin(PROMPT)
    return drafter.draft_beginning(PROMPT[-1], limits)


def first_path(tree: DraftTree) -> list[int]:
    """The likeliest tokens, one after the other."""
    node, path = 0, []
    while children := [child for child in range(1, len(tree)) if tree.parents[child] == node]:
        node = children[0]
        path.append(tree.token_ids[node])
    return path


def test_answers_begin_as_earlier_ones_did() -> None:
    tree = first_draft(drafter([1, 2, 3], [1, 2, 4], [5, 6]))
    assert tree.token_ids[0] == PROMPT[-1]
    assert first_path(tree)[:2] == [1, 2]
    roots = [token for token, parent in zip(tree.token_ids, tree.parents, strict=True) if parent == 0]
    assert roots[:2] == [1, 5]
    assert tree.probabilities[1] > 0.3
    assert sorted(tree.probabilities, reverse=True) == tree.probabilities
    assert tree.origins[1] == Origin("answer 1", 0)


def test_without_evidence_nothing_is_drafted() -> None:
    known = drafter([1, 2, 3])
    assert known.answers is not None
    known.answers.remove("answer 0")
    for silent in (
        drafter(),
        known,
        Drafter(),
        drafter([1, 2, 3], without=("prefill-draft",)),
        drafter([1, 2, 3], without=("answers",)),
        drafter([1, 2, 3], without=LIVE_SOURCES),  # as a replay would
    ):
        assert first_draft(silent).token_ids == [PROMPT[-1]]


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=20), min_size=1, max_size=9),
    st.integers(1, 16),
    st.integers(1, 64),
)
def test_only_tokens_that_were_read_are_drafted(answers: list[list[int]], order: int, budget: int) -> None:
    tree = first_draft(drafter(*answers, order=order), DraftLimits(budget=budget))
    assert len(tree) <= budget
    assert set(tree.token_ids) <= {*range(10), *PROMPT}


def test_a_removed_answer_is_in_no_beginning() -> None:
    known = drafter([1, 2, 3], [7, 8, 9])
    assert known.answers is not None
    known.answers.remove("answer 0")
    assert not {1, 2, 3} & set(first_draft(known).token_ids)
    known.forget()
    assert len(first_draft(known)) == 1


def test_the_beginnings_are_bounded() -> None:
    kept = {str(index): KeptAnswer(tuple([index] * 500), 0, 0.0) for index in range(3 * ANSWERS)}
    source = Beginnings(8).source(kept)
    assert source is not None
    assert source.trie.windows.length == ANSWERS * (TOKENS + 2)
    followers = dict(source.trie.windows.followers(source.contexts))
    assert set(followers) == set(range(2 * ANSWERS, 3 * ANSWERS))  # the newest


def test_an_ordinary_draft_is_as_it_was_whether_there_was_a_first_one() -> None:
    plain, other = (drafter([1, 2, 3, 4], [1, 2, 4, 4], without=w) for w in ((), ("prefill-draft",)))
    trees = []
    for each in (plain, other):
        each.begin(PROMPT)
        each.commit([1])
        trees.append(each.draft(1, LIMITS))
    assert trees[0] == trees[1]
    tree = first_draft(plain)
    plain.learn(tree, [])
    plain.commit([1])
    assert plain.draft(1, LIMITS).token_ids == trees[0].token_ids


def test_it_learns_how_far_to_trust_beginnings_and_keeps_that() -> None:
    known = drafter([1, 2, 3], [1, 2, 4])
    before = known.learned()["beginnings"]
    for _ in range(9):
        tree = first_draft(known)
        known.learn(tree, [])
        known.commit([6, 1])
    wary = first_draft(known).probabilities[1]
    assert wary < first_draft(drafter([1, 2, 3], [1, 2, 4])).probabilities[1]
    later = drafter([1, 2, 3], [1, 2, 4])
    later.relearn(known.learned())
    assert later.learned()["beginnings"] == known.learned()["beginnings"] != before


def test_tokens_taken_from_a_beginning_are_no_use_of_the_answer_that_was_counted_last() -> None:
    """Answers begin alike: such uses would all be one answer's, and it would outlive the others."""
    known = drafter([1, 2, 3], [1, 2, 3, 4])
    tree = first_draft(known)
    path = [tree.token_ids.index(1)]
    known.learn(tree, path)
    assert known.answers is not None
    assert not any(known.answers.used.values())


def test_another_process_begins_as_this_one_until_the_document_is_gone(tmp_path: Path) -> None:
    with_documents = lesson(1, 2, 3, documents=(("/a", "digest"),))
    store = AnswerStore.open(tmp_path)
    store.save(with_documents)
    store.close()
    for digests, drafted in [({"/a": "digest"}, True), ({}, False)]:
        store = AnswerStore.open(tmp_path)
        store.drop_stale(digests)
        answers = Answers(8, 1000)
        answers.restore(
            (each.name, KeptAnswer(each.token_ids, each.uses, each.last_used)) for each in store.answers()
        )
        store.close()
        recalled = Drafter(8, answers)
        assert (first_path(first_draft(recalled))[:3] == [1, 2, 3]) == drafted

"""Earlier answers: what is kept, what leaves first, and that nothing is left of what has left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.trie import Answers, Drafter, DraftLimits, Origin, TokenTrie
from ragla.trie.answers import MOST_USES, SPARE_REMOVALS, KeptAnswer, answer_name

TOKENS = st.integers(0, 5)
ANSWERS = st.lists(TOKENS, min_size=1, max_size=30)
NAMES = st.sampled_from("abcdefgh")
Operation = Callable[[Answers], object]
OPERATIONS = st.lists(
    st.one_of(
        st.builds(lambda name, ids: lambda answers: answers.keep(ids, name), NAMES, ANSWERS),
        st.builds(lambda ids: lambda answers: answers.keep(ids), ANSWERS),
        st.builds(lambda name: lambda answers: answers.remove(name), NAMES),
        st.builds(lambda name: lambda answers: answers.use(name), NAMES),
        st.just(lambda answers: answers.clear()),
    ),
    max_size=40,
)
ORDERS = st.integers(1, 4)


def ticking() -> Callable[[], float]:
    """A clock on which no two looks are alike."""
    return map(float, count()).__next__


def used(operations: list[Operation], order: int, max_nodes: int) -> Answers:
    answers = Answers(order, max_nodes, clock=ticking())
    for operation in operations:
        operation(answers)
    return answers


def said(trie: TokenTrie, text: list[int]) -> tuple[int, list[tuple[int, int, bool]]]:
    """How far a text is known, and what its contexts say of each token."""
    contexts = trie.contexts(text)
    judged = [entry for token in range(6) for entry in trie.windows.judge(contexts, token)]
    return len(contexts), judged


@given(OPERATIONS, ORDERS, st.integers(0, 200))
def test_the_caps_hold_whatever_is_kept(operations: list[Operation], order: int, max_nodes: int) -> None:
    answers = Answers(order, max_nodes)
    for operation in operations:
        operation(answers)
        assert answers.trie.node_count <= max_nodes


@given(OPERATIONS, ORDERS, st.integers(0, 40_000))
def test_the_memory_cap_holds_too(operations: list[Operation], order: int, max_bytes: int) -> None:
    answers = Answers(order, 10**9, max_bytes / 2**20)
    for operation in operations:
        operation(answers)
        assert answers.trie.mebibytes <= max_bytes / 2**20


@given(OPERATIONS, ORDERS, st.integers(20, 400), st.lists(TOKENS, max_size=6))
def test_the_trie_is_that_of_what_is_kept_and_nothing_else(
    operations: list[Operation], order: int, max_nodes: int, text: list[int]
) -> None:
    answers = used(operations, order, max_nodes)
    fresh = TokenTrie(order)
    for name, kept in answers.kept.items():
        fresh.insert(kept.token_ids, name)
    assert answers.trie.node_count == fresh.node_count
    for place in range(len(text) + 1):
        assert said(answers.trie, text[:place]) == said(fresh, text[:place])
    for kept in answers.kept.values():
        assert said(answers.trie, list(kept.token_ids)) == said(fresh, list(kept.token_ids))


@given(OPERATIONS, ORDERS, st.integers(20, 400), ANSWERS)
def test_drafts_are_those_of_what_is_kept(
    operations: list[Operation], order: int, max_nodes: int, prompt: list[int]
) -> None:
    answers = used(operations, order, max_nodes)
    fresh = Answers(order, max_nodes)
    fresh.restore(reversed(answers.kept.items()))
    drafts = []
    for kept in (answers, fresh):
        drafter = Drafter(order, kept)
        drafter.begin(prompt)
        drafts.append(drafter.draft(prompt[-1], DraftLimits(budget=1000, max_depth=3)))
    paths = [
        sorted(
            (tuple(draft.token_ids[node] for node in path), round(draft.probabilities[path[-1]], 9))
            for path in draft.ancestors()
        )
        for draft in drafts
    ]
    assert paths[0] == paths[1]


@given(OPERATIONS, ORDERS, st.integers(0, 400), st.randoms(use_true_random=False))
def test_removing_every_answer_leaves_no_node(
    operations: list[Operation], order: int, max_nodes: int, random: object
) -> None:
    answers = used(operations, order, max_nodes)
    for name in list(answers.kept):
        answers.remove(name)
    assert (answers.trie.node_count, answers.kept) == (0, {})
    assert answers.keep([1, 2], "again") in ("again", None)


@given(OPERATIONS, ORDERS, st.integers(20, 400))
def test_equal_answers_are_kept_once(operations: list[Operation], order: int, max_nodes: int) -> None:
    answers = used(operations, order, max_nodes)
    contents = [kept.token_ids for kept in answers.kept.values()]
    assert len(set(contents)) == len(contents)


def test_the_same_answer_again_is_a_use_of_the_first() -> None:
    answers = Answers(8, 1000, clock=ticking())
    assert answers.keep([1, 2, 3], "first") == "first"
    nodes = answers.trie.node_count
    assert answers.keep([1, 2, 3], "second") == "first"
    assert answers.keep([1, 2, 3]) == "first"
    assert answers.kept == {"first": KeptAnswer((1, 2, 3), 2, 2.0)}
    assert answers.used == {"first": 2}
    assert answers.trie.node_count == nodes


def test_another_answer_of_the_same_name_replaces_the_first() -> None:
    answers = Answers(8, 1000)
    answers.keep([1, 2, 3], "only")
    answers.keep([7, 8], "only")
    assert [kept.token_ids for kept in answers.kept.values()] == [(7, 8)]
    assert len(answers.trie.contexts([1])) == 1


def three_answers(uses: dict[str, int]) -> Answers:
    """Answers of 3 nodes each in a trie of 11."""
    answers = Answers(1, 11, clock=ticking())
    for start, name in enumerate("abc"):
        answers.keep([10 * start, 10 * start + 1], name)
    for name, times in uses.items():
        for _ in range(times):
            answers.use(name)
    return answers


@pytest.mark.parametrize(
    ("uses", "gone"),
    [
        ({"a": 2, "b": 1, "c": 2}, "b"),
        ({"b": 1, "c": 1, "a": 1}, "b"),
        ({}, "a"),
        ({"b": 1, "c": 1}, "a"),
        ({"c": 3, "a": 1, "b": 1}, "a"),
    ],
)
def test_the_least_used_leaves_then_the_longest_unused_then_the_oldest(
    uses: dict[str, int], gone: str
) -> None:
    answers = three_answers(uses)
    answers.keep([90, 91], "new")
    assert set(answers.kept) == {"a", "b", "c", "new"} - {gone}


def test_at_the_same_time_the_oldest_leaves() -> None:
    answers = Answers(1, 8, clock=lambda: 5.0)
    for start, name in enumerate("abc"):
        answers.keep([10 * start, 10 * start + 1], name)
    assert list(answers.kept) == ["b", "c"]


def test_answers_that_were_used_once_do_not_shut_out_new_ones() -> None:
    answers = three_answers({"a": 5, "b": 5, "c": 5})
    answers.keep([70, 71], "d")
    answers.keep([80, 81], "e")
    answers.keep([90, 91], "f")
    assert set(answers.kept) == {"d", "e", "f"}


def test_uses_fade_so_that_a_favourite_can_leave() -> None:
    answers = three_answers({"a": 40})
    for _ in range(MOST_USES):
        answers.use("b")
    assert (answers.kept["a"].uses, answers.kept["b"].uses) == (40, MOST_USES)
    answers.use("b")
    assert (answers.kept["a"].uses, answers.kept["b"].uses) == (20, MOST_USES // 2)
    for _ in range(6 * MOST_USES):
        answers.use("b")
    assert answers.kept["a"].uses == 0


def test_an_answer_larger_than_the_cap_is_cut() -> None:
    answers = Answers(4, 60)
    answers.keep([1, 2, 3], "small")
    assert answers.keep(list(range(100, 400)), "large") == "large"
    assert answers.kept["large"].token_ids == tuple(range(100, 112))
    assert answers.trie.node_count <= 60


@pytest.mark.parametrize("max_nodes", [0, 1, 8])
def test_where_not_a_token_fits_nothing_is_kept(max_nodes: int) -> None:
    answers = Answers(8, max_nodes)
    assert answers.keep([1, 2, 3]) is None
    assert (answers.kept, answers.trie.node_count) == ({}, 0)


def test_nothing_is_kept_of_nothing() -> None:
    assert Answers(8, 1000).keep([]) is None


def test_names_tell_answers_apart_and_stay_the_same() -> None:
    assert answer_name([1, 2, 3]) == answer_name((1, 2, 3)) == "4636993d3e1d"
    assert answer_name([1, 2]) != answer_name([2, 1])
    with pytest.raises(OverflowError, match="32 bits"):
        answer_name([1 << 31])


def test_restored_answers_leave_in_the_same_order() -> None:
    before = three_answers({"a": 2, "b": 1, "c": 2})
    best_first = sorted(before.kept.items(), key=lambda item: -item[1].last_used)
    after = Answers(1, 11, clock=lambda: 99.0)
    after.restore(sorted(best_first, key=lambda item: -item[1].uses))
    assert after.kept == before.kept
    assert list(after.kept) == ["b", "a", "c"]
    assert after.used == {}
    after.keep([90, 91], "new")
    assert "b" not in after.kept


def test_of_too_many_restored_answers_the_best_are_taken() -> None:
    many = [(f"{n}", KeptAnswer((n, n + 100), 50 - n, 0.0)) for n in range(50)]
    answers = Answers(1, 11)
    answers.restore(many)
    assert set(answers.kept) == {"0", "1", "2"}
    assert answers.trie.node_count == 9


def test_a_trie_does_not_remember_all_that_ever_left() -> None:
    answers = Answers(2, 60)
    for start in range(0, 100_000, 10):
        answers.keep(range(start, start + 4))
    assert answers.trie.windows.length < 10 * (len(answers.kept) + SPARE_REMOVALS)


def test_a_documents_words_are_drafted_beside_many_answers_that_begin_alike() -> None:
    answers = Answers(8, 100_000)
    for other in range(300):
        answers.keep([1, 2, 3, 1000 + other, 2000 + other])
    drafter = Drafter(answers=answers)
    drafter.begin([50, 1, 2, 3, 4, 5, 6, 51, 1, 2, 3])
    tree = drafter.draft(3, DraftLimits(budget=4))
    assert tree.token_ids == [3, 4, 5, 6]


def test_a_token_of_an_earlier_answer_that_a_passage_holds_too_was_read_there() -> None:
    """So that the sources of an answer do not depend on whether it was given before."""
    answers = Answers(8, 1000)
    answers.keep([7, 1, 2, 3, 9, 8, 4, 5], "earlier")
    drafter = Drafter(answers=answers)
    drafter.begin([20, 21, 1, 2, 3, 22, 7])
    tree = drafter.draft(7, DraftLimits(budget=8, shape="single"))
    assert tree.token_ids == [7, 1, 2, 3, 9, 8, 4, 5]
    assert {origin.source for origin in tree.origins if origin} == {"earlier"}
    drafter.learn(tree, range(1, 8))
    assert tree.origins[3] == Origin("prompt", 4)
    assert tree.origins[1] == Origin("earlier", 1)  # a single token is no match
    assert tree.origins[4:] == [Origin("earlier", place) for place in range(4, 8)]
    assert answers.used == {"earlier": 7}


# --- when memory runs out ----------------------------------------------------------------------------

SHORT_OF_MEMORY = """
import resource
from ragla.trie import Answers, Drafter, DraftLimits
from ragla.trie import windows

answers = Answers(8, 10**9)
drafter = Drafter(answers=answers, question_mebibytes=10**6)
answers.keep(list(range(3000)), "earlier")
drafter.begin([1, 2, 3, 4, 1, 2])
{limit}
{act}
{lift}
print(len(answers.kept), answers.trie.node_count)
drafter.begin([1, 2, 3, 4, 1, 2])
print(drafter.draft(2, DraftLimits(budget=3)).token_ids)
"""
# an address space that ends 40 MiB further on
SPACE = """
limits = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as file:
    in_use = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (40 << 20), limits[1]))
"""
# no more than 1000 further nodes at a time
NODES = """
class Node(windows.Node):
    alive = 0
    def __init__(self, token):
        if token >= 0 and Node.alive >= 1000:
            raise MemoryError
        super().__init__(token)
        Node.alive += 1
    def __del__(self):
        Node.alive -= 1
plain, windows.Node = windows.Node, Node
"""
KEEP = "assert answers.keep(range(1_000_000)) is None"
BEGIN = "drafter.begin(range(300_000))"
COMMIT = "for token in range(10, 3000, 10): drafter.commit(range(token, token + 10))"


def run_short(act: str, limit: str, lift: str, core: str) -> None:
    program = SHORT_OF_MEMORY.format(act=act, limit=limit, lift=lift)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"RAGLA_CORE": core},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0 0", "[2, 3, 4]"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
@pytest.mark.parametrize("act", [KEEP, BEGIN], ids=["keeping", "beginning"])
def test_where_no_memory_is_left_earlier_answers_are_forgotten_and_drafting_goes_on(act: str) -> None:
    run_short(act, SPACE, "resource.setrlimit(resource.RLIMIT_AS, limits)", "")


@pytest.mark.parametrize("act", [KEEP, BEGIN, COMMIT], ids=["keeping", "beginning", "going on"])
def test_where_no_node_is_to_be_had_earlier_answers_are_forgotten_and_drafting_goes_on(act: str) -> None:
    run_short(act, NODES, "windows.Node = plain", "python")

"""What the compiled core does with wrong input, with Python code that interferes, and with memory."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from ragla.trie import windows
from tests.trie.both_cores import compiled_core, limited, needs_core, prior


def scene() -> tuple[Any, Any]:
    trie = compiled_core.Windows(8)
    trie.count([1, 2, 3, 1, 2])
    return trie, trie.match([1, 2])


class Odd:
    """A key that equals a token, and does something when asked."""

    def __init__(self, token: int, act: Callable[[], object]) -> None:
        self.token, self.act = token, act

    def __hash__(self) -> int:
        return hash(self.token)

    def __eq__(self, other: object) -> bool:
        self.act()
        return self.token == other


@needs_core
@pytest.mark.parametrize(
    ("error", "token"),
    [
        (OverflowError, 2**31),
        (OverflowError, 10**90),
        (ValueError, -1),
        (ValueError, -(10**90)),
        (TypeError, 1.0),
    ],
)
def test_what_is_no_token_id_is_refused_and_nothing_changes(error: type[Exception], token: Any) -> None:
    trie, contexts = scene()
    for use in (trie.count, trie.forget, trie.match):
        with pytest.raises(error):
            use([4, token])
    for use in (trie.advance, trie.judge):
        with pytest.raises(error):
            use(contexts, token)
    with pytest.raises(error):
        trie.known(token)
    for changes in (
        {"ranks": {2: [token]}},
        {"extras": [(token, 0.5)]},
    ):
        with pytest.raises(error):
            compiled_core.grow([trie], [contexts], 2, limited(), prior(**changes))
    for limits in (limited(tail=[token]), limited(stops=[[1], [token]])):
        with pytest.raises(error):
            compiled_core.grow([trie], [contexts], 2, limits, prior())
    with pytest.raises(error):
        compiled_core.grow([trie], [contexts], token, limited(), prior())
    with pytest.raises(error):
        compiled_core.step(trie, contexts, 9, {9: token})
    assert (trie.length, trie.node_count) == (5, 12)


@needs_core
def test_wrong_arguments_are_refused() -> None:
    trie, contexts = scene()
    other, short = compiled_core.Windows(8), array("d", [0.5])
    wrong: list[tuple[type[Exception], Callable[[], object]]] = [
        (TypeError, compiled_core.Windows),
        (TypeError, lambda: compiled_core.Windows("8")),
        (OverflowError, lambda: compiled_core.Windows(10**30)),
        (TypeError, compiled_core.Contexts),
        (TypeError, lambda: trie.count(5)),
        (TypeError, lambda: trie.count(["1"])),
        (TypeError, lambda: trie.advance([0], 1)),
        (TypeError, lambda: trie.advance(contexts)),
        (TypeError, lambda: trie.advance(windows.Windows(8).match([]), 1)),
        (TypeError, lambda: trie.check(None)),
        (ValueError, lambda: other.check(contexts)),
        (TypeError, lambda: hash(contexts)),
        (TypeError, lambda: contexts < contexts),
        (TypeError, lambda: compiled_core.step(trie, contexts, 1)),
        (TypeError, lambda: compiled_core.step(trie, contexts, 1, [])),
        (TypeError, lambda: compiled_core.step(windows.Windows(8), contexts, 1, {})),
        (ValueError, lambda: compiled_core.step(other, contexts, 1, {})),
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()
    arguments: list[tuple[type[Exception], list[Any]]] = [
        (TypeError, []),
        (ValueError, [[], [], 2, limited(), prior()]),
        (TypeError, [[windows.Windows(8)], [contexts], 2, limited(), prior()]),
        (TypeError, [None, [contexts], 2, limited(), prior()]),
        (ValueError, [[trie, other], [contexts], 2, limited(), prior()]),
        (ValueError, [[other], [contexts], 2, limited(), prior()]),
        (TypeError, [[trie], [[0]], 2, limited(), prior()]),
        (TypeError, [[trie], None, 2, limited(), prior()]),
        (TypeError, [[trie], [contexts], 2, (1, 2, 3), prior()]),
        (TypeError, [[trie], [contexts], 2, limited(), ()]),
        (TypeError, [[trie], [contexts], 2, limited(max_depth=1.5), prior()]),
        (TypeError, [[trie], [contexts], 2, limited(forbidden=[1]), prior()]),
        (TypeError, [[trie], [contexts], 2, limited(stops=[1]), prior()]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(ranks=[])]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(ranks={2: 5})]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(variants=None)]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(extras=[5])]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(extras=[(5, "x")])]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(frequent_confidence=None)]),
        (ValueError, [[trie], [contexts], 2, limited(), prior(confidence=[])]),
        (ValueError, [[trie], [contexts], 2, limited(), prior(confidence=[short])]),
        (ValueError, [[trie], [contexts], 2, limited(), prior(calibration=short)]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(calibration=[1.0] * 100)]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(calibration=array("f", [1.0] * 80))]),
        (TypeError, [[trie], [contexts], 2, limited(), prior(rank_confidence=b"12345678")]),
    ]
    for error, given_ in arguments:
        with pytest.raises(error):
            compiled_core.grow(*given_)


@needs_core
def test_keys_that_change_the_trie_while_it_is_read_fail() -> None:
    trie, contexts = scene()
    for act in (trie.clear, lambda: trie.count([1]), lambda: trie.forget([1])):
        odd: Any = {Odd(2, act): [7]}
        for limits, beliefs in (
            (limited(), prior(ranks=odd)),
            (limited(), prior(ranks={2: [77]}, variants={Odd(77, act): 1})),
            (limited(barred=frozenset(odd)), prior()),
            (limited(forbidden=frozenset([Odd(3, act)])), prior()),
        ):
            with pytest.raises(RuntimeError, match="windows changed while a draft was grown from them"):
                compiled_core.grow([trie], [contexts], 2, limits, beliefs)
        with pytest.raises(RuntimeError, match="windows changed while a draft was grown from them"):
            compiled_core.step(trie, contexts, 77, {Odd(77, act): 1})
    trie.check(contexts)
    trie.count([4])
    assert trie.length == 6


@needs_core
def test_sequences_that_change_the_trie_while_they_are_read_are_harmless() -> None:
    trie, contexts = scene()

    class Clearing:
        def __iter__(self) -> Any:
            trie.clear()
            yield 1

    trie.count(Clearing())
    assert trie.length == 1
    with pytest.raises(RuntimeError, match="windows changed"):
        compiled_core.grow([trie], [trie.match([1])], 1, limited(tail=Clearing()), prior())
    with pytest.raises(ValueError, match="from before these forgot"):
        compiled_core.grow([trie], [contexts], 1, limited(), prior())


@needs_core
def test_a_nodes_bytes_are_those_measured() -> None:
    """The drafter's caps on memory count on them."""
    for tokens in ([*range(20_000)], [index * index % 997 for index in range(20_000)], [7] * 20_000):
        trie = compiled_core.Windows(8)
        trie.count(tokens)
        assert sys.getsizeof(trie) <= 4000 + trie.node_count * trie.node_bytes


MEMORY = """
import gc, sys, tracemalloc
from array import array
from ragla.trie import _core
from ragla.trie.growth import Beliefs, Limits

calibration = array("d", [1.0, 0.0] * 50)
beliefs = Beliefs([array("d", [0.5] * 27)], array("d", [0.3]), 0.5, calibration, {2: [5]}, [], {}, {})
limits = Limits(16, 8, 16, 16, frozenset([9]), frozenset([8]), [[7, 7]], [1, 2])
trie = _core.Windows(8)

def question():
    trie.start()
    trie.count([1, 2, 3, 1, 2, 4, 1, 2])
    _core.grow([trie], [trie.match([1, 2])], 2, limits, beliefs)
    trie.clear()

def everything_else():
    trie.count([1, 2, 3, 1, 2, 4, 1, 2])
    contexts = trie.match([1, 2])
    trie.judge(contexts, 3)
    trie.followers(_core.step(trie, contexts, 3, {}))
    for wrong in (limits._replace(tail=[1, -1]), limits._replace(stops=[[1], [2, -1]])):
        try:
            _core.grow([trie], [contexts], 2, wrong, beliefs)
        except ValueError:
            pass
    trie.forget([1, 2, 3, 1, 2, 4, 1, 2])
    trie.count([1] * 20)
    trie.clear()

def counted():
    gc.collect()
    held = [*limits[4:], *beliefs[:2], *beliefs[3:], beliefs.confidence[0], _core.Contexts, _core.Windows]
    return tracemalloc.get_traced_memory()[0], [sys.getrefcount(thing) for thing in held]

def repeat(times):
    for turn in range(times):
        question()
        if turn %% 50 == 0:
            everything_else()

tracemalloc.start()
repeat(100)
before, held = counted()
repeat(%d)
after, held_after = counted()
assert held == held_after, (held, held_after)
assert after - before < 2000, after - before
print("ok")
"""


@needs_core
def test_memory_does_not_grow_with_the_questions() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY % 100_000], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "ok\n", done.stderr

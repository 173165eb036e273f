"""The compiled core against its twins: the same results to the last bit."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import sysconfig
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragla.trie import core, growth, windows
from ragla.trie.growth import CLASSES, KINDS, Beliefs, Grown, Limits
from tests.trie.both_cores import compiled_core, limited, needs_core, prior

TOKENS = st.integers(0, 5)
IDS = st.lists(TOKENS, max_size=30)
SHARES = st.floats(0.0, 1.0)


def test_the_compiled_core_runs_wherever_it_can_be_built() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if os.environ.get("RAGLA_CORE") == "python":
        pytest.skip("RAGLA_CORE=python asks for the twins")
    if shutil.which(compiler) is None or not headers.is_file():
        pytest.skip("no C compiler, or no Python.h")
    assert core.compiled, "build it: make setup"
    assert core.Windows is compiled_core.Windows


def test_the_environment_forces_the_twins() -> None:
    program = "from ragla.trie import core; print(core.compiled, core.Windows.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "RAGLA_CORE": "python"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False ragla.trie.windows\n"


@needs_core
def test_both_cores_have_the_same_interface() -> None:
    def names(function: Callable[..., object]) -> list[str]:
        return list(inspect.signature(function).parameters)

    public = {name for name in vars(windows.Windows) if not name.startswith("_")}
    assert public <= {name for name in dir(compiled_core.Windows) if not name.startswith("_")}
    for name in public - {"node_bytes"}:
        assert names(getattr(windows.Windows, name)) == names(getattr(compiled_core.Windows, name))
    for name in ("grow", "step"):
        assert names(getattr(growth, name)) == names(getattr(compiled_core, name))


@dataclass
class Twins:
    """A trie in both cores. Every method is called on both, and must do the same."""

    order: int
    slow: Any = None
    fast: Any = None
    whole: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slow, self.fast = windows.Windows(self.order), compiled_core.Windows(self.order)
        self.restart()

    def restart(self) -> None:
        self.contexts = self.slow.match([]), self.fast.match([])

    def insert(self, token_ids: list[int]) -> None:
        self.slow.start()
        self.fast.start()
        self.whole.append(list(token_ids))
        self.extend(token_ids, new=True)

    def extend(self, token_ids: list[int], new: bool = False) -> None:
        if not new and self.whole:
            self.whole[-1] += token_ids
        self.slow.count(token_ids)
        self.fast.count(token_ids)

    def forget(self, token_ids: list[int]) -> None:
        self.slow.forget(token_ids)
        self.fast.forget(token_ids)
        self.restart()

    def forget_one(self, index: int) -> None:
        if self.whole:
            self.forget(self.whole.pop(index % len(self.whole)))

    def clear(self, _: object) -> None:
        self.slow.clear()
        self.fast.clear()
        self.whole.clear()
        self.restart()

    def match(self, token_ids: list[int]) -> None:
        self.contexts = self.slow.match(token_ids), self.fast.match(token_ids)

    def advance(self, token: int) -> None:
        slow, fast = self.contexts
        self.contexts = self.slow.advance(slow, token), self.fast.advance(fast, token)

    def step(self, token: int) -> None:
        slow, fast = self.contexts
        variants = {9: 1, 7: 2, 5: 9}
        self.contexts = (
            growth.step(self.slow, slow, token, variants),
            compiled_core.step(self.fast, fast, token, variants),
        )

    def compare(self) -> None:
        slow, fast = self.contexts
        assert len(slow) == len(fast)
        for name in ("order", "length", "node_count"):
            assert getattr(self.slow, name) == getattr(self.fast, name)
        for name in ("followers", "position"):
            assert getattr(self.slow, name)(slow) == getattr(self.fast, name)(fast)
        for token in range(10):
            assert self.slow.known(token) == self.fast.known(token)
            assert self.slow.judge(slow, token) == self.fast.judge(fast, token)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["insert", "extend", "match", "forget"]), IDS),
        st.tuples(st.sampled_from(["advance", "step", "forget_one", "clear"]), st.integers(0, 9)),
    ),
    max_size=12,
)


@needs_core
@given(st.integers(1, 9), STEPS)
def test_counting_and_forgetting_do_the_same(order: int, steps: list[tuple[str, Any]]) -> None:
    """``forget`` is also asked for what was never counted."""
    twins = Twins(order)
    for name, argument in steps:
        getattr(twins, name)(argument)
        twins.compare()


LIMITS = st.builds(
    Limits,
    budget=st.integers(0, 80),
    max_depth=st.integers(0, 12),
    root_width=st.integers(0, 20),
    width=st.integers(0, 20),
    forbidden=st.frozensets(TOKENS, max_size=2),
    barred=st.frozensets(TOKENS, max_size=2),
    stops=st.lists(st.lists(TOKENS, max_size=3), max_size=3),
    tail=IDS,
)


@st.composite
def beliefs(draw: st.DrawFn, orders: list[int]) -> Beliefs:
    def means(size: int) -> array[float]:
        return array("d", draw(st.lists(SHARES, min_size=size, max_size=size)))

    calibration = draw(st.lists(st.tuples(st.floats(0.5, 1.5), st.floats(-8, 8)), min_size=10, max_size=10))
    return Beliefs(
        [means((order + 1) * KINDS) for order in orders],
        means(draw(st.integers(0, 8))),
        draw(SHARES),
        array("d", [number for pair in calibration for number in pair] * (CLASSES // 10)),
        draw(st.dictionaries(TOKENS, st.lists(st.integers(0, 90), max_size=9), max_size=6)),
        draw(st.lists(st.tuples(st.integers(0, 9), SHARES), max_size=6)),
        draw(st.dictionaries(st.integers(0, 90), TOKENS, max_size=9)),
        draw(st.dictionaries(TOKENS, st.floats(0.01, 1.0), max_size=4)),
    )


@st.composite
def drafts(draw: st.DrawFn) -> tuple[list[Twins], int, Limits, Beliefs]:
    tries = []
    for _ in range(draw(st.integers(1, 3))):
        twins = Twins(draw(st.integers(1, 9)))
        for token_ids in draw(st.lists(IDS, max_size=4)):
            twins.insert(token_ids)
        if draw(st.booleans()):
            twins.forget_one(draw(st.integers(0, 3)))
        twins.match(draw(IDS))
        tries.append(twins)
    return tries, draw(TOKENS), draw(LIMITS), draw(beliefs([twins.order for twins in tries]))


def grown_twice(tries: list[Twins], token: int, limits: Limits, belief: Beliefs) -> tuple[Grown, Grown]:
    return (
        growth.grow([t.slow for t in tries], [t.contexts[0] for t in tries], token, limits, belief),
        compiled_core.grow([t.fast for t in tries], [t.contexts[1] for t in tries], token, limits, belief),
    )


def bits(grown: Grown) -> list[list[object]]:
    """The columns, with doubles written exactly."""
    return [[x.hex() if isinstance(x, float) else x for x in column] for column in grown]  # type: ignore[attr-defined]


@needs_core
@settings(max_examples=2 * settings().max_examples)
@given(drafts())
def test_drafts_are_the_same_to_the_last_bit(draft: tuple[list[Twins], int, Limits, Beliefs]) -> None:
    slow, fast = grown_twice(*draft)
    assert type(fast) is Grown
    assert bits(fast) == bits(slow)


@needs_core
@pytest.mark.parametrize("prefix", [(), (1,), (1, 2), (1, 2, 3)])
def test_contexts_with_thousands_of_followers_are_the_same(prefix: tuple[int, ...]) -> None:
    twins = Twins(8)
    twins.insert([token for word in range(10, 4000) for token in (*prefix, word)])
    twins.insert([token for word in range(10, 4000, 7) for token in (*prefix[1:], word, word % 50)])
    for text in (list(prefix), [*prefix, 17], [*prefix, 17, *prefix]):
        twins.match(text)
        slow, fast = grown_twice([twins], text[-1] if text else 0, limited(), prior())
        assert bits(fast) == bits(slow)


@needs_core
def test_a_huge_budget_ends_where_nothing_is_worth_drafting() -> None:
    twins = Twins(4)
    twins.insert([1, 2, 3] * 5)
    twins.match([1])
    limits = limited(10**30, max_depth=10**30)
    slow, fast = grown_twice([twins], 1, limits, prior(4))
    assert bits(fast) == bits(slow)
    assert 64 < len(fast.token_ids) < 10_000


@needs_core
def test_confidences_without_bounds_draft_the_same() -> None:
    """No log-odds are too large for the calibration."""
    twins = Twins(2)
    twins.insert([1, 2, 3, 1])
    twins.match([1])
    for offset in (-1e6, -800.0, 800.0, 1e6):
        belief = prior(2, calibration=array("d", [1.0, offset] * CLASSES))
        slow, fast = grown_twice([twins], 1, limited(), belief)
        assert bits(fast) == bits(slow)

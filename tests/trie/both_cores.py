"""The compiled core, where it is built, and arguments that both cores take."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from ragla.trie import windows as python_core
from ragla.trie.growth import CLASSES, KINDS, Beliefs, Limits

try:
    from ragla.trie import _core as compiled_core
except ImportError:
    compiled_core = None  # type: ignore[assignment]

needs_core = pytest.mark.skipif(compiled_core is None, reason="the compiled core is not built")
each_core = pytest.mark.parametrize(
    "core",
    [pytest.param(python_core, id="python"), pytest.param(compiled_core, id="compiled", marks=needs_core)],
)


def prior(order: int = 8, **changes: Any) -> Beliefs:
    """What a drafter believes before it has learned anything."""
    confidence = array("d", [0.1 * min(9, k) for k in range(order + 1) for _ in range(KINDS)])
    calibration = array("d", [1.0, 0.0] * CLASSES)
    return Beliefs([confidence], array("d", [0.3, 0.1]), 0.5, calibration, {}, [], {}, {})._replace(**changes)


def limited(budget: int = 64, **changes: Any) -> Limits:
    return Limits(budget, 64, budget, budget)._replace(**changes)

"""When two tokens are so nearly equally good that rounding may choose between them.

The same position computed with other rows beside it has logits that differ in their last bits. How far
was measured with SmolLM2-135M on stock attention, one row against 4, 16 and 64: relative to the best
logit, the distance of any two of the best eight moved by at most 2.1 eps of bfloat16, 1.8 of float16 and
12 of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ragla.decode.ranked import RankedRows
from ragla.decode.request import Ending
from ragla.decode.verify import TokenChooser
from ragla.trie import DraftTree

TOLERANCE = {
    "bfloat16": 4 * torch.finfo(torch.bfloat16).eps,
    "float16": 4 * torch.finfo(torch.float16).eps,
    "float32": 64 * torch.finfo(torch.float32).eps,
    "int8": 0.0,  # integers add exactly: rows do not depend on their neighbours
}
"""Per number format, the largest near-tie: the gap of two logits over the magnitude of the better one."""
HALF = frozenset({"bfloat16", "float16"})


@dataclass(frozen=True)
class Gap:
    """The better and the worse of two tokens at one position, with their logits."""

    better: int
    worse: int
    better_logit: float
    worse_logit: float

    @property
    def width(self) -> float:
        """Difference of the logits."""
        return self.better_logit - self.worse_logit

    def within(self, tolerance: float) -> bool:
        """Whether it is a near-tie."""
        return self.width <= tolerance * max(1.0, abs(self.better_logit))


def scores(chooser: TokenChooser, logits: torch.Tensor) -> torch.Tensor:
    """What the chooser compares at the next position: its logits [vocabulary] after penalties, float32."""
    row = logits.to("cpu", torch.float32, copy=True)
    if not chooser.processors:
        return row
    ids: Any = torch.tensor([chooser.ids])
    processed: torch.Tensor = chooser.processors(ids, row[None])[0]
    return processed


def best_gap(chooser: TokenChooser, logits: torch.Tensor) -> Gap:
    """The two best tokens of the next position."""
    best = scores(chooser, logits).topk(2)
    (better, worse), (high, low) = best.indices.tolist(), best.values.tolist()
    return Gap(better, worse, high, low)


def gap_between(chooser: TokenChooser, logits: torch.Tensor, better: int, worse: int) -> Gap:
    """Two tokens of the next position."""
    row = scores(chooser, logits)
    return Gap(better, worse, float(row[better]), float(row[worse]))


@dataclass
class Judge:
    """Chooses at the nodes of a draft tree, except where two tokens are as good as equal.

    ``tie``: the largest near-tie that it leaves open; 0 decides everything.
    """

    chooser: TokenChooser
    ending: Ending
    tie: float = 0.0

    def choose(self, tree: DraftTree, rows: RankedRows, node: int) -> int | None:
        """The token after a node; None where the answer has ended or at a near-tie.

        ``rows`` are the tree's nodes. A tree of one node is what the plain loop computes: it has no ties.
        """
        if self.ending.reason:
            return None
        if self.tie and len(tree) > 1 and self._gap(rows, node).within(self.tie):
            return None
        if not self.chooser.takes_first:
            return self.decide(rows.logits[node])
        token = rows.first(node)
        self.ending.push(token)
        return token

    def _gap(self, rows: RankedRows, node: int) -> Gap:
        if self.chooser.takes_first:
            return Gap(*rows.two_best(node))
        return best_gap(self.chooser, rows.logits[node])

    def decide(self, logits: torch.Tensor) -> int:
        """The token after logits [vocabulary]."""
        token = self.chooser.choose(logits)
        self.ending.push(token)
        return token

"""What one forward pass said about its rows, brought to the host in one piece.

Asking a GPU for one value waits for all it was given to do; each token's ask would cost as much as many
rows. So the best token of every row and its second thoughts are fetched together, and the step's time
includes the wait. On a CPU the kernels rank all rows at once; without them each figure is computed when it is
asked for.
"""

from __future__ import annotations

import torch

from ragla.decode.backend import kernels
from ragla.decode.verify import RANKS, best_with_logits, second_thoughts


class RankedRows:
    """Logits [T, vocabulary] and, of each row, the best token and the ``RANKS`` best.

    ``fetch``: whether to rank all rows at once; None: where the kernels can or the logits are elsewhere.
    """

    def __init__(self, logits: torch.Tensor, *, fetch: bool | None = None) -> None:
        self.logits = logits
        self._fetched: list[list[float]] | None = None
        by_kernels = kernels.can_rank(logits)
        if fetch or (fetch is None and (by_kernels or logits.device.type != "cpu")):
            ids, values = best_with_logits(logits, RANKS)
            values = values.float()
            first = ids[:, :1] if by_kernels else logits.argmax(-1, keepdim=True)
            # float32 holds every id below 2**24
            parts = [first, ids, values, torch.softmax(values, dim=-1)]
            self._fetched = torch.cat([part.float() for part in parts], dim=1).tolist()

    def first(self, node: int) -> int:
        """The best token of a row; of equally good ones the first."""
        if self._fetched is None:
            return int(self.logits[node].argmax())
        return int(self._fetched[node][0])

    def two_best(self, node: int) -> tuple[int, int, float, float]:
        """The two best tokens of a row and their logits."""
        if self._fetched is None:
            best = self.logits[node].float().topk(2)
            (better, worse), (high, low) = best.indices.tolist(), best.values.tolist()
            return better, worse, high, low
        row, count = self._fetched[node], self._count
        return int(row[1]), int(row[2]), row[1 + count], row[2 + count]

    def second_thoughts(self) -> tuple[list[list[int]], list[list[float]]]:
        """The best ids of each row, best first, and their probabilities among themselves."""
        if self._fetched is None:
            return second_thoughts(self.logits)
        count = self._count
        ids = [[int(token) for token in row[1 : 1 + count]] for row in self._fetched]
        return ids, [row[1 + 2 * count :] for row in self._fetched]

    @property
    def _count(self) -> int:
        return min(RANKS, self.logits.shape[-1])

"""How many draft nodes a step is worth, from what steps were measured to cost.

Verifying T rows takes t(T); a draft's nodes come best first, so the best T maximises expected
committed tokens per second, ``(1 + Σ P) / t(T)``. T = 1 when nothing is worth drafting, which makes
plain decoding the floor.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from time import perf_counter

from ragla.decode.backend import Backend
from ragla.decode.kv_cache import KVCache
from ragla.decode.tree_attention import causal_rows
from ragla.memory import out_of_memory
from ragla.trie import DraftTree

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SLOWER, FASTER = (
    0.1,
    0.2,
)  # weight of a step that took longer or less than expected
SHARED = 0.5  # of a surprise, in log terms, is taken for the machine's and told of every size
REPETITIONS = 3  # of a size; of large ones, which take long, one
LARGE = 16


class StepCost:
    """Seconds of one forward pass over T rows, per coarse context length, measured and kept up to date.

    ``table``: power of two of the context length → T → seconds.
    """

    def __init__(self, table: dict[int, dict[int, float]] | None = None) -> None:
        self.table = table or {}
        self._costs: dict[int, float] = {}

    def prepare(self, backend: Backend, cache: KVCache, budget: int) -> None:
        """Take the table of this context length; measure it on the cache as it is where there is none.

        A backend that verifies no drafts has nothing to choose, and nothing is measured.
        """
        self._costs = {}
        if not backend.drafts:
            return
        bucket = cache.length.bit_length()
        sizes = [size for size in SIZES if size <= budget]
        known = self.table.get(bucket) or self._nearest(bucket)
        missing = [size for size in sizes if size not in known]
        self._costs = self.table[bucket] = {**known, **measure(backend, cache, missing)}

    def _nearest(self, bucket: int) -> dict[int, float]:
        if not self.table:
            return {}
        return self.table[min(self.table, key=lambda other: abs(other - bucket))]

    def seconds(self, rows: int) -> float:
        """Expected time of ``rows`` rows, interpolated between measured sizes, never falling with T."""
        sizes = sorted(self._costs)
        costs = list(accumulate((self._costs[size] for size in sizes), max))
        at = bisect_left(sizes, rows)
        if at == len(sizes):
            return costs[-1] * rows / sizes[-1]
        if sizes[at] == rows or at == 0:
            return costs[at]
        share = (rows - sizes[at - 1]) / (sizes[at] - sizes[at - 1])
        return costs[at - 1] + share * (costs[at] - costs[at - 1])

    def trim(self, tree: DraftTree) -> DraftTree:
        """The part of the draft that is worth its time."""
        if not self._costs:
            return tree
        expected = list(accumulate(tree.probabilities))
        sizes = [size for size in SIZES if size < len(tree)] + [len(tree)]
        best = max(sizes, key=lambda size: expected[size - 1] / self.seconds(size))
        return tree if best == len(tree) else tree.truncated(best)

    def trim_beside(self, tree: DraftTree, text: int) -> DraftTree:
        """The nodes that are worth a row more in a pass over the last of ``text`` tokens.

        A node saves what its token takes in a step, as often as it is accepted: a step that verified the
        same draft. A row beside many others takes no longer than in the largest step that was measured.
        Where no step was measured nothing is worth a row.
        """
        self._costs = self.table.get(text.bit_length()) or self._nearest(text.bit_length())
        if not self._costs:
            return tree.truncated(1)
        most = max(self._costs)
        expected = accumulate(tree.probabilities)
        rate = max(tokens / self.seconds(size) for size, tokens in enumerate(expected, 1))
        least = rate * self.seconds(most) / most
        return tree.truncated(1 + sum(chance >= least for chance in tree.probabilities[1:]))

    def record(self, rows: int, seconds: float) -> None:
        """Learn from a real step: of its size, and less of the others, which the machine's load moves too."""
        if not self._costs:
            return
        ratio = min(seconds / self.seconds(rows), 2.0)
        factor = 1.0 + (FASTER if ratio < 1.0 else SLOWER) * (ratio - 1.0)
        nearest = min(self._costs, key=lambda size: abs(size - rows))
        for size in self._costs:
            self._costs[size] *= factor if size == nearest else factor**SHARED


def measure(backend: Backend, cache: KVCache, sizes: list[int]) -> dict[int, float]:
    """Median seconds of forward passes over T rows behind the cached text, which is left as it was.

    Sizes that do not fit the cache, the model's window or the memory are left out.
    """
    costs: dict[int, float] = {}
    length = cache.length
    for size in sorted(sizes):
        if length + size > min(cache.capacity, backend.context_end):
            continue
        try:
            costs[size] = _median_seconds(backend, cache, size)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            break
        finally:
            cache.truncate(length)
    return costs


def _median_seconds(backend: Backend, cache: KVCache, size: int) -> float:
    length = cache.length
    times = []
    # on a GPU the first pass of a size records what the others replay: the median leaves it out
    once = size >= LARGE and backend.device.type == "cpu"
    for _ in range(1 if once else REPETITIONS):
        rows = causal_rows([0] * size, length, backend.device)
        began = perf_counter()
        # fetching a value waits for a device that runs ahead
        float(backend.forward(rows, cache)[-1, 0])
        times.append(perf_counter() - began)
        cache.truncate(length)
    return sorted(times)[len(times) // 2]

"""How many tokens a drafter gets accepted on an answer that is already known, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragla.trie.draft_tree import accepted_path
from ragla.trie.drafter import Drafter, DraftLimits


@dataclass
class ReplayCount:
    """Totals over replayed answers; steps and tokens after the first, which prefill gives."""

    steps: int = 0
    tokens: int = 0
    nodes: int = 0
    accepted: int = 0
    expected: float = 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Committed tokens per step, bonus included."""
        return self.tokens / self.steps if self.steps else 0.0


def replay(
    drafter: Drafter,
    prompt_ids: Sequence[int],
    answer_ids: Sequence[int],
    best_ids: Sequence[Sequence[int]],
    limits: DraftLimits,
    count: ReplayCount,
) -> None:
    """Decode a known answer with drafts and add what happened to ``count``.

    ``best_ids[i]`` are the model's best ids at the position of ``answer_ids[i]``, best first.
    """
    drafter.begin(prompt_ids)
    at = 0

    def go_on(tokens: Sequence[int]) -> None:
        nonlocal at
        for token in tokens:
            previous = answer_ids[at - 1] if at else prompt_ids[-1]
            drafter.commit([token])
            if at < len(best_ids):
                drafter.recycle(previous, best_ids[at])
            at += 1

    go_on(answer_ids[:1])
    depths: list[int] = []

    def known(node: int) -> int | None:
        position = at + depths[node]
        return answer_ids[position] if position < len(answer_ids) else None

    while at < len(answer_ids):
        tree = drafter.draft(answer_ids[at - 1], limits)
        depths = tree.depths()
        nodes, chosen = accepted_path(tree, known)
        drafter.learn(tree, nodes)
        count.steps += 1
        count.tokens += len(chosen)
        count.nodes += len(tree)
        count.accepted += len(nodes)
        count.expected += sum(tree.probabilities[1:])
        go_on(chosen)
    drafter.end(answer_ids)

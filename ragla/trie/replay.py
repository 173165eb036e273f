"""What a drafting rule gets accepted on answers that are already known, without a model.

A greedy answer is fixed, so drafting, walking the draft along the answer and adding the bonus token
counts exactly the steps that a decoder would take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import NamedTuple, Protocol

from ragla.trie.draft_tree import DraftTree, accepted_path
from ragla.trie.limits import DraftLimits


class Rule(Protocol):
    """A drafting rule: the part of ``Drafter`` that a replay, and a decoder's loop, calls.

    A rule that has ``forget_ranks()`` is asked to forget what it recycled before each answer.
    """

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Forget the last question; read the prompt of the next."""
        ...

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """A tree of at most ``limits.budget`` nodes after ``last_token``, which is node 0."""
        ...

    def learn(self, tree: DraftTree, accepted: Sequence[int]) -> None:
        """See which nodes of the last draft were accepted, node 0 left out."""
        ...

    def commit(self, token_ids: Sequence[int]) -> None:
        """Go on by tokens that are part of the answer."""
        ...

    def recycle(
        self,
        token_ids: Sequence[int],
        best_ids: Sequence[Sequence[int]],
        visited: Sequence[int] | None = None,
    ) -> None:
        """Take the ids the model ranked best after each of a step's tokens, best first.

        ``visited``: the indices of node 0 and of the accepted nodes, in order; None: all.
        """
        ...

    def end(self, answer_ids: Sequence[int], *, ended: bool) -> None:
        """The answer is finished; ``ended``: by itself, not by a limit. It has no end-of-sequence token."""
        ...


class ReplayStep(NamedTuple):
    """One step: nodes verified (node 0 included), draft tokens accepted, tokens committed, bonus included.

    ``expected``: accepted tokens the rule expected, 0 if it names no probabilities. ``draft_ns`` and
    ``update_ns``: nanoseconds it took to draft, and to learn, commit and recycle.
    """

    nodes: int
    accepted: int
    tokens: int
    expected: float
    draft_ns: int
    update_ns: int


@dataclass
class ReplayCount:
    """The steps of replayed answers after their first token, which prefill gives.

    ``begin_ns``: nanoseconds spent reading ``prompt_tokens`` tokens of prompts.
    """

    per_step: list[ReplayStep] = field(default_factory=list)
    prompt_tokens: int = 0
    begin_ns: int = 0

    @property
    def steps(self) -> int:
        """Forward passes after prefill."""
        return len(self.per_step)

    @property
    def tokens(self) -> int:
        """Committed tokens, bonus tokens included."""
        return sum(step.tokens for step in self.per_step)

    @property
    def nodes(self) -> int:
        """Verified nodes, node 0 of each step included."""
        return sum(step.nodes for step in self.per_step)

    @property
    def accepted(self) -> int:
        """Accepted draft tokens."""
        return sum(step.accepted for step in self.per_step)

    @property
    def expected(self) -> float:
        """Accepted draft tokens that the rule expected."""
        return sum(step.expected for step in self.per_step)

    @property
    def mean_acceptance_length(self) -> float:
        """Committed tokens per step, bonus included."""
        return self.tokens / self.steps if self.per_step else 0.0


def replay(
    rule: Rule,
    prompt_ids: Sequence[int],
    answer_ids: Sequence[int],
    best_ids: Sequence[Sequence[int]],
    limits: DraftLimits,
    count: ReplayCount,
) -> None:
    """Decode a known answer with drafts and add its steps to ``count``; the calls are a decoder's.

    ``best_ids[i]`` are the model's best ids at the position of ``answer_ids[i]``, best first. Only those
    are known: neither the prompt's nor those of rejected nodes are recycled. The answer ends without its
    end-of-sequence token, by itself where ``best_ids`` has a row for that token. What was recycled on
    earlier answers is forgotten.
    """
    forget_ranks: Callable[[], None] = getattr(rule, "forget_ranks", _nothing)
    forget_ranks()
    began = perf_counter_ns()
    rule.begin(prompt_ids)
    count.begin_ns += perf_counter_ns() - began
    count.prompt_tokens += len(prompt_ids)
    at = 0
    tree = DraftTree([prompt_ids[-1]])  # prefill verifies nothing and commits the first token
    while at < len(answer_ids):
        began = perf_counter_ns()
        if at:
            tree = rule.draft(answer_ids[at - 1], limits)
        drafted = perf_counter_ns()
        nodes, chosen = _walk(tree, answer_ids, at)
        accepted = [tree.token_ids[node] for node in [0, *nodes]]
        update_ns = _update(rule, tree, nodes, chosen, accepted, best_ids[at : at + len(accepted)])
        if at:
            count.per_step.append(
                ReplayStep(
                    len(tree),
                    len(nodes),
                    len(chosen),
                    sum(tree.probabilities[1:]),
                    drafted - began,
                    update_ns,
                )
            )
        at += len(chosen)
    rule.end(answer_ids, ended=len(best_ids) > len(answer_ids))


def _walk(tree: DraftTree, answer_ids: Sequence[int], at: int) -> tuple[list[int], list[int]]:
    """The accepted nodes and the committed tokens of a draft at position ``at`` of the answer."""
    depths = tree.depths()

    def known(node: int) -> int | None:
        position = at + depths[node]
        return answer_ids[position] if position < len(answer_ids) else None

    return accepted_path(tree, known)


def _update(
    rule: Rule,
    tree: DraftTree,
    nodes: Sequence[int],
    chosen: Sequence[int],
    accepted: Sequence[int],
    best_ids: Sequence[Sequence[int]],
) -> int:
    """Tell the rule what came, in a decoder's order; the nanoseconds it took."""
    began = perf_counter_ns()
    rule.learn(tree, nodes)
    rule.commit(chosen)
    if best_ids:
        rule.recycle(accepted[: len(best_ids)], best_ids)
    return perf_counter_ns() - began


def _nothing() -> None:
    """What a rule without recycled ids forgets."""

"""The whole algorithm: draft a tree, verify it in one forward pass, accept a path, keep its rows.

Lookahead decoding with a token trie (Zhao et al., KDD 2024, arXiv 2312.12728). The text is the plain
loop's text; there are only fewer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import torch

from ragla.decode.backend import Backend
from ragla.decode.budget import StepCost
from ragla.decode.greedy import next_logits
from ragla.decode.kv_cache import KVCache
from ragla.decode.prefill import PromptCache, prefill
from ragla.decode.ranked import RankedRows
from ragla.decode.request import Block, DecodeRequest, Ending, cache_capacity
from ragla.decode.shortage import RowLimits
from ragla.decode.stats import DecodeStats, StepStats
from ragla.decode.ties import Judge
from ragla.decode.tree_attention import tree_rows
from ragla.decode.verify import TokenChooser
from ragla.memory import out_of_memory
from ragla.trie import Drafter, DraftLimits, DraftTree, accepted_path

Observer = Callable[[int, DraftTree, list[int]], None]
"""Called with a step's number, its draft tree and the accepted nodes; 0: the prompt's pass."""


def lookahead(
    backend: Backend,
    drafter: Drafter,
    request: DecodeRequest,
    stats: DecodeStats,
    limits: DraftLimits | None = None,
    cost: StepCost | None = None,
    observe: Observer | None = None,
    kept: PromptCache | None = None,
    tie: float = 0.0,
) -> Iterator[Block]:
    """Decode with drafts; yields the tokens of each step and fills ``stats``.

    The drafter has begun with the prompt. A first draft is verified together with the prompt's last chunk,
    where it is known how answers begin. ``cost`` says how many nodes that and a step are worth; without it
    the whole budget is verified. ``observe`` sees every draft tree with its accepted nodes. ``kept``
    may hold what the prompt begins with. Near-ties up to ``tie``, see ``ragla.decode.ties``, are decided by
    a pass over a single row. It attends to rows that drafts have left in the cache, with their own rounding,
    so in half precision an answer can still differ from the plain loop's.
    """
    limits = limits or DraftLimits()
    kept = kept or PromptCache(reuse=False)
    ending = Ending(request, backend.context_end)
    judge = Judge(TokenChooser(request.sampling, request.prompt_ids, request.end_ids), ending, tie)
    cache = kept.take(backend, request, cache_capacity(request, ending, limits.budget))
    stepper = Stepper(backend, drafter, cache, limits, cost, kept.limits)
    tree, ranked = stepper.read_prompt(request, judge, stats, kept)
    began = perf_counter()
    while True:
        nodes, chosen = accepted_path(tree, partial(judge.choose, tree, ranked))
        if not ending.reason and len(chosen) == len(nodes):
            chosen.append(judge.decide(stepper.single_row(tree, nodes)))
            stats.decided_alone += 1
        else:
            # the prompt's last token is in the cache: the nodes' rows are counted from the one behind it
            cache.keep([0, *nodes] if stats.steps else [node - 1 for node in nodes])
        drafter.learn(tree, nodes)
        drafter.commit(chosen)  # before recycling: the old ranks are judged by what came
        best, chances = ranked.second_thoughts()
        drafter.recycle(tree.token_ids, best, [0, *nodes], chances)
        stats.tokens += len(chosen)
        if stats.steps:
            stats.steps[-1] = replace(stats.steps[-1], accepted=len(nodes), committed=len(chosen))
        else:
            stats.prefill_drafted, stats.prefill_accepted = len(tree) - 1, len(nodes)
        stats.decode_s += perf_counter() - began
        if observe is not None and (stats.steps or len(tree) > 1):
            observe(len(stats.steps), tree, nodes)
        yield block(tree, nodes, chosen)
        if ending.reason:
            return
        if not stats.steps:
            stats.calibration_s = stepper.calibrate()
        began = perf_counter()
        tree, ranked = stepper.step(chosen[-1], ending.remaining, stats)


@dataclass(frozen=True)
class Stepper:
    """Drafts a tree and verifies it in one forward pass, as large as its cost and the memory allow."""

    backend: Backend
    drafter: Drafter
    cache: KVCache
    limits: DraftLimits
    cost: StepCost | None
    row_limits: RowLimits

    def read_prompt(
        self, request: DecodeRequest, judge: Judge, stats: DecodeStats, kept: PromptCache
    ) -> tuple[DraftTree, RankedRows]:
        """Fill the cache with the prompt: a tree after its last token and what the model says at its nodes.

        Where near-ties are left open it is that token alone: they could not be decided without reading the
        prompt's end once more.
        """
        stats.reused = self.cache.length
        stats.prompt_tokens = len(request.prompt_ids)
        began = perf_counter()
        tree = DraftTree([request.prompt_ids[-1]])
        if not judge.tie:
            tree = self.draft_beginning(request.prompt_ids, judge.ending.remaining)
        on_ranks = self.drafter.recycle_prompt if request.rank_prompt else None
        ranked = RankedRows(prefill(self.backend, self.cache, request, on_ranks, kept, tree))
        stats.prefill_s = perf_counter() - began
        return tree.truncated(len(ranked.logits)), ranked

    def calibrate(self) -> float:
        """Measure what steps cost here, if that is not known; the seconds it took."""
        if self.cost is None:
            return 0.0
        began = perf_counter()
        self.cost.prepare(self.backend, self.cache, self.limits.budget)
        return perf_counter() - began

    def step(self, last_token: int, remaining: int, stats: DecodeStats) -> tuple[DraftTree, RankedRows]:
        """Draft and verify once: the tree and what the model says at its nodes.

        Where memory runs out the draft is halved. Raises RaglaError when a single row does not fit.
        """
        began = perf_counter()
        tree = self.draft(last_token, remaining)
        while True:
            rows = tree_rows(tree, self.cache.length, self.backend.device)
            drafted = perf_counter()
            try:
                ranked = RankedRows(self.backend.forward(rows, self.cache))
                break
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                self.cache.truncate(self.cache.length)
                tree = tree.truncated(self.row_limits.halve_draft(len(tree)))
        seconds = perf_counter() - drafted
        if self.cost is not None:
            self.cost.record(len(tree), seconds)
        expected = sum(tree.probabilities[1:])
        stats.steps.append(StepStats(len(tree) - 1, 0, 0, seconds, drafted - began, expected))
        return tree, ranked

    def draft(self, last_token: int, remaining: int) -> DraftTree:
        """A tree no deeper than the answer may still grow, cut to what is worth verifying."""
        limits = self.bounds(remaining)
        if not self.backend.drafts or limits.max_depth < 1:
            return DraftTree([last_token])
        tree = self.drafter.draft(last_token, limits)
        return tree if self.cost is None else self.cost.trim(tree)

    def draft_beginning(self, prompt_ids: Sequence[int], remaining: int) -> DraftTree:
        """A tree after the prompt, cut to the nodes that are worth a row beside the prompt's."""
        limits = self.bounds(remaining)
        if not self.backend.drafts_with_prompt or not self.row_limits.with_prompt or limits.max_depth < 1:
            return DraftTree([prompt_ids[-1]])
        tree = self.drafter.draft_beginning(prompt_ids[-1], limits)
        return tree if self.cost is None else self.cost.trim_beside(tree, len(prompt_ids))

    def bounds(self, remaining: int) -> DraftLimits:
        """The bounds of a draft where so many tokens may still come."""
        depth = min(self.limits.max_depth, remaining - 1)
        budget = min(self.limits.budget, self.row_limits.draft or self.limits.budget)
        return replace(self.limits, max_depth=depth, budget=budget)

    def single_row(self, tree: DraftTree, nodes: list[int]) -> torch.Tensor:
        """Logits [vocabulary] after the last accepted node by a pass over its row alone.

        The accepted nodes' rows are kept; the last one's is computed anew.
        """
        path = [0, *nodes]
        self.cache.keep(path[:-1])
        return next_logits(self.backend, self.cache, tree.token_ids[path[-1]])


def block(tree: DraftTree, nodes: list[int], chosen: list[int]) -> Block:
    """Committed tokens with the origins of those that were drafted."""
    origins = [tree.origins[node] for node in nodes]
    return Block(chosen, [*origins, *[None] * (len(chosen) - len(origins))])

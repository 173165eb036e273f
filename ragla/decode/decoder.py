"""The whole algorithm: draft a tree, verify it in one forward pass, accept a path, keep its rows.

Lookahead decoding with a token trie (Zhao et al., KDD 2024, arXiv 2312.12728). The text is the plain
loop's text; there are only fewer steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter

import torch

from ragla.decode.backend import Backend
from ragla.decode.budget import StepCost
from ragla.decode.greedy import prefill
from ragla.decode.kv_cache import KVCache
from ragla.decode.request import Block, DecodeRequest, Ending, cache_capacity
from ragla.decode.stats import DecodeStats, StepStats
from ragla.decode.tree_attention import tree_rows
from ragla.decode.verify import TokenChooser, second_thoughts
from ragla.trie import Drafter, DraftLimits, DraftTree, accepted_path

Observer = Callable[[DraftTree, list[int]], None]


def lookahead(
    backend: Backend,
    drafter: Drafter,
    request: DecodeRequest,
    stats: DecodeStats,
    limits: DraftLimits | None = None,
    cost: StepCost | None = None,
    observe: Observer | None = None,
) -> Iterator[Block]:
    """Decode with drafts; yields the tokens of each step and fills ``stats``.

    The drafter has begun with the prompt. ``cost`` says how many nodes a step is worth; without it the
    whole budget is verified. ``observe`` sees every draft tree with its accepted nodes.
    """
    limits = limits or DraftLimits()
    ending = Ending(request, backend.context_end)
    chooser = TokenChooser(request.sampling, request.prompt_ids, request.end_ids)
    cache = backend.new_cache(cache_capacity(request, ending, limits.budget))
    began = perf_counter()
    on_ranks = drafter.recycle_prompt if request.rank_prompt else None
    logits = prefill(backend, cache, request, on_ranks)[None]
    stats.prompt_tokens = len(request.prompt_ids)
    stats.prefill_s = perf_counter() - began
    if cost is not None:
        began = perf_counter()
        cost.prepare(backend, cache, limits.budget)
        stats.calibration_s = perf_counter() - began
    began = perf_counter()

    def choose(node: int) -> int | None:
        if ending.reason:
            return None
        token = chooser.choose(logits[node])
        ending.push(token)
        return token

    tree = DraftTree([request.prompt_ids[-1]])
    while True:
        nodes, chosen = accepted_path(tree, choose)
        drafter.learn(tree, nodes)
        drafter.commit(chosen)  # before recycling: the old ranks are judged by what came
        best, chances = second_thoughts(logits)
        drafter.recycle(tree.token_ids, best, [0, *nodes], chances)
        stats.tokens += len(chosen)
        if stats.steps:
            cache.keep([0, *nodes])
            stats.steps[-1] = replace(stats.steps[-1], accepted=len(nodes), committed=len(chosen))
        stats.decode_s += perf_counter() - began
        if observe is not None and stats.steps:
            observe(tree, nodes)
        yield block(tree, nodes, chosen)
        if ending.reason:
            return
        began = perf_counter()
        tree, logits = step(backend, drafter, cache, limits, cost, ending.remaining, chosen[-1], stats)


def step(
    backend: Backend,
    drafter: Drafter,
    cache: KVCache,
    limits: DraftLimits,
    cost: StepCost | None,
    remaining: int,
    last_token: int,
    stats: DecodeStats,
) -> tuple[DraftTree, torch.Tensor]:
    """Draft and verify once: the tree and its logits [nodes, vocabulary]."""
    began = perf_counter()
    tree = draft(backend, drafter, limits, cost, remaining, last_token)
    rows = tree_rows(tree, cache.length, backend.device)
    drafted = perf_counter()
    logits = backend.forward(rows, cache)
    seconds = perf_counter() - drafted
    if cost is not None:
        cost.record(len(tree), seconds)
    expected = sum(tree.probabilities[1:])
    stats.steps.append(StepStats(len(tree) - 1, 0, 0, seconds, drafted - began, expected))
    return tree, logits


def draft(
    backend: Backend,
    drafter: Drafter,
    limits: DraftLimits,
    cost: StepCost | None,
    remaining: int,
    last_token: int,
) -> DraftTree:
    """A tree no deeper than the answer may still grow, cut to what is worth verifying."""
    depth = min(limits.max_depth, remaining - 1)
    if not backend.drafts or depth < 1:
        return DraftTree([last_token])
    tree = drafter.draft(last_token, replace(limits, max_depth=depth))
    return tree if cost is None else cost.trim(tree)


def block(tree: DraftTree, nodes: list[int], chosen: list[int]) -> Block:
    """Committed tokens with the origins of those that were drafted."""
    origins = [tree.origins[node] for node in nodes]
    return Block(chosen, [*origins, *[None] * (len(chosen) - len(origins))])

"""Grows a draft tree best first: the slow, obvious twin of the compiled core's ``grow``.

At a draft node every matching context says what may follow, longest first, each trusted as often as
contexts of its length and kind were right before::

    P(t) = Σ_k  r_k · c_k · n_k(t)/n_k        r_{k-1} = r_k · (1 - c_k)

where ``n_k`` counts the occurrences whose match is exactly k tokens long. That is prediction by partial
matching (Cleary and Witten, 1984) with learned escape probabilities and each occurrence counted once.
The mass that is left goes to the model's second thoughts after the same token, then to its second
thoughts at the last positions, then to the most frequent tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from math import exp, log
from typing import NamedTuple

from ragla.trie.windows import ASKED, Contexts, Node, Windows, added, counted, fresh, kind

KINDS = 3
FREQUENT = 16  # tokens drafted for no better reason than their frequency
LEAST = 1e-3  # a branch below this is not worth a heap entry
NO_SOURCE = -1
LENGTH_CLASSES, STANDINGS = 5, 5
CLASSES = LENGTH_CLASSES * 2 * STANDINGS  # of calibration


class Limits(NamedTuple):
    """What bounds the growth: nodes, depth, children of the root and of other nodes, and tokens.

    ``stops``: token sequences nothing is drafted after; ``tail``: the end of the text, as long as the
    longest of them.
    """

    budget: int
    max_depth: int
    root_width: int
    width: int
    forbidden: frozenset[int] = frozenset()
    barred: frozenset[int] = frozenset()
    stops: Sequence[Sequence[int]] = ()
    tail: Sequence[int] = ()


class Beliefs(NamedTuple):
    """Learned numbers. ``confidence[s]``: (order + 1) · KINDS of source s. ``calibration``: pairs (a, b).

    ``ranks``: token → the ids that the model ranked best after it. ``extras``: tokens and their shares
    of what is left, after the text only. ``variants``: token → a token that is written alike.
    ``going_on``: token → how likely an answer does not end after it, where that was learned.
    """

    confidence: Sequence[Sequence[float]]
    rank_confidence: Sequence[float]
    frequent_confidence: float
    calibration: Sequence[float]
    ranks: dict[int, Sequence[int]]
    extras: Sequence[tuple[int, float]]
    variants: dict[int, int]
    going_on: dict[int, float]


class Grown(NamedTuple):
    """A tree in columns. ``sources``: the index of the trie a token was read in, or NO_SOURCE, and
    ``positions`` the place in it. ``classes`` and ``scores``: what the calibration of a node was applied to.
    """

    token_ids: list[int]
    parents: list[int]
    probabilities: list[float]
    sources: list[int]
    positions: list[int]
    classes: list[int]
    scores: list[float]


class Follower(NamedTuple):
    """A token that may come next: raw probability, and where it was read."""

    share: float
    source: int
    position: int


class Chance(NamedTuple):
    """A follower with its calibrated probability, and what the calibration was applied to."""

    value: float
    token: int
    follower: Follower
    group: int
    score: float


def grow(
    tries: Sequence[Windows], states: Sequence[Contexts], last_token: int, limits: Limits, beliefs: Beliefs
) -> Grown:
    """The best tree after ``last_token``, whose matching contexts are ``states``; likeliest node first."""
    for trie, state in zip(tries, states, strict=True):
        trie.check(state)
    tree = Grown([last_token], [-1], [1.0], [NO_SOURCE], [0], [0], [0.0])
    depths, reached = [0], [list(states)]
    heap: list[tuple[float, int, int, Chance]] = []
    queued = 0

    def queue(node: int) -> None:
        nonlocal queued
        width = limits.width if node else limits.root_width
        token, depth = tree.token_ids[node], depths[node]
        found = _calibrated(tries, reached[node], token, depth, limits, beliefs)
        worth = [(chance.value * tree.probabilities[node], chance) for chance in found]
        worth = [entry for entry in worth if entry[0] >= LEAST]
        if width < len(worth):
            worth = sorted(worth, key=lambda entry: -entry[0])[:width]
        for share, chance in worth:
            heappush(heap, (-share, queued, node, chance))
            queued += 1

    if limits.max_depth > 0:
        queue(0)
    while heap and len(tree.token_ids) < limits.budget:
        negative, _, parent, chance = heappop(heap)
        tree.token_ids.append(chance.token)
        tree.parents.append(parent)
        tree.probabilities.append(-negative)
        tree.sources.append(chance.follower.source)
        tree.positions.append(chance.follower.position)
        tree.classes.append(chance.group)
        tree.scores.append(chance.score)
        node = len(depths)
        depths.append(depths[parent] + 1)
        reached.append([
            step(trie, state, chance.token, beliefs.variants)
            for trie, state in zip(tries, reached[parent], strict=True)
        ])  # fmt: skip
        if depths[node] < limits.max_depth and not _stopped(tree, node, limits):
            queue(node)
    return tree


def step(trie: Windows, state: Contexts, token: int, variants: dict[int, int]) -> Contexts:
    """The matching contexts one token later; an unread token is followed like one that is written alike."""
    advanced = trie.advance(state, token)
    if len(advanced) == 1 and token in variants:
        advanced = trie.match([variants[token]])
    return advanced


def followers(
    tries: Sequence[Windows],
    state: Sequence[Contexts],
    last_token: int,
    depth: int,
    limits: Limits,
    beliefs: Beliefs,
) -> dict[int, Follower]:
    """What may come after ``last_token``, with raw probabilities."""
    found: dict[int, Follower] = {}
    left = 1.0
    shortest = 2 if last_token in limits.barred else 1
    said = [{k: (node, longer) for k, node, longer in fresh(contexts)} for contexts in state]
    for k in range(max(map(len, state)) - 1, shortest - 1, -1):
        for source, contexts in enumerate(said):
            if k not in contexts or left < LEAST:
                continue
            node, longer = contexts[k]
            confidence = beliefs.confidence[source][k * KINDS + kind(node, longer)]
            _add_context(found, node, longer, left * confidence, source)
            left *= 1.0 - confidence
    used = 0.0
    for token, share in zip(beliefs.ranks.get(last_token, ()), beliefs.rank_confidence, strict=False):
        _add(found, token, left * share)
        used += share
    left *= max(0.0, 1.0 - used)
    for token, share in beliefs.extras if depth == 0 else ():
        _add(found, token, left * share)
    root = tries[0].root
    for child in root.followers[:FREQUENT]:
        _add(found, child.token, left * beliefs.frequent_confidence * child.count / root.total)
    return found


def _add_context(
    found: dict[int, Follower], node: Node, longer: Node | None, mass: float, source: int
) -> None:
    """Share ``mass`` out among the occurrences that a context has and the longer one has not."""
    unseen = added(node, longer)
    scale = mass / unseen
    for child in islice(node.followers, ASKED):
        if scale * child.count < LEAST or unseen <= 0:
            break
        count = child.count - counted(longer, child.token)
        if count > 0:
            _add(found, child.token, scale * count, source, child.position)
            unseen -= count


def _add(
    found: dict[int, Follower], token: int, share: float, source: int = NO_SOURCE, position: int = 0
) -> None:
    known = found.get(token)
    found[token] = (
        Follower(share, source, position)
        if known is None
        else Follower(known.share + share, known.source, known.position)
    )


def _calibrated(
    tries: Sequence[Windows],
    state: Sequence[Contexts],
    token: int,
    depth: int,
    limits: Limits,
    beliefs: Beliefs,
) -> list[Chance]:
    """Followers worth a thought; their probabilities add up to 1 at most."""
    node_class = calibration_class(state, depth)
    best = list(beliefs.ranks.get(token, ()))[: len(beliefs.rank_confidence)]
    found: list[Chance] = []
    mass = 0.0
    for candidate, follower in followers(tries, state, token, depth, limits, beliefs).items():
        if follower.share >= LEAST and candidate not in limits.forbidden:
            group = node_class * STANDINGS + standing(candidate, best)
            slope, offset = beliefs.calibration[2 * group], beliefs.calibration[2 * group + 1]
            score = logit(follower.share)
            value = logistic(slope * score + offset)
            mass += value
            found.append(Chance(value, candidate, follower, group, score))
    mass = max(mass, 1.0) / beliefs.going_on.get(token, 1.0)
    return [chance._replace(value=chance.value / mass) for chance in found]


def calibration_class(state: Sequence[Contexts], depth: int) -> int:
    """Drafts err alike where matches are about as long; right after a surprise they err differently."""
    longest = 0
    for contexts in state:
        k = len(contexts) - 1
        while k > longest and contexts[k].total == 0:
            k -= 1
        longest = max(longest, k)
    return 2 * min(longest.bit_length(), 4) + (depth > 0)


def standing(token: int, best: Sequence[int]) -> int:
    """What the model itself thought of a token the last time: nothing known, best, next two, one of the
    others it ranked, none of them."""
    if not best:
        return 0
    if token not in best:
        return 4
    return (1, 2, 2)[best.index(token)] if best.index(token) < 3 else 3


def logit(share: float) -> float:
    """Log-odds, kept finite."""
    share = min(max(share, 1e-5), 1.0 - 1e-4)
    return log(share / (1.0 - share))


def logistic(log_odds: float) -> float:
    """The probability; no log-odds are too small for it."""
    return 1.0 / (1.0 + exp(min(-log_odds, 700.0)))


def _stopped(tree: Grown, node: int, limits: Limits) -> bool:
    """Whether the text up to ``node`` ends with a stop sequence."""
    if not limits.stops:
        return False
    path: list[int] = []
    while node > 0:
        path.append(tree.token_ids[node])
        node = tree.parents[node]
    text = [*limits.tail, *reversed(path)]
    return any(text[-len(stop) :] == list(stop) for stop in limits.stops)

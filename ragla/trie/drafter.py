"""From the end of the text and the tries to a draft tree, best branch first.

At a draft node the follower's probability blends what the longest matching context saw with what
ever shorter ones saw, each trusted as often as contexts of its length were right before::

    P(t) = Σ_k r_k · c_k · n_k(t)/n_k     c_k = conf(k) · n_k/(n_k + e·u_k)     r_{k-1} = r_k · (1 - c_k)

with ``n_k`` occurrences of the context of length k and ``u_k`` distinct followers. The mass that is
left goes to the model's own second thoughts: the ids it ranked best the last time it stood on the
same token. The scheme is prediction by partial matching (Cleary and Witten, 1984) with learned
escape probabilities. All of it is scaled by how often drafted followers came lately, so that the sum
over a tree stays an honest count of tokens to come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

from ragla.trie.draft_tree import DraftTree
from ragla.trie.token_trie import Contexts, Origin, TokenTrie, TrieNode

Shape = Literal["tree", "parallel", "single"]

CONFIDENCE_PRIOR = (0.0, 0.35, 0.60, 0.75, 0.82, 0.87, 0.90, 0.92, 0.94)
RANK_PRIOR = (0.32, 0.12, 0.07, 0.05, 0.04, 0.03, 0.02, 0.02)
FOLLOWER_WEIGHT = 0.4  # the e of the formula: how much many distinct followers weaken a context
LEARNING_RATE = 0.03
LEAST_PROBABILITY = 1e-3  # a branch below this is not worth a heap entry


@dataclass(frozen=True)
class DraftLimits:
    """What bounds a draft: nodes (node 0 included), depth, form, and tokens never drafted."""

    budget: int = 64
    max_depth: int = 12
    shape: Shape = "tree"
    forbidden: frozenset[int] = frozenset()
    barred_anchors: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Follower:
    """A token that may come next, how likely, and the trie node that says so."""

    probability: float
    token: int
    trie: TokenTrie | None
    node: TrieNode | None

    def origin(self) -> Origin | None:
        """Where the token was read, None for a second thought of the model."""
        return self.trie.origin(self.node) if self.trie is not None and self.node is not None else None


class Source:
    """A trie with where the text stands in it and how far its contexts are to be trusted."""

    def __init__(self, trie: TokenTrie) -> None:
        self.trie = trie
        last = CONFIDENCE_PRIOR[-1]
        self.confidence = [
            CONFIDENCE_PRIOR[k] if k < len(CONFIDENCE_PRIOR) else last for k in range(trie.order + 1)
        ]
        self.contexts: Contexts = [trie.root]

    def observe(self, token: int) -> None:
        """Learn from the token that truly came next, then step onto it."""
        for k in range(len(self.contexts) - 1, 0, -1):
            followers = self.contexts[k].children
            if not followers:  # the end of what was read: nothing was predicted
                continue
            hit = token in followers
            self.confidence[k] += LEARNING_RATE * (hit - self.confidence[k])
            if hit:  # shorter contexts are asked only when the longer ones miss
                break
        self.contexts = self.trie.advance(self.contexts, token)


class Drafter:
    """Drafts trees for one model from a question's trie, the trie of earlier answers and recycled ranks.

    The question's trie is dropped whole by ``begin``; earlier answers, confidences and ranks stay.
    """

    def __init__(self, order: int = 8, answer_trie_nodes: int = 0) -> None:
        self.question = Source(TokenTrie(order))
        self.answers = Source(TokenTrie(order, max_nodes=answer_trie_nodes)) if answer_trie_nodes else None
        self.ranks: dict[int, Sequence[int]] = {}
        self.rank_confidence = list(RANK_PRIOR)
        self.trust = 1.0  # followers that came, per follower that was expected
        self._hits = self._expected_hits = 1.0
        self._last: int | None = None
        self.begin([])

    def begin(self, prompt_ids: Sequence[int], sources: Iterable[tuple[str, Sequence[int]]] = ()) -> None:
        """Forget the last question; seed the trie with named sources, then with the prompt.

        The prompt comes last so that ``extend`` continues it and recent origins win.
        """
        trie = self.question.trie
        trie.clear()
        for name, token_ids in sources:
            trie.insert(token_ids, name)
        trie.insert(prompt_ids, "prompt")
        for source in self._sources():
            source.contexts = source.trie.contexts(list(prompt_ids[-source.trie.order :]))
        self._last = prompt_ids[-1] if prompt_ids else None

    def commit(self, token_ids: Iterable[int]) -> None:
        """Go on by tokens that are part of the answer."""
        for token in token_ids:
            self._learn_ranks(token)
            for source in self._sources():
                source.observe(token)
            self.question.trie.extend([token])
            self._last = token

    def learn(self, tree: DraftTree, accepted: Sequence[int]) -> None:
        """See which nodes of the last draft were accepted, and trust the next ones accordingly."""
        mass = [0.0] * len(tree)
        for node, parent in enumerate(tree.parents[1:], 1):
            mass[parent] += tree.probabilities[node] / tree.probabilities[parent]
        visited = [0, *accepted]
        for node in visited:
            if mass[node] > 0.0:  # without drafted followers it could neither hit nor miss
                hit = node != visited[-1]
                self._hits += LEARNING_RATE * (hit - self._hits)
                self._expected_hits += LEARNING_RATE * (mass[node] / self.trust - self._expected_hits)
        self.trust = min(1.0, self._hits / self._expected_hits)

    def recycle(self, token: int, best_ids: Sequence[int]) -> None:
        """Remember the ids the model ranked best after ``token``, best first."""
        self.ranks[token] = best_ids

    def forget_ranks(self) -> None:
        """Forget the recycled ids; what was learned about how far to trust them stays."""
        self.ranks.clear()

    def end(self, answer_ids: Sequence[int]) -> None:
        """Keep a finished answer for later questions."""
        if self.answers is not None and answer_ids:
            self.answers.trie.insert(answer_ids, "answer")

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """The best tree of at most ``limits.budget`` nodes after ``last_token``, likeliest node first."""
        tree = DraftTree([last_token])
        width = 1 if limits.shape == "single" else limits.budget
        contexts = [source.contexts for source in self._sources()]
        states: list[list[Contexts]] = [contexts]
        depths = [0]
        heap: list[tuple[float, int, int, Follower]] = []
        if limits.max_depth > 0:
            self._push(heap, tree, 0, contexts, limits, width)
        while heap and len(tree) < limits.budget:
            negative, _, parent, follower = heappop(heap)
            node = tree.add(follower.token, parent, -negative, follower.origin())
            depths.append(depths[parent] + 1)
            contexts = [
                source.trie.advance(state, follower.token)
                for source, state in zip(self._sources(), states[parent], strict=True)
            ]
            states.append(contexts)
            if depths[node] < limits.max_depth:
                self._push(heap, tree, node, contexts, limits, width if limits.shape == "tree" else 1)
        return tree

    def _push(
        self,
        heap: list[tuple[float, int, int, Follower]],
        tree: DraftTree,
        node: int,
        contexts: list[Contexts],
        limits: DraftLimits,
        width: int,
    ) -> None:
        """Queue the likeliest followers of a node."""
        reach = tree.probabilities[node]
        followers = self.followers(tree.token_ids[node], contexts, limits.barred_anchors)
        for follower in followers:
            probability = reach * self.trust * follower.probability
            if width == 0 or probability < LEAST_PROBABILITY:
                break
            if follower.token in limits.forbidden:
                continue
            heappush(heap, (-probability, len(tree) * 1024 + len(heap), node, follower))
            width -= 1

    def followers(
        self, last_token: int, contexts: list[Contexts], barred_anchors: Collection[int] = ()
    ) -> list[Follower]:
        """What may come after ``last_token``, likeliest first, the hopeless left out."""
        blended: dict[int, float] = {}
        evidence: dict[int, tuple[TokenTrie, TrieNode]] = {}
        left = 1.0
        longest = max(len(state) for state in contexts) - 1
        shortest = 2 if last_token in barred_anchors else 1
        for k in range(longest, shortest - 1, -1):
            if left < LEAST_PROBABILITY:
                break
            for source, state in zip(self._sources(), contexts, strict=True):
                if k < len(state) and state[k].children:
                    left *= 1.0 - _blend(source, k, state[k], left, blended, evidence)
        for token, share in zip(self.ranks.get(last_token, ()), self.rank_confidence, strict=False):
            blended[token] = blended.get(token, 0.0) + left * share
        hopeful = [entry for entry in blended.items() if entry[1] >= LEAST_PROBABILITY]
        found = sorted(hopeful, key=lambda entry: -entry[1])
        return [Follower(p, token, *evidence.get(token, (None, None))) for token, p in found]

    def _learn_ranks(self, token: int) -> None:
        best = self.ranks.get(self._last) if self._last is not None else None
        if best is None or any(
            len(source.contexts) > 1 and token in source.contexts[1].children for source in self._sources()
        ):
            return
        for rank, candidate in enumerate(best[: len(self.rank_confidence)]):
            hit = candidate == token
            self.rank_confidence[rank] += LEARNING_RATE * (hit - self.rank_confidence[rank])

    def _sources(self) -> list[Source]:
        return [self.question] if self.answers is None else [self.question, self.answers]


def _blend(
    source: Source,
    k: int,
    context: TrieNode,
    left: float,
    blended: dict[int, float],
    evidence: dict[int, tuple[TokenTrie, TrieNode]],
) -> float:
    """Add what one context says to ``blended``; return the share of the mass it took."""
    followers = context.children
    seen = sum([child.count for child in followers.values()])
    taken = source.confidence[k] * seen / (seen + FOLLOWER_WEIGHT * len(followers))
    scale = left * taken / seen
    for token, child in followers.items():
        share = scale * child.count
        if share < LEAST_PROBABILITY and token not in blended:  # a common token has followers by the thousand
            continue
        blended[token] = blended.get(token, 0.0) + share
        if token not in evidence:
            evidence[token] = (source.trie, child)
    return taken

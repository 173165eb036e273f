"""Counts of token windows: the slow, obvious twin of the compiled core.

A node is a context; its followers are the tokens that came after it, the most frequent first. Every
suffix of a context is counted as well, so the nodes that match the end of a text are one list, entry k
the context of its last k tokens, and a token later that list costs ``order`` look-ups. ``_core.c``
holds the same class with the same results; tests hold one against the other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

SINGLE, REPEATED, SEVERAL = range(3)
"""Kinds of evidence: one occurrence; several with one follower; several followers."""

MAX_ORDER = 64  # the compiled core keeps a text's contexts in arrays of this length
ASKED = 64
"""Followers of a context that are asked, the most frequent first.

Where nearly all that followed a context followed a longer one too, what is new may stand behind
thousands of followers that are not; a step must not take longer for that.
"""


class Node:
    """A context: how often it was read, how often it was followed, and where it ended last."""

    __slots__ = ("children", "count", "followers", "place", "position", "token", "total")

    def __init__(self, token: int) -> None:
        self.token = token
        self.count = 0
        self.total = 0  # the sum of the followers' counts
        self.position = 0
        self.place = 0  # index among the parent's followers
        self.children: dict[int, Node] = {}
        self.followers: list[Node] = []


class Contexts(list[Node]):
    """The nodes that match the end of a text: entry k is the context of its last k tokens, 0 the root.

    Callers may compare them and ask for their number. ``clear`` and ``forget`` make them stale.
    """

    __slots__ = ("epoch", "windows")

    def __init__(self, nodes: Iterable[Node], windows: Windows) -> None:
        super().__init__(nodes)
        self.windows = windows
        self.epoch = windows.epoch


class Windows:
    """Windows of ``order + 1`` tokens with counts; ``length`` tokens have been counted so far.

    Methods that take contexts raise ValueError for those of other windows and for stale ones.
    """

    node_bytes = 520  # measured: a node with its share of dictionaries and lists

    def __init__(self, order: int) -> None:
        if order < 1:
            raise ValueError(f"order must be at least 1, not {order}")
        if order > MAX_ORDER:
            raise ValueError(f"order must be at most {MAX_ORDER}, not {order}")
        self.order = order
        self.epoch = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.root = Node(-1)
        self.node_count = 0
        self.length = 0
        self.epoch += 1
        self._open = [self.root]

    def start(self) -> None:
        """The next token counted begins a new sequence."""
        self._open = [self.root]

    def count(self, token_ids: Sequence[int]) -> None:
        """Count more tokens of the sequence."""
        for token in token_ids:
            contexts = [self.root]
            for context in self._open:
                contexts.append(self._increment(context, token))
            self._open = contexts[: self.order + 1]
            self.length += 1

    def _increment(self, context: Node, token: int) -> Node:
        node = context.children.get(token)
        if node is None:
            node = context.children[token] = Node(token)
            node.place = len(context.followers)
            context.followers.append(node)
            self.node_count += 1
        else:
            _swap(context.followers, node, bisect_left(context.followers, -node.count, key=_descending))
        node.count += 1
        node.position = self.length
        context.total += 1
        return node

    def forget(self, token_ids: Sequence[int]) -> None:
        """Take back a sequence that was counted whole; what nothing else counted is gone.

        What was never counted is not taken back; the rest of it is.
        """
        for start in range(len(token_ids)):
            path = [self.root]
            for token in token_ids[start : start + self.order + 1]:
                node = path[-1].children.get(token)
                if node is None:
                    break
                path.append(node)
            for parent, node in zip(path[-2::-1], path[:0:-1], strict=True):
                self._decrement(parent, node)
        self.epoch += 1
        self._open = [self.root]

    def _decrement(self, parent: Node, node: Node) -> None:
        followers = parent.followers
        _swap(followers, node, bisect_right(followers, -node.count, key=_descending) - 1)
        node.count -= 1
        parent.total -= 1
        if node.count == 0:
            followers.pop()  # nothing has a smaller count
            del parent.children[node.token]
            self.node_count -= 1 + _below(node)

    def match(self, token_ids: Sequence[int]) -> Contexts:
        """The contexts that match the end of ``token_ids``."""
        contexts = Contexts([self.root], self)
        for token in token_ids[-self.order :]:
            contexts = self.advance(contexts, token)
        return contexts

    def advance(self, contexts: Contexts, token: int) -> Contexts:
        """The matching contexts one token later."""
        self.check(contexts)
        advanced = Contexts([self.root], self)
        for context in contexts[: self.order]:
            node = context.children.get(token)
            if node is None:  # a longer context that has the follower implies every shorter one
                break
            advanced.append(node)
        return advanced

    def known(self, token: int) -> bool:
        """Whether the token was counted."""
        return token in self.root.children

    def position(self, contexts: Contexts) -> int:
        """Where the longest context was read last: the place of its last token among all that was counted."""
        self.check(contexts)
        return contexts[-1].position

    def followers(self, contexts: Contexts) -> list[tuple[int, int]]:
        """What followed the longest context, as tokens and counts, the most frequent first."""
        self.check(contexts)
        return [(child.token, child.count) for child in contexts[-1].followers]

    def check(self, contexts: Contexts) -> None:
        """Raise ValueError unless the contexts are of these windows, and not stale."""
        if contexts.windows is not self or contexts.epoch != self.epoch:
            raise ValueError("contexts of other windows, or from before these forgot something")

    def judge(self, contexts: Contexts, token: int) -> list[tuple[int, int, bool]]:
        """Which contexts said what about ``token``: (match length, kind of evidence, whether it was named).

        Longest first, up to the first that named it: shorter ones are asked only when longer ones miss.
        """
        self.check(contexts)
        judged = []
        for k, node, longer in fresh(contexts):
            child = node.children.get(token)
            hit = child is not None and child.count > counted(longer, token)
            judged.append((k, kind(node, longer), hit))
            if hit:
                break
        return judged


def fresh(contexts: Contexts) -> Iterator[tuple[int, Node, Node | None]]:
    """Contexts that saw more than the longer ones, longest first, each with the last longer one.

    An occurrence of a long context is one of each shorter context too. It is evidence once, at its full
    match length.
    """
    longer: Node | None = None
    for k in range(len(contexts) - 1, 0, -1):
        node = contexts[k]
        if added(node, longer) > 0:
            yield k, node, longer
            longer = node


def added(node: Node, longer: Node | None) -> int:
    """How many occurrences a context has that the longer one has not."""
    return node.total - (longer.total if longer else 0)


def counted(node: Node | None, token: int) -> int:
    """How often ``token`` followed."""
    child = node.children.get(token) if node else None
    return child.count if child else 0


def kind(node: Node, longer: Node | None) -> int:
    """The kind of the evidence that a context adds to a longer one."""
    occurrences = added(node, longer)
    if occurrences == 1:
        return SINGLE
    for child in islice(node.followers, ASKED):
        count = child.count - counted(longer, child.token)
        if count > 0:
            return REPEATED if count == occurrences else SEVERAL
    return SEVERAL


def _descending(node: Node) -> int:
    return -node.count


def _swap(followers: list[Node], node: Node, place: int) -> None:
    """Exchange a node with the one at ``place``, which has the same count."""
    other = followers[place]
    followers[node.place], followers[place] = other, node
    other.place, node.place = node.place, place


def _below(node: Node) -> int:
    """How many nodes hang from one that goes: none where every sequence was taken back as it was counted."""
    return sum(1 + _below(child) for child in node.followers)

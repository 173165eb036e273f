"""The suffix automaton of a growing text: which of its suffixes occurred before, where, and how often.

Source: A. Blumer et al., *The smallest automaton recognizing the subwords of a text*, 1985. A state stands
for all strings that end at the same positions; its link leads to the longest suffix of those that ends
elsewhere too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragla.bench.rules.text_rule import TextRule

ROOT = 0


class SuffixAutomaton:
    """Columns with one entry a state.

    ``followers``: token → state one token later. ``link``: the next shorter suffix, -1 at the root.
    ``length``: tokens of the state's longest string. ``count``: occurrences. ``end`` and ``earlier_end``:
    index of the token that the latest occurrence and the one before end with, -1 where there is none.

    Appending costs amortised constant time, and one visit to each state along the links of the new text,
    whose counts and ends change; in natural text those are a handful.
    """

    def __init__(self) -> None:
        self.text: list[int] = []
        self.followers: list[dict[int, int]] = [{}]
        self.link = [-1]
        self.length = [0]
        self.count = [0]
        self.end = [-1]
        self.earlier_end = [-1]
        self.last = ROOT

    def append(self, token: int) -> None:
        """Grow the text by a token."""
        state, found = self._add_state({}, len(self.text) + 1), self.last
        self.text.append(token)
        while found != -1 and token not in self.followers[found]:
            self.followers[found][token] = state
            found = self.link[found]
        self.link[state] = ROOT if found == -1 else self._follower(found, token)
        self.last = state
        for suffix in self.suffixes():
            self.count[suffix] += 1
            self.earlier_end[suffix], self.end[suffix] = self.end[suffix], len(self.text) - 1

    def suffixes(self) -> Iterator[int]:
        """The states of the whole text and of its ever shorter suffixes, the root left out."""
        state = self.last
        while state != ROOT:
            yield state
            state = self.link[state]

    def _follower(self, state: int, token: int) -> int:
        """The state of ``state``'s longest string and ``token``, made if it is not one of its own yet."""
        known = self.followers[state][token]
        if self.length[known] == self.length[state] + 1:
            return known
        split = self._add_state(dict(self.followers[known]), self.length[state] + 1)
        self.link[split], self.link[known] = self.link[known], split
        self.count[split], self.end[split] = self.count[known], self.end[known]
        while state != -1 and self.followers[state].get(token) == known:
            self.followers[state][token] = split
            state = self.link[state]
        return split

    def _add_state(self, followers: dict[int, int], length: int) -> int:
        self.followers.append(followers)
        self.link.append(ROOT)
        self.length.append(length)
        self.count.append(0)
        self.end.append(-1)
        self.earlier_end.append(-1)
        return len(self.length) - 1


class AutomatonRule(TextRule):
    """A rule that drafts from the suffix automaton of the text."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Forget the last text and read a prompt."""
        self._automaton = SuffixAutomaton()
        self.commit(prompt_ids)

    def commit(self, token_ids: Sequence[int]) -> None:
        """Go on by tokens of the text."""
        for token in token_ids:
            self._automaton.append(token)

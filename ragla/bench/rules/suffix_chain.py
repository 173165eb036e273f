"""The longest-suffix chain: what followed the latest occurrence of the longest suffix that occurred before.

Source: Y. Hu et al., *SAM Decoding: Speculative Decoding via Suffix Automaton*, arXiv 2411.10666, its
automaton of the current text; here with the latest occurrence instead of the first, and a fixed number of
tokens.
"""

from __future__ import annotations

from ragla.bench.rules.suffix_automaton import AutomatonRule
from ragla.bench.rules.text_rule import chain
from ragla.trie import DraftLimits, DraftTree


class SuffixChain(AutomatonRule):
    """Drafts one branch of up to ``tokens`` tokens; compares up to ``longest`` tokens of the text's end."""

    def __init__(self, tokens: int = 16, longest: int = 32) -> None:
        self.tokens = tokens
        self.longest = longest
        self.begin([])

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """What followed the match, or node 0 alone."""
        start = self._match() + 1
        if not start:
            return DraftTree([last_token])
        text = self._automaton.text
        return chain(last_token, text[start : start + min(self.tokens, limits.budget - 1)])

    def _match(self) -> int:
        """Where the match ended, -1 if nothing matches."""
        automaton = self._automaton
        for state in automaton.suffixes():
            if state != automaton.last and automaton.length[automaton.link[state]] < self.longest:
                return automaton.earlier_end[state]
        return -1

"""Prompt lookup: what followed the earliest occurrence of the text's last few tokens.

Source: A. Saxena, *Prompt Lookup Decoding*, 2023 (github.com/apoorvumang/prompt-lookup-decoding), in the
form of transformers' ``prompt_lookup_num_tokens``: the longest n-gram that occurs earlier is taken, and of
its occurrences the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragla.bench.rules.text_rule import TextRule, chain
from ragla.trie import DraftLimits, DraftTree


class PromptLookup(TextRule):
    """Drafts one branch of up to ``tokens`` tokens; looks for the last ``longest`` tokens, then for fewer."""

    def __init__(self, longest: int = 3, tokens: int = 10) -> None:
        self.longest = longest
        self.tokens = tokens
        self.begin([])

    def begin(self, prompt_ids: Sequence[int]) -> None:
        """Forget the last text and read a prompt."""
        self._text: list[int] = []
        self._first: dict[tuple[int, ...], int] = {}  # n-gram → where it first ended
        self.commit(prompt_ids)

    def commit(self, token_ids: Sequence[int]) -> None:
        """Go on by tokens of the text and note the n-grams that end with them."""
        for token in token_ids:
            self._text.append(token)
            end = len(self._text)
            for n in range(1, min(self.longest, end) + 1):
                self._first.setdefault(tuple(self._text[-n:]), end)

    def draft(self, last_token: int, limits: DraftLimits) -> DraftTree:
        """What followed the match, or node 0 alone."""
        for n in range(min(self.longest, len(self._text)), 0, -1):
            end = self._first[tuple(self._text[-n:])]
            if end < len(self._text):
                return chain(last_token, self._text[end : end + min(self.tokens, limits.budget - 1)])
        return DraftTree([last_token])

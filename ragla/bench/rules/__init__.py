"""Public drafting rules, written from their descriptions, to be replayed beside our own.

They know token ids only. They obey a draft's budget; how deep and how wide they draft is their own, as
published.
"""

from collections.abc import Callable

from ragla.bench.rules.frequency_trie import FrequencyTrie
from ragla.bench.rules.prompt_lookup import PromptLookup
from ragla.bench.rules.suffix_chain import SuffixChain
from ragla.bench.rules.suffix_decoding import SuffixDecoding
from ragla.bench.rules.token_recycling import TokenRecycling
from ragla.trie.replay import Rule

PUBLIC_RULES: dict[str, Callable[[], Rule]] = {
    "prompt-lookup": PromptLookup,
    "suffix-chain": SuffixChain,
    "suffix-decoding": SuffixDecoding,
    "suffix-decoding-4x": lambda: SuffixDecoding(factor=4.0),
    "token-recycling": TokenRecycling,
    "frequency-trie": FrequencyTrie,
    "frequency-trie-parallel": lambda: FrequencyTrie("parallel"),
    "frequency-trie-one": lambda: FrequencyTrie("one"),
}

__all__ = [
    "PUBLIC_RULES",
    "FrequencyTrie",
    "PromptLookup",
    "SuffixChain",
    "SuffixDecoding",
    "TokenRecycling",
]

"""Words as Milvus keeps them: FTS5's own stems in letters that every analyzer leaves alone, and FTS5's BM25.

Milvus' BM25 finds passages; how well they match is then computed as FTS5 does, from how often each word
stands in a passage and how many passages have it, so that a search scores the same wherever the passages are.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from ragla.retrieve.lexical import TOKENIZE, is_cjk, quoted
from ragla.retrieve.store import Store

# As FTS5's bm25() has them.
K1, B = 1.2, 0.75
_LEAST_IDF = 1e-6
# Begins the spelling of a character that is not ASCII; and of the mark that some pair begins with one.
_CHARACTER, _FIRST = "0u", "0p"
_PER_BUCKET = 400
# VARCHAR holds 65,535 bytes.
MOST_BYTES = 60_000


def spelled(term: str) -> str:
    """A term in ASCII letters and digits; what it begins with is what its spelling begins with."""
    if term.isascii():
        return term
    return "".join(one if one.isascii() else f"{_CHARACTER}{ord(one):05x}" for one in term)


class Stemmer:
    """What FTS5 makes of words; keeps what it was asked before."""

    def __init__(self) -> None:
        self._words = sqlite3.connect(":memory:", check_same_thread=False)
        self._words.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize = '{TOKENIZE}')")
        self._words.execute("CREATE VIRTUAL TABLE found USING fts5vocab(words, instance)")
        self._known: dict[str, tuple[str, ...]] = {}

    def terms(self, word: str) -> tuple[str, ...]:
        """The terms of a word, spelled: mostly one."""
        if word not in self._known:
            self._words.execute("DELETE FROM words")
            self._words.execute("INSERT INTO words (rowid, body) VALUES (1, ?)", (word,))
            found = self._words.execute("SELECT term FROM found ORDER BY offset").fetchall()
            self._known[word] = tuple(spelled(row[0]) for row in found)
        return self._known[word]

    def words_of(self, indexed_text: str) -> str:
        """What Milvus is given for a passage. ``indexed_text``: what FTS5 is given for it.

        A word of a script without spaces is marked by its first character, too, by which it can be searched.
        """
        terms: list[str] = []
        for word in indexed_text.split(" ") if indexed_text else ():
            terms += self.terms(word)
            if len(word) > 1 and is_cjk(word[0]):
                terms.append(_FIRST + spelled(word[0]))
        return " ".join(terms)[:MOST_BYTES]

    def close(self) -> None:
        """Forget everything."""
        self._words.close()


@dataclass(frozen=True)
class Query:
    """The words of a question: each with its terms, or with the beginning that its words must have."""

    terms: dict[str, tuple[str, ...]]
    beginnings: dict[str, str]

    @classmethod
    def of(cls, tokens: Iterable[str], stemmer: Stemmer) -> Query:
        """Of tokens as ``lexical.query_tokens`` gives them."""
        single = {token for token in tokens if len(token) == 1 and is_cjk(token)}
        terms = {token: stemmer.terms(token) for token in tokens if token not in single}
        return cls(terms, {token: spelled(token) for token in tokens if token in single})

    @property
    def searched(self) -> str:
        """What Milvus is asked for."""
        words = [term for terms in self.terms.values() for term in terms]
        for beginning in self.beginnings.values():
            words += [beginning, _FIRST + beginning]
        return " ".join(words)

    def keys(self) -> dict[str, tuple[str, ...]]:
        """For each token the keys of ``WordCounts`` that count it; the least of them holds."""
        return self.terms | {token: (f"{one}*",) for token, one in self.beginnings.items()}

    def counts(self, words: Counter[str]) -> dict[str, int]:
        """How often each token stands in a passage with these words; those that do not are missing."""
        found = {
            token: min((words[term] for term in terms), default=0) for token, terms in self.terms.items()
        }
        for token, beginning in self.beginnings.items():
            found[token] = sum(often for word, often in words.items() if word.startswith(beginning))
        return {token: often for token, often in found.items() if often}


def counted(words: str) -> Counter[str]:
    """The terms of a passage, without the marks."""
    return Counter(word for word in words.split(" ") if word and not word.startswith(_FIRST))


def bm25(
    counts: Mapping[str, int], length: int, frequencies: Mapping[str, int], passages: int, terms: int
) -> float:
    """FTS5's bm25() of one passage of ``length`` terms; ``terms``: of all ``passages`` together."""
    mean = terms / passages if terms else 1.0
    score = 0.0
    for token, often in counts.items():
        df = frequencies[token]
        idf = max(_LEAST_IDF, math.log(max(_LEAST_IDF, (passages - df + 0.5)) / (df + 0.5)))
        score += idf * often * (K1 + 1) / (often + K1 * (1 - B + B * length / mean))
    return score


def bucket(key: str, buckets: int) -> int:
    """In which part of the counts a key is."""
    return int.from_bytes(blake2b(key.encode("ascii"), digest_size=8).digest()) % buckets


@dataclass(frozen=True)
class WordCounts:
    """How many passages have each term, and each beginning (``*`` behind it), of how many terms in all."""

    frequencies: dict[str, int]
    terms: int

    @classmethod
    def of(cls, store: Store) -> WordCounts:
        """Those of an index on this machine, within the caller's transaction."""
        connection = store.connection
        connection.execute("PRAGMA query_only = OFF")  # a temporary table is a write, too
        connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row)"
        )
        connection.execute("PRAGMA query_only = ON")
        found, firsts, total = {}, set(), 0
        for term, df, count in connection.execute("SELECT term, doc, cnt FROM temp.vocabulary"):
            found[spelled(term)] = int(df)
            total += count
            if is_cjk(term[0]):
                firsts.add(term[0])
        counting = "SELECT count(*) FROM words WHERE words MATCH ?"
        for first in sorted(firsts):
            found[f"{spelled(first)}*"] = connection.execute(counting, (quoted(first),)).fetchone()[0]
        return cls(found, total)

    def buckets(self) -> Iterator[tuple[int, str]]:
        """The counts in parts that can be read by themselves: number and JSON; all numbers are there."""
        parts: list[dict[str, int]] = [{} for _ in range(self.bucket_count)]
        for key, df in self.frequencies.items():
            parts[bucket(key, len(parts))][key] = df
        for number, part in enumerate(parts):
            yield number, json.dumps(part, separators=(",", ":"))

    @property
    def bucket_count(self) -> int:
        """Into how many parts they are cut."""
        return max(1, -(-len(self.frequencies) // _PER_BUCKET))

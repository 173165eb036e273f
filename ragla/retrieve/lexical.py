"""Words for SQLite's FTS5: how text is indexed and how a question becomes a query that is never an error."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

# Runs of these have no spaces between words; FTS5's unicode61 would make one token of a whole sentence.
_CJK = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\u0e00-\u0e7f\u1780-\u17ff\U00020000-\U0003134f"
)
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_ASCII_TOKEN = re.compile("[a-z0-9]+")
_IS_CJK = re.compile(rf"[{_CJK}]")

# Question words and particles of Chinese: between them lie the words that a question is about.
_ZH_FUNCTION_WORDS = re.compile(
    "为什么|怎么样|怎么办|什么时候|什么|怎么|怎样|如何|为何|多少|多久|多大|多长|哪些|哪个|哪里|哪儿|几个|我们|可以|应该|需要"
    "|[哪谁几吗呢吧的了是在和与及或有被把将对从到由于而以我你他她它这那请会能要个就也都还]"
)

# Of passages; a word in more of them tells none apart, and costs most to look up.
_EVERYWHERE = 0.25
_LARGE = 10_000  # passages from which on that cost is felt
# BM25 takes about 3 microseconds for each row of each word.
_MOST_ROWS = 20_000

TOKENIZE = "porter unicode61 remove_diacritics 2"


def is_cjk(character: str) -> bool:
    """Whether a character belongs to a script without spaces between words."""
    return _IS_CJK.match(character) is not None


def tokens(text: str) -> list[str]:
    """Words in order, lower case; a CJK run as its overlapping pairs (a single character as itself)."""
    if text.isascii():  # the same, an order of magnitude sooner
        return _ASCII_TOKEN.findall(text.lower())
    made: list[str] = []
    for match in _TOKEN.finditer(unicodedata.normalize("NFKC", text).casefold()):
        run = match[0]
        if _IS_CJK.match(run) and len(run) > 1:
            made.extend(run[i : i + 2] for i in range(len(run) - 1))
        else:
            made.append(run)
    return made


def query_tokens(question: str) -> list[str]:
    """The tokens of a question; Chinese function words end a run, so that no pair spans them.

    Without this a Chinese question never covers itself: half its pairs join a word to a particle.
    """
    content = tokens(_ZH_FUNCTION_WORDS.sub(" ", question))
    return content or tokens(question)


def indexed_text(title: str, text: str) -> str:
    """What FTS5 is given for a passage: tokens between spaces, which its tokenizer cannot join or split."""
    return " ".join([*tokens(title), *tokens(text)])


def quoted(token: str) -> str:
    """The token as an FTS5 string, so that no character of it is an operator.

    A single CJK character is searched as the first half of any pair.
    """
    single = len(token) == 1 and _IS_CJK.match(token)
    return '"' + token.replace('"', '""') + '"' + (" *" if single else "")


def match_expression(query_tokens: Sequence[str]) -> str:
    """An FTS5 expression that finds passages with any of the tokens; there must be at least one."""
    return " OR ".join(quoted(token) for token in dict.fromkeys(query_tokens))


def frequencies(
    connection: sqlite3.Connection, query_tokens: Sequence[str], known: dict[str, int] | None = None
) -> dict[str, int]:
    """How many passages have each distinct token. ``known``: those counted before, which grow."""
    counting = "SELECT count(*) FROM words WHERE words MATCH ?"
    counted = {} if known is None else known
    for token in dict.fromkeys(query_tokens):
        if token not in counted:
            counted[token] = connection.execute(counting, (quoted(token),)).fetchone()[0]
    return {token: counted[token] for token in dict.fromkeys(query_tokens)}


def weights_of(total: int, frequencies: Mapping[str, int]) -> dict[str, float]:
    """Inverse document frequency of each token among ``total`` passages; one that none has weighs most.

    The form of BM25 that stays positive: ``ln(1 + (N - df + 0.5) / (df + 0.5))``.
    """
    return {token: math.log(1 + (total - df + 0.5) / (df + 0.5)) for token, df in frequencies.items()}


def telling(total: int, weights: dict[str, float]) -> list[str]:
    """The tokens to search ``total`` passages for: of many not those that a quarter of them have.

    Nor, rarest first, those that come after tokens of 20,000 rows: what they could add to the best is
    least, and what they cost is most.
    """
    if total < _LARGE:
        return list(weights)
    least = math.log(1 + (1 - _EVERYWHERE) / _EVERYWHERE)
    chosen: list[str] = []
    rows = 0.0
    for token, weight in sorted(weights.items(), key=lambda item: -item[1]):
        rows += (total + 1) * math.exp(-weight) - 0.5  # its document frequency
        if chosen and (weight <= least or rows > _MOST_ROWS):
            break
        chosen.append(token)
    return chosen


def best_matches(
    connection: sqlite3.Connection,
    query_tokens: Sequence[str],
    limit: int,
    among: Sequence[int] | None = None,
) -> dict[int, float]:
    """Chunk ids with any of the tokens and their BM25, best first; only those ``among``, if given."""
    if not query_tokens:
        return {}
    inside = "" if among is None else "AND +rowid IN (SELECT value FROM json_each(:among)) "
    rows = connection.execute(
        f"SELECT rowid, -rank FROM words WHERE words MATCH :tokens {inside}ORDER BY rank, rowid LIMIT :limit",
        {
            "tokens": match_expression(query_tokens),
            "limit": limit,
            "among": json.dumps(list(among or ())),
        },
    )
    return {int(row[0]): float(row[1]) for row in rows}


def coverage(
    connection: sqlite3.Connection, weights: dict[str, float], ids: Sequence[int]
) -> dict[int, float]:
    """For each chunk id, the share of the query's weight that its tokens carry, 0 to 1."""
    covered = dict.fromkeys(ids, 0.0)
    mass = sum(weights.values())
    # the plus keeps SQLite from running the match anew for every id
    query = "SELECT rowid FROM words WHERE words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))"
    wanted = json.dumps(list(ids))
    with (
        _alone(connection, ids)
        if _total(connection) >= _LARGE
        else contextlib.nullcontext(connection) as searched
    ):
        for token, weight in weights.items():
            for row in searched.execute(query, (quoted(token), wanted)):
                covered[row[0]] += weight / mass
    return covered


@contextlib.contextmanager
def _alone(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[sqlite3.Connection]:
    """A database in memory of these passages' words alone: a large one has "the" in each of its rows."""
    with contextlib.closing(sqlite3.connect(":memory:")) as few:
        few.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, tokenize = '{TOKENIZE}')")
        query = "SELECT rowid, body FROM words WHERE rowid IN (SELECT value FROM json_each(?))"
        few.executemany(
            "INSERT INTO words (rowid, body) VALUES (?, ?)",
            connection.execute(query, (json.dumps(list(ids)),)),
        )
        yield few


def _total(connection: sqlite3.Connection) -> int:
    """How many passages there are."""
    return int(connection.execute("SELECT count(*) FROM chunks").fetchone()[0])

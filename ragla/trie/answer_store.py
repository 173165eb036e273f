"""Earlier answers, beliefs and recycled ranks that outlive the process, for one index.

Answers belong to a tokenizer, beliefs and ranks to a model; both go by keys that the caller makes. It
also remembers from which documents all this was made, as paths and digests it does not interpret, so
that what came of a document can leave with it.

Every public method raises sqlite3.Error where the file cannot be used: nothing was changed then, and an
answer does not depend on it. A file found to be damaged is deleted on the way.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import time

from ragla.trie.answer_file import FILE_NAME, Refused, discard, is_damage, open_file, scrub, transaction
from ragla.trie.answer_rows import Document, StoredAnswer, is_id, read_answer, read_ids, read_numbers
from ragla.trie.answers import MOST_USES, packed

WAIT_S = 2.0  # for a process that writes; longer is no time to keep an answer waiting
MOST_TOKENS = 1 << 20  # of all answers together, 4 MiB
MOST_RANKED = 20_000  # tokens with ranks, of all models together
MOST_MODELS = 8  # whose beliefs are kept
BEST_IDS = 8  # of one token, at most


@dataclass(frozen=True)
class Lesson:
    """What answering one question leaves behind. ``tokenizer`` and ``model``: keys the caller makes.

    ``answer``: None where it is not to be kept. ``uses``: uses of earlier answers, by name. ``ranks``:
    those that are new, the newest last. ``documents``: all that was read for the answer.
    """

    tokenizer: str
    model: str
    answer: StoredAnswer | None = None
    uses: Mapping[str, int] = field(default_factory=dict)
    beliefs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    ranks: Mapping[int, Sequence[int]] = field(default_factory=dict)
    documents: Sequence[Document] = ()


class AnswerStore:
    """An open store. Use ``AnswerStore.open``, and close it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, folder: Path, wait_s: float = WAIT_S) -> AnswerStore:
        """The store in an index folder, made when missing; raises sqlite3.Error and OSError."""
        path = folder / FILE_NAME
        return cls(path, open_file(path, wait_s))

    def close(self) -> None:
        """Close the file; the last process to do so folds the log into it."""
        self._connection.close()

    # --- what was kept --------------------------------------------------------------------------------

    def answers(self, tokenizer: str | None = None, vocabulary: int = 1 << 31) -> list[StoredAnswer]:
        """The answers of one tokenizer, or all, best first; those with an id that is none are dropped."""
        return list(self.recall(tokenizer, vocabulary))

    def recall(self, tokenizer: str | None, vocabulary: int) -> Generator[StoredAnswer, None, None]:
        """The same one by one, so that only those are read that are taken. Close it, or take all."""
        query = (
            "SELECT id, tokenizer, name, token_ids, checksum, uses, last_used FROM answers"
            " WHERE ? IS NULL OR tokenizer = ? ORDER BY uses DESC, last_used DESC, id DESC"
        )
        made_from = "SELECT path, sha256 FROM made_from WHERE answer = ?"
        wrong = []
        with self._guarded() as connection:
            for row, *values in connection.execute(query, (tokenizer, tokenizer)):
                documents = tuple(connection.execute(made_from, (row,)))
                answer = read_answer(*values, vocabulary=vocabulary, documents=documents)
                if answer is None:
                    wrong.append((row,))
                else:
                    yield answer
            with suppress(sqlite3.OperationalError):  # a lock; next time
                connection.executemany("DELETE FROM answers WHERE id = ?", wrong)

    def beliefs(self, model: str) -> dict[str, list[float]]:
        """A model's beliefs, lists of finite numbers by name."""
        query = "SELECT name, numbers FROM beliefs WHERE model = ?"
        with self._guarded() as connection:
            rows = [(name, read_numbers(text)) for name, text in connection.execute(query, (model,))]
        return {name: numbers for name, numbers in rows if numbers is not None}

    def ranks(self, model: str, vocabulary: int) -> dict[int, list[int]]:
        """The best ids after each token, the latest last."""
        query = "SELECT token, best_ids FROM ranks WHERE model = ? ORDER BY place"
        with self._guarded() as connection:
            rows = [
                (token, read_ids(blob, vocabulary)) for token, blob in connection.execute(query, (model,))
            ]
        return {
            token: list(best)
            for token, best in rows
            if best is not None and len(best) <= BEST_IDS and is_id(token, vocabulary)
        }

    # --- what is learned ------------------------------------------------------------------------------

    def save(self, lesson: Lesson) -> None:
        """Add what one question taught, in one transaction, and keep within the caps."""
        now = time()
        with self._guarded() as connection, transaction(connection):
            uses = [(count, now, lesson.tokenizer, name) for name, count in lesson.uses.items()]
            connection.executemany(
                "UPDATE answers SET uses = uses + ?, last_used = ? WHERE tokenizer = ? AND name = ?", uses
            )
            if lesson.answer is not None:
                self._put_answer(lesson.tokenizer, lesson.answer)
            connection.execute(
                "UPDATE answers SET uses = uses / 2 WHERE (SELECT max(uses) FROM answers) > ?", (MOST_USES,)
            )
            self._put_beliefs(lesson.model, lesson.beliefs, now)
            self._put_ranks(lesson.model, lesson.ranks, lesson.documents)

    def _put_answer(self, tokenizer: str, answer: StoredAnswer) -> None:
        blob = packed(answer.token_ids)
        if not 0 < len(answer.token_ids) <= MOST_TOKENS:
            return
        self._connection.execute(
            "INSERT INTO answers VALUES (NULL, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (tokenizer, name) DO UPDATE SET last_used = excluded.last_used",
            (tokenizer, answer.name, blob, sha256(blob).digest(), answer.uses, answer.last_used),
        )
        query = "SELECT id FROM answers WHERE tokenizer = ? AND name = ?"
        [row] = self._connection.execute(query, (tokenizer, answer.name)).fetchone()
        made_from = [(row, *document) for document in answer.documents]
        self._connection.executemany("INSERT OR IGNORE INTO made_from VALUES (?, ?, ?)", made_from)
        self._make_room(row)

    def _make_room(self, spared: int) -> None:
        """Delete the least used until the rest fits, as ``Answers`` does."""
        query = (
            "SELECT id, uses, length(token_ids) / 4 FROM answers"
            " ORDER BY id = ? DESC, uses DESC, last_used DESC, id DESC"
        )
        tokens, leaving = 0, []
        for row, uses, length in self._connection.execute(query, (spared,)):
            tokens += length
            if tokens > MOST_TOKENS:
                leaving.append((row, uses))
        if leaving:
            self._connection.executemany("DELETE FROM answers WHERE id = ?", [(row,) for row, _ in leaving])
            level = "UPDATE answers SET uses = max(uses, ?) WHERE id = ?"
            self._connection.execute(level, (max(uses for _, uses in leaving), spared))

    def _put_beliefs(self, model: str, beliefs: Mapping[str, Sequence[float]], now: float) -> None:
        rows = [(model, name, json.dumps([*map(float, numbers)]), now) for name, numbers in beliefs.items()]
        self._connection.executemany("INSERT OR REPLACE INTO beliefs VALUES (?, ?, ?, ?)", rows)
        latest = "SELECT model FROM beliefs GROUP BY model ORDER BY max(saved) DESC LIMIT ?"
        self._connection.execute(f"DELETE FROM beliefs WHERE model NOT IN ({latest})", (MOST_MODELS,))

    def _put_ranks(
        self, model: str, ranks: Mapping[int, Sequence[int]], documents: Sequence[Document]
    ) -> None:
        rows = [(model, token, packed(best[:BEST_IDS])) for token, best in ranks.items()]
        # a row that is replaced moves to the end, so that the place is the age
        self._connection.executemany(
            "INSERT OR REPLACE INTO ranks (model, token, best_ids) VALUES (?, ?, ?)", rows
        )
        latest = "SELECT place FROM ranks ORDER BY place DESC LIMIT ?"
        self._connection.execute(f"DELETE FROM ranks WHERE place NOT IN ({latest})", (MOST_RANKED,))
        if rows:
            self._connection.executemany("INSERT OR IGNORE INTO ranked_from VALUES (?, ?)", documents)

    # --- what has to leave ----------------------------------------------------------------------------

    def documents(self) -> set[str]:
        """Paths of all documents that something was made from."""
        query = "SELECT path FROM made_from UNION SELECT path FROM ranked_from"
        with self._guarded() as connection:
            return {path for (path,) in connection.execute(query)}

    def drop_stale(self, current: Mapping[str, str]) -> int:
        """Drop what was made from documents that are not in ``current`` (path → digest) as they were.

        Those are answers, counted in the result, and all ranks, for nobody knows which came of what.
        """
        query = "SELECT path, sha256 FROM made_from UNION SELECT path, sha256 FROM ranked_from"
        with self._guarded() as connection:
            stale = [row for row in connection.execute(query) if current.get(row[0]) != row[1]]
            if not stale:
                return 0
            with transaction(connection):
                deletion = (
                    "DELETE FROM answers WHERE id IN"
                    " (SELECT answer FROM made_from WHERE path = ? AND sha256 = ?)"
                )
                dropped = connection.executemany(deletion, stale).rowcount
                self._forget_ranks()
            scrub(connection)
            return dropped

    def remove(self, name: str) -> int:
        """Delete the answers of that name, and all ranks, which may hold its words; how many there were."""
        with self._guarded() as connection:
            with transaction(connection):
                removed = connection.execute("DELETE FROM answers WHERE name = ?", (name,)).rowcount
                if removed:
                    self._forget_ranks()
            if removed:
                scrub(connection)
        return removed

    def clear(self) -> int:
        """Delete all: answers, whose number is returned, beliefs and ranks."""
        with self._guarded() as connection:
            with transaction(connection):
                removed = connection.execute("DELETE FROM answers").rowcount
                connection.execute("DELETE FROM beliefs")
                self._forget_ranks()
            scrub(connection)
        return removed

    def _forget_ranks(self) -> None:
        self._connection.execute("DELETE FROM ranks")
        self._connection.execute("DELETE FROM ranked_from")

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        """The connection; where the file turns out to be damaged it is deleted, to be made anew."""
        try:
            yield self._connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if not is_damage(error):
                raise
            self.close()
            discard(self.path)
            raise Refused(f"{self.path}: damaged: {error}") from error

"""Earlier answers of an index: recalled before a question, kept after it, dropped with their documents.

It joins the file they are kept in to a drafter and to the index. A file that cannot be used costs a
notice, never an answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from ragla.conversation_file import forget_stale_conversation
from ragla.errors import RaglaError
from ragla.trie.answer_file import FILE_NAME
from ragla.trie.answer_rows import StoredAnswer
from ragla.trie.answer_store import AnswerStore, Lesson
from ragla.trie.answers import KeptAnswer, answer_name

if TYPE_CHECKING:
    from ragla.answer import Answer
    from ragla.retrieve.retriever import Retriever
    from ragla.trie import Drafter

UNUSABLE = (sqlite3.Error, OSError, RaglaError)


class EarlierAnswers:
    """The answers of one index as one drafter uses them. ``notice``: why there are none, in a line."""

    def __init__(self, drafter: Drafter, tokenizer: str, model: str, vocabulary: int) -> None:
        self.notice: str | None = None
        self._drafter = drafter
        self._tokenizer = tokenizer
        self._model = model
        self._vocabulary = vocabulary
        self._store: AnswerStore | None = None
        self._known_ranks: dict[int, Sequence[int]] = {}

    def recall(self, index: Path) -> None:
        """Teach the drafter what was kept in an index folder; what came of documents that changed is dropped.

        Never fails: where the file cannot be used, nothing is recalled nor kept, and ``notice`` says so.
        """
        try:
            self._store = AnswerStore.open(index)
            drop_stale(self._store, index)
            self._recall(self._store)
        except UNUSABLE as error:
            self.close()
            self.notice = (
                f"earlier answers are neither used nor kept: {_first_line(error)} "
                "(to do without: --set decode.keep_answers=false)"
            )

    def _recall(self, store: AnswerStore) -> None:
        if self._drafter.answers is not None:
            with closing(store.recall(self._tokenizer, self._vocabulary)) as found:
                self._drafter.answers.restore(
                    (answer.name, KeptAnswer(answer.token_ids, answer.uses, answer.last_used))
                    for answer in found
                )
        self._drafter.relearn(store.beliefs(self._model))
        self._known_ranks = dict(store.ranks(self._model, self._vocabulary))
        self._drafter.ranks.update(self._known_ranks)

    def keep(self, answer: Answer, retriever: Retriever) -> str | None:
        """Keep what an answer taught; why nothing was kept, if that is worth a line.

        Nothing is kept of documents that were changed or removed while the model was answering.
        """
        if self._store is None or not answer.stats.tokens:
            return None
        try:
            documents = retriever.documents(sorted(answer.document_ids))
            if len(documents) == len(answer.document_ids):
                self._store.save(self._lesson(answer, documents))
        except UNUSABLE as error:
            return f"this answer is not kept for later ones: {_first_line(error)}"
        self._known_ranks = dict(self._drafter.ranks)
        if self._drafter.answers is not None:
            self._drafter.answers.used.clear()
        return None

    def _lesson(self, answer: Answer, documents: list[tuple[str, str]]) -> Lesson:
        kept, drafter = None, self._drafter
        if answer.kept:
            kept = self._stored(answer.token_ids, documents)
        ranks = {
            token: best
            for token, best in drafter.ranks.items()
            if best and list(best) != self._known_ranks.get(token)
        }
        uses = dict(drafter.answers.used) if drafter.answers is not None else {}
        return Lesson(self._tokenizer, self._model, kept, uses, drafter.learned(), ranks, documents)

    def _stored(self, token_ids: list[int], documents: list[tuple[str, str]]) -> StoredAnswer:
        """The whole answer, which may be longer than what the trie holds, with its standing there."""
        name = answer_name(token_ids)
        kept = self._drafter.answers.kept.get(name) if self._drafter.answers is not None else None
        uses, last_used = (kept.uses, kept.last_used) if kept is not None else (0, time())
        return StoredAnswer(name, tuple(token_ids), uses, last_used, tuple(documents))

    def close(self) -> None:
        """Close the file."""
        if self._store is not None:
            self._store.close()
            self._store = None


def forget_stale(index: Path) -> tuple[int, str | None]:
    """Drop what came of documents that are no longer in the index as they were, if anything was kept.

    Returns how many answers were dropped and, where the file could not be used, a line that says so.
    """
    forget_stale_conversation(index)
    if not (index / FILE_NAME).is_file():
        return 0, None
    try:
        store = AnswerStore.open(index)
        try:
            return drop_stale(store, index), None
        finally:
            store.close()
    except UNUSABLE as error:
        return 0, (
            f"earlier answers could not be checked: {_first_line(error)}; the words of documents that are "
            "gone stay among them until you ask or index again"
        )


def drop_stale(store: AnswerStore, index: Path) -> int:
    """Drop from an open store what came of documents that are no longer in the index as they were."""
    from ragla.retrieve import indexed_digests

    documents = store.documents()
    return store.drop_stale(indexed_digests(index, documents)) if documents else 0


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

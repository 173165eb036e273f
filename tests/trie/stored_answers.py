"""Small answers to keep in a file, and what can be seen of the file from outside."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ragla.trie.answer_file import FILE_NAME
from ragla.trie.answer_rows import StoredAnswer
from ragla.trie.answer_store import AnswerStore, Lesson
from ragla.trie.answers import answer_name

DOCUMENT = ("/docs/a.md", "aa")
VOCABULARY = 1000


def lesson(*token_ids: int, uses: int = 0, last_used: float = 1.0, **more: Any) -> Lesson:
    """The lesson of one answer, made from one document."""
    documents = more.pop("documents", (DOCUMENT,))
    answer = StoredAnswer(answer_name(token_ids), token_ids, uses, last_used, documents)
    return Lesson(**{"tokenizer": "t", "model": "m", "answer": answer, "documents": documents} | more)


def secret(seed: int, length: int = 300) -> tuple[int, ...]:
    """Token ids that stand nowhere by chance."""
    return tuple(random.Random(seed).randrange(1 << 30) for _ in range(length))


def contents(store: AnswerStore) -> list[tuple[int, ...]]:
    """The answers of the tokenizer ``t``."""
    return [answer.token_ids for answer in store.answers("t")]


def files(folder: Path) -> bytes:
    """All bytes of the file and its companions."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob(FILE_NAME + "*")))

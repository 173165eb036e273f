"""What retrieval hands on: a passage, and a passage with its scores."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passage:
    """A piece of a document, with its exact place.

    ``text`` equals ``document_text[start:end]``, offsets in characters. Lines count from 1. ``path`` is
    POSIX, relative to the indexed folder, with the folder's name before it where an index has several
    folders; ``absolute`` opens. ``page`` is the PDF page on which the passage starts.
    """

    id: int
    document_id: int
    path: str
    absolute: str
    title: str
    text: str
    start: int
    end: int
    first_line: int
    last_line: int
    page: int | None = None


@dataclass(frozen=True)
class ScoredPassage:
    """A passage found for a question.

    ``score`` blends the two others and is what a relevance floor is held against. ``dense`` is the cosine
    of question and passage, ``lexical`` how much of the question's weighty words the passage contains, and
    how well by BM25. ``copies`` are passages that say the same elsewhere, ``joined`` the ids of the
    neighbours it was made of, its own among them. ``reranked``: a reranker's score, which is then ``score``.
    """

    passage: Passage
    score: float
    dense: float
    lexical: float
    copies: tuple[Passage, ...] = ()
    joined: tuple[int, ...] = ()
    reranked: float | None = None

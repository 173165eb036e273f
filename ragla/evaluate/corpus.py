"""Paragraphs that come with questions, as a folder of documents to index."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragla.errors import UsageError
from ragla.evaluate.questions import EvalFile


def write_corpus(files: Iterable[EvalFile], folder: Path) -> int:
    """One text file a paragraph, in a folder for each file of questions; returns how many.

    Raises UsageError for a file that brings no paragraphs.
    """
    written = 0
    for number, file in enumerate(files, 1):
        if not file.paragraphs:
            raise UsageError(
                f"{file.path}: brings no paragraphs to make a corpus of",
                "leave out --corpus-from-questions, or give a file in SQuAD's form",
            )
        place = folder / f"{number:02d}-{file.path.stem}"
        place.mkdir(parents=True)
        for at, paragraph in enumerate(file.paragraphs, 1):
            (place / f"{at:06d}.txt").write_text(paragraph, encoding="utf-8", newline="")
            written += 1
    return written

"""What of an answer stands verbatim in a passage, found the slow way, to hold provenance against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragla.provenance import CopySpan

WORDS = 8  # or so many …
CHARACTERS = 12  # … of Chinese
WORD = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff]+")
CHARACTER = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def verbatim(text: str, passages: Iterable[str]) -> set[int]:
    """Offsets of the answer's characters within 8 words, or 12 characters, that a passage has in a row."""
    found: set[int] = set()
    texts = list(passages)
    for unit, count in ((WORD, WORDS), (CHARACTER, CHARACTERS)):
        places = [match.span() for match in unit.finditer(text)]
        for (start, _), (_, end) in zip(places, places[count - 1 :], strict=False):
            if any(text[start:end] in passage for passage in texts):
                found.update(range(start, end))
    return {at for at in found if not text[at].isspace()}


def attributed(spans: Sequence[CopySpan]) -> set[int]:
    """Offsets of the characters in spans, which must not overlap."""
    every = [at for span in spans for at in range(span.start, span.end)]
    assert every == sorted(set(every))
    return set(every)


def check_spans(text: str, spans: Sequence[CopySpan], documents: dict[str, str]) -> None:
    """Each span is what its document says at its place, to the character and to the line."""
    for span in spans:
        document = documents[span.path]
        assert text[span.start : span.end] == document[span.source_start : span.source_end] != ""
        lines = re.split(r"\r\n|\n|\r", document[: span.source_start])
        assert span.first_line == len(lines)
        assert span.last_line == len(re.split(r"\r\n|\n|\r", document[: span.source_end]))

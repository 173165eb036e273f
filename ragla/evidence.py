"""What an answer rests on: the passages of the prompt, the documents they come from, and what is cited.

It joins what retrieval found to what decoding copied, and knows no model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragla.errors import RaglaError
from ragla.prompt import Prompt, PromptPassage, cited_numbers

if TYPE_CHECKING:
    from ragla.decode.request import Block
    from ragla.retrieve.freshness import Freshness
    from ragla.retrieve.passage import Passage, ScoredPassage
    from ragla.retrieve.retriever import Retriever

LEAST_COPY = 4  # tokens copied from a passage before it counts as cited without being named
DOCUMENT_CHARACTERS = 60_000  # of a long parent document this much around its passages feeds the trie


@dataclass(frozen=True)
class Source:
    """A passage the model read. ``cited``: the answer names its number, or names none and copies from it.

    ``copied``: how many of the answer's tokens came from its branch of the trie. ``passage``: the passage in
    the index, where it has one. ``freshness``: how its file was when the answer was finished, None where
    that was not looked at or cannot be said.
    """

    number: int
    path: str
    first_line: int
    last_line: int
    score: float
    cited: bool = False
    copied: int = 0
    passage: Passage | None = None
    freshness: Freshness | None = None


@dataclass(frozen=True)
class DocumentPart:
    """Text of a document from its character ``start`` on."""

    path: str
    start: int
    text: str


@dataclass(frozen=True)
class Evidence:
    """What a question is answered from: passages, and whole documents that only feed the trie."""

    passages: list[PromptPassage]
    sources: list[Source] = field(default_factory=list)
    documents: list[DocumentPart] = field(default_factory=list)


def gather(found: Sequence[ScoredPassage], retriever: Retriever) -> Evidence:
    """Evidence from retrieved passages, with the parent document of each once."""
    passages, sources = [], []
    found_in: dict[int, list[Passage]] = {}
    for number, scored in enumerate(found, 1):
        passage = scored.passage
        passages.append(PromptPassage(passage.title, passage.text))
        lines = passage.first_line, passage.last_line
        sources.append(Source(number, passage.path, *lines, scored.score, passage=passage))
        found_in.setdefault(passage.document_id, []).append(passage)
    # the best document last: what was counted last is what a tie falls back on
    documents = [
        part
        for document_id, its_passages in reversed(found_in.items())
        for part in around(retriever.document_text(document_id), its_passages)
    ]
    return Evidence(passages, sources, documents)


def around(text: str, passages: Sequence[Passage]) -> list[DocumentPart]:
    """A document; of a long one, DOCUMENT_CHARACTERS around its passages in all, in as few parts."""
    reach = DOCUMENT_CHARACTERS // (2 * len(passages))
    parts: list[range] = []
    for passage in sorted(passages, key=lambda passage: passage.start):
        middle = (passage.start + passage.end) // 2
        start, end = max(0, middle - reach), min(len(text), middle + reach)
        if parts and start <= parts[-1].stop:
            start = parts.pop().start
        parts.append(range(start, end))
    path = passages[0].path
    return [DocumentPart(path, part.start, text[part.start : part.stop]) for part in parts]


def copied_passages(block: Block, prompt: Prompt, evidence: Evidence) -> Iterator[int]:
    """For every token that was copied, the number of the passage it came from, 0 for another passage.

    A token read in a parent document belongs to the document's first passage, one of an earlier answer to
    no passage.
    """
    paths = [evidence.sources[index].path if evidence.sources else "" for index in prompt.used]
    for origin in block.origins:
        if origin is None:
            continue
        name, offset = origin
        kind, _, place = name.partition(":")
        path = place.partition(":")[2]
        if kind == "prompt":
            yield from (number for number, span in enumerate(prompt.spans, 1) if offset in span)
        elif kind == "document" and path in paths:
            yield paths.index(path) + 1
        elif kind in ("document", "passage"):
            yield 0


def looked_at(sources: Sequence[Source], retriever: Retriever) -> list[Source]:
    """The sources with how their files are now; an index that fails says nothing about them."""
    from ragla.retrieve.freshness import freshness

    places = [source.passage for source in sources if source.passage is not None]
    try:
        digests = dict(retriever.documents({passage.document_id for passage in places}))
    except RaglaError:
        return list(sources)
    whole: dict[str, Freshness | None] = {}  # files of which every passage is the same: read once

    def look(passage: Passage) -> Freshness | None:
        path = passage.absolute
        found = whole[path] if path in whole else freshness(passage, digests.get(path))
        if found in (None, "same", "gone"):
            whole[path] = found
        return found

    return [
        source if source.passage is None else replace(source, freshness=look(source.passage))
        for source in sources
    ]


def cite(sources: list[Source], used: list[int], text: str, copied: Counter[int]) -> list[Source]:
    """The passages of the prompt, numbered as there, those the answer rests on marked as cited."""
    named = cited_numbers(text) & set(range(1, len(used) + 1))
    cited = named or (
        {number for number, tokens in copied.items() if tokens >= LEAST_COPY} if text else set()
    )
    return [
        replace(sources[index], number=number, cited=number in cited, copied=copied[number])
        for number, index in enumerate(used, 1)
        if index < len(sources)
    ]

"""Where the words of an answer stand in the passages it was made from: matched text, not proof of use.

An accepted draft token knows where it was read, and words that were not drafted are found by comparing the
text. Every span is held against the source, character by character, before it is handed out.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ragla.following import Followed, Piece
from ragla.prompt import cited_numbers
from ragla.text_runs import WORD, Run, Runs, Units
from ragla.unsupported import Unsupported, WhatWasRead

if TYPE_CHECKING:
    from ragla.decode.request import Block
    from ragla.evidence import Evidence, Source
    from ragla.prompt import Prompt
    from ragla.text_stream import OnText

MATCHED = 8 * WORD  # of equal text is copied, wherever its tokens came from
DRAFTED = 3 * WORD  # is, where …
DRAFTED_TOKENS = 4  # … that many were drafted from this very place
CLOSING = "\n</passage>\n\n"  # what the prompt has behind a passage
LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class CopySpan:
    """``answer[start:end]`` equals ``document[source_start:source_end]``, offsets in characters.

    The document is the text of ``path`` as it was indexed; lines count from 1. ``number`` is the passage's
    in the prompt.
    """

    start: int
    end: int
    path: str
    first_line: int
    last_line: int
    source_start: int
    source_end: int
    number: int


class CopiedFrom:
    """A passage of the prompt, ready to be compared with an answer."""

    def __init__(self, number: int, text: str, source: Source) -> None:
        self.number = number
        self.text = text
        self.source = source
        self.units = Units(text)
        self.runs = Runs(self.units)
        self._line_ends = [found.end() for found in LINE_END.finditer(text)]

    def span(self, answer: str, start: int, end: int, offset: int) -> CopySpan | None:
        """``answer[start:end]`` as a copy of the passage's text from ``offset`` on, None where it is not."""
        stop = offset + end - start
        if start >= end or answer[start:end] != self.text[offset:stop]:
            return None
        source, line = self.source, self.source.first_line
        start_of_passage = source.passage.start if source.passage is not None else 0
        first, last = (line + bisect_right(self._line_ends, at) for at in (offset, stop - 1))
        place = start_of_passage + offset, start_of_passage + stop
        return CopySpan(start, end, source.path, first, last, *place, self.number)


class Draft(NamedTuple):
    """Tokens drafted in a row: ``starts`` in the answer, the first one's unit in a passage."""

    passage: int
    unit: int
    starts: list[int]


class CopyTrace(Followed):
    """Follows an answer while it is written, and says where its words were copied from.

    ``passages`` are those of the prompt whose place is known. ``asked``: the question and those before it.
    """

    def __init__(
        self,
        prompt: Prompt,
        evidence: Evidence,
        asked: Sequence[str],
        decode: Callable[[list[int]], str],
        on_text: OnText | None = None,
    ) -> None:
        self.passages = [
            CopiedFrom(number, evidence.passages[index].text, evidence.sources[index])
            for number, index in enumerate(prompt.used, 1)
            if index < len(evidence.sources)
        ]
        used = [evidence.passages[index] for index in prompt.used]
        self._read = [*asked, *(part for passage in used for part in (passage.title, passage.text))]
        self._prompt = prompt
        self._decode = decode
        self._units = Units(ended=False)
        self._drafts: list[Draft] = []
        super().__init__(on_text)

    @functools.cached_property
    def read(self) -> WhatWasRead:
        """The numbers and names that the answer may have."""
        return WhatWasRead(self._read)

    def unsupported(self, text: str) -> tuple[Unsupported, ...]:
        """Those that ``text`` has beyond them, in its order."""
        return self.read.unsupported(text)

    def drafted(self, block: Block, before: str) -> None:
        """Note where the tokens of a block were read; ``before`` is the decoded answer without it."""
        tokens, lead = block.token_ids, len(before) - len(before.lstrip())
        end = len(before) - lead + len(self._decode(tokens))
        following: tuple[str, int] | None = None
        for at, origin in enumerate(block.origins):
            if origin is None or origin[0] != "prompt":
                following = None
                continue
            start = max(0, end - len(self._decode(tokens[at:])))
            if origin == following:
                self._drafts[-1].starts.append(start)
                following = origin[0], origin[1] + 1
            elif (place := self._place(origin[1])) is not None:
                self._drafts.append(Draft(*place, [start]))
                following = origin[0], origin[1] + 1
            else:
                following = None

    def _place(self, offset: int) -> tuple[int, int] | None:
        """The passage and its unit that a token of the prompt belongs to; None for one of no passage.

        Counted from the passage's end: what the prompt changes are its beginning and white space.
        """
        for at, passage in enumerate(self.passages):
            span = self._prompt.spans[passage.number - 1]
            if offset in span:
                rest = self._decode(self._prompt.token_ids[offset : span.stop])
                unit = len(passage.units) - len(Units(rest)) + len(Units(CLOSING))
                return (at, unit) if unit >= 0 else None
        return None

    def spans(self) -> tuple[CopySpan, ...]:
        """The copied parts of the whole answer in its order, none overlapping another."""
        found: list[CopySpan] = []
        for part, passage in self._parts(ended=True):
            for start, end, offset in self._equal(part, passage):
                span = passage.span(self.text, start, end, offset)
                if span is not None:
                    found.append(span)
        return tuple(found)

    def pieces(self, *, ended: bool) -> Iterator[Piece]:
        """The answer so far as pieces in order, up to where it is not settled what is copied.

        A later piece can make another passage likelier for words that were handed out before.
        """
        at, parts = 0, self._parts(ended=ended)
        settled = len(self.text) if ended else self._settled(part for part, _ in parts)
        for part, passage in parts:
            start, end = self._units.starts[part.first], self._units.ends[part.end - 1]
            if start > settled:
                break
            if at < start:
                yield Piece(at, start, None)
            yield Piece(start, end, passage.number)
            at = end
        if at < settled:
            yield Piece(at, settled, None)

    def _parts(self, *, ended: bool) -> list[tuple[Run, CopiedFrom]]:
        """Runs that count as copied, the likeliest first served, in the order of the answer."""
        units = self._units
        units.grow(self.text, ended=ended)
        for passage in self.passages:
            passage.runs.follow(units, DRAFTED)
        drafted = self._drafted_here()
        cited = cited_numbers(self.text)
        ranked = []
        for at, passage in enumerate(self.passages):
            for run in (*passage.runs.closed, *passage.runs.open()):
                here = drafted.get((at, run.source - run.first), Counter())
                tokens = sum(here[unit] for unit in here if run.first <= unit < run.end)
                weight = units.weight(run.first, run.end)
                if weight >= MATCHED or (weight >= DRAFTED and tokens >= DRAFTED_TOKENS):
                    ranked.append((-tokens, passage.number not in cited, -weight, at, run))
        free = [True] * len(units)
        parts: list[tuple[Run, CopiedFrom]] = []
        for _, _, weight, at, run in sorted(ranked):
            least = 1 if -weight >= MATCHED else DRAFTED
            for part in free_parts(run, free):
                if units.weight(part.first, part.end) >= least:
                    free[part.first : part.end] = [False] * (part.end - part.first)
                    parts.append((part, self.passages[at]))
        return sorted(parts, key=lambda part: part[0])

    def _drafted_here(self) -> dict[tuple[int, int], Counter[int]]:
        """Drafted tokens of each unit, by passage and by how far their place is ahead of the answer's."""
        found: dict[tuple[int, int], Counter[int]] = {}
        for draft in self._drafts:
            units = [self._units.at(start) for start in draft.starts]
            found.setdefault((draft.passage, draft.unit - units[0]), Counter()).update(units)
        return found

    def _settled(self, copied: Iterable[Run]) -> int:
        """The offset before which every word is either copied or the model's own, whatever follows."""
        units = self._units
        decided = {unit for run in copied for unit in range(run.first, run.end)}
        undecided = [
            unit
            for passage in self.passages
            for run in passage.runs.open()
            if units.weight(run.first, run.end) < MATCHED
            for unit in range(run.first, run.end)
            if unit not in decided
        ]
        if undecided:
            return units.starts[min(undecided)]
        return units.ends[-1] if units.ends else 0

    def _equal(self, part: Run, passage: CopiedFrom) -> Iterator[tuple[int, int, int]]:
        """A part as stretches (start, end, offset in the passage) without different white space in them."""
        ours, theirs = self._units, passage.units
        start, offset = ours.starts[part.first], theirs.starts[part.source]
        for at in range(part.first, part.end):
            other = at - part.first + part.source
            end = ours.ends[at]
            if at + 1 == part.end:
                yield start, end, offset
            elif (
                self.text[end : ours.starts[at + 1]]
                != passage.text[theirs.ends[other] : theirs.starts[other + 1]]
            ):
                yield start, end, offset
                start, offset = ours.starts[at + 1], theirs.starts[other + 1]


def free_parts(run: Run, free: Sequence[bool]) -> Iterator[Run]:
    """The parts of a run whose units are all free."""
    for is_free, units in groupby(range(run.first, run.end), free.__getitem__):
        if is_free:
            taken = list(units)
            yield Run(taken[0], taken[-1] + 1, run.source + taken[0] - run.first)


def copied_shares(text: str, spans: Sequence[CopySpan]) -> dict[int, float]:
    """By passage number, the share of the answer's characters copied from it, white space left out."""
    whole = len("".join(text.split()))
    copied: Counter[int] = Counter()
    for span in spans:
        copied[span.number] += len("".join(text[span.start : span.end].split()))
    return {number: count / whole for number, count in copied.items()}

"""Shows a recorded answer again: its text as it came, the line of figures below it, and its draft trees.

It is the live view of ``ragla ask`` with the recording where the model was; no model and no index is opened.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from ragla.following import Followed, Piece
from ragla.live import answering
from ragla.recording import PieceRecord, Recording, StepRecord
from ragla.render_copied import copied_text
from ragla.render_trace import step_tree
from ragla.terminal import errors, output
from ragla.trace import origin_of
from ragla.trie import DraftTree

if TYPE_CHECKING:
    from rich.tree import Tree

    from ragla.answering import Answer
    from ragla.decode.stats import DecodeStats
    from ragla.text_stream import OnText
    from ragla.unsupported import Unsupported

FIRST_WORD_S = 1.0  # from which on it is said how long the first word took
LONGEST_WAIT_S = 3.0  # before it, however long the prompt was read


class RecordedCopies(Followed):
    """Follows an answer whose copied words are known: what ``ragla.provenance.CopyTrace`` is to a new one."""

    def __init__(self, answer: Answer, on_text: OnText | None) -> None:
        self._answer = answer
        super().__init__(on_text)

    def pieces(self, *, ended: bool) -> Iterator[Piece]:
        """The answer so far as pieces in order; all is settled."""
        at, whole = 0, len(self.text)
        for span in self._answer.provenance:
            if span.start >= whole:
                break
            if at < span.start:
                yield Piece(at, span.start, None)
            at = min(span.end, whole)
            yield Piece(span.start, at, span.number)
        if at < whole:
            yield Piece(at, whole, None)

    def unsupported(self, text: str) -> tuple[Unsupported, ...]:
        """What the answer so far has beyond all that was read."""
        return tuple(
            replace(one, end=min(one.end, len(text)))
            for one in self._answer.unsupported
            if one.start < len(text)
        )


def replay(recording: Recording, *, speed: float, draws: bool, plain: bool) -> None:
    """Write the answer to stdout, ``speed`` times as fast as it came; 0: all at once.

    Of a long wait for the first word no more than ``LONGEST_WAIT_S`` is waited again.
    ``draws``: each step's draft tree is shown on stderr before its text, and no line of figures.
    """
    answer = recording.answer
    with (
        answering(False, waiting_for(recording, speed)) as view,
        copied_text(view.write, output(), plain=plain) as on_text,
    ):
        text = RecordedCopies(answer, on_text)
        follows = bool(speed) and not draws
        figures = [answer.stats, *stats_as_they_grew(answer.stats)] if follows else []
        number, skipped = 0, max(0.0, first_word_s(recording) - LONGEST_WAIT_S)
        moments: Iterator[StepRecord | PieceRecord] = heapq.merge(
            recording.steps, recording.pieces, key=lambda moment: moment.at_s
        )
        for moment in moments:
            wait_until(view.began + (moment.at_s - skipped) / speed if speed else 0.0)
            if isinstance(moment, StepRecord):
                number = moment.step
                if draws:
                    view.fresh_line()
                    errors().print(drawn(moment))
            else:
                text(moment.text)
            if follows and number:
                view.step(figures[number], moment.at_s)
    sys.stdout.write("\n")
    sys.stdout.flush()


def first_word_s(recording: Recording) -> float:
    """When the first word came."""
    return next((piece.at_s for piece in recording.pieces), 0.0)


def waiting_for(recording: Recording, speed: float) -> str:
    """What stands on the screen before the first word."""
    first = first_word_s(recording)
    said = "replaying"
    if speed and first >= FIRST_WORD_S:
        said += f" · the first word came after {first:.1f} s"
    return said


def wait_until(moment: float) -> None:
    """Sleep until a moment of ``perf_counter``, which may be past."""
    remaining = moment - perf_counter()
    if remaining > 0:
        sleep(remaining)


def stats_as_they_grew(stats: DecodeStats) -> Iterator[DecodeStats]:
    """What the answer had cost after each of its steps; its time is shared out by theirs."""
    spent = list(accumulate(step.forward_s + step.draft_s for step in stats.steps))
    tokens = stats.tokens - sum(step.committed for step in stats.steps)
    for number, (step, seconds) in enumerate(zip(stats.steps, spent, strict=True), 1):
        tokens += step.committed
        share = seconds / spent[-1] if spent[-1] else 0.0
        yield replace(stats, tokens=tokens, decode_s=share * stats.decode_s, steps=stats.steps[:number])


def drawn(step: StepRecord) -> Tree:
    """The draft tree of a step."""
    origins = [
        None if origin is None else origin_of(origin.kind, origin.path, origin.token)
        for origin in step.origins
    ]
    tree = DraftTree(step.token_ids, step.parents, step.probabilities, origins)
    return step_tree(step.step, tree, step.accepted, step.texts)

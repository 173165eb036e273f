"""The steps of an answer as they come: drawn on stderr, and kept as JSON lines, schema ``ragla.trace/1``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from ragla.errors import UsageError
from ragla.terminal import errors
from ragla.user_path import user_path

if TYPE_CHECKING:
    from ragla.answer import Answer
    from ragla.decode.stats import DecodeStats, StepStats
    from ragla.live import View
    from ragla.recorder import Recorder
    from ragla.trie import DraftTree
    from ragla.trie.token_trie import Origin

SCHEMA = "ragla.trace/1"
KINDS = ("prompt", "document", "passage", "answer")

Decode = Callable[[list[int]], str]


class Tracer:
    """Follows one answer after the other; ``draws``: each draft tree is shown on stderr."""

    def __init__(
        self,
        decode: Decode,
        *,
        draws: bool,
        file: TextIO | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.decode = decode
        self.draws = draws
        self.file = file
        self.recorder = recorder
        self._view: View | None = None
        self._last: tuple[int, DraftTree, list[int]] | None = None

    def begin(self, question: str, view: View) -> None:
        """An answer begins."""
        self._view, self._last = view, None
        self._write({"event": "question", "question": question})

    def observe(self, number: int, tree: DraftTree, accepted: list[int]) -> None:
        """A step's draft was verified, or the prompt's, number 0; its text is about to come."""
        self._last = number, tree, accepted
        if self.recorder is not None:
            self.recorder.verified()
        if self.draws:
            from ragla.render_trace import step_tree

            if self._view is not None:
                self._view.fresh_line()
            pieces = [self.decode([token]) for token in tree.token_ids]
            errors().print(step_tree(number, tree, accepted, pieces))

    def step(self, stats: DecodeStats) -> None:
        """What that step has cost is known now."""
        if self._last is None or (self.file is None and self.recorder is None):
            return
        number, tree, accepted = self._last
        step = stats.steps[-1] if number else with_prompt(stats)
        record = step_record(tree, accepted, step, self.decode)
        self._last = None
        self._write({"event": "step", "step": number, **record})
        if self.recorder is not None:
            self.recorder.step(number, record)

    def end(self, answer: Answer) -> None:
        """The answer is there."""
        self._write(
            {
                "event": "answer",
                "answer": answer.text,
                "interrupted": answer.interrupted,
                "prompt_tokens": answer.stats.prompt_tokens,
                "tokens": answer.stats.tokens,
                "steps": len(answer.stats.steps),
                "prefill_s": answer.stats.prefill_s,
                "decode_s": answer.stats.decode_s,
            }
        )

    def _write(self, record: dict[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps({"schema": SCHEMA, **record}, ensure_ascii=False) + "\n")
            self.file.flush()  # what an interrupt leaves is whole lines


def with_prompt(stats: DecodeStats) -> StepStats:
    """What was verified with the prompt, as if it had been a step; its time is that of the prompt."""
    from ragla.decode.stats import StepStats

    return StepStats(stats.prefill_drafted, stats.prefill_accepted, stats.tokens, stats.prefill_s, 0.0)


def step_record(tree: DraftTree, accepted: Sequence[int], step: StepStats, decode: Decode) -> dict[str, Any]:
    """One step: parallel lists with an entry a node, node 0 the last token of the text before it."""
    return {
        "token_ids": tree.token_ids,
        "texts": [decode([token]) for token in tree.token_ids],
        "parents": tree.parents,
        "probabilities": tree.probabilities,
        "origins": [origin_record(origin) for origin in tree.origins],
        "accepted": list(accepted),
        "committed": step.committed,
        "draft_s": step.draft_s,
        "forward_s": step.forward_s,
    }


def origin_record(origin: Origin | None) -> dict[str, Any] | None:
    """Where a token was read: what kind of text, which document, and the offset in its tokens."""
    if origin is None:
        return None
    kind, path = origin_place(origin)
    return {"kind": kind, "path": path, "token": origin.offset}


def origin_place(origin: Origin) -> tuple[str, str | None]:
    """The kind of a text and, for a document, its path."""
    kind, _, place = origin.source.partition(":")
    if kind not in KINDS:  # it has the name of the answer that is kept
        return "earlier answer", None
    return kind, place.partition(":")[2] if kind == "document" else None


def origin_of(kind: str, path: str | None, token: int) -> Origin:
    """What ``origin_record`` has told so; where in a document a part of it began is not kept."""
    from ragla.trie.token_trie import Origin

    return Origin(f"document:0:{path or ''}" if kind == "document" else kind, token)


@contextmanager
def trace_file(name: str | None) -> Iterator[TextIO | None]:
    """The file that steps are kept in, None for none. Raises UsageError for one that cannot be written.

    An earlier trace is replaced, anything else is left alone.
    """
    if name is None:
        yield None
        return
    if name == "-":
        raise UsageError("--trace-json -: stdout has the answer", "name a file: --trace-json FILE")
    path = user_path(name)
    try:
        if (
            path.exists()
            and path.stat().st_size
            and not _is_trace(path.open(encoding="utf-8", errors="replace"))
        ):
            raise UsageError(f"{name}: exists and is no trace", "name another file: --trace-json FILE")
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{name}: cannot be written: {error.strerror}", "name another file: --trace-json FILE"
        ) from error
    with file:
        yield file


def _is_trace(file: TextIO) -> bool:
    with file:
        return file.read(64).startswith('{"schema": "ragla.trace/')

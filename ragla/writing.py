"""An answer while it is decoded: its tokens, its text, and which passages both come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ragla.evidence import copied_passages
from ragla.provenance import CopySpan, CopyTrace
from ragla.text_stream import OnText, TextStream
from ragla.unsupported import Unsupported

if TYPE_CHECKING:
    from ragla.decode.model import TargetModel
    from ragla.decode.request import Block
    from ragla.evidence import Evidence
    from ragla.prompt import Prompt


class Writing:
    """Takes blocks of tokens; ``copied`` counts, by passage, those that were drafted from it.

    ``asked``: the question and those before it, which the answer may repeat.
    """

    def __init__(
        self,
        target: TargetModel,
        prompt: Prompt,
        evidence: Evidence,
        asked: Sequence[str],
        stop: Sequence[str],
        on_text: OnText | None,
    ) -> None:
        self.token_ids: list[int] = []
        self.copied: Counter[int] = Counter()
        self._end_ids = target.end_ids
        self._prompt, self._evidence = prompt, evidence
        decode = partial(target.tokenizer.decode, skip_special_tokens=True)
        self.trace = CopyTrace(prompt, evidence, asked, decode, on_text)
        self._stream = TextStream(target.tokenizer, stop, self.trace)

    def push(self, block: Block) -> None:
        """Take the tokens of a step; their text is handed on as soon as it is certain."""
        self.trace.drafted(block, self._stream.text)
        self.token_ids += block.token_ids
        self.copied.update(copied_passages(block, self._prompt, self._evidence))
        self._stream.push(self.token_ids, self._end_ids)

    def finish(self) -> str:
        """The final text; what was held back of it is handed on."""
        return self._stream.finish()

    def provenance(self) -> tuple[CopySpan, ...]:
        """Where the words of the final text were copied from."""
        return self.trace.spans()

    def unsupported(self) -> tuple[Unsupported, ...]:
        """Numbers and names of the final text that were in nothing the model read."""
        return self.trace.read.unsupported(self.trace.text)

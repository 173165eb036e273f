"""What to do when memory runs out: put fewer rows through the model at once.

The rows of a forward pass are the part of its memory that can be chosen. So the prefill's chunks are
halved, then the drafts, and only when a single row does not fit is the answer given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragla.errors import RaglaError


@dataclass
class RowLimits:
    """How many rows one forward pass may have; None: no bound was met.

    ``prefill``: rows of a prompt's chunk. ``draft``: nodes of a draft, node 0 included. ``with_prompt``:
    whether a draft fits beside a prompt's last chunk. They last from answer to answer, so that a limit is
    run into once.
    """

    prefill: int | None = None
    draft: int | None = None
    with_prompt: bool = True

    def halve_prefill(self, rows: int) -> None:
        """A chunk of ``rows`` rows did not fit. Raises RaglaError where it had one."""
        self.prefill = halved(rows, "the prompt")

    def halve_draft(self, nodes: int) -> int:
        """A draft of ``nodes`` nodes did not fit: how many may. Raises RaglaError where one did not."""
        self.draft = halved(nodes, "the next token")
        return self.draft

    def notice(self) -> str | None:
        """What was done, in a line; None where nothing was."""
        parts = []
        if self.prefill is not None:
            parts.append(f"the prompt is read {self.prefill} tokens at a time")
        if self.draft is not None:
            parts.append(f"at most {self.draft} nodes are verified a step")
        return f"memory ran out: {', '.join(parts)}" if parts else None


def halved(rows: int, what: str) -> int:
    """Half as many rows. Raises RaglaError for one row."""
    if rows <= 1:
        raise too_little_memory(what)
    return rows // 2


def too_little_memory(what: str) -> RaglaError:
    """The error for a single row that does not fit."""
    return RaglaError(
        f"not enough memory to compute {what}",
        "choose a smaller model, or pack fewer passages: --set prompt.token_budget=512",
    )

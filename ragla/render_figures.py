"""What an answer from a server elsewhere cost, as lines and as JSON; what it did not say is absent."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ragla.render import counted

if TYPE_CHECKING:
    from ragla.answer import Answer
    from ragla.remote.figures import ServerFigures


def figures_line(answer: Answer, figures: ServerFigures) -> Text:
    """Tokens, what is known of drafts, and the times that were measured here."""
    parts: list[tuple[str, str]] = []
    if figures.tokens is not None:
        in_steps = f" in {counted(figures.steps, 'step')}" if figures.steps else ""
        parts.append((counted(figures.tokens, "token") + in_steps, "dim"))
    if figures.tokens_per_step is not None:
        parts.append((f"{figures.tokens_per_step:.1f} tokens/step", "bold green"))
    if figures.accepted_share is not None:
        parts.append((f"{figures.accepted_share:.0%} accepted", "dim"))
    parts.append((f"first token {answer.ttft_s:.1f} s", "dim"))
    if rate := answer.stats.decode_tokens_per_s:
        parts.append((f"{rate:.1f} tokens/s", "dim"))
    if figures.reused_tokens and figures.prompt_tokens:
        parts.append((f"{figures.reused_tokens} of {figures.prompt_tokens} prompt tokens kept", "dim"))
    line = Text()
    for text, style in parts:
        line.append(" · " if line else "", style="dim").append(text, style=style)
    return line


def figures_json(answer: Answer, figures: ServerFigures) -> dict[str, Any]:
    """The fields of ``stats``; null for what is not known."""
    known = asdict(figures)
    return {
        **known,
        "ttft_s": answer.ttft_s,
        "retrieval_s": answer.retrieval_s,
        "decode_s": answer.stats.decode_s,
        "decode_tokens_per_s": answer.stats.decode_tokens_per_s or None,
    }

"""What stands behind an answer on stderr: its sources, what did not fit, what was verified, what it cost.

It draws an ``Answer``, whether a model has just given it or a recording holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragla.terminal import errors, show_notice

if TYPE_CHECKING:
    from ragla.answering import Answer
    from ragla.retrieve.explanation import Explanation


def show_panel(
    answer: Answer,
    *,
    plain: bool,
    problem: str | None = None,
    explanation: Explanation | None = None,
    verify: Mapping[str, Any] | None = None,
) -> None:
    """``problem``: why the answer is not kept. ``verify``: as in ``ragla ask --json``."""
    from ragla import render, render_answer

    show_sources(answer, plain=plain)
    for line in render_answer.unsupported_lines(answer.unsupported):
        errors().print(line, soft_wrap=True)
    for path in answer.left_out:
        errors().print(f"did not fit the prompt: {render.one_line(path)}", style="yellow", soft_wrap=True)
    for notice in (*answer.notices, problem):
        show_notice(notice)
    if explanation is not None:
        from ragla.render_search import explanation_lines

        for line in explanation_lines(explanation):
            errors().print(line, soft_wrap=True)
    for line in render_answer.cost_lines(answer):
        errors().print(line, soft_wrap=True)
    if verify is not None:
        errors().print(render_answer.verdict_line(verify), soft_wrap=True)


def show_sources(answer: Answer, *, plain: bool) -> None:
    """The passages that an answer rests on; all it was made from, where it names none."""
    from ragla import render_answer
    from ragla.render_copied import wants_style

    copied = {span.number for span in answer.provenance}
    rests_on = [source for source in answer.sources if source.cited or source.number in copied]
    if answer.sources:
        errors().print()
    if answer.answered and not rests_on:
        errors().print(
            "the answer names no source; these passages were read:", style="yellow", soft_wrap=True
        )
        rests_on = answer.sources
    links = not plain and wants_style(errors())
    for line in render_answer.source_lines(rests_on, answer.text, answer.provenance, links=links):
        errors().print(line, soft_wrap=True)

"""The flags of ``ragla bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CompareFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="NAME,…",
        help="greedy, hf-greedy, hf-prompt-lookup, shape:single, shape:parallel, budget:N, dtype:D, "
        "without:SOURCE, as-replayed; repeat or separate by commas.",
    ),
]
QualityFlag = Annotated[
    bool,
    typer.Option(
        "--quality", help="float32 and 8 bit side by side: speed, accuracy, and which texts differ."
    ),
]
QuestionsFlag = Annotated[
    Path | None,
    typer.Option(
        "--questions", metavar="FILE.jsonl", help="JSON lines: question, passages?, reference?, category?."
    ),
]
SpecBenchFlag = Annotated[
    Path | None,
    typer.Option("--spec-bench", metavar="FILE.jsonl", help="Spec-Bench's question file, all its turns."),
]
SplitFlag = Annotated[
    bool,
    typer.Option("--split-passages", help="Put the passages of its rag questions into ragla's own prompt."),
]
CategoryFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--category", metavar="NAME,…", help="Only questions of a category; repeat or separate by commas."
    ),
]
EachFlag = Annotated[
    int | None,
    typer.Option("--each", min=1, metavar="N", help="Only the first N questions of each category."),
]
LimitFlag = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help="Only the first N questions or recorded answers."),
]
RunsFlag = Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Runs of each question.")]
ShowFlag = Annotated[
    Path | None,
    typer.Option(
        "--show", metavar="FILE.json", help="Show what an earlier bench wrote with --json; runs nothing."
    ),
]
MarkdownFlag = Annotated[bool, typer.Option("--markdown", help="The comparison as a Markdown table.")]
PlotFlag = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the comparison or the replay: .png or .svg."),
]
RecordFlag = Annotated[
    Path | None,
    typer.Option("--record", metavar="FILE.jsonl", help="Write the plain loop's answers as transcripts."),
]
ForceFlag = Annotated[bool, typer.Option("--force", help="Overwrite the file to record to.")]
ReplayFlag = Annotated[
    Path | None,
    typer.Option("--replay", metavar="FILE.jsonl", help="Replay drafting rules on transcripts, no model."),
]
BudgetsFlag = Annotated[
    str | None, typer.Option("--budgets", metavar="N,N", help="Draft budgets to replay at: 8,16,32,64.")
]

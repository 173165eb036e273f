"""``ragla bench``: compares decoders, records answers, replays drafting rules on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragla.cli_bench_compare import (
    Asked,
    Shown,
    bench_retriever,
    compare_decoders,
    show_earlier,
    write_picture,
)
from ragla.cli_bench_flags import (
    BudgetsFlag,
    CategoryFlag,
    CompareFlag,
    EachFlag,
    ForceFlag,
    LimitFlag,
    MarkdownFlag,
    PlotFlag,
    QualityFlag,
    QuestionsFlag,
    RecordFlag,
    ReplayFlag,
    RunsFlag,
    ShowFlag,
    SpecBenchFlag,
    SplitFlag,
)
from ragla.flags import IndexFlag, JsonFlag, ModelFlag, ProfileFlag, SetFlag, load_model, load_profile
from ragla.terminal import bench_progress, errors, output, print_json

if TYPE_CHECKING:
    from ragla.config import Profile


def bench(
    ctx: typer.Context,
    compare: CompareFlag = None,
    quality: QualityFlag = False,
    questions: QuestionsFlag = None,
    spec_bench: SpecBenchFlag = None,
    split_passages: SplitFlag = False,
    category: CategoryFlag = None,
    each: EachFlag = None,
    limit: LimitFlag = None,
    runs: RunsFlag = 1,
    show: ShowFlag = None,
    markdown: MarkdownFlag = False,
    plot: PlotFlag = None,
    record: RecordFlag = None,
    force: ForceFlag = False,
    replay: ReplayFlag = None,
    budgets: BudgetsFlag = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare decoders on the same questions: speed, tokens per step, identical answers.

    [bold]ragla bench --compare greedy[/]

    [bold]ragla bench --quality --plot quality.svg[/]

    [bold]ragla bench --spec-bench question.jsonl --each 5 --compare greedy,hf-greedy,hf-prompt-lookup[/]

    [bold]ragla bench --compare greedy --json > speed.json[/]

    [bold]ragla bench --show speed.json --plot speed.svg[/]

    [bold]ragla bench --record answers.jsonl[/]

    [bold]ragla bench --replay answers.jsonl --plot answers.png[/]

    Without --questions or --spec-bench the questions are those of the file questions.jsonl in an indexed
    folder. --replay compares drafting rules without a model, on answers that --record wrote once.
    """
    from ragla.bench.modes import check_flags

    check_flags(given_flags(ctx))
    shown = Shown(as_json, markdown, plot)
    if show is not None:
        show_earlier(show, shown)
        return
    loaded = load_profile(profile, settings, {"decode.model": model})
    asked = Asked(questions, spec_bench, split_passages, category or (), each, limit, index_path)
    if replay is not None:
        replay_rules(loaded.profile, replay, budgets, limit, plot, as_json=as_json)
    elif record is not None:
        record_answers(loaded.profile, record, force, asked, as_json=as_json)
    else:
        named = [*(compare or ["greedy"]), *(["dtype:float32", "dtype:int8"] if quality else [])]
        compare_decoders(loaded.profile, named, asked, runs, shown)


def given_flags(ctx: typer.Context) -> list[str]:
    """The flags of a command that stand on the command line, by their long names."""
    given = []
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is not None and source.name == "COMMANDLINE":
            given.append(next((name for name in param.opts if name.startswith("--")), param.opts[0]))
    return given


def record_answers(profile: Profile, path: Path, force: bool, asked: Asked, *, as_json: bool) -> None:
    """Answer questions by the plain loop and write what a replay needs."""
    from ragla.bench.transcripts import TranscriptFile, check_writable

    check_writable(path, force=force)
    questions = asked.load()
    retriever = bench_retriever(profile, questions, asked.index)
    target = load_model(profile, quiet=as_json)
    from ragla.bench.record import record
    from ragla.render import counted

    with TranscriptFile(path, force=force) as file, bench_progress(quiet=as_json) as on_progress:
        try:
            unanswered = record(profile, target, questions, file, retriever, on_progress)
        finally:  # what was recorded before an interrupt is kept
            if file.written and not as_json:
                errors().print(f"{counted(file.written, 'answer')} recorded in {path}", soft_wrap=True)
    if as_json:
        print_json(
            {
                "schema": "ragla.record/1",
                "file": str(path),
                "answers": file.written,
                "unanswered": unanswered,
            }
        )


def replay_rules(
    profile: Profile,
    path: Path,
    budgets: str | None,
    limit: int | None,
    picture: Path | None,
    *,
    as_json: bool,
) -> None:
    """Replay drafting rules on recorded answers and show what each got accepted."""
    from ragla.bench.figures import check_plot
    from ragla.bench.plot import draw
    from ragla.bench.replay import BUDGETS, parse_budgets, replay_file
    from ragla.bench.replay_report import ReplayReport

    chosen = parse_budgets(budgets) if budgets is not None else BUDGETS
    if picture is not None:
        check_plot(picture)
    with bench_progress(quiet=as_json) as on_progress:
        result = replay_file(path, profile.decode, chosen, limit, on_progress)
    if picture is not None:
        write_picture(draw(result), picture)
    if as_json:
        print_json(result.to_json())
    else:
        output().print(ReplayReport(result))

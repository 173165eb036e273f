"""``ragla bench``: compares decoders, records answers, replays drafting rules on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragla.errors import UsageError
from ragla.flags import IndexFlag, JsonFlag, ModelFlag, ProfileFlag, SetFlag, load_model, load_profile
from ragla.terminal import bench_progress, errors, output, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragla.bench import BenchQuestion
    from ragla.config import Profile


def bench(
    ctx: typer.Context,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", help="greedy, hf-greedy, hf-prompt-lookup; repeat or separate by commas."),
    ] = None,
    questions: Annotated[
        Path | None, typer.Option("--questions", help="JSON lines: question, passages?, reference?.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first N questions or recorded answers.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs of each question.")] = 1,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE.jsonl", help="Write the plain loop's answers as transcripts."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file to record to.")] = False,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="FILE.jsonl", help="Replay drafting rules on transcripts, no model."
        ),
    ] = None,
    budgets: Annotated[
        str | None, typer.Option("--budgets", metavar="N,N", help="Draft budgets to replay at: 8,16,32,64.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the replay: .png or .svg.")
    ] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare decoders on the same questions: speed, tokens per step, identical answers.

    [bold]ragla bench --compare greedy[/]

    Drafting rules can be compared without a model, on answers that were recorded once:

    [bold]ragla bench --record answers.jsonl[/]

    [bold]ragla bench --replay answers.jsonl --plot answers.png[/]
    """
    from ragla.bench.modes import check_flags

    check_flags(given_flags(ctx))
    loaded = load_profile(profile, settings, {"decode.model": model})
    if replay is not None:
        replay_rules(loaded.profile, replay, budgets, limit, plot, as_json=as_json)
    elif record is not None:
        record_answers(loaded.profile, record, force, questions, limit, index_path, as_json=as_json)
    else:
        compare_decoders(
            loaded.profile, compare or ["greedy"], questions, limit, runs, index_path, as_json=as_json
        )


def given_flags(ctx: typer.Context) -> list[str]:
    """The flags of a command that stand on the command line, by their long names."""
    sources = {param.opts[0]: ctx.get_parameter_source(param.name or "") for param in ctx.command.params}
    return [flag for flag, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def compare_decoders(
    profile: Profile,
    compare: list[str],
    questions: Path | None,
    limit: int | None,
    runs: int,
    index_path: str | None,
    *,
    as_json: bool,
) -> None:
    """Run decoders in turn on the same questions and show what each cost."""
    from ragla import session
    from ragla.bench import Report, load_questions, parse_decoders, run_bench

    decoders = parse_decoders(compare)
    asked = load_questions(questions or corpus_questions(index_path), limit)
    retriever = bench_retriever(profile, asked, index_path)
    target = load_model(profile, quiet=as_json)
    cost = session.load_step_cost(profile, target)
    with bench_progress(quiet=as_json) as on_progress:
        result = run_bench(profile, target, asked, decoders, retriever, cost, runs, on_progress)
    session.save_step_cost(profile, target, cost)
    if as_json:
        print_json(result.to_json())
    else:
        output().print(Report(result))


def record_answers(
    profile: Profile,
    path: Path,
    force: bool,
    questions: Path | None,
    limit: int | None,
    index_path: str | None,
    *,
    as_json: bool,
) -> None:
    """Answer questions by the plain loop and write what a replay needs."""
    from ragla.bench import load_questions
    from ragla.bench.transcripts import TranscriptFile, check_writable

    check_writable(path, force=force)
    asked = load_questions(questions or corpus_questions(index_path), limit)
    retriever = bench_retriever(profile, asked, index_path)
    target = load_model(profile, quiet=as_json)
    from ragla.bench.record import record
    from ragla.render import counted

    with TranscriptFile(path, force=force) as file, bench_progress(quiet=as_json) as on_progress:
        try:
            unanswered = record(profile, target, asked, file, retriever, on_progress)
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
    from ragla.bench.plot import check_plot, plot
    from ragla.bench.replay import BUDGETS, parse_budgets, replay_file
    from ragla.bench.replay_report import ReplayReport

    chosen = parse_budgets(budgets) if budgets is not None else BUDGETS
    if picture is not None:
        check_plot(picture)
    with bench_progress(quiet=as_json) as on_progress:
        result = replay_file(path, profile.decode, chosen, limit, on_progress)
    if picture is not None:
        plot(result, picture)
    if as_json:
        print_json(result.to_json())
    else:
        output().print(ReplayReport(result))


def bench_retriever(profile: Profile, asked: Sequence[BenchQuestion], index_path: str | None) -> Any:
    """What searches the index, if any question comes without passages; else None."""
    from ragla import session
    from ragla.bench import needs_index

    if not needs_index(asked):
        return None
    return session.open_retriever(profile, session.find_index(index_path, Path.cwd()))


def corpus_questions(index_path: str | None) -> Path:
    """The questions that come with an indexed corpus: ``questions.jsonl`` in one of its folders."""
    from ragla import session
    from ragla.retrieve import indexed_roots

    roots = indexed_roots(session.find_index(index_path, Path.cwd()))
    for folder in roots:
        if (folder / "questions.jsonl").is_file():
            return folder / "questions.jsonl"
    raise UsageError(
        f"no questions.jsonl in {', '.join(map(str, roots))}", "name a file: --questions FILE.jsonl"
    )

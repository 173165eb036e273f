"""Comparing decoders: which questions, which models, how the result is shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer

from ragla.errors import UsageError
from ragla.failure import INTERRUPTED
from ragla.flags import load_model
from ragla.terminal import bench_progress, errors, output, print_json, show_notice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ragla.bench import BenchQuestion, BenchResult
    from ragla.bench.run import Beside
    from ragla.config import Profile
    from ragla.decode.model import TargetModel


LOOK_S = 0.3  # for which other programs are watched before a bench


@dataclass(frozen=True)
class Asked:
    """Where the questions come from, and which of them."""

    questions: Path | None
    spec_bench: Path | None
    split_passages: bool
    categories: Sequence[str]
    each: int | None
    limit: int | None
    index: str | None

    def load(self) -> list[BenchQuestion]:
        """The questions. Raises UsageError for a file that is none, or where nothing is left of it."""
        from ragla.bench import load_questions, load_spec_bench
        from ragla.bench.questions import select

        if self.spec_bench is not None:
            found = load_spec_bench(self.spec_bench, split_passages=self.split_passages)
        else:
            found = load_questions(self.questions or corpus_questions(self.index))
        parts = [part.strip() for entry in self.categories for part in entry.split(",")]
        return select(found, [part for part in parts if part], self.each, self.limit)


@dataclass(frozen=True)
class Shown:
    """How a comparison is shown."""

    as_json: bool
    markdown: bool
    plot: Path | None


def compare_decoders(profile: Profile, compare: Sequence[str], asked: Asked, runs: int, shown: Shown) -> None:
    """Run decoders in turn on the same questions and show what each cost."""
    from ragla import session
    from ragla.bench import parse_decoders
    from ragla.bench.figures import check_plot
    from ragla.bench.machine import CoreClock, load_average, others_since_at_least

    clock, load = CoreClock.now(), load_average()
    names = parse_decoders(compare)
    if shown.plot is not None:
        check_plot(shown.plot)
    questions = asked.load()
    used = others_since_at_least(clock, LOOK_S)
    warn_if_busy(profile, load if used is None else used)
    retriever = bench_retriever(profile, questions, asked.index)
    began = perf_counter()
    target = load_model(profile, quiet=shown.as_json)
    load_s = perf_counter() - began
    from ragla.bench import run_bench

    beside = load_beside(profile, names, target, quiet=shown.as_json)
    cost = session.load_step_cost(profile, target)
    with bench_progress(quiet=shown.as_json) as on_progress:
        result = run_bench(
            profile, target, questions, names, retriever, cost, runs, on_progress,
            beside=beside, load_s=load_s, load_average=load,
        )  # fmt: skip
    session.save_step_cost(profile, target, cost)
    for other in beside:
        if other.cost is not None:
            session.save_step_cost(profile, other.target, other.cost)
    show_result(result, shown)
    if result.answers < result.planned:
        errors().print(f"interrupted: {result.answers} of {result.planned} answers a decoder", style="yellow")
        raise typer.Exit(INTERRUPTED)


def load_beside(profile: Profile, names: Sequence[str], target: TargetModel, *, quiet: bool) -> list[Beside]:
    """The model in every other precision that ``names`` ask for. Raises UsageError where it cannot be had."""
    from ragla import session
    from ragla.bench.names import dtypes_named
    from ragla.bench.run import Beside

    found = []
    for dtype in dict.fromkeys(dtypes_named(names)):
        if dtype == target.dtype:
            continue
        settings = profile.model_copy(update={"decode": profile.decode.model_copy(update={"dtype": dtype})})
        other = load_model(settings, quiet=quiet)
        if other.dtype != dtype:
            raise UsageError(
                f"--compare dtype:{dtype}: this machine computes it in {other.dtype}",
                f"leave dtype:{dtype} out",
            )
        found.append(Beside(other, session.load_step_cost(settings, other)))
    return found


def warn_if_busy(profile: Profile, used: float | None) -> None:
    """Say that other programs use so many cores, before anything is measured beside them.

    That is what they use now: the load of the past minute is often that of a bench before this one.
    """
    from ragla.bench.environment import is_busy

    cores = os.cpu_count() or 1
    if is_busy(used, profile.decode.threads or cores, cores):
        show_notice(
            f"this machine is busy (others use {used:.2g} of {cores} cores): "
            "times will not be those of a quiet one"
        )


def show_result(result: BenchResult, shown: Shown) -> None:
    """Show the numbers in the form that is wanted, and draw the picture, if one is."""
    if shown.as_json:
        print_json(result.to_json())
    elif shown.markdown:
        from ragla.bench.markdown import markdown

        output().print(markdown(result), soft_wrap=True)
    else:
        from ragla.bench import Report

        output().print(Report(result))
    if shown.plot is not None:
        from ragla.bench.comparison_plot import draw_comparison

        write_picture(draw_comparison(result), shown.plot)


def write_picture(figure: Figure, path: Path) -> None:
    """Write it, and say where it is. Raises UsageError."""
    from ragla.bench.figures import save
    from ragla.render import one_line

    notice = save(figure, path)
    errors().print(f"drawn: {one_line(str(path))}", soft_wrap=True)
    show_notice(notice)


def show_earlier(path: Path, shown: Shown) -> None:
    """Show what a bench found earlier; its rows are in the file alone."""
    from ragla.bench.figures import check_plot
    from ragla.bench.result_json import load_result

    if shown.plot is not None:
        check_plot(shown.plot)
    show_result(load_result(path), shown)


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

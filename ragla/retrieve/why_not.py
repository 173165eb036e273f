"""Where a file was lost on its way into an answer: at the door of the index, in a search, or at its end."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ragla.errors import UsageError
from ragla.retrieve.fold import Decision, Fate
from ragla.retrieve.retriever import POOL, FileState, Retriever

_OUTCOMES: tuple[Fate, ...] = (
    "kept", "joined", "copy", "past the last place", "below the floor", "not reranked",
)  # fmt: skip


@dataclass(frozen=True)
class WhyNot:
    """``stage``: ``skipped``, ``no text``, ``not near``, or what became of the file's best passage.

    ``said``: what happened in words; ``hint``: what would change it, None where nothing need be.
    """

    path: str
    stage: str
    said: str
    hint: str | None = None


def why_not(retriever: Retriever, name: str, query: str, top_k: int, floor: float) -> WhyNot:
    """What became of a file in a search. ``name``: its path as shown, absolute, or the end of it.

    Raises UsageError where the index knows no such file, or several.
    """
    state = _known(retriever, name)
    if state.status != "indexed":
        return WhyNot(state.path, "skipped", f"skipped when indexed: {state.reason}", "ragla index --retry")
    if not state.passages:
        return WhyNot(state.path, "no text", "indexed, but no text was found in it")
    found = retriever.explain(query, top_k, floor)
    ours = [one for one in found.decisions if one.found.passage.document_id == state.document_id]
    if not ours:
        return _not_near(retriever, state, query)
    best = min(ours, key=lambda one: _OUTCOMES.index(one.fate))
    place = found.decisions.index(best) + 1
    return WhyNot(state.path, best.fate, *_fate(best, place, floor, top_k, found.decisions))


def _known(retriever: Retriever, name: str) -> FileState:
    files = retriever.files()
    named = name.rstrip("/")
    exact = [one for one in files if named in (one.path, one.absolute)]
    ending = exact or [one for one in files if one.absolute.endswith("/" + named.removeprefix("./"))]
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise UsageError(
            f"{name}: {len(ending)} files of the index are called so",
            "name one: " + ", ".join(one.path for one in ending[:4]),
        )
    near = difflib.get_close_matches(named, [one.path for one in files], n=1)
    hint = f"did you mean {near[0]}?" if near else f"ragla index {name}"
    raise UsageError(f"{name}: not in the index", hint)


def _not_near(retriever: Retriever, state: FileState, query: str) -> WhyNot:
    dense, lexical = retriever.places(query, state.document_id)
    words = f"place {lexical} by words" if lexical else "no word of the question in it"
    return WhyNot(
        state.path,
        "not near",
        f"its best passage is at place {dense} by meaning, {words}; the first {POOL} of each are looked at",
        "ask with words of the file, or search in it alone: --path " + state.path,
    )


def _fate(
    best: Decision, place: int, floor: float, top_k: int, decisions: list[Decision]
) -> tuple[str, str | None]:
    found = best.found
    lines = f"lines {found.passage.first_line}-{found.passage.last_line}"
    if best.fate == "below the floor":
        return (
            f"{lines} came to place {place}, but score {found.score:.2f} is below the floor {floor:.2f}",
            f"-s retrieve.relevance_floor={max(-1.0, found.score - 0.005):.2f}",
        )
    if best.fate == "past the last place":
        before = sum(one.fate == "kept" for one in decisions[:place])
        return f"{lines} came after the {top_k} places there are, with score {found.score:.2f}", (
            f"--top-k {max(before, top_k) + place - top_k}"
        )
    if best.fate == "not reranked":
        read = sum(one.fate != "not reranked" for one in decisions)
        return f"{lines} came to place {place}; the reranker reads the first {read}", (
            f"-s retrieve.rerank_depth={place}"
        )
    if best.into is not None:
        into = next(one.found.passage for one in decisions if one.found.passage.id == best.into)
        word = "says the same as" if best.fate == "copy" else "was joined to its neighbour"
        return f"{lines} {word} {into.path}:{into.first_line}-{into.last_line}, which was found", None
    number = sum(one.fate == "kept" for one in decisions[:place])
    return f"it was found: {lines}, place {number}, score {found.score:.2f}", None

"""What the command line shows of a search: passages, and with ``--explain`` how each score came about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ragla.render import counted, one_line, place

if TYPE_CHECKING:
    from ragla.retrieve.explanation import Explanation
    from ragla.retrieve.fold import Decision
    from ragla.retrieve.passage import Passage
    from ragla.retrieve.why_not import WhyNot

LOST_SHOWN = 10


def explanation_lines(found: Explanation) -> Iterable[Text]:
    """The weights of both sides, the question's words, then every passage until enough were lost."""
    evidence = found.evidence
    yield Text(
        f"dense weighs {evidence.trust:.2f}: {evidence.readable:.0%} of the question's tokens known, "
        f"passages found again {evidence.found_again:.2f}, background cosine {evidence.background:.2f}; "
        f"floor {found.floor:.2f}",
        style="dim",
    )
    if found.reranked is not None:
        cut = f", {found.reranked.cut} of them cut at its limit" if found.reranked.cut else ""
        count = counted(len(found.reranked.scores), "passage")
        yield Text(f"{one_line(found.reranked.model)} read {count} again{cut}", style="dim")
    words = sorted(found.words.items(), key=lambda item: -item[1])
    yield Text("words " + one_line(" ".join(f"{word} {weight:.1f}" for word, weight in words)), style="dim")
    lost = 0
    parts = {part.chunk_id: part for part in found.parts}
    for decision in found.decisions:
        is_lost = decision.fate in ("below the floor", "past the last place", "not reranked")
        lost += is_lost
        if not is_lost or lost <= LOST_SHOWN:
            part = parts[decision.found.passage.id]
            dense, lexical = found.ranks(part.chunk_id)
            again = "" if decision.found.reranked is None else f"{decision.found.reranked:.3f} reranked; "
            yield Text(
                f"{again}{part.score:.3f} = {evidence.trust:.2f} × {part.dense:.2f} "
                f"(cosine {part.cosine:.2f}, {_rank(dense)}) + {1 - evidence.trust:.2f} × {part.lexical:.2f} "
                f"(covers {part.covered:.2f}, BM25 {part.bm25:.1f}, {_rank(lexical)})  ",
                style="dim",
            ).append(f"{_where(decision.found.passage)}  {_fate(decision)}", "dim" if is_lost else "bold")
    if lost > LOST_SHOWN:
        yield Text(f"… and {lost - LOST_SHOWN} more; --json lists them all", style="dim")


def explanation_json(found: Explanation) -> dict[str, Any]:
    """The same for a script, every ranked passage."""
    parts = {part.chunk_id: part for part in found.parts}
    ranked = []
    for decision in found.decisions:
        passage = decision.found.passage
        dense, lexical = found.ranks(passage.id)
        ranked.append(
            {
                "path": passage.path,
                "first_line": passage.first_line,
                "last_line": passage.last_line,
                **{key: value for key, value in asdict(parts[passage.id]).items() if key != "chunk_id"},
                "reranked": decision.found.reranked,
                "dense_rank": dense,
                "lexical_rank": lexical,
                "fate": decision.fate,
            }
        )
    return {
        "floor": found.floor,
        "trust": found.evidence.trust,
        **asdict(found.evidence),
        "words": found.words,
        "reranker": found.reranked
        and {"model": found.reranked.model, "read": len(found.reranked.scores), "cut": found.reranked.cut},
        "ranked": ranked,
    }


def why_not_lines(found: WhyNot) -> Iterable[Text]:
    """What became of a file, and what would change it."""
    yield Text(f"{one_line(found.path)}: ", style="bold").append(one_line(found.said), "not bold")
    if found.hint:
        yield Text(f"  {one_line(found.hint)}", style="cyan")


def _rank(rank: int | None) -> str:
    return "not ranked" if rank is None else f"rank {rank}"


def _where(passage: Passage) -> str:
    return one_line(place(passage.path, passage.first_line, passage.last_line))


def _fate(decision: Decision) -> str:
    return "" if decision.fate == "kept" else decision.fate

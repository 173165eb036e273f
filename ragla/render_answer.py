"""What the command line shows of an answer: its sources, what it cost, how it was drafted and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ragla.render import counted, one_line, place

if TYPE_CHECKING:
    from ragla.answer import Answer
    from ragla.decode.recheck import Verdict
    from ragla.decode.stats import DecodeStats
    from ragla.evidence import Source
    from ragla.trie import DraftTree

BARS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 40  # characters


def source_lines(sources: Iterable[Source]) -> Iterable[Text]:
    """One line a cited source: its number, where it is, how many tokens were copied from it."""
    for source in sources:
        line = Text(f"[{source.number}] ", style="cyan")
        line.append(one_line(place(source.path, source.first_line, source.last_line)), style="bold")
        if source.copied:
            line.append(f"  {counted(source.copied, 'token')} copied", style="dim")
        yield line


def stats_line(answer: Answer) -> Text:
    """What the answer cost: the numbers are defined in ``ragla.decode.stats``."""
    stats = answer.stats
    line = Text(f"{counted(stats.tokens, 'token')} in {counted(len(stats.steps), 'step')} · ", style="dim")
    line.append(f"{stats.tokens_per_step:.1f} tokens/step", style="bold green")
    line.append(
        f" · {stats.accepted_share:.0%} accepted · first token {answer.ttft_s:.1f} s"
        f" · {stats.decode_tokens_per_s:.1f} tokens/s · {stats.copied_share:.0%} copied",
        style="dim",
    )
    if stats.reused:
        line.append(f" · {stats.reused} of {stats.prompt_tokens} prompt tokens kept", style="dim")
    if stats.decided_alone:
        line.append(f" · {counted(stats.decided_alone, 'near-tie')} decided alone", style="dim")
    return line


def nodes_line(nodes: Sequence[int]) -> Text:
    """T, the nodes verified a step: how many, and how they went over time."""
    return Text(
        f"T {min(nodes)}–{max(nodes)} nodes a step, median {median(nodes):.0f}  {sparkline(nodes)}",
        style="dim",
    )


def sparkline(values: Sequence[int], width: int = SPARK_WIDTH) -> str:
    """Values over time as bars from 1 to the largest; of many the mean of neighbours."""
    count = min(len(values), width)
    bounds = [len(values) * index // count for index in range(count + 1)]
    means = [mean(values[start:end]) for start, end in pairwise(bounds)]
    reach = max(*values, 2) - 1
    return "".join(BARS[round((value - 1) / reach * (len(BARS) - 1))] for value in means)


def cost_lines(answer: Answer) -> Iterable[Text]:
    """What the answer cost, if anything was decoded, and how the drafts were sized."""
    if answer.judged is not None and answer.answered:
        yield Text(f"asked first if the passages say the answer: yes {answer.judged:.2f}", style="dim")
    if answer.stats.steps:
        yield stats_line(answer)
    if answer.stats.drafted:
        yield nodes_line(answer.stats.nodes)


def verdict_line(verdict: Verdict, decode: Callable[[list[int]], str], dtype: str) -> Text:
    """Whether plain decoding says the same; if not, where and by how much it prefers its own."""
    difference = verdict.difference
    if difference is None:
        return Text(f"verified: plain decoding gives the same {counted(verdict.tokens, 'token')}", "green")
    style = "bold red" if difference.is_bug else "yellow"
    place = f"{verdict.word} at token {difference.position + 1}: "
    said, plain = (
        "nothing" if token is None else repr(decode([token])) for token in (difference.said, difference.plain)
    )
    if difference.gap is None:
        return Text(f"{place}the answer has {said}, plain decoding {plain}", style)
    gap = difference.gap
    comparison = "over" if difference.is_bug else "within"
    return Text(
        f"{place}the answer has {said} (logit {gap.worse_logit:.6g}), plain decoding {plain} "
        f"({gap.better_logit:.6g}); the gap {gap.width:.3g} is {comparison} the {difference.tolerance:.3g} "
        f"that rounding explains in {dtype}",
        style,
    )


def verdict_json(verdict: Verdict, decode: Callable[[list[int]], str]) -> dict[str, Any]:
    """The same for a script."""
    difference = verdict.difference
    document: dict[str, Any] = {"verdict": verdict.word, "tokens": verdict.tokens, "difference": None}
    if difference is not None:
        gap = difference.gap
        document["difference"] = {
            "position": difference.position,
            "answer": token_json(difference.said, decode, gap.worse_logit if gap else None),
            "plain": token_json(difference.plain, decode, gap.better_logit if gap else None),
            "gap": gap.width if gap else None,
            "tolerance": difference.tolerance,
        }
    return document


def token_json(
    token: int | None, decode: Callable[[list[int]], str], logit: float | None
) -> dict[str, Any] | None:
    """One candidate of a position; None where that decode had ended."""
    return None if token is None else {"token_id": token, "text": decode([token]), "logit": logit}


def stats_json(answer: Answer) -> dict[str, Any]:
    """The same numbers and some more, unrounded."""
    stats = answer.stats
    return {
        "prompt_tokens": stats.prompt_tokens,
        "reused_tokens": stats.reused,
        "tokens": stats.tokens,
        "steps": len(stats.steps),
        "tokens_per_step": stats.tokens_per_step,
        "nodes_per_step": mean(stats.nodes) if stats.steps else 0.0,
        "decided_alone": stats.decided_alone,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "accepted_share": stats.accepted_share,
        "copied_share": stats.copied_share,
        "ttft_s": answer.ttft_s,
        "retrieval_s": answer.retrieval_s,
        "prefill_s": stats.prefill_s,
        "decode_s": stats.decode_s,
        "decode_tokens_per_s": stats.decode_tokens_per_s,
    }


def step_rows(stats: DecodeStats) -> list[dict[str, Any]]:
    """Each step as JSON."""
    return [
        {
            "nodes": step.nodes,
            "drafted": step.drafted,
            "accepted": step.accepted,
            "committed": step.committed,
            "forward_s": step.forward_s,
            "draft_s": step.draft_s,
        }
        for step in stats.steps
    ]


def answer_json(answer: Answer, notices: Sequence[str]) -> dict[str, Any]:
    """``ragla ask --json``."""
    sources = [
        {
            "number": source.number,
            "path": source.path,
            "first_line": source.first_line,
            "last_line": source.last_line,
            "score": source.score,
            "cited": source.cited,
            "copied_tokens": source.copied,
        }
        for source in answer.sources
    ]
    return {
        "schema": "ragla.ask/1",
        "question": answer.question,
        "answer": answer.text,
        "answered": answer.answered,
        "judged": answer.judged,
        "interrupted": answer.interrupted,
        "sources": sources,
        "left_out": answer.left_out,
        "stats": stats_json(answer),
        "steps": step_rows(answer.stats),
        "notices": list(notices),
    }


def draft_lines(tree: DraftTree, accepted: Sequence[int], pieces: Sequence[str]) -> Iterable[str]:
    """A draft tree as indented lines, accepted nodes starred, with what the drafter thought of each."""
    depths = tree.depths()
    for node in preorder(tree):
        mark = "*" if node == 0 or node in accepted else " "
        yield f"{mark} {'  ' * depths[node]}{pieces[node]!r} {tree.probabilities[node]:.2f}"


def preorder(tree: DraftTree) -> Iterable[int]:
    """Nodes in the order in which a reader expects a tree."""
    children = tree.children()
    stack = [0]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(list(children[node].values()))

"""What the command line shows of an answer: its sources, what it cost, how it was drafted and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from rich.style import Style
from rich.text import Text

from ragla.provenance import CopySpan, copied_shares
from ragla.render import counted, one_line, place
from ragla.render_copied import file_link, style_of
from ragla.render_figures import figures_json, figures_line

if TYPE_CHECKING:
    from ragla.answer import Answer
    from ragla.decode.recheck import Verdict
    from ragla.decode.stats import DecodeStats
    from ragla.evidence import Source
    from ragla.unsupported import Unsupported

BARS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 40  # characters
MOST_NAMED = 12  # of what is in no passage
CHANGES = {
    "changed": "changed since it was indexed",
    "changed elsewhere": "changed since it was indexed, not in these lines",
    "gone": "gone since it was indexed",
}


def source_lines(
    sources: Iterable[Source], text: str = "", spans: Sequence[CopySpan] = (), *, links: bool = False
) -> Iterable[Text]:
    """One line a source: its number, where it is, and how much of the answer ``text`` was copied from it.

    The lines are those that were copied, else those of the passage. ``links``: the place opens the file.
    """
    shares = copied_shares(text, spans)
    for source in sources:
        copied = [span for span in spans if span.number == source.number]
        first = min((span.first_line for span in copied), default=source.first_line)
        last = max((span.last_line for span in copied), default=source.last_line)
        line = Text().append(f"[{source.number}]", style=style_of(source.number) if copied else "")
        link = file_link(source.passage.absolute) if links and source.passage is not None else ""
        where = Style(bold=True, link=link or None)
        line.append(" ").append(one_line(place(source.path, first, last)), style=where)
        if copied:
            line.append(f"  copied {shares[source.number]:.0%}", style="dim")
        if (change := CHANGES.get(source.freshness or "same")) is not None:
            line.append(f"  {change}", style="yellow")
        yield line


def unsupported_lines(found: Sequence[Unsupported]) -> Iterable[Text]:
    """What the answer has beyond all that was read, each once, in one line."""
    texts = list(dict.fromkeys(one_line(one.text) for one in found))
    if texts:
        more = f" … and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
        named = " · ".join(texts[:MOST_NAMED]) + more
        yield Text(f"in no passage: {named}", style="yellow")


def stats_line(answer: Answer) -> Text:
    """What the answer cost: the numbers are defined in ``ragla.decode.stats``."""
    stats = answer.stats
    line = Text(f"{counted(stats.tokens, 'token')} in {counted(len(stats.steps), 'step')}", style="dim")
    if stats.steps:
        line.append(" · ", style="dim").append(f"{stats.tokens_per_step:.1f} tokens/step", style="bold green")
    with_prompt = f", {stats.prefill_accepted} with the prompt" if stats.prefill_accepted else ""
    line.append(
        f" · {stats.accepted_share:.0%} accepted{with_prompt} · first token {answer.ttft_s:.1f} s",
        style="dim",
    )
    if stats.steps:
        line.append(f" · {stats.decode_tokens_per_s:.1f} tokens/s", style="dim")
    if stats.reused:
        line.append(f" · {stats.reused} of {stats.prompt_tokens} prompt tokens kept", style="dim")
    if stats.decided_alone:
        line.append(f" · {counted(stats.decided_alone, 'near-tie')} decided alone", style="dim")
    return line


def nodes_line(nodes: Sequence[int]) -> Text:
    """The nodes verified a step: how many, and how they went over time."""
    return Text(
        f"{min(nodes)}–{max(nodes)} nodes a step, median {median(nodes):.0f}  {sparkline(nodes)}",
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
    if answer.figures is not None:
        yield figures_line(answer, answer.figures)
    if answer.stats.steps or answer.stats.prefill_accepted:
        yield stats_line(answer)
    if answer.stats.steps and answer.stats.drafted:
        yield nodes_line(answer.stats.nodes)


def verdict_line(verify: Mapping[str, Any]) -> Text:
    """What ``verdict_json`` says, in a line."""
    difference = verify["difference"]
    if difference is None:
        return Text(f"verified: plain decoding gives the same {counted(verify['tokens'], 'token')}", "green")
    is_bug = verify["verdict"] == "bug"
    style = "bold red" if is_bug else "yellow"
    place = f"{verify['verdict']} at token {difference['position'] + 1}: "
    tokens = difference["answer"], difference["plain"]
    said, plain = ("nothing" if token is None else one_line(repr(token["text"])) for token in tokens)
    if difference["gap"] is None:
        return Text(f"{place}the answer has {said}, plain decoding {plain}", style)
    worse, better = (token["logit"] for token in tokens)
    comparison = "over" if is_bug else "within"
    return Text(
        f"{place}the answer has {said} (logit {worse:.6g}), plain decoding {plain} ({better:.6g}); "
        f"the gap {difference['gap']:.3g} is {comparison} the {difference['tolerance']:.3g} "
        f"that rounding explains in {one_line(verify['dtype'])}",
        style,
    )


def verdict_json(verdict: Verdict, decode: Callable[[list[int]], str], dtype: str) -> dict[str, Any]:
    """Whether plain decoding says the same; if not, where and by how much it prefers its own."""
    difference = verdict.difference
    document: dict[str, Any] = {
        "verdict": verdict.word,
        "tokens": verdict.tokens,
        "dtype": dtype,
        "difference": None,
    }
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
    if answer.figures is not None:
        return figures_json(answer, answer.figures)
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
    shares = copied_shares(answer.text, answer.provenance)
    figures = answer.figures  # None: decoded here, and all is known
    knows_copies = figures is None or figures.copied_share is not None
    sources = [
        {
            "number": source.number,
            "path": source.path,
            "first_line": source.first_line,
            "last_line": source.last_line,
            "score": source.score,
            "cited": source.cited,
            "copied_tokens": source.copied if knows_copies else None,
            "copied_share": shares.get(source.number, 0.0),
            "stale": None if source.freshness is None else source.freshness != "same",
            "stale_reason": None if source.freshness == "same" else source.freshness,
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
        "provenance": [asdict(span) for span in answer.provenance],
        "unsupported": [asdict(one) for one in answer.unsupported],
        "left_out": answer.left_out,
        "stats": stats_json(answer),
        "steps": step_rows(answer.stats),
        "remote": figures is not None,
        "notices": list(notices),
    }

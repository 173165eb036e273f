"""The document of an answer read back: whatever answer it was, it says the same again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragla.answer_document import AnswerDocument
from ragla.answering import Answer
from ragla.decode.stats import DecodeStats, StepStats
from ragla.evidence import Source
from ragla.provenance import CopySpan
from ragla.remote.figures import ServerFigures
from ragla.render_answer import answer_json
from ragla.trace import origin_of, origin_record
from ragla.trie import Origin
from ragla.unsupported import Unsupported

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
WHOLE = st.integers(0, 10**6)
SHARE = st.floats(0, 1)
SECONDS = st.floats(0, 1e6)
STEPS = st.builds(StepStats, WHOLE, WHOLE, st.integers(1, 300), SECONDS, SECONDS)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    number, path, first, last = draw(st.integers(1, 99)), draw(TEXT), draw(WHOLE), draw(WHOLE)
    freshness = draw(st.sampled_from([None, "same", "changed", "changed elsewhere", "gone"]))
    return Source(
        number, path, first, last, draw(SHARE), draw(st.booleans()), draw(WHOLE), freshness=freshness
    )  # fmt: skip


def stretches(draw: st.DrawFn, text: str) -> list[tuple[int, int]]:
    """Parts of a text in order, none of white space alone."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return [(start, end) for start, end in pairs if text[start:end].strip()]


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    text = draw(st.text(st.characters(codec="utf-8"), max_size=60))
    figures = draw(st.one_of(st.none(), st.builds(ServerFigures, *[st.one_of(st.none(), WHOLE)] * 12)))
    tokens = draw(WHOLE) if figures is None else figures.tokens or 0
    stats = DecodeStats(
        prompt_tokens=draw(WHOLE), reused=draw(WHOLE), tokens=tokens, copied=draw(st.integers(0, tokens)),
        decided_alone=draw(WHOLE), prefill_s=draw(SECONDS), decode_s=draw(SECONDS),
        steps=draw(st.lists(STEPS, max_size=5)),
    )  # fmt: skip
    if figures is None:
        stats.prefill_drafted, stats.prefill_accepted = draw(WHOLE), draw(WHOLE)
    spans = [
        CopySpan(start, end, draw(TEXT), *(draw(WHOLE) for _ in range(4)), draw(st.integers(1, 9)))
        for start, end in stretches(draw, text)
    ]
    found = [
        Unsupported(start, end, text[start:end], draw(st.sampled_from(["number", "name"])))
        for start, end in stretches(draw, text)
    ]
    return Answer(
        draw(TEXT), text, draw(st.booleans()), sources=draw(st.lists(sources(), max_size=4)), stats=stats,
        ttft_s=draw(SECONDS), retrieval_s=draw(SECONDS), left_out=draw(st.lists(TEXT, max_size=3)),
        interrupted=draw(st.booleans()), judged=draw(st.one_of(st.none(), SHARE)), provenance=tuple(spans),
        unsupported=tuple(found), figures=figures,
    )  # fmt: skip


@given(answers(), st.lists(TEXT, max_size=2))
def test_an_answer_comes_back_from_its_document(answer: Answer, notices: list[str]) -> None:
    written: dict[str, Any] = json.loads(json.dumps(answer_json(answer, notices)))
    again = AnswerDocument.model_validate(written).to_answer()
    assert again.notices == tuple(notices)
    assert answer_json(again, again.notices) == written


@given(
    st.sampled_from(["prompt", "document:7:a: b/ü.md", "document:0:", "passage:3", "answer", "q1:2"]), WHOLE
)
def test_an_origin_comes_back_from_its_record(source: str, offset: int) -> None:
    record = origin_record(Origin(source, offset))
    assert record is not None
    assert origin_record(origin_of(record["kind"], record["path"], record["token"])) == record

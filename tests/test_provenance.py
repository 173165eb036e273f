"""Where an answer was copied from: every span is true, nothing that was copied is missed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragla.decode.request import Block
from ragla.evidence import Evidence, Source
from ragla.prompt import Prompt, PromptPassage, build_prompt
from ragla.provenance import MATCHED, CopySpan, CopyTrace, copied_shares
from ragla.retrieve.passage import Passage
from ragla.text_runs import WORD, Units
from tests.cli.tiny_models import byte_tokenizer
from tests.verbatim import attributed, check_spans, verbatim

HOTELS = (
    "# Travel\n\n## Hotels\n\nThe limits per night, breakfast included, are EUR 130 in our\n"
    "own country, **EUR 165** in European capitals and EUR 190 elsewhere abroad.\r\nOnly `receipts` count.\n"
)
LEAVE = "联络处实行每周五天、每天八小时工作制。\n标准上下班时间是9:00至17:30，中间休息半小时。\n"


def source(number: int, text: str, start: int = 0, end: int | None = None) -> Source:
    """A passage of a document, whose path is its number."""
    end = len(text) if end is None else end
    first, last = text[:start].count("\n") + 1, text[:end].count("\n") + 1
    path = f"{number}.md"
    passage = Passage(number, number, path, f"/{path}", "", text[start:end], start, end, first, last)
    return Source(number, path, first, last, 0.5, passage=passage)


def evidence_of(*sources: Source) -> Evidence:
    return Evidence([PromptPassage("", one.passage.text) for one in sources if one.passage], list(sources))


def trace_of(evidence: Evidence, used: list[int] | None = None) -> CopyTrace:
    """A trace of an answer that knows nothing of drafts."""
    used = list(range(len(evidence.passages))) if used is None else used
    return CopyTrace(Prompt([], [range(0)] * len(used), used, []), evidence, [], lambda ids: "")


def spans_of(text: str, *documents: str) -> tuple[CopySpan, ...]:
    trace = trace_of(evidence_of(*(source(n, one) for n, one in enumerate(documents, 1))))
    trace(text)
    return trace.spans()


def said(text: str, spans: tuple[CopySpan, ...]) -> list[tuple[str, int]]:
    return [(text[span.start : span.end], span.number) for span in spans]


def test_wrapped_and_emphasised_text_is_copied_in_stretches_that_are_equal() -> None:
    text = "So: The limits per night, breakfast included, are EUR 130 in our own country, EUR 165 in Europe."
    spans = spans_of(text, HOTELS)
    assert said(text, spans) == [
        ("The limits per night, breakfast included, are EUR 130 in our", 1),
        ("own country,", 1),
        ("EUR 165", 1),
        ("in", 1),
    ]
    assert [(span.first_line, span.last_line) for span in spans] == [(5, 5), (6, 6), (6, 6), (6, 6)]
    check_spans(text, spans, {"1.md": HOTELS})


def test_lines_are_counted_as_the_index_counts_them() -> None:
    text = "EUR 165** in European capitals and EUR 190 elsewhere abroad.\r\nOnly `receipts` count"
    [span] = spans_of(text, HOTELS)
    assert (span.first_line, span.last_line) == (6, 7)


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("每天八小时工作制标准上下班", []),  # the full stop is missing
        ("每天八小时工作制。标准上", []),  # 11 characters
        ("每天八小时工作制。标准上下", ["每天八小时工作制。", "标准上下"]),
        ("他说八小时工作制。标准上下班时间是九点", ["八小时工作制。", "标准上下班时间是"]),
        ("are EUR 130 in our own country", []),  # 7 words
        ("are EUR 130 in our\nown country, EUR", ["are EUR 130 in our\nown country,", "EUR"]),
        ("THE LIMITS PER NIGHT, BREAKFAST INCLUDED, ARE EUR", []),
        ("night breakfast included are EUR 130 in our own", []),
        ("", []),
        ("\n \t*`", []),
    ],
)
def test_eight_words_or_twelve_characters_of_chinese_are_a_copy(text: str, copied: list[str]) -> None:
    assert [stretch for stretch, _ in said(text, spans_of(text, HOTELS, LEAVE))] == copied


def test_a_passage_in_the_middle_of_a_document_has_the_documents_offsets_and_lines() -> None:
    start = HOTELS.index("own country")
    document = source(1, HOTELS, start, HOTELS.index("Only"))
    trace = trace_of(evidence_of(document))
    trace("So own country, **EUR 165** in European capitals and EUR 190.")
    [span] = trace.spans()
    check_spans(trace.text, [span], {"1.md": HOTELS})
    assert (span.source_start, span.first_line) == (start, 6)


def test_only_passages_of_the_prompt_are_sources_and_their_numbers_are_the_prompts() -> None:
    text = "联络处实行每周五天、每天八小时工作制。"
    evidence = evidence_of(source(1, HOTELS), source(2, LEAVE), source(3, LEAVE))
    trace = trace_of(evidence, used=[0, 2])
    trace(text)
    assert [(span.number, span.path) for span in trace.spans()] == [(2, "3.md")]
    trace = trace_of(evidence, used=[0])
    trace(text)
    assert trace.spans() == ()


def test_passages_without_a_place_are_no_sources() -> None:
    trace = trace_of(Evidence([PromptPassage("", LEAVE)]))
    trace(LEAVE)
    assert trace.spans() == ()
    assert trace.passages == []


# --- which of several places ---------------------------------------------------------------------------

SHARED = "one two three four five six seven eight nine"


def test_the_cited_passage_comes_before_another_that_says_the_same() -> None:
    assert said(SHARED, spans_of(SHARED, SHARED, SHARED)) == [(SHARED, 1)]
    text = f"{SHARED} [2]"
    assert said(text, spans_of(text, SHARED, SHARED)) == [(SHARED, 2)]


def test_the_longest_copy_comes_first_and_the_rest_is_attributed_too() -> None:
    longer = f"{SHARED} ten eleven"
    text = f"zero {longer} twelve"
    spans = spans_of(text, f"zero {SHARED}", longer, "eleven twelve")
    assert said(text, spans) == [("zero", 1), (longer, 2)]


def drafted(text: str, *passages: str, at: int, tokens: int, number: int) -> tuple[CopySpan, ...]:
    """Spans of an answer of which ``tokens`` from its token ``at`` on were drafted from a passage."""
    tokenizer: Any = byte_tokenizer()
    evidence = evidence_of(*(source(n, one) for n, one in enumerate(passages, 1)))
    prompt = build_prompt(tokenizer, "Q?", evidence.passages, 4000)
    ids = tokenizer(text)["input_ids"]
    copy = ids[at : at + tokens]
    span = prompt.spans[number - 1]
    first = next(at for at in span if prompt.token_ids[at : at + len(copy)] == copy)
    origins: list[tuple[str, int] | None] = [("prompt", first + n) for n in range(len(copy))]
    trace = CopyTrace(prompt, evidence, [], tokenizer.decode)
    trace.drafted(Block(ids[:at], [None] * at), "")
    trace.drafted(Block([*copy, *ids[at + tokens :]], origins), tokenizer.decode(ids[:at]))
    trace(text)
    return trace.spans()


def test_the_place_a_draft_came_from_comes_first() -> None:
    twice = "so it is: one two three four five six seven eight nine and"
    for number in (1, 2):
        spans = drafted(f"x {SHARED}", twice, twice, at=10, tokens=5, number=number)
        assert said(f"x {SHARED}", spans) == [(SHARED, number)]


def test_few_words_are_a_copy_where_they_were_drafted() -> None:
    text = "Well, our own country"
    tokens = byte_tokenizer()(text)["input_ids"]
    at = next(n for n in range(len(tokens)) if byte_tokenizer().decode(tokens[:n]) == "Well,")
    spans = drafted(text, LEAVE, "\r\n" + HOTELS.replace("\n", " "), at=at, tokens=99, number=2)
    assert said(text, spans) == [("our own country", 2)]
    assert spans_of(text, LEAVE, HOTELS.replace("\n", " ")) == ()
    few = drafted(text, LEAVE, HOTELS.replace("\n", " "), at=at, tokens=3, number=2)
    assert few == ()


def test_origins_of_other_kinds_and_beyond_the_passages_are_no_evidence() -> None:
    evidence = evidence_of(source(1, SHARED))
    trace = CopyTrace(Prompt([1] * 9, [range(2, 5)], [0], []), evidence, [], lambda ids: "one " * len(ids))
    origins = [None, ("document:0:1.md", 0), ("prompt", 0), ("prompt", 8), ("prompt", 99), ("passage:1", 0)]
    trace.drafted(Block([1] * 6, origins), "")
    trace("one one one one one one")
    assert trace.spans() == ()


# --- any answer ----------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "one",
        "two",
        "three",
        "four",
        "1,000",
        "旅",
        "酒店",
        "每晚",
        " ",
        "  ",
        "\n",
        "\r\n",
        ", ",
        ". ",
        "*",
        "`",
        "_",
        "(",
        "é",
        "ก",
    ]
)
TEXTS = st.lists(PIECES, max_size=60).map("".join)


@st.composite
def answers(draw: Any) -> tuple[list[str], str]:
    """Documents, and an answer made of pieces of them and of others."""
    documents = draw(st.lists(TEXTS, min_size=1, max_size=3))
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        document = draw(st.sampled_from(documents))
        start = draw(st.integers(0, len(document)))
        parts += [document[start : start + draw(st.integers(0, 80))], draw(TEXTS)[:20]]
    return documents, "".join(parts)


@given(answers())
def test_every_span_is_true_and_no_copy_is_missed(made: tuple[list[str], str]) -> None:
    documents, text = made
    spans = spans_of(text, *documents)
    check_spans(text, spans, {f"{n}.md": one for n, one in enumerate(documents, 1)})
    missed = verbatim(text, documents) - attributed(spans)
    assert not missed, [text[at] for at in sorted(missed)]


@given(answers(), st.data())
def test_pieces_come_in_order_whatever_the_blocks(made: tuple[list[str], str], data: Any) -> None:
    documents, text = made
    trace = trace_of(evidence_of(*(source(n, one) for n, one in enumerate(documents, 1))))
    seen, at = 0, 0
    while at < len(text):
        size = data.draw(st.integers(1, 30))
        trace(text[at : at + size])
        at += size
        pieces = list(trace.pieces(ended=False))
        assert all(one.end == other.start for one, other in pairwise(pieces))
        assert all(one.start < one.end for one in pieces)
        seen = max(seen, pieces[-1].end if pieces else 0)
        waiting = Units(text[seen:at])
        assert (
            waiting.weight(0, len(waiting)) < MATCHED + WORD
        )  # what may become a copy, and a word in the making
    whole = list(trace.pieces(ended=True))
    assert "".join(text[one.start : one.end] for one in whole) == text
    copied = {at for one in whole if one.number for at in range(one.start, one.end)}
    assert attributed(trace.spans()) <= copied


# --- shares --------------------------------------------------------------------------------------------


def test_shares_leave_white_space_out() -> None:
    span = CopySpan(0, 7, "a.md", 1, 1, 0, 7, 2)
    assert copied_shares("one two  ; not", [span]) == {2: 6 / 10}
    assert copied_shares("", []) == {}

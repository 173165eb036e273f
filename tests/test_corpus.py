"""The handbook and its questions fit together: what a question points at is there, word for word."""

from __future__ import annotations

import ast
import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pathspec
import pytest
from selectolax.lexbor import LexborHTMLParser

HANDBOOK = Path(__file__).parent.parent / "corpora" / "handbook"
KEYS = {
    "id",
    "question",
    "language",
    "answerable",
    "expected",
    "source",
    "first_line",
    "last_line",
    "reference",
}
# What each unanswerable question asks for must stay out of the handbook.
NOT_IN_THE_HANDBOOK = {
    "h35": ("en", "pension"),
    "h36": ("en", r"sluice (version )?5|\b5\.0\b"),
    "h37": ("en", "redundan"),
    "h38": ("en", "starting salary"),
    "h39": ("zh", "年终奖"),
    "h40": ("zh", "租房|房补"),
}


def load_questions() -> list[dict[str, Any]]:
    lines = (HANDBOOK / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def page_paths(language: str) -> list[Path]:
    return sorted(path for path in (HANDBOOK / language).rglob("*") if path.is_file())


def normalised(text: str) -> str:
    return " ".join(text.split()).casefold()


def shingles(text: str, language: str) -> set[tuple[str, ...]]:
    """Runs of five words (English) or eight characters (Chinese)."""
    units, width = (normalised(text).split(), 5) if language == "en" else (list("".join(text.split())), 8)
    return {tuple(units[start : start + width]) for start in range(len(units) - width + 1)}


QUESTIONS = load_questions()
ANSWERABLE = [question for question in QUESTIONS if question["answerable"]]
UNANSWERABLE = [question for question in QUESTIONS if not question["answerable"]]
PAGES = page_paths("en") + page_paths("zh")


def identity(question: dict[str, Any]) -> str:
    return str(question["id"])


def page_identity(page: Path) -> str:
    return page.relative_to(HANDBOOK).as_posix()


def test_forty_questions_in_the_agreed_proportions() -> None:
    kinds = [(question["language"], question["answerable"]) for question in QUESTIONS]
    assert len(kinds) == 40
    assert {kind: kinds.count(kind) for kind in kinds} == {
        ("en", True): 28,
        ("zh", True): 6,
        ("en", False): 4,
        ("zh", False): 2,
    }


def test_ids_and_questions_are_unique() -> None:
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert len({normalised(question["question"]) for question in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS, ids=identity)
def test_record_has_every_key_and_one_reference(question: dict[str, Any]) -> None:
    assert set(question) == KEYS
    assert len(question["reference"]) >= 1
    assert all(text.strip() for text in [*question["reference"], *question["expected"], question["question"]])
    has_chinese = re.search(r"[\u4e00-\u9fff]", question["question"]) is not None
    assert has_chinese == (question["language"] == "zh")


@pytest.mark.parametrize("question", ANSWERABLE, ids=identity)
def test_answer_stands_in_the_named_lines(question: dict[str, Any]) -> None:
    lines = (HANDBOOK / question["source"]).read_text(encoding="utf-8").splitlines()
    first, last = question["first_line"], question["last_line"]
    assert 1 <= first <= last <= len(lines)
    assert question["source"].startswith(question["language"] + "/")
    passage = normalised(" ".join(lines[first - 1 : last]))
    reference = normalised(question["reference"][0])
    assert question["expected"]
    for phrase in question["expected"]:
        assert normalised(phrase) in passage
        assert normalised(phrase) in reference


@pytest.mark.parametrize("question", UNANSWERABLE, ids=identity)
def test_unanswerable_question_points_nowhere(question: dict[str, Any]) -> None:
    assert question["expected"] == []
    assert (question["source"], question["first_line"], question["last_line"]) == (None, None, None)


@pytest.mark.parametrize("question", UNANSWERABLE, ids=identity)
def test_handbook_is_silent_on_what_is_unanswerable(question: dict[str, Any]) -> None:
    language, pattern = NOT_IN_THE_HANDBOOK[question["id"]]
    telling = [page for page in page_paths(language) if re.search(pattern, page.read_text("utf-8"), re.I)]
    assert telling == []


def test_questions_draw_on_many_pages() -> None:
    sources = {question["source"] for question in ANSWERABLE}
    assert len(sources) >= 24


def test_enough_pages_of_every_kind() -> None:
    english, chinese = page_paths("en"), page_paths("zh")
    assert len(english) >= 26
    assert len(chinese) >= 8
    assert {path.suffix for path in english} == {".md", ".txt", ".html", ".py"}


@pytest.mark.parametrize("page", PAGES, ids=page_identity)
def test_page_is_plain_utf8_of_some_length(page: Path) -> None:
    text = page.read_bytes().decode("utf-8")
    assert "\ufffd" not in text
    assert "\r" not in text
    assert text.endswith("\n")
    if page.parent.name == "en":
        assert len(text) > 1500
        assert 350 <= len(text.split()) <= 1100
    else:
        assert len(re.findall(r"[\u4e00-\u9fff]", text)) > 500


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_two_pages_are_near_duplicates(language: str) -> None:
    pages = {path.name: shingles(path.read_text(encoding="utf-8"), language) for path in page_paths(language)}
    for (one, left), (other, right) in combinations(pages.items(), 2):
        overlap = len(left & right) / min(len(left), len(right))
        assert overlap < 0.1, f"{one} and {other} share {overlap:.0%}"


def test_questions_are_kept_out_of_the_index() -> None:
    rules = (HANDBOOK / ".raglaignore").read_text(encoding="utf-8").splitlines()
    ignored = pathspec.PathSpec.from_lines("gitignore", rules)
    assert ignored.match_file("questions.jsonl")
    assert not any(ignored.match_file(page.relative_to(HANDBOOK).as_posix()) for page in PAGES)


def test_html_page_has_furniture_to_strip() -> None:
    page = LexborHTMLParser((HANDBOOK / "en" / "visitors.html").read_text(encoding="utf-8"))
    assert page.css_first("nav") is not None
    assert len(page.css("script")) >= 2
    assert page.css_first("main h1") is not None


def test_gauge_check_script_agrees_with_its_page() -> None:
    source = (HANDBOOK / "en" / "gauge_check.py").read_text(encoding="utf-8")
    limits = {
        node.targets[0].id: node.value.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, float)
    }
    essay = (HANDBOOK / "en" / "why-we-still-read-staff-gauges.md").read_text(encoding="utf-8")
    assert f"more than {limits['RECHECK_MM']:.0f} millimetres" in essay
    assert f"more than {limits['QUARANTINE_MM']:.0f}, the station is put in quarantine" in essay

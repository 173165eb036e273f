"""``docs/troubleshooting.md``: it has every message of an error, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PAGE = CHECKOUT / "docs" / "troubleshooting.md"
RAISED = {
    "RaglaError", "UsageError", "IndexUnusable", "NothingRelevant", "ModelUnavailable", "IndexLocked",
    "NotIndexable", "BrokenOff", "Failure", "cls", "_unknown",
}  # fmt: skip
LEAST_LETTERS = 4  # a message with fewer of its own passes on what another one says

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documents are in a checkout only")


def messages() -> dict[str, str]:
    """Message, with … for what is put in → where it is raised."""
    found = {}
    for path in sorted((CHECKOUT / "ragla").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and name_of(call.func) in RAISED and call.args:
                found[template(call.args[0])] = f"{path.relative_to(CHECKOUT)}:{call.lineno}"
    return {text: place for text, place in found.items() if own_letters(text) >= LEAST_LETTERS}


def name_of(function: ast.expr) -> str:
    """The name of what is called."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def template(message: ast.expr) -> str:
    """The text of a message, with … for what is put in."""
    if isinstance(message, ast.Constant):
        return str(message.value)
    if isinstance(message, ast.JoinedStr):
        return "".join(map(template, message.values))
    if isinstance(message, ast.BinOp) and isinstance(message.op, ast.Add):
        return template(message.left) + template(message.right)
    return "…"


def own_letters(text: str) -> int:
    """How many letters are the message's own."""
    return sum(character.isalpha() for character in text)


def rows() -> Iterator[tuple[str, str, str]]:
    """Message, cause and remedy of each row of the page's tables."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        if line.startswith("| `") and len(cells) == 3:
            message, cause, remedy = (cell.strip().replace("\\|", "|") for cell in cells)
            yield message.replace("``", "").strip() if "``" in message else message.strip("`"), cause, remedy


def matches(row: str, message: str) -> bool:
    """Whether a row means a message: … stands for anything, more may follow."""
    pattern = ".*".join(map(re.escape, row.split("…")))
    return re.match(pattern, message, re.DOTALL) is not None


def test_every_message_of_an_error_is_on_the_page() -> None:
    known = [row for row, _, _ in rows()]
    absent = {
        text: place for text, place in messages().items() if not any(matches(row, text) for row in known)
    }
    assert not absent, f"add a row to docs/troubleshooting.md: {absent}"


def test_every_row_is_a_message_of_the_code() -> None:
    said = messages()
    for row, _, _ in rows():
        assert any(matches(row, text) for text in said), f"nothing says this any more: {row}"


def test_every_row_has_words_of_its_own_a_cause_and_a_remedy() -> None:
    for row, cause, remedy in rows():
        assert own_letters(row) >= LEAST_LETTERS, row
        assert cause, row
        assert remedy, row


def test_no_message_has_two_rows() -> None:
    known = [row for row, _, _ in rows()]
    assert sorted(known) == sorted(set(known))

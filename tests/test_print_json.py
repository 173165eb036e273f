"""JSON on stdout: lines that every reader takes for lines, and nothing that a terminal obeys."""

from __future__ import annotations

import json

import pytest

from ragla.terminal import JsonForm, print_json

AWKWARD = {"text": "a\u2028b\u2029c\x85d\x9b31me\x7f\x1b[0m é 假期 \\u2028"}


@pytest.mark.parametrize("form", ["lines", "document"])
def test_awkward_characters_are_escaped_and_come_back(
    capsys: pytest.CaptureFixture[str], form: JsonForm
) -> None:
    print_json(AWKWARD, form)
    text = capsys.readouterr().out
    assert json.loads(text) == AWKWARD
    assert len(text.splitlines()) == (1 if form == "lines" else 3)
    assert not [character for character in text if character != "\n" and not character.isprintable()]
    assert "é 假期" in text

"""Questions as they come in: from the command line, a pipe, or a file with one a line."""

from __future__ import annotations

import json
import re
import sys
from typing import NamedTuple

from ragla.errors import UsageError
from ragla.user_path import user_path

STDIN = "-"
LINE_END = re.compile("\r\n|\n|\r")  # no other: JSON holds U+2028 as it is, and editors count without it
FORM = 'one question a line, as text or as JSON like {"question": "…"}'


class AskedLine(NamedTuple):
    """A question and the number of its line, from 1."""

    at: int
    text: str


def question_text(question: str | None) -> str:
    """The question from the command line, or from stdin where it is ``-`` or missing and piped."""
    if question == STDIN or (question is None and sys.stdin is not None and not sys.stdin.isatty()):
        question = read_stdin().decode("utf-8-sig", errors="replace")
    # bytes of the command line that are no UTF-8 arrive as lone surrogates, which nothing can encode
    text = (question or "").encode(errors="surrogateescape").decode(errors="replace").strip()
    if not text:
        raise UsageError("no question", "ragla ask 'your question', or pipe it in")
    return text


def read_questions(name: str) -> list[AskedLine]:
    """The questions of a file, of stdin for ``-``; blank lines are skipped.

    A line that begins with a brace is JSON, any other the question itself. Raises UsageError with file and
    line for a line that is no question, and for a file that is no text or holds none.
    """
    from ragla.retrieve.decoding import decode

    shown = "stdin" if name == STDIN else name
    if not name:
        raise UsageError("--file: no file named", "ragla ask --file QUESTIONS, or - for stdin")
    try:
        content = read_stdin() if name == STDIN else user_path(name).read_bytes()
    except OSError as error:
        hint = "name a file: ragla ask --file QUESTIONS, or - for stdin"
        raise UsageError(f"{name}: cannot be read: {error.strerror}", hint) from error
    text = decode(content)
    if text is None:
        raise UsageError(f"{shown}: is not a text file", FORM)
    asked = [
        AskedLine(at, parse_question(line, f"{shown}:{at}"))
        for at, line in enumerate(LINE_END.split(text), 1)
        if line.strip()
    ]
    if not asked:
        raise UsageError(f"{shown}: holds no questions", FORM)
    return asked


def read_stdin() -> bytes:
    """All of stdin. Raises UsageError where there is none."""
    if sys.stdin is None:
        raise UsageError("there is no stdin to read questions from", "ragla ask 'your question'")
    return sys.stdin.buffer.read()


def parse_question(line: str, where: str) -> str:
    """The question of a line. Raises UsageError for JSON that holds none."""
    if not line.lstrip().startswith("{"):
        return line.strip()
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: broken JSON: {error}", FORM) from error
    text = record.get("question")
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: no question", FORM)
    # JSON can spell half a surrogate pair, which no tokenizer takes
    return text.encode(errors="replace").decode().strip()

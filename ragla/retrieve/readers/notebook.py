"""Jupyter notebooks to Markdown: prose as it is, code in fences, and the text that code printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ragla.retrieve.decoding import neutralise
from ragla.retrieve.document import Document

_BACKTICKS = re.compile(r"`{3,}")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MAX_OUTPUT = 20_000


def read_notebook(text: str) -> Document | None:
    """The notebook, or None when the JSON is none. Pictures and other data that cells made are left out."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        return None
    blocks = [block for cell in _cells(notebook) for block in _blocks(cell, _language(notebook))]
    return Document("notebook", neutralise("\n\n".join(blocks) + "\n" if blocks else ""))


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cells, of version 4 or of the worksheets before it."""
    sheets = [notebook, *_listed(notebook, "worksheets")]
    for sheet in sheets:
        yield from (cell for cell in _listed(sheet, "cells") if isinstance(cell, dict))


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else ""


def _blocks(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input")))
    if cell.get("cell_type") != "code":
        if source.strip():
            yield source.strip("\n")
        return
    if source.strip():
        yield _fenced(source, language)
    printed = "".join(_printed(output) for output in _listed(cell, "outputs"))
    if printed.strip():
        yield _fenced(_ESCAPES.sub("", printed[:_MAX_OUTPUT]), "")


def _printed(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    shown = output.get("data")
    parts = [output.get("text"), shown.get("text/plain") if isinstance(shown, dict) else None]
    if output.get("output_type") in ("error", "pyerr"):
        parts.append(f"{output.get('ename')}: {output.get('evalue')}")
    return "".join(_joined(part) for part in parts)


def _fenced(code: str, language: str) -> str:
    """In a fence longer than any in the code."""
    longest = max((len(match[0]) for match in _BACKTICKS.finditer(code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code.strip(chr(10))}\n{fence}"


def _joined(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else ""


def _listed(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []

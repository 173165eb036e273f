"""The collections that an index becomes in Milvus, and their rows.

A collection ``NAME`` holds a row for each passage: vector, text, words, place. ``NAME_rows`` holds what
belongs to documents and to the whole: a row for each file, its text in parts, the state, the counts of words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from ragla.retrieve.digests import passage_digest, row_digest
from ragla.retrieve.lexical import indexed_text
from ragla.retrieve.milvus_words import MOST_BYTES, Stemmer
from ragla.retrieve.passage import Passage
from ragla.retrieve.passage_store import StoredFile
from ragla.retrieve.rows import FileRecord, IndexedFile

# Raised when rows are written otherwise.
SCHEMA = "1"
_CHARACTERS = 5_000  # of a part of a text: escaped, each takes twelve bytes at most
_ESCAPED = "\x00"
# What a passage is read back from; its vector is asked for apart.
PASSAGE_FIELDS = [
    "id", "document", "version", "title", "text", "start", "stop", "first_line", "last_line", "page",
    "digest", "words",
]  # fmt: skip


def document_id(absolute: str) -> int:
    """The id of a file's document: the same in every collection."""
    return _number("document", absolute)


def passage_id(absolute: str, sha256: str, chunk: int) -> int:
    """The primary key of a passage: of its file's content and of its place among the file's passages."""
    return _number("passage", absolute, sha256, chunk)


def _number(*values: object) -> int:
    spelled = json.dumps(values).encode("ascii")
    return int.from_bytes(blake2b(spelled, digest_size=8).digest()) >> 1


def row(key: str, kind: str, owner: int, body: str) -> dict[str, Any]:
    """A row of ``NAME_rows``. ``owner``: the document or generation that it belongs to."""
    return {"key": key, "kind": kind, "owner": owner, "body": body, "nothing": [0.0, 0.0]}


def passage_rows(file: IndexedFile, stemmer: Stemmer) -> Iterator[dict[str, Any]]:
    """The rows of a file's passages."""
    record = file.record
    sha256 = record.sha256 or ""
    for number, (chunk, vector) in enumerate(zip(file.chunks, file.vectors, strict=True)):
        text = file.text[chunk.start : chunk.end]
        key = passage_id(record.absolute, sha256, number)
        title = _packed(chunk.title)
        place = chunk.start, chunk.end, chunk.first_line, chunk.last_line, _unpacked(title), chunk.page
        identity = record.absolute, record.root, record.path, sha256
        yield {
            "id": key, "document": document_id(record.absolute), "version": sha256,
            "start": chunk.start, "stop": chunk.end,
            "first_line": chunk.first_line, "last_line": chunk.last_line,
            "page": -1 if chunk.page is None else chunk.page,
            "title": title, "text": _packed(text),
            "digest": passage_digest(key, identity, place, text).hex(),
            "words": stemmer.words_of(indexed_text(chunk.title, text)),
            "vector": vector.tolist(),
        }  # fmt: skip


def document_rows(file: IndexedFile) -> Iterator[dict[str, Any]]:
    """The rows of a file's text."""
    owner = document_id(file.record.absolute)
    for number, part in enumerate(_parts(file.text)):
        yield row(f"text:{owner}:{number}", "text", owner, _packed(part))


def file_row(record: FileRecord, passages: int, text: str, stamp: str) -> dict[str, Any]:
    """What is known of a file; written last, so that a file that has it is there whole."""
    owner = document_id(record.absolute)
    stored = StoredFile(
        owner, record.absolute, record.root, record.path, record.sha256, record.status, record.reason,
        passages, stamp,
    )  # fmt: skip
    parts = sum(1 for _ in _parts(text))
    body = json.dumps(asdict(stored) | {"parts": parts, "text_digest": row_digest((text,)).hex()})
    return row(f"file:{owner}", "file", owner, body)


def stored_file(body: str) -> tuple[StoredFile, int, str]:
    """A file from the body of its row, with the number of parts of its text and the text's digest."""
    found = json.loads(body)
    parts, digest = found.pop("parts"), found.pop("text_digest")
    return StoredFile(**found), parts, digest


def has_text(found: dict[str, Any]) -> bool:
    """Whether the row of a passage has its text; one that is too long stands in its document alone."""
    return bool(found["text"]) or found["start"] == found["stop"]


def passage_of(
    found: dict[str, Any], file: StoredFile, label: str, text: str | None = None
) -> Passage | None:
    """A passage from its row; None where it is not what was stored. ``text``: where the row has none."""
    page = None if found["page"] < 0 else int(found["page"])
    title = _unpacked(found["title"])
    text = _unpacked(found["text"]) if text is None else text
    start, stop = int(found["start"]), int(found["stop"])
    lines = int(found["first_line"]), int(found["last_line"])
    identity = file.absolute, file.root, file.path, str(found["version"])
    digest = passage_digest(int(found["id"]), identity, (start, stop, *lines, title, page), text)
    if digest.hex() != found["digest"]:
        return None
    path = label + file.path
    return Passage(int(found["id"]), file.id, path, file.absolute, title, text, start, stop, *lines, page)


def text_of(parts: Iterable[str]) -> str:
    """A text from the bodies of its rows, in order."""
    return "".join(_unpacked(part) for part in parts)


def _parts(text: str) -> Iterator[str]:
    for start in range(0, len(text), _CHARACTERS):
        yield text[start : start + _CHARACTERS]


def _packed(text: str) -> str:
    """A text as UTF-8 can carry it: half a surrogate pair is escaped.

    One that is too long for its field is cut; it then differs from its digest and is taken from its document.
    """
    try:
        raw = text.encode("utf-8")
        packed = _ESCAPED + json.dumps(text) if text.startswith(_ESCAPED) else text
    except UnicodeEncodeError:
        packed = _ESCAPED + json.dumps(text)
        raw = packed.encode("ascii")
    return packed if len(raw) <= MOST_BYTES else ""


def _unpacked(packed: str) -> str:
    if not packed.startswith(_ESCAPED):
        return packed
    return str(json.loads(packed.removeprefix(_ESCAPED)))

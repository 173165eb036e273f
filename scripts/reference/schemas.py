"""The JSON documents that commands write: the schema files of ``docs/schema`` as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.markdown import code, table

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schema"


def load_all() -> dict[str, dict[str, Any]]:
    """Name (``ragla.ask/1``) → schema, by name."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")]
    return {schema["title"]: schema for schema in sorted(found, key=lambda schema: str(schema["title"]))}


def reference() -> str:
    """Each document with its fields."""
    parts = []
    for name, schema in load_all().items():
        rows = [row for row in fields(schema) if row[0] != code("schema")]
        parts += [f"## {name}", schema["description"], table(("field", "type", "meaning"), rows)]
    return "\n\n".join(parts)


def fields(schema: dict[str, Any], prefix: str = "") -> Iterator[list[str]]:
    """Every field of an object and of the objects in it: its dotted name, its type, its meaning."""
    required = schema.get("required", [])
    for key, form in schema.get("properties", {}).items():
        name = f"{prefix}{key}"
        meaning = form.get("description", "")
        yield [code(name), kind(form), meaning if key in required else f"{meaning} Not always there."]
        inner, mark = form, "."
        if "items" in form:
            inner, mark = form["items"], "[]."
        elif isinstance(form.get("additionalProperties"), dict):
            inner, mark = form["additionalProperties"], ".*."
        yield from fields(inner, f"{name}{mark}")


def kind(form: dict[str, Any]) -> str:
    """The type, in words."""
    if "const" in form:
        return code(json.dumps(form["const"], ensure_ascii=False))
    if "enum" in form:
        return ", ".join(code(json.dumps(value, ensure_ascii=False)) for value in form["enum"])
    names = form.get("type", "any")
    names = [names] if isinstance(names, str) else names
    words = ["list" if name == "array" else name for name in names]
    return " or ".join(words)

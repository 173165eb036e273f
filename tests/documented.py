"""The JSON documents as ``docs/schema`` describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[1] / "docs" / "schema"
SCHEMAS: dict[str, dict[str, Any]] = {
    schema["title"]: schema
    for schema in (json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json")))
}


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the freedom it leaves to later versions: no field but those it describes."""
    made = {key: closed(value) if isinstance(value, dict) else value for key, value in schema.items()}
    if "properties" in schema:
        made.setdefault("additionalProperties", False)
    return made


def faults(document: dict[str, Any]) -> list[str]:
    """What of a document is not as described; empty where all is."""
    name = document.get("schema", "")
    if name not in SCHEMAS:
        return [f"no schema {name!r} in docs/schema"]
    found = Draft202012Validator(closed(SCHEMAS[name])).iter_errors(document)
    return [f"describe it in docs/schema: {name}: {error.json_path}: {error.message}" for error in found]

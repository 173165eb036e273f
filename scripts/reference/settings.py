"""The settings of a profile, from the model that checks them, and what the shipped profiles set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from ragla.config import Profile
from ragla.profiles import shipped_profiles
from reference.markdown import code, table

WORDS = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false"}


def reference() -> str:
    """A table of keys for each section."""
    schema = Profile.model_json_schema()
    parts = []
    for section, field in Profile.model_fields.items():
        annotation: Any = field.annotation
        properties = schema["$defs"][annotation.__name__]["properties"]
        rows = (row(section, key, form) for key, form in properties.items())
        parts += [f"### {section}", annotation.__doc__, table(("key", "value", "default", "meaning"), rows)]
    return "\n\n".join(parts)


def row(section: str, key: str, form: Mapping[str, Any]) -> list[str]:
    """One key."""
    return [code(f"{section}.{key}"), kind(form), code(written(form["default"])), form["description"]]


def kind(form: Mapping[str, Any]) -> str:
    """The values that a key takes, in words: ``integer, 1 to 256``."""
    if "anyOf" in form:
        return " or ".join(kind(one) for one in form["anyOf"])
    if "enum" in form:
        return ", ".join(code(one) for one in form["enum"])
    if "const" in form:
        return code(form["const"])
    if form["type"] == "null":
        return "`null`"
    if form["type"] == "array":
        return "list of texts"
    if form["type"] == "object":
        return "mapping"
    return WORDS[form["type"]] + "".join(f", {part}" for part in bounds(form))


def bounds(form: Mapping[str, Any]) -> Iterator[str]:
    """What a number must keep to."""
    least, most = form.get("minimum"), form.get("maximum")
    if least is not None and most is not None:
        yield f"{number(least)} to {number(most)}"
    elif least is not None:
        yield f"at least {number(least)}"
    if (above := form.get("exclusiveMinimum")) is not None:
        yield f"above {number(above)}"
    if most is not None and least is None:
        yield f"at most {number(most)}"


def number(value: float) -> str:
    """A bound without a decimal point that says nothing, a minus that is one."""
    return f"{value:,g}".replace("-", "\N{MINUS SIGN}") if value < 1e6 else f"{value:,.0f}"


def written(value: object) -> str:
    """A default as a profile would say it."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def shipped() -> str:
    """What each shipped profile sets; what it does not set is the default."""
    parts = []
    for name, path in shipped_profiles().items():
        text = path.read_text(encoding="utf-8")
        head = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
        keys = [
            f"`{section}.{key}: {written(value)}`"
            for section, body in yaml.safe_load(text).items()
            for key, value in body.items()
        ]
        parts.append([code(name), head[0], "<br>".join(keys)])
    return table(("profile", "for", "sets"), parts)

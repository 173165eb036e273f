"""The rooms of the package and what is in them: first sentences of docstrings, and the import contracts."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "ragla"


def contracts() -> list[dict[str, Any]]:
    """The import contracts of ``pyproject.toml``."""
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return found


def rooms() -> str:
    """The layers, the upper importing the lower, and what else is forbidden."""
    lines = []
    for contract in contracts():
        if contract["type"] == "layers":
            lines += ["```", *(layer.replace("ragla.", "") for layer in contract["layers"]), "```", ""]
        elif contract["type"] == "forbidden":
            who, what = (
                ", ".join(f"`{name}`" for name in contract[key])
                for key in ("source_modules", "forbidden_modules")
            )
            lines.append(f"- {contract['name']}. In {who} none of {what} is imported.")
    return "\n".join(lines)


def reference() -> str:
    """The map: every module with what it does."""
    parts = [listing(PACKAGE, "### ragla")]
    folders = (path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
    parts += [listing(folder, f"### {room(folder)}") for folder in sorted(folders)]
    return "\n\n".join(parts)


def room(folder: Path) -> str:
    """``ragla/decode``."""
    return folder.relative_to(CHECKOUT).as_posix()


def listing(folder: Path, head: str) -> str:
    """A folder's modules, what the folder is for first."""
    about = docstring(folder / "__init__.py").strip()
    lines = [f"- `{path.name}`: {first_sentence(path)}" for path in modules(folder)]
    return "\n".join([head, "", " ".join(about.split("\n\n")[0].split()), "", *lines])


def modules(folder: Path) -> Iterator[Path]:
    """The modules of one folder, compiled ones too."""
    for path in sorted(folder.iterdir()):
        if path.name != "__init__.py" and path.suffix in (".py", ".c"):
            yield path


def docstring(path: Path) -> str:
    """What a module says of itself; of C the comment it begins with."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".c":
        return text.partition("/*")[2].partition("*/")[0]
    return ast.get_docstring(ast.parse(text)) or ""


def first_sentence(path: Path) -> str:
    """The first sentence, with a full stop."""
    words = " ".join(docstring(path).strip().split("\n\n")[0].replace("*", "").split())
    sentence = re.split(r"(?<=[.:]) (?=[A-Z])", words)[0]
    return sentence.rstrip(".:") + "."

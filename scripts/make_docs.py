"""Write the parts of the documents that follow from the code: commands, settings, JSON, the map of modules.

    .venv/bin/python scripts/make_docs.py            write what changed, and name it
    .venv/bin/python scripts/make_docs.py --check    write nothing; exit code 1 where something would change

Each such part stands in its document between ``<!-- made: NAME -->`` and ``<!-- end -->``; what is around
it is written by hand and stays as it is.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from reference import commands, modules, schemas, settings

CHECKOUT = Path(__file__).resolve().parents[1]
COMMAND = ".venv/bin/python scripts/make_docs.py"
PART = re.compile(r"(<!-- made: (?P<name>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PARTS: Mapping[str, Callable[[], str]] = {
    "exit-codes": commands.exit_codes,
    "commands": commands.reference,
    "settings": settings.reference,
    "profiles": settings.shipped,
    "schemas": schemas.reference,
    "rooms": modules.rooms,
    "modules": modules.reference,
}


def documents() -> list[Path]:
    """The documents that have such parts."""
    found = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
    return [path for path in found if PART.search(path.read_text(encoding="utf-8"))]


def made(path: Path) -> str:
    """What a document should be. Raises KeyError for a part of an unknown name."""

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}\n{PARTS[found['name']]().strip()}\n\n{found[3]}"

    return PART.sub(part, path.read_text(encoding="utf-8"))


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = [path for path in documents() if made(path) != path.read_text(encoding="utf-8")]
    for path in stale:
        if not check:
            path.write_text(made(path), encoding="utf-8")
        print(f"{'stale' if check else 'written'}: {path.relative_to(CHECKOUT)}")
    if check and stale:
        print(f"  → {COMMAND}")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())

"""Where source code and configuration can be cut: at definitions, tables and keys, with the path to each.

Languages are told by the look of a line, not by a parser: a wrong cut costs a little sense, never text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from ragla.retrieve.headings import Heading, Line, lines_of

# Words that may stand before the one that says what is defined.
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|open|override|"
    r"virtual|partial|async|unsafe|extern(?:\s+\"C\")?|const|pub(?:\([\w\s:]+\))?|inline|data|suspend|"
    r"readonly|declare|local|global|implicit|lazy|case|fileprivate|mutating|noncopyable)\s+)*"
)
_KEYWORDS = (
    r"(?:def|class|function\*?|func|fn|fun|sub|proc|interface|struct|enum|trait|impl|protocol|extension|"
    r"module|mod|namespace|object|record|union|type|macro_rules!|macro|message|service|rpc|resource|"
    r"variable|output|provider|package)"
)
_DEFINITION = re.compile(
    rf"([ \t]*){_MODIFIERS}({_KEYWORDS}(?:\s+class)?(?!\w)[\s\"'(<]*[^\s({{:;=,<]*)"
    # a name that goes on as a definition does, not as a sentence would
    r"(?=\s*[({:<;=]|\s*$|[^,]*[{:()]\s*$)"
)
_METHOD = re.compile(r"()(func\s+\([^)]*\)\s*\w+)")  # Go's, with a receiver
_SQL = re.compile(
    r"()(CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?(?:UNIQUE\s+)?\w+\s+"
    r"(?:IF\s+NOT\s+EXISTS\s+)?[\w.\"`\[\]]+)",
    re.IGNORECASE,
)
_SHELL = re.compile(r"()([A-Za-z_][\w:-]*)\s*\(\)\s*\{?\s*$")
_ARROW = re.compile(
    r"([ \t]*)(?:export\s+)?(?:const|let|var)\s+([\w$]+)\s*(?::[^=]+)?="
    r"\s*(?:async\s*)?(?:\([^)]*\)|[\w$]+)\s*(?::[^=]+)?=>"
)
_R = re.compile(r"()([\w.]+)\s*(?:<-|=)\s*function\b")
# A type, a name and an opening parenthesis, as C and its heirs define functions.
_TYPED = re.compile(r"([ \t]{0,8})(?:[\w:<>,*&~\[\]?@]+[ \t]+)+[*&]*(~?\w[\w:]*)\s*\([^;=]*[{(),]\s*$")
_NOT_TYPED = re.compile(
    r"\s*(?:[*/]|(?:return|else|if|for|while|switch|case|throw|new|await|yield|elif|do|goto|print)\b)"
)
_BRACE = re.compile(r"[{;][ \t]*\r?$", re.MULTILINE)
_COLON = re.compile(r":[ \t]*\r?$", re.MULTILINE)
# What belongs to the definition below it: decorators, attributes, comments.
_ABOVE = re.compile(r"[ \t]*(?:@|#(?!\s*(?:include|define|if|endif|pragma))|//|/\*|\*|--|\[[\w(]|%)")
_KEY = re.compile(
    r"([ \t]*)(?:-[ \t]+)?([\w.$/~{}*<>@-][^\s:#'\"][^:#'\"]*?|[\w.$/~*-]|\"[^\"]+\"|'[^']+')"
    r"[ \t]*:(?:[ \t]+(.*))?$"
)
_BLOCK_SCALAR = re.compile(r"(?:[!&]\S+[ \t]+)*[|>][-+\d]*[ \t]*(?:#.*)?$")
_TABLE = re.compile(r"[ \t]*(\[{1,2})[ \t]*([^\[\]\r\n]+?)[ \t]*\]{1,2}[ \t]*(?:[#;].*)?$")
_MAX_NAME = 80
_MAX_KEY_LEVEL = 3


def definitions(text: str) -> list[Heading]:
    """The definitions of source code; the deeper a line is indented, the deeper its level."""
    found: list[Heading] = []
    braces = len(_BRACE.findall(text)) > len(_COLON.findall(text))
    above: int | None = None  # where the comments and decorators right above this line begin
    for line in lines_of(text):
        named = _defined(line, braces)
        if named:
            indent, name = named
            start = line.start if above is None else above
            found.append(Heading(start, line.end, 1 + len(indent.expandtabs(4)), name[:_MAX_NAME]))
            above = None
        elif _ABOVE.match(line.text):
            above = line.start if above is None else above
        else:
            above = None
    return found


def _defined(line: Line, braces: bool) -> tuple[str, str] | None:
    text = line.text
    if not text.strip() or len(text) > 1000:
        return None
    for pattern in (_METHOD, _DEFINITION, _ARROW, _SQL, _SHELL, _R):
        if found := pattern.match(text):
            return found[1], " ".join(found[2].replace('"', "").split())
    if braces and not _NOT_TYPED.match(text) and (found := _TYPED.match(text)):
        return found[1], found[2]
    return None


def yaml_keys(text: str) -> list[Heading]:
    """Keys of the outer levels of a YAML file; lines of block scalars are no keys."""
    found: list[Heading] = []
    indents: list[int] = []
    scalar: int | None = None  # the indentation of the key whose block scalar this is
    for line in lines_of(text):
        if not line.text.strip():
            continue
        indent = len(line.text) - len(line.text.lstrip())
        if scalar is not None and indent > scalar:
            continue
        scalar = None
        if line.text.startswith(("---", "...")):
            indents = []
        elif key := _KEY.match(line.text):
            indents = [*(outer for outer in indents if outer < indent), indent]
            if len(indents) <= _MAX_KEY_LEVEL:
                found.append(Heading(line.start, line.end, len(indents), key[2].strip("\"'")[:_MAX_NAME]))
            scalar = indent if _BLOCK_SCALAR.match(key[3] or "") else None
    return found


def toml_tables(text: str) -> list[Heading]:
    """The tables of a TOML file, the sections of an INI file."""
    return [
        Heading(line.start, line.end, 1, table[2][:_MAX_NAME])
        for line in lines_of(text)
        if (table := _TABLE.match(line.text))
    ]


class _Scan:
    """Walks JSON by the decoder of the standard library, which skips a value at the speed of C."""

    _SPACE = re.compile(r"[ \t\r\n]*")
    _LARGE = 1500
    _DEEPEST = 6

    def __init__(self, text: str) -> None:
        self._text = text
        # Numbers are not converted: one of 5,000 digits would be refused.
        self._decoder = json.JSONDecoder(parse_int=str, parse_float=str)

    def values(self) -> Iterator[Heading]:
        """Every value at the top; those that are large, by their elements and members."""
        at = self._skip(0)
        while at < len(self._text):
            end = self._end(at)
            yield Heading(at, at, 1, "")
            if end - at > self._LARGE:
                yield from self._inside(at, 1)
            at = self._skip(end)

    def _inside(self, at: int, level: int) -> Iterator[Heading]:
        if self._text[at] not in "[{" or level > self._DEEPEST:
            return
        is_object = self._text[at] == "{"
        at = self._skip(at + 1)
        while self._text[at] not in "]}":
            start, name = at, ""
            if is_object:
                name, at = self._decoder.raw_decode(self._text, at)
                at = self._skip(self._skip(at) + 1)
            end = self._end(at)
            yield Heading(start, at, level, str(name)[:_MAX_NAME])
            if end - at > self._LARGE:
                yield from self._inside(at, level + 1)
            at = self._skip(end)
            at = self._skip(at + 1) if self._text[at] == "," else at

    def _end(self, at: int) -> int:
        return self._decoder.raw_decode(self._text, at)[1]

    def _skip(self, at: int) -> int:
        found = self._SPACE.match(self._text, at)
        return found.end() if found else at


def json_values(text: str) -> list[Heading]:
    """The values of JSON or of lines of JSON, down to those that are small; none when it is damaged."""
    try:
        return list(_Scan(text).values())
    except (ValueError, RecursionError, IndexError):
        return []


OUTLINES: dict[str, Callable[[str], list[Heading]]] = {
    "code": definitions,
    "yaml": yaml_keys,
    "toml": toml_tables,
    "json": json_values,
}

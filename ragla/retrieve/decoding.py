"""Bytes to characters: byte-order mark, strict UTF-8, declared charset, then detection on the whole file."""

from __future__ import annotations

import codecs
import contextlib
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# In order of preference where detection finds several equally good, as it does for short texts.
_LEGACY = (
    "cp1252",
    "gb18030",
    "shift_jis",
    "big5",
    "euc_kr",
    "euc_jp",
    "cp1251",
    "cp1250",
    "utf_16_le",
    "utf_16_be",
)
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9._-]+)""", re.IGNORECASE)
# C0 without tab, line feed and carriage return; DEL; C1; halves of surrogate pairs.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BINARY_SHARE = 0.05
_CLEARLY_BETTER = 0.1
_GOOD_FOR_BAD = 20
_LATIN_SHARE, _STRAY_SHARE = 0.5, 0.02
_TELLING_BYTES = 200_000


def decode(raw: bytes, declared: bool = False) -> str | None:
    """The text of ``raw`` with control characters as spaces, or None when it is not text.

    ``declared``: believe a charset named in the first two kilobytes, as HTML names it. Every replacement
    is one for one, so offsets stay those of the decoded file.
    """
    text = _decode(raw, declared)
    if text is None:
        return None
    clean, controls = _CONTROLS.subn(" ", text)
    return None if controls > _BINARY_SHARE * len(text) and controls > 1 else clean


def neutralise(text: str) -> str:
    """Replace control characters and lone surrogates by spaces, one for one; keep tab, LF and CR."""
    return _CONTROLS.sub(" ", text)


def _decode(raw: bytes, declared: bool) -> str | None:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw.decode(encoding, errors="replace")
    if b"\0" in raw and (text := _utf16(raw)) is not None:  # in Latin letters it is UTF-8 as well
        return text
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if declared and (named := _DECLARED.search(raw[:2048])):
        try:
            return raw.decode(named[1].decode("ascii"))
        except (LookupError, UnicodeDecodeError):
            pass
    return _mostly_utf8(raw) or _detect(raw)


def _mostly_utf8(raw: bytes) -> str | None:
    """UTF-8 that was cut inside a character or has a stray byte: no other encoding makes such sequences."""
    text = raw.decode("utf-8", errors="replace")
    bad = text.count("\ufffd")
    good = len(text) - len(text.encode("ascii", errors="ignore")) - bad
    return text if good >= _GOOD_FOR_BAD * bad else None


def _utf16(raw: bytes) -> str | None:
    """UTF-16 without a mark, when its text is mostly Latin: every second byte is zero."""
    half = len(raw) // 2
    high, low = raw[1::2].count(0), raw[::2].count(0)
    for zeros, others, encoding in ((high, low, "utf-16-le"), (low, high, "utf-16-be")):
        if len(raw) % 2 == 0 and zeros > _LATIN_SHARE * half and others < _STRAY_SHARE * half:
            with contextlib.suppress(UnicodeDecodeError):
                return raw.decode(encoding)
    return None


def _detect(raw: bytes) -> str | None:
    """The legacy encoding that suits the telling lines best and decodes the whole file."""
    from charset_normalizer import from_bytes

    matches = list(from_bytes(_telling_lines(raw), cp_isolation=list(_LEGACY)))
    if not matches:
        return None
    limit = min(match.chaos for match in matches) + _CLEARLY_BETTER
    good = [match for match in matches if match.chaos <= limit]
    best = max(match.coherence for match in good)
    good = [match for match in good if match.coherence >= best - _CLEARLY_BETTER]
    for encoding in sorted((match.encoding for match in good), key=_preference):
        with contextlib.suppress(UnicodeDecodeError):
            return raw.decode(encoding)
    return None


def _telling_lines(raw: bytes) -> bytes:
    """The lines with bytes beyond ASCII, from the whole file.

    The detector samples a few places; in a long file with one foreign line at its end it would see ASCII.
    """
    if b"\0" in raw:  # UTF-16 without a mark, or binary: its lines are not to be told apart
        return raw
    telling = b"".join(line for line in raw.splitlines(keepends=True) if not line.isascii())
    head = telling[:_TELLING_BYTES].rpartition(b"\n")[0]  # whole lines: half a character would mislead
    return head if head and len(telling) > _TELLING_BYTES else telling


def _preference(encoding: str) -> int:
    return _LEGACY.index(encoding) if encoding in _LEGACY else len(_LEGACY)

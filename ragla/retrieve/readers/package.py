"""Zip files of XML, as office documents and EPUBs are: opened with care, since anyone can have made them.

Nothing is unpacked to disk. What a member unpacks to is bounded before it is unpacked, and a header that lies
about it is caught; XML with a document type, where entity bombs and outside references live, is refused.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from ragla.retrieve.document import NotIndexable

# Parsed XML takes many times its size in memory.
MAX_MEMBER = 64_000_000
MAX_TOTAL = 256_000_000
_MAX_MEMBERS = 20_000
_ENCRYPTED = 0x1
_PIECE = 1 << 20
# Names of streams in OLE files are in UTF-16.
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


class Package:
    """An open zip file. Raises NotIndexable, with the reason, for whatever is wrong with it."""

    def __init__(self, raw: bytes, what: str, max_member: int = MAX_MEMBER) -> None:
        self._what = what
        self._max_member = max_member
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(raw))
        except _DAMAGE as error:
            raise NotIndexable(f"damaged {what}: {_line(error)}") from error
        members = self._archive.infolist()
        if len(members) > _MAX_MEMBERS:
            raise NotIndexable(f"too many parts in this {what}: {len(members):,}")
        self._members = {member.filename: member for member in members}
        self._left = MAX_TOTAL

    @property
    def names(self) -> list[str]:
        """The names of the members."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """The bytes of a member, of which all together may not be more than ``MAX_TOTAL``."""
        member = self._members.get(name)
        if member is None:
            raise NotIndexable(f"damaged {self._what}: {name} is missing")
        if member.flag_bits & _ENCRYPTED:
            raise NotIndexable(f"encrypted {self._what}: a password is needed")
        if member.file_size > min(self._max_member, self._left):
            raise NotIndexable(f"too large: {name} unpacks to {member.file_size:,} bytes")
        self._left -= member.file_size
        try:
            # In pieces: a whole read would inflate everything before it looks at the size in the header.
            with self._archive.open(member) as opened:
                return b"".join(iter(lambda: opened.read(_PIECE), b""))
        except _DAMAGE as error:
            raise NotIndexable(f"damaged {self._what}: {_line(error)}") from error

    def xml(self, name: str) -> ElementTree.Element:
        """The root element of a member."""
        raw = self.read(name)
        try:
            if declares_type(raw):
                raise NotIndexable(f"XML with a document type in this {self._what}: not read")
            return ElementTree.fromstring(raw)
        except (ElementTree.ParseError, expat.ExpatError, ValueError, LookupError) as error:
            raise NotIndexable(f"damaged {self._what}: {name}: {_line(error)}") from error

    def only_xml(self) -> io.BytesIO:
        """A zip file with the XML members alone, all of them checked: what other libraries are given."""
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
            for name in self._members:
                if not name.lower().endswith((".xml", ".rels")):
                    continue
                raw = self.read(name)
                try:
                    refused = declares_type(raw)
                except (expat.ExpatError, ValueError, LookupError) as error:
                    raise NotIndexable(f"damaged {self._what}: {name}: {_line(error)}") from error
                if refused:
                    raise NotIndexable(f"XML with a document type in this {self._what}: not read")
                archive.writestr(name, raw)
        made.seek(0)
        return made


class _PrologRead(Exception):
    """The first element has begun."""


def declares_type(raw: bytes) -> bool:
    """Whether XML has a document type declaration, which can only stand before its first element."""
    parser = expat.ParserCreate()
    found: list[str] = []

    def declared(name: str, *_: object) -> None:
        found.append(name)
        raise _PrologRead

    def element(*_: object) -> None:
        raise _PrologRead

    parser.StartDoctypeDeclHandler = declared
    parser.StartElementHandler = element
    try:
        parser.Parse(raw, True)
    except _PrologRead:
        return bool(found)
    return False


def refuse_zip(raw: bytes) -> NoReturn:
    """Raise NotIndexable for a zip file that is no document we read."""
    package = Package(raw, "zip archive")
    if "mimetype" in package:
        kind = package.read("mimetype")[:100].decode("ascii", errors="replace").strip()
        if kind.startswith("application/vnd.oasis.opendocument"):
            raise NotIndexable("an OpenDocument file: save it as docx, xlsx, pptx or PDF")
    raise NotIndexable("a zip archive: unpack it to index what is in it")


def refuse_ole(raw: bytes) -> NoReturn:
    """Raise NotIndexable for an old binary office file, or a new one that is encrypted inside such a file."""
    if _ENCRYPTED_PACKAGE in raw:
        raise NotIndexable("encrypted office document: a password is needed")
    raise NotIndexable("an old binary office file (doc, xls, ppt, msg): save it as docx, xlsx, pptx or PDF")


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

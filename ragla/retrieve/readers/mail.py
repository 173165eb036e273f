"""Mail to text: subject, who wrote to whom and when, and the body; attachments are named, not read."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import Message

from ragla.retrieve.decoding import decode, neutralise
from ragla.retrieve.document import Document, NotIndexable, counted
from ragla.retrieve.html import html_to_markdown

_SHOWN = ("From", "To", "Cc", "Date")
_LOCKED = ("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime")


def read_mail(raw: bytes) -> Document:
    """One message. Raises NotIndexable when it is encrypted."""
    message = message_from_bytes(raw, policy=policy.compat32)  # the one whose headers never raise
    if message.get_content_type() in _LOCKED and "signed-data" not in str(message.get("Content-Type", "")):
        raise NotIndexable("encrypted mail")
    attached = [_header(part.get_filename() or "unnamed") for part in message.walk() if _is_attached(part)]
    lines = [f"{name}: {_header(message[name])}" for name in _SHOWN if message[name]]
    if attached:
        lines.append("Attachments: " + ", ".join(attached))
    bodies = [body.strip("\r\n") for body in _bodies(message)]
    if not any(body.strip() for body in bodies) and not message["Subject"]:
        raise NotIndexable("no text in it")
    subject = _header(message["Subject"] or "(no subject)")
    text = "\n\n".join([f"# {subject}", "\n".join(lines), *bodies]) + "\n"
    remark = f"{counted(len(attached), 'attachment')} not read" if attached else None
    return Document("mail", neutralise(text), remark=remark)


def _header(value: object) -> str:
    """A header as people read it, on one line; one that cannot be decoded as it stands."""
    from email.header import decode_header, make_header

    raw = str(value)
    try:
        shown = str(make_header(decode_header(raw)))
    except (ValueError, LookupError, IndexError):  # a damaged encoded word, an unknown charset
        shown = raw
    return " ".join(neutralise(shown).split())


def _is_attached(part: Message) -> bool:
    if part.is_multipart():
        return False
    return part.get_content_disposition() == "attachment" or part.get_content_maintype() != "text"


def _bodies(message: Message) -> Iterator[str]:
    """The text of each part; of alternatives the plain one, or else the last."""
    pending = [message]
    while pending:
        part = pending.pop()
        if part.is_multipart():
            inside = [child for child in _children(part) if child.is_multipart() or not _is_attached(child)]
            if part.get_content_type() == "multipart/alternative":
                plain = [child for child in inside if child.get_content_type() == "text/plain"]
                inside = (plain or inside[-1:])[:1]
            pending.extend(reversed(inside))
        elif not _is_attached(part):
            yield _text(part)


def _children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    raw = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset()
    try:
        text = raw.decode(charset or "utf-8")
    except (LookupError, UnicodeDecodeError):
        text = decode(raw) or ""
    return html_to_markdown(text) if part.get_content_subtype() == "html" else text

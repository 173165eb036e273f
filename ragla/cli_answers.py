"""``ragla answers``: what is kept of earlier answers, and how to be rid of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragla.errors import IndexLocked, ModelUnavailable, RaglaError, UsageError
from ragla.flags import IndexFlag, JsonFlag, ModelFlag, ProfileFlag, SetFlag, load_profile
from ragla.terminal import errors, output, print_json

if TYPE_CHECKING:
    from rich.text import Text

    from ragla.config import Profile
    from ragla.trie.answer_rows import StoredAnswer
    from ragla.trie.answer_store import AnswerStore

FIRST_CHARACTERS = 72
SCHEMA = "ragla.answers/1"

Decode = Callable[["StoredAnswer"], str | None]

answers_app = typer.Typer(
    no_args_is_help=True, help="Show and remove the earlier answers that drafts are made from."
)


@answers_app.command("list")
def answers_list(
    index_path: IndexFlag = None,
    profile: ProfileFlag = None,
    model: ModelFlag = None,
    settings: SetFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Every answer that is kept: its name, its first words, how often it was of use, its documents.

    [bold]ragla answers list[/]
    """
    loaded = load_profile(profile, settings, {"decode.model": model})
    with kept_answers(index_path) as store:
        found = store.answers() if store is not None else []
    decode, unread = decoder(loaded.profile)
    if as_json:
        print_json({"schema": SCHEMA, "answers": [answer_json(answer, decode(answer)) for answer in found]})
        return
    if not found:
        errors().print("no answers are kept", soft_wrap=True)
    console = output()
    for answer in found:
        for line in answer_lines(answer, decode(answer), unread):
            console.print(line, soft_wrap=not console.is_terminal)


@answers_app.command("remove")
def answers_remove(
    names: Annotated[list[str], typer.Argument(help="Names of the list, or how they begin.")],
    index_path: IndexFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove answers; recycled second thoughts and the last conversation, which may hold their words, go too.

    [bold]ragla answers remove 3f2a[/]
    """
    with kept_answers(index_path) as store:
        known = {answer.name for answer in store.answers()} if store is not None else set()
        chosen = {full_name(name, known) for name in names}
        removed = sum(store.remove(name) for name in chosen) if store is not None else 0
    forget_conversation(index_path)
    report_removed(removed, as_json=as_json)


@answers_app.command("clear")
def answers_clear(index_path: IndexFlag = None, as_json: JsonFlag = False) -> None:
    """Remove all answers, all that was learned about drafting on this index, and the last conversation.

    [bold]ragla answers clear[/]
    """
    with kept_answers(index_path) as store:
        removed = store.clear() if store is not None else 0
    forget_conversation(index_path)
    report_removed(removed, as_json=as_json)


def forget_conversation(index_path: str | None) -> None:
    """Remove the last conversation about an index. Raises RaglaError where that is not possible."""
    from ragla import session
    from ragla.conversation_file import ConversationFile

    kept = ConversationFile(session.find_kept(index_path, Path.cwd()))
    try:
        kept.remove()
    except OSError as error:
        raise RaglaError(f"{kept.path}: cannot be removed: {error.strerror}", "delete it yourself") from error


@contextmanager
def kept_answers(index_path: str | None) -> Iterator[AnswerStore | None]:
    """The open store of an index; None where nothing was ever kept. Raises RaglaError, IndexLocked."""
    from ragla import session
    from ragla.trie.answer_file import FILE_NAME
    from ragla.trie.answer_store import AnswerStore

    index = session.find_kept(index_path, Path.cwd())
    if not (index / FILE_NAME).exists():
        yield None
        return
    try:
        with closing(AnswerStore.open(index)) as store:
            yield store
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise IndexLocked(
                f"{index / FILE_NAME}: another process is using it",
                "wait until it has finished and run the command again",
            ) from error
        raise RaglaError(
            f"{index / FILE_NAME}: {error}", "it can be deleted: answers are kept anew in another"
        ) from error


def full_name(name: str, known: Iterable[str]) -> str:
    """The one known name that begins like this. Raises UsageError."""
    found = sorted(full for full in known if full.startswith(name))
    if not found:
        raise UsageError(f"no answer {name} is kept", "see their names: ragla answers list")
    if len(found) > 1:
        raise UsageError(f"{len(found)} answers begin with {name}: {', '.join(found)}", "write one in full")
    return found[0]


def report_removed(count: int, *, as_json: bool) -> None:
    """Say how many answers are gone."""
    if as_json:
        print_json({"schema": SCHEMA, "removed": count})
    else:
        from ragla.render import counted

        errors().print(f"{counted(count, 'answer')} removed", soft_wrap=True)


def decoder(profile: Profile) -> tuple[Decode, str]:
    """What turns an answer of the profile's tokenizer into text, without loading the model.

    With it comes why it does not turn another one into text.
    """
    from ragla import models, session

    name = profile.decode.model
    try:
        folder = models.locate(name)
    except ModelUnavailable:
        return _reads_nothing, f"its words cannot be read: {name} is not on this machine"
    key, path = session.tokenizer_key(folder), folder / "tokenizer.json"
    if not path.is_file():
        return _reads_nothing, f"its words cannot be read: {name} has no tokenizer.json"
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    unread = f"of another model than {name}: its words are shown with --profile or --model"
    return lambda answer: tokenizer.decode(answer.token_ids) if answer.tokenizer == key else None, unread


def _reads_nothing(answer: StoredAnswer) -> None:
    """No tokenizer is here."""


def answer_lines(answer: StoredAnswer, text: str | None, unread: str) -> Iterator[Text]:
    """Name and figures, then the first words, or why they cannot be shown."""
    from rich.text import Text

    from ragla.render import counted, one_line

    line = Text(one_line(answer.name), style="cyan")
    documents = ", ".join(one_line(shown(path)) for path, _ in answer.documents)
    line.append(f"  {counted(len(answer.token_ids), 'token')} · {counted(answer.uses, 'use')}")
    line.append(f" · {documents}" if documents else "", style="dim")
    yield line
    if text is None:
        yield Text(f"  ({one_line(unread)})", style="dim")
    elif text:
        words = one_line(" ".join(text.split()))
        yield Text(f"  {words[:FIRST_CHARACTERS]}{'…' if len(words) > FIRST_CHARACTERS else ''}")


def shown(path: str) -> str:
    """A path as it is written from here, if it lies below."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def answer_json(answer: StoredAnswer, text: str | None) -> dict[str, Any]:
    """One answer of ``ragla answers list --json``; ``text`` is null where the tokenizer is another."""
    return {
        "name": answer.name,
        "text": text,
        "tokens": len(answer.token_ids),
        "uses": answer.uses,
        "last_used": answer.last_used,
        "documents": [path for path, _ in answer.documents],
    }

"""An answer in a terminal: copied words are underlined in their passage's colour; elsewhere it is plain."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ragla.cli import app
from ragla.evidence import Evidence, Source
from ragla.prompt import Prompt, PromptPassage
from ragla.provenance import CopyTrace
from ragla.render import safe
from ragla.render_copied import CopiedWriter, copied_text, file_link, style_of, wants_style
from tests.cli.screens import Terminal, terminal
from tests.cli.tiny_models import PARROT, READ, save_parrot
from tests.cli.tiny_world import QUESTION, Ragla, World, document

COPIED = READ[0].partition(". ")[2]
ESCAPE = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;[^\x1b]*\x1b\\")

# --- the writer ------------------------------------------------------------------------------------------


class Written:
    """What a writer wrote: texts, and what was shown instead of them."""

    def __init__(self, *passages: str, no_color: bool = False) -> None:
        self.texts: list[str] = []
        self.shown: list[str] = []
        console = Console(force_terminal=True, color_system="standard", no_color=no_color, file=io.StringIO())
        self.writer = CopiedWriter(self.write, console)
        sources = [Source(n, f"{n}.md", 1, 1, 0.5) for n, _ in enumerate(passages, 1)]
        evidence = Evidence([PromptPassage("", text) for text in passages], sources)
        used = list(range(len(passages)))
        prompt = Prompt([], [range(0)] * len(used), used, [])
        self.trace = CopyTrace(prompt, evidence, [], lambda ids: "", self.writer)

    def write(self, text: str, shown: str | None = None) -> None:
        self.texts.append(text)
        self.shown.append(text if shown is None else shown)

    def say(self, *pieces: str) -> list[str]:
        """What was shown in all, once the answer ended."""
        for piece in pieces:
            self.trace(piece)
        self.writer.finish()
        assert "".join(self.texts) == self.trace.text
        assert ESCAPE.sub("", "".join(self.shown)) == safe("".join(self.texts))
        return self.shown


NINE = "one two three four five six seven eight nine"


def test_words_wait_until_it_is_certain_that_they_are_copied() -> None:
    written = Written("nothing of it", NINE)
    written.trace("zero " + NINE.removesuffix(" eight nine"))
    assert written.shown == ["zero "]
    written.trace(" eight nine and")
    assert written.shown == ["zero ", f"\x1b[4;32m{NINE}\x1b[0m"]
    assert written.say(" more") == ["zero ", f"\x1b[4;32m{NINE}\x1b[0m", " and", " more"]


def test_words_that_turn_out_to_be_the_models_own_are_plain() -> None:
    assert "".join(Written(NINE).say("one two three ", "four no ", "five")) == "one two three four no five"


def test_without_colour_the_underline_stays() -> None:
    assert Written(NINE, no_color=True).say(f"{NINE}.") == [f"\x1b[4m{NINE}\x1b[0m", "."]


def test_a_number_or_a_name_that_was_not_read_is_reversed_once_it_is_whole() -> None:
    written = Written("It was 16 euros.", no_color=True)
    shown = written.say("It was 16", "0", ",", "5 euros, ", "says", " Mer", "kel. ", "So: 16")
    assert "".join(shown) == "It was \x1b[7m160,5\x1b[0m euros, says \x1b[7mMerkel\x1b[0m. So: 16"


def test_an_underline_ends_with_its_line() -> None:
    text = NINE.replace(" five", "\nfive")
    first, last = text.split("\n")
    shown = Written(text, no_color=True).say(f"{text}.")
    assert shown == [f"\x1b[4m{first}\x1b[0m\n\x1b[4m{last}\x1b[0m", "."]


def test_what_a_passage_says_commands_no_terminal() -> None:
    text = NINE.replace("four", "\x1b[2Jfour\x07")
    shown = "".join(Written(text).say(text))
    assert set(ESCAPE.findall(shown)) == {"\x1b[4;36m", "\x1b[0m"}
    assert "\x07" not in shown


def test_colours_come_round_and_are_never_alone() -> None:
    styles = [style_of(number) for number in range(1, 12)]
    assert len({style.color for style in styles[:4]}) == 4
    assert styles[0] == styles[4]
    assert all(style.underline for style in styles)


@pytest.mark.parametrize("path", ["/tmp/a b/旅\x1b[2J.md", "/x/%41#?.md"])
def test_a_link_escapes_its_path(path: str) -> None:
    link = file_link(path)
    assert link.startswith("file://")
    assert link.isascii()
    assert not set(link) & set("\x1b #?")
    assert file_link("relative.md") == ""


def test_where_nothing_is_styled_the_text_goes_straight_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(text: str, shown: str | None = None) -> None:
        """Never called."""

    plain: list[Any] = [Console(file=io.StringIO()), Console(file=io.StringIO(), force_terminal=True)]
    for console in plain:
        assert not wants_style(console)
        with copied_text(write, console, plain=False) as on_text:
            assert on_text is write
    with copied_text(None, plain[0], plain=False) as on_text:
        assert on_text is None


# --- the commands ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parrot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_parrot(tmp_path_factory.mktemp("parrot"), PARROT)


@pytest.fixture
def flags(world: World, parrot: Path) -> list[str]:
    return [*world.flags, "--model", str(parrot), "-s", "decode.cost_aware=false"]


def ask(screen: Terminal, *words: str) -> tuple[str, list[str]]:
    """What was written to the terminal, and the lines it shows."""
    app(["ask", QUESTION, *words], standalone_mode=False)
    written = screen.read().decode()
    return written, screen.lines()


def test_a_terminal_shows_where_the_answer_came_from(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], world: World
) -> None:
    with terminal(monkeypatch, 120, rows=30) as screen:
        written, lines = ask(screen, *flags)
        cells = screen.screen.buffer[lines.index(PARROT)]
    underlined = "".join(cells[at].data for at in range(120) if cells[at].underscore)
    assert underlined == COPIED
    assert {cells[at].fg for at in range(len(COPIED))} == {"cyan"}
    assert [cells[PARROT.index(what)].reverse for what in ("180", "190", "Angela")] == [False, True, True]
    place = (world.docs / "travel.md").as_uri().removeprefix("file://")
    assert re.search(rf"\x1b\]8;id=\d+;file://[^/]*{re.escape(place)}\x1b\\", written)
    assert "[1] travel.md:5  copied 64%" in lines
    assert "in no passage: 190 · Angela Merkel" in lines


@pytest.mark.parametrize("how", ["--plain", "TERM=dumb", "NO_COLOR=1"])
def test_it_can_be_plain(flags: list[str], monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    name, _, value = how.partition("=")
    with terminal(monkeypatch, 120, rows=30) as screen:
        if value:
            monkeypatch.setenv(name, value)
        written, lines = ask(screen, *flags, *([] if value else [how]))
    answer = written[: written.index("[1] ")]
    assert ("\x1b[4m" in answer) == (name == "NO_COLOR")
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", answer)
    assert ("\x1b]8;" in written) == (name == "NO_COLOR")
    assert "[1] travel.md:5  copied 64%" in lines
    assert "in no passage: 190 · Angela Merkel" in lines


def test_a_file_gets_the_plain_text(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "answer").open("wb") as file, terminal(monkeypatch, 80, stdout=file.fileno()) as screen:
        monkeypatch.setenv("FORCE_COLOR", "1")
        _, lines = ask(screen, *flags)
    assert "[1] travel.md:5  copied 64%" in lines
    assert (tmp_path / "answer").read_text() == PARROT + "\n"


def test_json_carries_the_spans(ragla: Ragla, flags: list[str], world: World) -> None:
    found = document(ragla("ask", QUESTION, "--json", *flags))
    text = found["answer"]
    [span] = found["provenance"]
    assert text == PARROT
    assert text[span["start"] : span["end"]] == COPIED
    travel = (world.docs / "travel.md").read_text()
    assert travel[span["source_start"] : span["source_end"]] == COPIED
    assert (span["path"], span["first_line"], span["last_line"], span["number"]) == ("travel.md", 5, 5, 1)
    assert [(one["text"], one["kind"]) for one in found["unsupported"]] == [
        ("190", "number"), ("Angela Merkel", "name"),
    ]  # fmt: skip
    assert all((one["stale"], one["stale_reason"]) == (False, None) for one in found["sources"])
    assert found["sources"][0]["copied_share"] == pytest.approx(0.64, abs=0.005)


@pytest.fixture
def own(world: World, tmp_path: Path, ragla: Ragla) -> World:
    """An index of this test, whose documents may change."""
    docs = shutil.copytree(world.docs, tmp_path / "docs")
    made = World(tmp_path, world.profile, docs, tmp_path / "index")
    assert ragla("index", docs, *made.flags).exit_code == 0
    return made


@pytest.mark.parametrize("change", ["changed", "changed elsewhere", "gone"])
def test_a_source_that_changed_says_so(own: World, parrot: Path, ragla: Ragla, change: str) -> None:
    travel = own.docs / "travel.md"
    if change == "gone":
        travel.unlink()
    else:
        text = travel.read_text()
        travel.write_text(text.replace("180", "190") if change == "changed" else text + "\nMore.\n")
    words = [*own.flags, "--model", str(parrot), "-s", "decode.cost_aware=false"]
    found = document(ragla("ask", QUESTION, "--json", *words))
    sources = {one["path"]: one for one in found["sources"]}
    assert (sources["travel.md"]["stale"], sources["travel.md"]["stale_reason"]) == (True, change)
    assert not sources["boats and piers.txt"]["stale"]
    assert found["provenance"]  # what was indexed says so all the same
    said = ragla("ask", QUESTION, *words)
    told = "gone since it was indexed" if change == "gone" else "changed since it was indexed"
    assert f"copied 64%  {told}" in said.stderr
    assert ("not in these lines" in said.stderr) == (change == "changed elsewhere")
    assert said.stdout == PARROT + "\n"

"""Documents whose every version is told apart by its words, and what must hold of an index of them."""

from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path

from hashing_embedder import HashingEmbedder

from ragla.retrieve import Passage, Retriever
from ragla.retrieve.store import Store

_WORDS = [
    "anchor",
    "barge",
    "canal",
    "delta",
    "estuary",
    "ferry",
    "harbour",
    "island",
    "jetty",
    "keel",
    "lock",
]
_CHINESE = "码头上停着三条驳船。水闸每天早上六点打开。船长必须出示证件。"


class Documents:
    """A folder of documents that remembers every text it ever held.

    ``since``: the texts of each file since this was last cleared; None where it was deleted.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.versions: dict[str, list[str]] = {}
        self.since: dict[str, set[str | None]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def here(self) -> list[str]:
        """Names of the files there are."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.*"))

    @property
    def texts(self) -> dict[str, str]:
        """Texts of the files there are."""
        return {name: (self.folder / name).read_text(encoding="utf-8") for name in self.here}

    def write(self, name: str, paragraphs: int = 2) -> None:
        """Write a new version of a file. Its word, as ``word_of`` gives it, stands in every paragraph."""
        word = f"{Path(name).stem}v{sum(map(len, self.versions.values()))}"
        texts = [f"# The {word} document"]
        for number in range(paragraphs):
            words = " ".join(self.chance.choices(_WORDS, k=self.chance.randrange(20, 60)))
            texts.append(
                f"Paragraph {number} of {word} says:\n{words}.\n{_CHINESE if number % 3 == 2 else ''}"
            )
        self._put(name, "\n\n".join(texts) + "\n")

    def _put(self, name: str, text: str) -> None:
        self.versions.setdefault(name, []).append(text)
        self.since.setdefault(name, set()).add(text)
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self.folder / name).unlink()
        self.since.setdefault(name, set()).add(None)

    def rename(self, name: str, target: str) -> None:
        """Give a file another name, which another file may have had."""
        if name == target:
            return
        text = (self.folder / name).read_text(encoding="utf-8")
        (self.folder / target).parent.mkdir(exist_ok=True)
        (self.folder / name).replace(self.folder / target)
        self.since.setdefault(name, set()).add(None)
        self.since.setdefault(target, set()).add(text)
        self.versions.setdefault(target, []).append(text)

    def change_in_place(self, name: str) -> None:
        """Change a file so that neither its size nor its date tells."""
        path = self.folder / name
        before = path.stat()
        text = path.read_text(encoding="utf-8")
        place = text.rindex(".") - 1
        self._put(name, text[:place] + ("x" if text[place] != "x" else "y") + text[place + 1 :])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size

    def fill(self, files: int) -> None:
        """Write some files of a page and some of several."""
        for number in range(files):
            self.write(f"part{number % 3}/f{number:02}.{'md' if number % 2 else 'txt'}", 1 + number % 7)

    def change_some(self) -> None:
        """Add, change and delete a few files."""
        for name in self.chance.sample(self.here, k=min(4, len(self.here))):
            if self.chance.random() < 0.35:
                self.delete(name)
            else:
                self.write(name, self.chance.randrange(1, 6))
        for _ in range(self.chance.randrange(1, 4)):
            self.write(f"part{self.chance.randrange(3)}/n{self.chance.randrange(1000):03}.md", 3)

    def check(self, passage: Passage) -> str:
        """That a passage is a piece of its file as the file was at some time; that version's text."""
        assert passage.absolute == str(self.folder / passage.path)
        for text in self.versions[passage.path]:
            if text[passage.start : passage.end] == passage.text:
                assert passage.text
                assert passage.first_line == 1 + text.count("\n", 0, passage.start)
                assert passage.last_line == 1 + text.count("\n", 0, passage.end - 1)
                return text
        raise AssertionError(f"{passage.path}:{passage.start}-{passage.end} was never {passage.text!r}")


def word_of(text: str) -> str:
    """The word that only this version of a document has."""
    return text.partition("# The ")[2].partition(" ")[0]


def stored_texts(index_dir: Path) -> dict[str, str]:
    """The documents of an index, by path."""
    with closing(Store.read(index_dir)) as store:
        rows = store.connection.execute("SELECT path, text FROM files JOIN documents USING (id)").fetchall()
    return dict(rows)


def check_answers(documents: Documents, index_dir: Path) -> int:
    """That every document of an index is found by its own word, in its own text; how many there are."""
    texts = stored_texts(index_dir)
    with closing(Retriever.open(index_dir, HashingEmbedder())) as retriever:
        for path, text in texts.items():
            assert text in documents.versions[path]
            found = [item.passage for item in retriever.search(word_of(text), 10, floor=0.25)]
            assert all(documents.check(passage) == texts[passage.path] for passage in found)
            assert {passage.path for passage in found if word_of(text) in passage.text} == {path}
    return len(texts)

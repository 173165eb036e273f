#!/usr/bin/env python3
"""How long and how much memory the index takes at size: makes trees, measures in processes of their own.

    python scripts/index_figures.py unchanged             a second run over 10,000 files
    python scripts/index_figures.py passages --model minilm-l6   search and info at 100,000 passages
    python scripts/index_figures.py folder                a folder of 1 GB of mixed files

Passages are embedded by counting words into 384 buckets: these figures are about everything but the model.
Questions of ``passages`` also run through the model that ``--model`` names, whose time counts.
A table goes to stderr, JSON to stdout. ``--keep FOLDER`` keeps trees and index there, for another look.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import BertPreTokenizer

from ragla.config import RetrieveSettings
from ragla.retrieve import Retriever, index_folders

DIMENSION = 384
MIB = 1 << 20
COMMON = """
the of and to in a is that for it as was with be by on not he his but at are
this have from or had an which you were her all she there would their we him been has
when who will no more if out so said what
"""
QUESTIONS = (
    "What is the {0} of the {1} in {2}?", "How many {0} were there when {1} was {2}?", "{0} {1}",
    "Which {0} would have been {1} by the {2} {3}, and who said so?", "Who had {0} with {1}?",
)  # fmt: skip
Figures = dict[str, Any]


class CountingEmbedder:
    """Bag of words in 384 buckets; quick, so that what is measured is the index."""

    name = "counting"
    dimension = DIMENSION
    max_tokens = 256
    overhead_tokens = 2
    identity = {"embedder": "counting", "revision": "1", "dimension": str(DIMENSION)}  # noqa: RUF012

    def __init__(self, also: Any = None) -> None:
        self.tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        self.tokenizer.pre_tokenizer = BertPreTokenizer()
        self._also = also
        self._buckets: dict[str, int] = {}

    def _vector(self, text: str) -> Any:
        buckets = self._buckets
        for word in (words := text.lower().split()):
            if word not in buckets:
                buckets[word] = zlib.crc32(word.encode()) % DIMENSION
        counts = np.bincount([buckets[word] for word in words], minlength=DIMENSION).astype(np.float32)
        counts += 1e-3
        if len(buckets) > 1_000_000:
            buckets.clear()
        return counts / np.linalg.norm(counts)

    def encode_passages(self, texts: Sequence[str], batch_size: int = 32) -> Any:
        """Unit vectors."""
        return np.array([self._vector(text) for text in texts], dtype=np.float32).reshape(-1, DIMENSION)

    def encode_query(self, text: str) -> Any:
        """Unit vector; the model's is made too, and thrown away."""
        if self._also is not None:
            self._also.encode_query(text)
        return self._vector(text)

    def readable_share(self, text: str) -> float:
        """Of the model, else all."""
        return 1.0 if self._also is None else float(self._also.readable_share(text))


class Words:
    """Text whose words are as unequal as those of a language: Zipf's law over 60,000 words."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        made = random.Random(1)
        syllables = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]
        rare = ["".join(made.choices(syllables, k=made.randint(2, 5))) for _ in range(60_000)]
        self._all = COMMON.split() + rare
        self._weights = list(itertools.accumulate(1 / (at + 2.7) for at in range(len(self._all))))

    def some(self, count: int) -> list[str]:
        """Words."""
        return self._random.choices(self._all, cum_weights=self._weights, k=count)

    def paragraph(self, count: int = 110) -> str:
        """Sentences of 14 words."""
        words = self.some(count)
        for at in range(12, count, 14):
            words[at - 1] += "."
            words[at] = words[at].capitalize()
        return " ".join(words) + "."

    def question(self) -> str:
        """Four words that are not everywhere, in a sentence."""
        content = self._random.choices(self._all[100:20_000], k=4)
        return self._random.choice(QUESTIONS).format(*content)


def measured(work: Callable[[], Figures]) -> Figures:
    """What ``work`` returns, with seconds, CPU seconds, and its memory in MiB, before and at most."""
    before = _resident()
    started, used = time.perf_counter(), time.process_time()
    figures = work()
    seconds, used = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": round(seconds, 2),
        "cpu_s": round(used, 2),
        "mib_before": round(before),
        "mib_peak": round(peak),
        **figures,
    }


def _resident() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def index(tree: Path, place: Path, max_bytes: int = 50_000_000) -> Figures:
    """Index a tree; what was done."""
    report = index_folders([tree], place, RetrieveSettings(), CountingEmbedder(), max_bytes=max_bytes)
    return {
        "indexed": report.indexed, "unchanged": report.unchanged, "skipped": len(report.skipped),
        "passages": report.total_passages,
    }  # fmt: skip


def searches(place: Path, model: str | None, count: int = 200) -> Figures:
    """Milliseconds of a search in an open index, the first one apart."""
    also = None
    if model:
        from ragla import models
        from ragla.retrieve import SentenceEmbedder

        also = SentenceEmbedder(models.locate(model), model, "cpu")
        also.encode_query("warm")
    before = _resident()
    started = time.perf_counter()
    retriever = Retriever.open(place, CountingEmbedder(also))
    opened = time.perf_counter() - started
    words = Words(9)
    taken, cpu = [], []
    for _ in range(count):
        question = words.question()
        started, used = time.perf_counter(), time.process_time()
        retriever.search(question, 4, 0.0)
        taken.append((time.perf_counter() - started) * 1000)
        cpu.append((time.process_time() - used) * 1000)
    retriever.close()
    tenths = statistics.quantiles(taken[1:], n=10)
    return {
        "open_s": round(opened, 2), "first_ms": round(taken[0], 1),
        "median_ms": round(statistics.median(taken[1:]), 1),
        "cpu_median_ms": round(statistics.median(cpu[1:]), 1), "ninth_tenth_ms": round(tenths[8], 1),
        "index_mib": round(_resident() - before),
    }  # fmt: skip


def small_files(folder: Path, files: int = 10_000) -> None:
    """A tree of many small files in folders of twenty."""
    words = Words(2)
    for number in range(files):
        path = folder / f"{number // 400:02}" / f"{number // 20 % 20:02}" / f"{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {words.some(1)[0]}\n\n{words.paragraph(60)}\n", encoding="utf-8")


def long_files(folder: Path, passages: int = 100_000) -> None:
    """Files of fifty sections, each about a passage."""
    words = Words(3)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(passages // 50):
        sections = (f"## {' '.join(words.some(3))}\n\n{words.paragraph()}\n" for _ in range(50))
        (folder / f"{number:05}.md").write_text("\n".join(sections), encoding="utf-8")


def mixed_files(folder: Path, size: int) -> None:
    """``size`` bytes of nine kinds of files, from a kilobyte to tens of megabytes."""
    makers = [_text, _text, _markdown, _html, _csv, _json_lines, _text, _docx, _pdf]
    sizes = [2_000, 20_000, 200_000, 2_000_000, 20_000_000]
    chosen = random.Random(4)
    made = 0
    for number in itertools.count():
        maker = makers[number % len(makers)]
        limit = sizes[chosen.choices(range(5), (40, 30, 20, 8, 2))[0]]
        suffix, content = maker(Words(number), min(limit, 2_000_000 if maker in (_docx, _pdf) else limit))
        path = folder / f"{number % 40:02}" / f"{number:06}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        made += len(content)
        if made >= size:
            return


def _paragraphs(words: Words, size: int) -> Iterator[str]:
    while size > 0:
        yield (paragraph := words.paragraph())
        size -= len(paragraph) + 2


def _text(words: Words, size: int) -> tuple[str, bytes]:
    return "txt", "\n\n".join(_paragraphs(words, size)).encode()


def _markdown(words: Words, size: int) -> tuple[str, bytes]:
    return "md", "\n\n".join(f"## {one[:20]}\n\n{one}" for one in _paragraphs(words, size)).encode()


def _html(words: Words, size: int) -> tuple[str, bytes]:
    body = "".join(f"<h2>{one[:20]}</h2><p>{one}</p>" for one in _paragraphs(words, size))
    return "html", f"<!doctype html><title>page</title><body>{body}</body>".encode()


def _csv(words: Words, size: int) -> tuple[str, bytes]:
    rows = (",".join(words.some(8)) for _ in range(size // 50))
    return "csv", "\n".join(["a,b,c,d,e,f,g,h", *rows]).encode()


def _json_lines(words: Words, size: int) -> tuple[str, bytes]:
    return "jsonl", "\n".join(json.dumps({"text": one}) for one in _paragraphs(words, size)).encode()


def _docx(words: Words, size: int) -> tuple[str, bytes]:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "".join(f"<w:p><w:r><w:t>{one}</w:t></w:r></w:p>" for one in _paragraphs(words, size * 2))
    kinds = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    package = "http://schemas.openxmlformats.org/package/2006"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{kinds}"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}" '
            'Target="word/document.xml"/></Relationships>',
        )
        archive.writestr(
            "word/document.xml", f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'
        )
    return "docx", made.getvalue()


def _pdf(words: Words, size: int) -> tuple[str, bytes]:
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    font = DictionaryObject({NameObject(f"/{k}"): NameObject(f"/{v}") for k, v in (
        ("Type", "Font"), ("Subtype", "Type1"), ("BaseFont", "Helvetica"))})  # fmt: skip
    reference = writer._add_object(font)
    for paragraph in _paragraphs(words, size):
        page = writer.add_blank_page(600, 800)
        lines = (f"({paragraph[at : at + 90]}) Tj 0 -14 Td" for at in range(0, len(paragraph), 90))
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 10 Tf 40 760 Td {' '.join(lines)} ET".encode())
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): reference})}
        )
        page[NameObject("/Contents")] = writer._add_object(stream)
    made = io.BytesIO()
    writer.write(made)
    return "pdf", made.getvalue()


def _child(*words: str | Path) -> Figures:
    """Figures of this script run for one step, so that its memory is nothing else's."""
    command = [sys.executable, __file__, "--step", *map(str, words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Figures = json.loads(done.stdout)
    return found


def _command(*words: str | Path) -> Figures:
    """Seconds and peak memory of a command as a user runs it."""
    command = [str(Path(sys.executable).with_name("ragla")), *map(str, words)]
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return {"seconds": round(time.perf_counter() - started, 2), "mib_peak": round(usage.ru_maxrss / 1024)}


def unchanged(work: Path, options: argparse.Namespace) -> Figures:
    """A second run over files that are as they were."""
    tree, place = work / "files", work / "files.index"
    small_files(tree)
    return {"first": _child("index", tree, place), "again": _child("index", tree, place)}


def passages(work: Path, options: argparse.Namespace) -> Figures:
    """Searches and ``ragla info`` in a large index."""
    tree, place = work / "passages", work / "passages.index"
    if not place.exists():
        long_files(tree, options.passages)
    figures = {"index": _child("index", tree, place)}
    figures["search"] = _child("search", place, *([options.model] if options.model else []))
    figures["info"] = _command("info", "--json", "--index", place)
    return figures


def folder(work: Path, options: argparse.Namespace) -> Figures:
    """One run over a large folder, and the same over a tenth of it, to see what grows."""
    figures = {}
    for name, size in (("tenth", options.bytes // 10), ("whole", options.bytes)):
        mixed_files(work / name, size)
        figures[name] = _child("index", work / name, work / f"{name}.index")
    return figures


def step(words: list[str]) -> Figures:
    """One step, in the process that is measured."""
    if words[0] == "index":
        return measured(lambda: index(Path(words[1]), Path(words[2])))
    return measured(lambda: searches(Path(words[1]), words[2] if len(words) > 2 else None))


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="*", choices=("unchanged", "passages", "folder", []), metavar="WHAT")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--model", help="embedder whose time counts, such as minilm-l6")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.step)))
        return
    measures = {"unchanged": unchanged, "passages": passages, "folder": folder}
    with tempfile.TemporaryDirectory() as made:
        work = options.keep or Path(made)
        work.mkdir(parents=True, exist_ok=True)
        figures = {what: measures[what](work, options) for what in options.what or measures}
    for what, steps in figures.items():
        for name, row in steps.items():
            cells = "  ".join(f"{key} {value}" for key, value in row.items())
            print(f"{what:10} {name:8} {cells}", file=sys.stderr)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

"""What people see: screens of real commands, compared with those that were looked at.

    RAGLA_RENEW=1 .venv/bin/python -m pytest tests/golden    writes them anew; look at each before committing

Colours are those of the terminal's own palette, so that one recording holds for dark and light.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragla.environment import Finding
from tests.cli.tiny_models import PARROT, save_embedder, save_parrot, write_documents, write_profile
from tests.golden.recorder import in_a_pipe, on_a_terminal, run, still_clock

FOLDER = Path(__file__).parent
RENEW = bool(os.environ.get("RAGLA_RENEW"))
QUESTION = "What is the hotel limit in Paris?"
ASK = ["ask", QUESTION, "-s", "decode.cost_aware=false", "-s", "decode.draft_budget=12"]
FIRST = ["index", "my docs"]
PIPE = 0  # columns
INDEX, KEPT = ".ragla", "kept"
AGAIN = ["replay", "recorded.json"]
BENCH = ["bench", "--show", str(Path(__file__).parents[2] / "docs" / "bench" / "smollm2-135m-float32.json")]
TYPED = [f"{QUESTION}\n", "/sources\n", "/nonsense\n", "/quit\n"]
AROUND = [  # of some machine: those of this one are others tomorrow
    Finding("ragla", "ok", "0.1.0, Python 3.12.4, Linux 6.8.0 x86_64; profile offline"),
    Finding("torch", "ok", "2.13.0+cpu, AVX512"),
    Finding(
        "drafting",
        "note",
        "not compiled: its twin in Python runs, some 20 times slower",
        "install a C compiler, then pip install --force-reinstall --no-deps ragla",
    ),
    Finding("memory", "ok", "9.1 GB free of 16.7 GB, swap 2.1 GB; qwen2.5-coder-1.5b takes about 2.3 GB"),
    Finding(
        "model",
        "wrong",
        "model qwen2.5-coder-1.5b is not on this machine",
        "ragla models pull qwen2.5-coder-1.5b",
        5,
    ),
    Finding(
        "terminal", "ok", "stdout and stderr a terminal of 80 columns, 256 colours, links (OSC 8), utf-8"
    ),
]

# name → words of the command, columns, the step of the answer at which to look
RECORDINGS: dict[str, tuple[list[str], int, int | None]] = {
    "index-40": (FIRST, 40, None),
    "index-pipe": (["index", "--retry"], PIPE, None),
    "index-dry-run-80": (["index", "--dry-run"], 80, None),
    "ask-40": (ASK, 40, None),
    "ask-80": (ASK, 80, None),
    "ask-200": (ASK, 200, None),
    "ask-pipe": (ASK, PIPE, None),
    "ask-live-40": (ASK, 40, 3),
    "ask-live-80": (ASK, 80, 3),
    "ask-trace-40": ([*ASK, "--trace"], 40, None),
    "ask-trace-80": ([*ASK, "--trace"], 80, None),
    "search-40": (["search", "酒店每晚上限", "-k", "2"], 40, None),
    "search-80": (["search", QUESTION, "-k", "2", "--explain"], 80, None),
    "why-not-40": (["why-not", "boats and piers.txt", QUESTION, "-k", "1"], 40, None),
    "info-40": (["info"], 40, None),
    "info-80": (["info"], 80, None),
    "models-40": (["models", "list"], 40, None),
    "models-80": (["models", "list"], 80, None),
    "answers-40": (["answers", "list"], 40, None),
    "remove-40": (["remove", "my docs/lighthouse.txt"], 40, None),
    "error-40": (["index", "nowhere"], 40, None),
    "error-80": (["serch", "x"], 80, None),
    "chat-40": (["chat", *ASK[2:]], 40, None),
    "chat-80": (["chat", *ASK[2:]], 80, None),
    "replay-40": (AGAIN, 40, None),
    "replay-80": (AGAIN, 80, None),
    "replay-pipe": (AGAIN, PIPE, None),
    "replay-live-80": (AGAIN, 80, 3),
    "replay-step-80": ([*AGAIN, "--step", "2"], 80, None),
    "doctor-40": (["doctor"], 40, None),
    "doctor-80": (["doctor"], 80, None),
    "doctor-pipe": (["doctor"], PIPE, None),
    "bench-40": (BENCH, 40, None),
    "bench-80": (BENCH, 80, None),
    "bench-200": (BENCH, 200, None),
    "config-40": (["config", "show"], 40, None),
    "config-80": (["config", "show"], 80, None),
    "help-40": (["search", "--help"], 40, None),
    "help-80": (["search", "--help"], 80, None),
}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder whose path has the same length everywhere, with documents and a model that answers alike."""
    folder = Path(tempfile.mkdtemp(prefix="ragla-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RAGLA_")]:
            patch.delenv(name)
        for name, path in (("RAGLA_CACHE", "cache"), ("HOME", "home"), ("XDG_CONFIG_HOME", "home/config")):
            patch.setenv(name, str(folder / path))
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
        profile = write_profile(
            folder / "tiny.yaml", save_parrot(folder / "parrot", PARROT), save_embedder(folder / "embedder")
        )
        patch.setenv("RAGLA_PROFILE", profile.name)
        docs = write_documents(folder / "my docs")
        (docs / "scan.pdf").write_bytes(b"%PDF-1.4\n%%EOF\n")
        patch.chdir(folder)
        run(["index", docs.name, "-q"])
        with pytest.MonkeyPatch.context() as still:
            still_clock(still)
            run([*ASK, "-q", "--record", "recorded.json"])
        run(["answers", "clear", "-q"])  # what earlier answers taught would come into the drafts
        shutil.copytree(INDEX, KEPT)
        yield folder
    shutil.rmtree(folder)


def recorded(name: str, folder: Path) -> str:
    """What a recording shows now; each begins with the same index, or with none."""
    words, columns, step = RECORDINGS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGLA_CACHE", str(folder / "cache"))
        patch.setattr("ragla.environment.look_around", lambda at: iter(AROUND))
        shutil.rmtree(INDEX)
        if words != FIRST:
            shutil.copytree(KEPT, INDEX)
        if words[0] == "answers":
            run([*ASK, "-q"])
        return in_a_pipe(words) if columns == PIPE else on_a_terminal(words, columns, step=step, typed=TYPED)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_command_looks_as_it_did_when_it_was_looked_at(name: str, place: Path) -> None:
    shown = recorded(name, place)
    path = FOLDER / f"{name}.txt"
    if RENEW:
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8"), "RAGLA_RENEW=1 .venv/bin/python -m pytest tests/golden"


def test_every_recording_belongs_to_a_command() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(RECORDINGS)


@pytest.mark.parametrize("name", RECORDINGS)
def test_colours_are_those_of_the_terminal(name: str) -> None:
    """None that a dark or a light background swallows, and none that is chosen by its number."""
    styles = re.findall(
        r"^\d+:\d+-\d+ (.+)$", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    used = {word for style in styles for word in style.split()}
    assert used <= {
        "bold",
        "italics",
        "underscore",
        "reverse",
        "red",
        "green",
        "brown",
        "blue",
        "magenta",
        "cyan",
    }

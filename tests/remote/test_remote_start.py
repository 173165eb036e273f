"""How soon a server is asked: nothing heavy is loaded for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.remote.fake_server import saying, serving

HEAVY = ("torch", "transformers", "sentence_transformers", "faiss", "ragla.answer")
SCRIPT = """
import sys
from ragla.evidence import Evidence, Source
from ragla.prompt import PromptPassage
from ragla.profiles import load
from ragla.remote.opening import open_server

profile = load({"decode.backend": "remote", "decode.remote_url": sys.argv[1]}).profile
evidence = Evidence([PromptPassage("travel", "The limit is 180 euros.")], [Source(1, "travel.md", 1, 1, 0.9)])
answer = open_server(profile).answer("What is the limit?", evidence)
print(answer.text, [name for name in %r if name in sys.modules], sep="\\n")
"""
COMMAND = """
import sys
from ragla.cli import app
try:
    app()
finally:
    print([name for name in %r if name in sys.modules])
"""


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script % (HEAVY,), *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_answer_needs_no_torch() -> None:
    with serving(saying("180 euros")) as fake:
        done = run(SCRIPT, fake.url)
    assert done.stdout.splitlines() == ["180 euros", "[]"], done.stderr


def test_a_server_that_refuses_is_known_before_anything_is_loaded(tmp_path: Path) -> None:
    """The index is not even opened, which loads the embedder."""
    gone = lambda line, asked: line.json("401 Unauthorized", {})  # noqa: E731
    with serving(models=gone) as fake:
        done = run(COMMAND, "ask", "Why?", "--index", tmp_path, *fake.flags)
    assert done.stdout.splitlines() == ["[]"], done.stderr
    assert "asks for a key" in done.stderr

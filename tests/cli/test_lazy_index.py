"""A run of ``ragla index`` over files that are as they were loads no model."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.tiny_world import Ragla, World

SCRIPT = """
import sys
from ragla.cli import app
try:
    app()
finally:
    print([name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules])
"""


def test_a_run_that_reads_nothing_loads_nothing(ragla: Ragla, world: World) -> None:
    assert ragla("index", world.docs, *world.flags).exit_code == 0  # notes what the embedder is
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "index", str(world.docs), *world.flags],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert "0 indexed" in done.stderr

"""The trie is integers and the standard library."""

from __future__ import annotations

import subprocess
import sys


def test_the_trie_loads_neither_torch_nor_numpy() -> None:
    program = (
        "import sys, ragla.trie, ragla.trie.replay\n"
        "heavy = {'torch', 'numpy', 'transformers', 'rich', 'typer', 'pydantic'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

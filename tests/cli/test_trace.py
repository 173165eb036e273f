"""``--trace`` draws each step's draft tree, ``--trace-json`` keeps it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from ragla.render_trace import step_tree
from ragla.trie import DraftTree, Origin
from tests.cli.tiny_models import PARROT, save_parrot
from tests.cli.tiny_world import QUESTION, Ragla, World, document
from tests.documented import faults


@pytest.fixture(scope="module")
def parrot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_parrot(tmp_path_factory.mktemp("parrot"), PARROT)


def drawn(tree: DraftTree, accepted: list[int], pieces: list[str], width: int = 60) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(step_tree(3, tree, accepted, pieces))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def a_tree() -> tuple[DraftTree, list[int]]:
    """In → Paris → is, read in a document, of which Paris was accepted; and In → Rome, a second thought."""
    tree = DraftTree([10])
    origin = Origin("document:0:en/travel.md", 7)
    first = tree.add(11, 0, 0.5, origin)
    tree.add(12, 0, 0.25)
    second = tree.add(13, first, 0.4, origin)
    tree.add(14, second, 0.3, origin)
    return tree, [first]


PIECES = ["In", " Par\x1bis", " Rome", " is", " fine"]


def test_a_draft_is_drawn_as_a_tree() -> None:
    assert drawn(*a_tree(), PIECES) == [
        "step 3 · 4 nodes, 1 accepted · after 'In'",
        "├── ✓ ' Par\\x1bis' 0.50 en/travel.md",
        "│   └── · ' is fine' 0.40–0.30 en/travel.md",
        "└── · ' Rome' 0.25 model",
    ]


def test_a_tree_is_whole_on_a_narrow_terminal() -> None:
    lines = drawn(*a_tree(), PIECES, width=40)
    assert max(map(len, lines)) <= 40
    assert "".join(lines).count("✓") == 1


def test_the_steps_of_an_answer_are_drawn_beside_it(ragla: Ragla, world: World, parrot: Path) -> None:
    drafted = [*world.flags, "--model", parrot, "-s", "decode.cost_aware=false"]  # whatever steps cost here
    plain = ragla("ask", QUESTION, *drafted)
    traced = ragla("ask", QUESTION, *drafted, "--trace")
    assert traced.stdout == plain.stdout
    assert "with the prompt · " in traced.stderr  # the same answer was given before
    assert any("✓" in line for line in traced.stderr.splitlines())
    forgetful = ragla("ask", QUESTION, *drafted, "-s", "decode.keep_answers=false", "--trace")
    assert "step 1 · " in forgetful.stderr


def test_the_steps_of_an_answer_are_kept(ragla: Ragla, world: World, parrot: Path, tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    words = ["ask", QUESTION, *world.flags, "--model", parrot, "--json", "--trace-json", path]
    answer = document(ragla(*words))
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [fault for record in records for fault in faults(record)] == []
    first, *steps, last = records
    assert (first["event"], first["question"]) == ("question", QUESTION)
    assert (last["event"], last["answer"]) == ("answer", answer["answer"])
    assert len(steps) == last["steps"] == answer["stats"]["steps"]
    assert 1 + sum(step["committed"] for step in steps) == answer["stats"]["tokens"]
    for at, step in enumerate(steps, 1):
        assert (step["event"], step["step"]) == ("step", at)
        sizes = {len(step[name]) for name in ("token_ids", "texts", "parents", "probabilities", "origins")}
        assert len(sizes) == 1
        for node in step["accepted"]:
            assert step["parents"][node] in (0, *step["accepted"])
    assert any(origin for step in steps for origin in step["origins"])
    assert ragla(*words).exit_code == 0  # an earlier trace is replaced


@pytest.mark.parametrize(
    ("name", "said"),
    [("notes.txt", "exists and is no trace"), ("no/folder", "cannot be written"), ("-", "stdout")],
)
def test_a_trace_overwrites_nothing_else(
    ragla: Ragla, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("mine", encoding="utf-8")
    result = ragla("ask", QUESTION, *world.flags, "--trace-json", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr.splitlines()[0]
    assert Path("notes.txt").read_text(encoding="utf-8") == "mine"

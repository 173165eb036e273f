"""Ctrl-C between steps: what there is of an answer is shown, marked and not kept; twice ends at once."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from ragla.terminal import interruptible
from ragla.text_stream import TextStream
from tests.cli.test_ask_file import records
from tests.cli.tiny_world import QUESTION, Ragla, World, document

NONSENSE = "error: /nonsense: no such command"

pytestmark = pytest.mark.usefixtures("heard_interrupts")


@pytest.fixture
def press(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``press(step, times)``: Ctrl-C is pressed when the answer has come so far."""

    def arrange(step: int, times: int = 1) -> None:
        honest = TextStream.push

        def push(self: TextStream, token_ids: list[int], end_ids: frozenset[int]) -> None:
            honest(self, token_ids, end_ids)
            self.__dict__["pushed"] = self.__dict__.get("pushed", 0) + 1
            if self.__dict__["pushed"] == step:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(TextStream, "push", push)

    return arrange


def plain(world: World, *more: str) -> list[str]:
    """Flags under which a step is a token."""
    return [*world.flags, "-s", "decode.draft_budget=1", *more]


def test_what_there_is_of_an_answer_is_shown(ragla: Ragla, world: World, press: Any) -> None:
    whole = document(ragla("ask", QUESTION, *plain(world), "--json"))
    press(5)
    result = ragla("ask", QUESTION, *plain(world), "--json")
    answer = document(result)
    assert result.exit_code == 130
    assert (answer["interrupted"], whole["interrupted"]) == (True, False)
    assert 0 < len(answer["answer"]) < len(whole["answer"])
    assert answer["stats"]["tokens"] == 5
    assert whole["answer"].startswith(answer["answer"].rstrip("\ufffd"))
    shown = ragla("ask", QUESTION, *plain(world))
    assert shown.exit_code == 130
    assert shown.stdout.endswith("\n")
    assert shown.stderr.splitlines()[-1] == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_part_of_an_answer_is_verified_as_far_as_it_goes(ragla: Ragla, world: World, press: Any) -> None:
    press(4)
    answer = document(ragla("ask", QUESTION, *plain(world, "--verify"), "--json"))
    assert answer["verify"] == {"verdict": "equal", "tokens": 4, "dtype": "int8", "difference": None}


def test_a_part_of_an_answer_is_not_kept(ragla: Ragla, world: World, press: Any) -> None:
    assert ragla("answers", "clear", "--index", world.index).exit_code == 0
    press(4)
    ragla("ask", QUESTION, *plain(world))
    assert document(ragla("answers", "list", *world.flags, "--json"))["answers"] == []


def test_before_the_first_word_there_is_nothing_to_show(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragla.decode.prefill._chunk", lambda *_: signal.raise_signal(signal.SIGINT))
    result = ragla("ask", QUESTION, *world.flags)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")
    told = document(ragla("ask", QUESTION, *world.flags, "--json"))
    assert (told["schema"], told["exit_code"]) == ("ragla.error/1", 130)


def test_a_second_interrupt_ends_at_once(ragla: Ragla, world: World, press: Any) -> None:
    press(2, times=2)
    result = ragla("ask", QUESTION, *plain(world))
    assert result.exit_code == 130
    assert result.stdout.endswith("\n")
    assert result.stderr == "interrupted\n"


def test_an_interrupt_ends_a_list_of_questions(ragla: Ragla, world: World, press: Any) -> None:
    press(3)
    result = ragla("ask", "--file", "-", "--jsonl", *plain(world), stdin=f"{QUESTION}\n{QUESTION}\n")
    assert result.exit_code == 130
    [answer] = records(result)
    assert answer["interrupted"]


def test_an_interrupt_ends_one_answer_of_a_conversation(ragla: Ragla, world: World, press: Any) -> None:
    press(3)
    result = ragla("chat", "--jsonl", *plain(world), stdin=f"{QUESTION}\n{QUESTION}\n")
    assert result.exit_code == 0
    first, second = records(result)
    assert first["interrupted"]
    assert second["interrupted"]  # the same key is pressed in each
    assert first["stats"]["prompt_tokens"] == second["stats"]["prompt_tokens"]  # a part is told to nobody


def test_an_interrupt_behind_an_answer_does_not_end_a_conversation(
    ragla: Ragla, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragla.cli_chat.show_interruption", lambda _: signal.raise_signal(signal.SIGINT))
    result = ragla("chat", *plain(world), stdin=f"{QUESTION}\n/nonsense\n{QUESTION}\n")
    assert result.stderr.count(" tokens in ") == 2
    assert [line for line in result.stderr.splitlines() if line in ("interrupted", NONSENSE)] == [
        "interrupted",
        NONSENSE,
        "interrupted",
    ]


def test_interrupts_that_are_ignored_or_handled_elsewhere_stay_so() -> None:
    for handler in (signal.SIG_IGN, lambda *_: None):
        signal.signal(signal.SIGINT, handler)
        with interruptible() as stopped:
            stopped()
            signal.raise_signal(signal.SIGINT)
            assert not stopped()
        assert signal.getsignal(signal.SIGINT) is handler

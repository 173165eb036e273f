"""``ragla replay``: a recorded answer again, without a model and without an index."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragla import completion
from ragla.asking import PlainFlag
from ragla.errors import UsageError
from ragla.flags import JsonFlag
from ragla.terminal import data_stream, errors, output, print_json

if TYPE_CHECKING:
    from ragla.recording import Recording

SLOWEST, FASTEST = 0.01, 1000.0


def replay(
    recording: Annotated[
        str,
        typer.Argument(
            metavar="RECORDING",
            autocompletion=completion.recordings,
            help="What ragla ask --record wrote; - reads it from stdin.",
        ),
    ],
    speed: Annotated[
        float | None,
        typer.Option(
            "--speed",
            metavar="FACTOR",
            help="2: twice as fast as it came; 0: all at once, as where stdout is no terminal.",
        ),
    ] = None,
    draws: Annotated[bool, typer.Option("--trace", help="Draw each step's draft tree on stderr.")] = False,
    step: Annotated[
        int | None, typer.Option("--step", metavar="NUMBER", help="Show the draft tree of one step alone.")
    ] = None,
    plain: PlainFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Show a recorded answer again, without a model and without an index.

    [bold]ragla replay answer.json[/]

    [bold]ragla replay answer.json --speed 4 --trace[/]

    [bold]ragla replay answer.json --step 3[/]

    --json prints the answer's document, as ragla ask --json did.
    """
    data_stream()  # without stdout there is no use in it
    check_flags(speed, step, draws=draws, as_json=as_json)
    from ragla.recording import read_recording

    found = read_recording(recording)
    if as_json:
        print_json(found.document)
    elif step is not None:
        show_step(found, step)
    else:
        show(found, speed, draws=draws, plain=plain)


def check_flags(speed: float | None, step: int | None, *, draws: bool, as_json: bool) -> None:
    """Raises UsageError for a speed that is none, and for flags that exclude each other."""
    if speed is not None and not (speed == 0 or SLOWEST <= speed <= FASTEST):
        raise UsageError(
            f"--speed {speed:g}: from {SLOWEST:g} to {FASTEST:g}, or 0", "all at once: --speed 0"
        )
    if as_json and (draws or step is not None):
        raise UsageError("--json has the answer, not its draft trees", "they are in the recording: steps")


def show(found: Recording, speed: float | None, *, draws: bool, plain: bool) -> None:
    """The question, the answer as it came, what stood behind it, and where it is from."""
    from ragla.panel import show_panel
    from ragla.render import one_line
    from ragla.replaying import replay

    answer = found.answer
    if speed is None:
        speed = 1.0 if sys.stdout.isatty() else 0.0
    errors().print(f"› {one_line(answer.question)}", style="bold", soft_wrap=True)
    replay(found, speed=speed, draws=draws, plain=plain)
    show_panel(answer, plain=plain, verify=found.verify)
    if answer.interrupted:
        errors().print("interrupted when it was recorded", style="yellow")
    named = f"recorded {found.day_and_time} · {found.model} · profile {found.profile} · ragla {found.ragla}"
    errors().print(one_line(named), style="dim", soft_wrap=True)


def show_step(found: Recording, number: int) -> None:
    """One draft tree on stdout. Raises UsageError for a step that is not there."""
    from ragla.render import counted
    from ragla.replaying import drawn

    chosen = next((step for step in found.steps if step.step == number), None)
    if chosen is None:
        kept = counted(len(found.steps), "draft tree")
        raise UsageError(f"--step {number}: the recording has {kept}", "all of them: ragla replay --trace")
    output().print(drawn(chosen))

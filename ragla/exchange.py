"""Questions of one command about one index, and the conversation that they belong to.

Each answer is kept as the end of the last conversation, so that ``ragla ask --continue`` and
``ragla chat --continue`` can go on with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragla.asking import Asking, Outcome

if TYPE_CHECKING:
    from ragla.conversation import Conversation
    from ragla.conversation_file import ConversationFile

ContinueFlag = Annotated[
    bool, typer.Option("--continue", "-c", help="Go on with the last conversation about this index.")
]


class Exchange:
    """Asks, and keeps. ``kept``: None where ``decode.keep_answers`` is off.

    ``told``: how many earlier turns the exchange began with, None where it goes on with nothing.
    """

    def __init__(
        self,
        asking: Asking,
        conversation: Conversation | None,
        kept: ConversationFile | None,
        told: int | None,
    ) -> None:
        self.asking = asking
        self.conversation = conversation
        self.kept = kept
        self.told = told

    @classmethod
    def open(cls, asking: Asking, *, continued: bool, alone: bool = False) -> Exchange:
        """For an open index; ``alone``: for one question, which stands alone unless it is ``continued``."""
        from ragla.conversation import Conversation
        from ragla.conversation_file import ConversationFile, Resumed

        kept = None
        if asking.profile.decode.keep_answers:
            kept = ConversationFile(asking.place, asking.retriever.elsewhere)
        if alone and not continued:
            return cls(asking, None, kept, None)
        resumed = Resumed()
        if continued:
            off = Resumed(notice="decode.keep_answers is false: no conversation is kept to go on with")
            resumed = kept.resume(asking.retriever) if kept is not None else off
        if resumed.notice:
            asking = replace(asking, notices=(*asking.notices, resumed.notice))
        conversation = Conversation(
            asking.answerer, asking.retriever, resumed.turns, resumed.asked, resumed.shown
        )
        return cls(asking, conversation, kept, len(resumed.turns) if continued else None)

    def ask(self, question: str) -> Outcome:
        """Answer and keep. Raises RaglaError."""
        outcome = self.asking.ask(question, self.conversation)
        if self.kept is None:
            return outcome
        problem = self.kept.add(outcome.answer, self.asking.retriever)
        if self.conversation is None or outcome.problem:  # nobody has asked for it, or there is worse
            return outcome
        return replace(outcome, problem=problem)

    def begin(self) -> None:
        """Forget what was said; the next question begins another conversation."""
        if self.conversation is not None:
            self.conversation.forget()
        if self.kept is not None:
            self.kept.begin()

    def as_json(self) -> dict[str, Any]:
        """What the document of an answer says of the conversation, if it goes on with one."""
        return {} if self.told is None else {"conversation": {"turns": self.told}}

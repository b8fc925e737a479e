"""The question what to do about a session that cannot be written here, since another claw has it open or it cannot be locked:
go on in a copy, read it, take another, or none."""

from collections.abc import Sequence
from typing import Literal

from tui.exact import Row
from tui.sanitize import clean
from tui.screens.question import Question
from tui.session_seam import SessionTakenError
from tui.widgets.choices import Answerable

Choice = Literal["fork", "read", "another"]
_CHOICES: dict[str, Choice] = {"f": "fork", "r": "read", "a": "another"}


class BusySessionScreen(Question[Choice]):
    """Dismissed with the choice, or with None."""

    answer_rows = 4
    escape_answers = ""

    def __init__(self, taken: SessionTakenError) -> None:
        super().__init__(
            [
                Row("This session cannot be written here", "title"),
                Row(""),
                *(Row(clean(line)) for line in taken.reason.split("\n")),
            ]
        )

    def answers(self, near: str | None, far: str | None) -> Sequence[Answerable]:
        return (
            Answerable("f", "Fork it: go on in a copy", "fork"),
            Answerable("r", "Read only: look at it, write nothing", "read"),
            Answerable("a", "Another session", "another"),
            Answerable("c", "Cancel", "cancel"),
        )

    def give(self, answer: Answerable) -> None:
        self.finish(_CHOICES.get(answer.key))

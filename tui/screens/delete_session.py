"""The question whether a session is deleted for good. No is marked at first."""

from collections.abc import Sequence

from tui.bridge import SessionSummary
from tui.exact import Row
from tui.sanitize import clean, one_line
from tui.screens.question import Question
from tui.widgets.choices import Answerable, Choices


def question_rows(session: SessionSummary) -> list[Row]:
    title = one_line(session.title, 200) or "(no title)"
    facts = [session.when, f"{session.entries:,} entries" if session.entries else "", clean(session.project)]
    return [
        Row("Delete this session for good?", "title"),
        Row(""),
        Row(title),
        Row(" · ".join([session.id, *(fact for fact in facts if fact)]), "dim"),
    ]


class DeleteSessionScreen(Question[bool]):
    """Dismissed with True or False."""

    def __init__(self, session: SessionSummary) -> None:
        super().__init__(question_rows(session))

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(Choices).marked = 1

    def answers(self, near: str | None, far: str | None) -> Sequence[Answerable]:
        return (Answerable("y", "Yes, delete it", "yes", near), Answerable("n", "No, keep it", "no"))

    def give(self, answer: Answerable) -> None:
        self.finish(answer.key == "y")

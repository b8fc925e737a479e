"""The question whether a message goes out with what looks like a secret in it. No is marked at first, and gives the text back."""

from collections.abc import Sequence

from tui.exact import Row
from tui.questions import SecretsSeen
from tui.sanitize import clean
from tui.screens.question import Question
from tui.widgets.choices import Answerable, Choices


class TypedSecretScreen(Question[bool]):
    """Dismissed with the decision, or with None where there is none."""

    def __init__(self, seen: SecretsSeen) -> None:
        super().__init__(
            [
                Row("Your message holds what looks like a secret. Send it?", "title"),
                Row(""),
                *(Row(clean(what)) for what in seen.what),
                Row(""),
                Row("It would go to the model as it stands, and be kept in the session's file.", "dim"),
            ]
        )

    def on_mount(self) -> None:
        self.query_one(Choices).marked = 1

    def answers(self, near: str | None, far: str | None) -> Sequence[Answerable]:
        return (
            Answerable("y", "Yes, send it as it stands", "yes", near),
            Answerable("n", "No, back to the composer", "no"),
        )

    def give(self, answer: Answerable) -> None:
        self.finish(answer.key == "y")

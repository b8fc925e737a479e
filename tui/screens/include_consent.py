"""The question whether an instruction file may include a file outside the workspace: what it would send to the model, and
which line of which file asks for it. No is marked at first; Esc decides nothing, and it is asked again another time.
"""

from collections.abc import Iterable, Iterator, Sequence

from agent.instructions.item import Include, InstructionItem
from tui.bridge import IncludeQuestion
from tui.exact import Row, spell_out
from tui.screens.question import Question
from tui.widgets.choices import Answerable, Choices


def include_questions(items: Iterable[InstructionItem]) -> tuple[IncludeQuestion, ...]:
    """What a person has to decide, each target once, in the order of the files and lines."""
    found: dict[str, IncludeQuestion] = {}
    for item in items:
        for question in _asked(item.path, item.includes):
            found.setdefault(question.target, question)
    return tuple(found.values())


def _asked(file: str, includes: Iterable[Include]) -> Iterator[IncludeQuestion]:
    for include in includes:
        if include.status == "asks":
            yield IncludeQuestion(include.path, file, include.line, include.written)
        yield from _asked(include.path, include.includes)


def include_rows(question: IncludeQuestion) -> list[Row]:
    return [
        Row("An instruction file includes a file outside the workspace", "title"),
        Row("Its text would be sent to the model with every request.", "dim"),
        Row(""),
        Row(spell_out(question.target), "command", exact=True),
        Row(""),
        Row(f"asked for by line {question.line:,} of", "dim"),
        Row(spell_out(question.file), "path", exact=True),
        Row(spell_out(f"@{question.written.removeprefix('@')}"), "path", exact=True),
    ]


class IncludeConsentScreen(Question[bool]):
    """Dismissed with the decision, or with None where there is none."""

    near_answers = ""
    escape_answers = ""

    def __init__(self, question: IncludeQuestion) -> None:
        super().__init__(include_rows(question))

    def on_mount(self) -> None:
        self.query_one(Choices).marked = 1

    def answers(self, near: str | None, far: str | None) -> Sequence[Answerable]:
        return (
            Answerable("y", "Yes, include it from now on", "yes", far),
            Answerable("n", "No, never include it (Esc: not now)", "no"),
        )

    def give(self, answer: Answerable) -> None:
        self.finish(answer.key == "y")

"""Which files differ from a prefix: with what they include, and with all their sections."""

from agent.instructions.changes import changed_paths, instruction_changes
from agent.instructions.item import CONFIG_PATH, Include, InstructionItem
from agent.instructions.loader import recorded
from agent.transcript import Reminder

HOST, PART = "/p/AGENTS.md", "/p/docs/part.md"


def host(sha256: str, part: str = "p1", text: str = "Text.") -> InstructionItem:
    includes = (Include("@docs/part.md", 2, PART, sha256=part),)
    return InstructionItem(HOST, "project", "x", text=text, sha256=sha256, includes=includes)


def test_M3_an_included_file_counts_with_its_host_and_not_by_itself() -> None:
    before = recorded((host("h1"),), len)
    assert any(file.path == PART for file in before)
    assert changed_paths(before, (host("h1"),)) == () == tuple(instruction_changes(before, (host("h1"),), ()))
    assert changed_paths(before, (host("h1", "p2"),)) == (HOST,)
    (told,) = instruction_changes(before, (host("h1", "p2", "New text."),), ())
    assert HOST in told.text and "New text." in told.text
    (gone,) = instruction_changes(before, (), ())
    assert "It is gone" in gone.text


def test_a_file_in_several_sections_is_told_once_with_all_of_them() -> None:
    def sections(sha256: str) -> tuple[InstructionItem, ...]:
        first = InstructionItem(HOST, "project", "x", text="One.", sha256=sha256)
        second = InstructionItem(HOST, "project", "x", text="Two.", sha256=sha256, line=9)
        rule = InstructionItem(HOST, "project", "x", "conditional", text="Rule.", sha256=sha256, line=20, condition="c")
        return first, second, rule

    before = recorded(sections("h1"), len)
    assert changed_paths(before, sections("h1")) == ()
    (told,) = instruction_changes(before, sections("h2"), ())
    assert "One.\n\nTwo." in told.text and "Rule." not in told.text
    assert instruction_changes(before, sections("h2"), [told]) == []
    assert instruction_changes(before, sections("h1"), [told, Reminder("date", "x")]) == [], "the same words again"


def test_texts_of_the_configuration_hold_as_they_were() -> None:
    def text(sha256: str) -> tuple[InstructionItem, ...]:
        return (InstructionItem(CONFIG_PATH, "config", "x", text=sha256, sha256=sha256),)

    assert changed_paths(recorded(text("a"), len), text("b")) == ()
    assert instruction_changes(recorded(text("a"), len), (), ()) == []

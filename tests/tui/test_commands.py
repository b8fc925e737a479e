import pytest

from tui.commands import COMMANDS, complete, is_command
from tui.screens.help import help_rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", True), ("/nonsense", True), ("/compact the tests", True), ("/mode\nplan", True),
        ("/etc/hosts is wrong", False), ("/", False), (" /help", False), ("help", False), ("", False), ("//", False),
    ],
)  # fmt: skip
def test_a_command_is_a_slash_and_a_word_and_a_path_is_not(text: str, expected: bool) -> None:
    assert is_command(text) is expected


def test_the_commands_that_are_promised_are_in_the_table() -> None:
    assert {c.name for c in COMMANDS} >= {
        "help", "model", "mode", "compact", "context", "new", "resume", "quit", "undo", "pin", "instructions", "cost",
        "history", "effort", "setup", "btw", "diff", "copy", "export", "fork", "title", "config", "theme", "jobs", "init",
    }  # fmt: skip
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


def test_completion_offers_names_by_beginning_then_by_content_and_then_arguments() -> None:
    assert [c.insert for c in complete("/")] == [f"/{c.name} " if c.needs_argument else f"/{c.name}" for c in COMMANDS]
    assert [c.insert for c in complete("/con")] == ["/context", "/config"]
    assert [c.insert for c in complete("/bt")] == ["/btw "]
    assert [(c.insert, c.label, c.sends) for c in complete("/btw ")] == [("/btw ", "/btw QUESTION", False)]
    assert complete("/btw why") == []
    assert [c.insert for c in complete("/effort ")] == [
        f"/effort {level}" for level in ("off", "low", "medium", "high")
    ]
    assert [c.insert for c in complete("/theme claw")] == ["/theme claw-dark", "/theme claw-light"]
    assert [c.insert for c in complete("/copy ")] == ["/copy code"]
    assert [c.insert for c in complete("/memory")] == ["/instructions"]
    assert [c.insert for c in complete("/compact ")] == [
        f"/compact {word}" for word in ("preview", "edit", "from", "up to")
    ]
    assert [c.insert for c in complete("/undo p")] == ["/undo pin"]
    assert [c.insert for c in complete("/ode")] == ["/model", "/mode"]
    for command in COMMANDS:  # so that Enter runs what was written
        assert complete(f"/{command.name}")[0].insert.strip() == f"/{command.name}"
    assert [c.insert for c in complete("/exit")] == ["/quit"]
    assert [c.insert for c in complete("/mode ")] == ["/mode plan", "/mode ask", "/mode edits", "/mode auto"]
    assert [c.insert for c in complete("/mode a")] == ["/mode ask", "/mode auto"]
    assert list(complete("/mode ask")) == [] and list(complete("/compact the")) == [] and list(complete("/zzz")) == []


def test_help_names_every_key_and_command() -> None:
    text = "\n".join(row.text for row in help_rows())
    for command in COMMANDS:
        assert f"/{command.name}" in text and command.help in text
        assert all(f"/{alias}" in text for alias in command.aliases)
        assert all(f"/{command.name} {form}" in text and meaning in text for form, meaning in command.forms)
    assert all(len(row.text) <= 72 for row in help_rows())
    assert "Ctrl+O" in text and "Shift+Tab" in text and "Esc" in text

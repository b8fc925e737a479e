import pytest

from agent.events import GaugeChanged
from tui.commands import COMMANDS, complete, is_command
from tui.screens.context import context_rows
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
    assert {"help", "model", "mode", "compact", "context", "new", "resume", "quit", "undo"} == {
        c.name for c in COMMANDS
    }
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


def test_completion_offers_names_by_beginning_then_by_content_and_then_arguments() -> None:
    assert [c.insert for c in complete("/")] == [f"/{c.name} " if c.needs_argument else f"/{c.name}" for c in COMMANDS]
    assert [c.insert for c in complete("/con")] == ["/context"]
    assert [c.insert for c in complete("/ode")] == ["/model", "/mode"]
    assert [c.insert for c in complete("/exit")] == ["/quit"]
    assert [c.insert for c in complete("/mode ")] == ["/mode plan", "/mode ask", "/mode edits", "/mode auto"]
    assert [c.insert for c in complete("/mode a")] == ["/mode ask", "/mode auto"]
    assert list(complete("/mode ask")) == [] and list(complete("/compact the")) == [] and list(complete("/zzz")) == []


def test_help_names_every_key_and_command() -> None:
    text = "\n".join(row.text for row in help_rows())
    for command in COMMANDS:
        assert f"/{command.name}" in text and command.help in text
        assert all(f"/{alias}" in text for alias in command.aliases)
    assert "Ctrl+O" in text and "Shift+Tab" in text and "Esc" in text


def test_context_rows_show_the_gauge_and_each_part_with_its_share() -> None:
    gauge = GaugeChanged(86_000, True, 172_000, 200_000, 150_000, None)
    rows = [row.text for row in context_rows(gauge, [("system", "", 1_000), ("file", "[b]x[/b]", 3_000)])]
    assert rows[0] == "≈86,000 of 172,000 tokens used (50%)"
    assert "200,000" in rows[1] and "150,000" in rows[2]
    assert rows[4].endswith("3,000  75%  file [b]x[/b]") and rows[5].endswith("1,000  25%  system")
    assert context_rows(GaugeChanged(0, True, 0, 0, 0, None), [])[-1].text == "Nothing yet."

from typing import Literal

import pytest

from agent.tools.details import CommandDetails, DiffDetails, RefusedDetails, ResultDetails, TextDetails
from tests.tui.transcript.drawing import page, rows, text_of
from tui.widgets.cards import Card
from tui.widgets.column import render
from tui.widgets.diff import DiffRow, parse_diff

DIFF = "@@ -9,3 +9,3 @@\n a\n-return a + b\n+return a - b\n b\n@@ -40 +40,2 @@\n x\n+y\n\\ No newline at end of file\n"


def finished(tool: str, details: ResultDetails | None, text: str = "", is_error: bool = False) -> Card:
    card = Card("1", tool, "title")
    card.finish(is_error, details, text)
    return card


def command(
    output: str,
    exit_code: int | None = 0,
    duration_ms: int = 400,
    status: Literal["exited", "signal", "timeout", "cancelled"] = "exited",
    note: str = "",
) -> CommandDetails:
    return CommandDetails("run", output, exit_code, duration_ms, status, note)


@pytest.mark.parametrize(
    ("card", "shown"),
    [
        (Card("1", "read", "a.py"), " ◌ read a.py"),
        (finished("read", TextDetails("42 lines", "text")), " ● read title · 42 lines ▸"),
        (finished("glob", None, "a\nb\n"), " ● glob title · 2 lines ▸"),
        (finished("glob", None, ""), " ● glob title"),
        (finished("edit", DiffDetails("a.py", DIFF, 2, 1, "white space")), " ● edit title · +2 −1 · white space ▸"),
        (finished("bash", command("ok")), " ● bash title · 0.4 s ▸"),
        (finished("bash", command("a\nbad end\n", 1, 61_000)), " ✗ bash title · exit 1 · 1 min 1 s ▸\n   └ bad end"),
        (finished("bash", command("x", note="exit code 0; left y")), " ● bash title · 0.4 s · left y ▸"),
        (finished("bash", command("", None, 900, "signal", "ended by KILL")), " ✗ bash title · 0.9 s · ended by KILL"),
        (finished("bash", command("", None, status="timeout")), " ✗ bash title · timed out · 0.4 s"),
        (
            finished("read", None, "\nNo such file: a.py\nmore", is_error=True),
            " ✗ read title · 2 lines ▸\n   └ No such file: a.py",
        ),
        (finished("bash", RefusedDetails("not now"), "refused", is_error=True), " ⊘ bash title\n   └ not now"),
    ],
)
def test_a_folded_card_says_what_came_of_it(card: Card, shown: str) -> None:
    assert text_of(rows([card], 100)) == shown


def test_a_long_title_leaves_room_for_the_summary() -> None:
    card = Card("1", "bash", "echo " + "x" * 500)
    card.finish(False, command("ok"), "")
    [row] = rows([card], 60)
    assert row.text.rstrip().endswith("… · 0.4 s ▸")


def test_live_output_shows_its_last_lines_and_the_last_state_of_a_progress_line() -> None:
    card = Card("1", "bash", "make")
    for n in range(3000):
        card.progress(f"line {n}\n")
    card.progress("1%\r50%\r\x1b[")
    card.progress("32m99%\x1b[0m")
    shown = text_of(rows([card])).split("\n")
    assert shown[0] == " ◌ bash make"
    assert [line.strip() for line in shown[1:]] == [*(f"line {n}" for n in range(2993, 3000)), "99%"]


def test_an_unfolded_command_shows_head_and_tail_in_the_colours_it_chose() -> None:
    card = finished("bash", command("head\n\x1b[31mred\x1b[0m\ntail"))
    strips = rows(card.body())
    assert [strip.text.strip() for strip in strips] == ["head", "red", "tail"]
    colors = {
        segment.text: segment.style.color.name for s in strips for segment in s if segment.style and segment.style.color
    }
    assert colors["red"] == page().palette.colors[1].lower()


def test_a_command_of_several_lines_is_shown_whole() -> None:
    card = Card("1", "bash", "cat <<E")
    card.finish(False, CommandDetails("cat <<E\nhello\nE", "hello", 0, 5), "hello")
    assert text_of(rows(card.body())).split("\n")[0].strip() == "$ cat <<E"


def test_a_diff_is_numbered_by_its_hunks() -> None:
    assert parse_diff(DIFF) == [
        DiffRow("context", 9, "a"),
        DiffRow("removed", 10, "return a + b", (9, 10)),
        DiffRow("added", 10, "return a - b", (9, 10)),
        DiffRow("context", 11, "b"),
        DiffRow("skipped", 0, ""),
        DiffRow("context", 40, "x"),
        DiffRow("added", 41, "y"),
        DiffRow("note", 0, "No newline at end of file"),
    ]


def test_a_diff_is_drawn_with_numbers_and_marks() -> None:
    card = finished("edit", DiffDetails("a.py", DIFF, 2, 1))
    assert card.wants_open
    assert [line.strip() for line in text_of(rows(card.body())).split("\n")] == [
        "9   a",
        "10 - return a + b",
        "10 + return a - b",
        "11   b",
        "⋯",
        "40   x",
        "41 + y",
        "No newline at end of file",
    ]


def test_what_differs_in_a_line_is_marked() -> None:
    card = finished("edit", DiffDetails("a.py", DIFF, 2, 1))
    palette = page().palette
    marked = [segment.text for strip in rows(card.body()) for segment in strip if segment.style == palette.added_word]
    assert marked == ["-"]


def test_a_diff_too_long_to_be_shown_unasked_is_cut_into_blocks() -> None:
    card = finished("write", DiffDetails("a.py", "".join(f"+line {n}\n" for n in range(1000)), 1000, 0))
    assert not card.wants_open
    body = card.body()
    assert len(body) == 10
    assert "1000 + line 999" in text_of(rows(body[-1:]))


def test_margins_numbers_and_marks_are_no_text() -> None:
    card = finished("edit", DiffDetails("a.py", "@@ -1 +1 @@\n+x = 1\n", 1, 0))
    rendered = render(card.body()[0], page())
    assert rendered.strips[0].text[rendered.insets[0] :].rstrip() == "x = 1"

from pathlib import Path

import pytest
from rich.cells import cell_len

from tui.widgets.queue import queue_rows
from tui.widgets.status import (
    StatusFacts,
    bar_pieces,
    short_cost,
    short_folder,
    short_tokens,
    status_pieces,
)
from tui.widgets.working import FRAMES, WorkFacts, short_duration, work_pieces

FULL = StatusFacts(
    model="anthropic/claude-sonnet-5",
    mode="ask",
    used_tokens=12_400,
    is_estimate=True,
    effective_window_tokens=172_000,
    cost_usd=0.042,
    cwd="~/src/claw",
    branch="main",
)


def text_of(facts: StatusFacts, width: int) -> str:
    return "".join(text for text, _ in status_pieces(facts, width))


@pytest.mark.parametrize("width", [*range(1, 130), 200, 400])
def test_T66_status_fills_its_row_exactly_at_any_width(width: int) -> None:
    assert cell_len(text_of(FULL, width)) == width


@pytest.mark.parametrize(
    ("width", "shown", "gone"),
    [
        (110, ["ask", "claude-sonnet-5", "~/src/claw", "main", "$0.042", "≈12.4k/172k 7%", "━"], []),
        (80, ["ask", "claude-sonnet-5", "~/src/claw", "$0.042", "≈12.4k/172k 7%", "━"], ["main"]),
        (60, ["ask", "claude-sonnet-5", "≈12.4k/172k 7%"], ["main", "~/src", "$"]),
        (44, ["ask", "claude-sonnet-5", "≈12.4k"], ["━"]),
        (16, ["ask", "≈12.4k"], ["claude", "172k"]),
    ],
)
def test_narrow_status_drops_parts_by_importance(width: int, shown: list[str], gone: list[str]) -> None:
    text = text_of(FULL, width)
    assert [part for part in shown if part not in text] == []
    assert [part for part in gone if part in text] == []


def test_B24_names_with_markup_and_controls_are_shown_literally_in_the_status() -> None:
    hostile = StatusFacts(model="[red]m[/x]\x1b]0;t\x07", cwd="/tmp/[@click=app.quit]x[/]", branch="[/closing]\u202e")
    text = text_of(hostile, 200)
    assert "[red]m[/x]" in text and "[@click=app.quit]x[/]" in text and "[/closing]" in text
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text


def test_wide_characters_count_as_two_cells() -> None:
    facts = StatusFacts(model="模型/模型模型", cwd="/漢字/漢字", used_tokens=5)
    assert all(cell_len(text_of(facts, width)) == width for width in range(1, 80))


@pytest.mark.parametrize(("level", "style"), [("calm", "$success"), ("warning", "$warning"), ("full", "$error")])
def test_the_gauge_has_the_colour_of_its_level(level: str, style: str) -> None:
    facts = StatusFacts(used_tokens=5, effective_window_tokens=10, gauge_level=level)
    assert [text for text, piece_style in status_pieces(facts, 120) if piece_style == style and "━" in text]


def test_gauge_without_a_known_window_shows_tokens_alone() -> None:
    text = text_of(StatusFacts(used_tokens=900, is_estimate=False), 80)
    assert "900" in text and "/" not in text and "%" not in text and "≈" not in text


@pytest.mark.parametrize("fraction", [-1.0, 0.0, 0.001, 0.5, 0.999, 1.0, 7.0])
def test_bar_is_as_long_as_asked_and_full_only_when_full(fraction: float) -> None:
    text = "".join(piece for piece, _ in bar_pieces(fraction, 10, "$success"))
    filled = bar_pieces(fraction, 10, "$success")[0][0]
    assert len(text) == 10
    assert (filled == "━" * 10) == (fraction >= 1)
    assert bool(filled) == (fraction > 0)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (99_949, "99.9k"), (99_950, "100k"), (172_000, "172k"),
     (999_499, "999k"), (999_500, "1.00M"), (1_048_576, "1.05M"), (12_000_000, "12M")],
)  # fmt: skip
def test_token_counts_are_short(tokens: int, text: str) -> None:
    assert short_tokens(tokens) == text


def test_costs_show_cents_from_a_dollar_on() -> None:
    assert [short_cost(usd) for usd in (0.0, 0.0042, 0.9944, 0.996, 12.345)] == [
        "$0.000", "$0.004", "$0.994", "$1.00", "$12.35",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/home/me", "~"),
        ("/home/me/src/claw", "~/src/claw"),
        ("/home/mechanic/x", "/home/mechanic/x"),
        ("/home/me/a-long-folder/another-long-one/inner/claw", "~/a/a/inner/claw"),
        ("/", "/"),
    ],
)
def test_folders_are_shown_short(path: str, text: str) -> None:
    assert short_folder(Path(path), Path("/home/me")) == text


def test_queue_shows_three_messages_at_most_one_row_each() -> None:
    assert queue_rows((), 40) == []
    assert queue_rows(("one\ntwo", "[b]x[/b]"), 40) == [" ↳ one two", " ↳ [b]x[/b]"]
    assert queue_rows(("a", "b", "c", "d"), 40) == [" ↳ a", " ↳ b", "   and 2 more"]


def test_working_row_counts_a_retry_down() -> None:
    facts = WorkFacts("waiting", 0.0, "overloaded", 20.0, 2, 5)
    text = "".join(piece for piece, _ in work_pieces(facts, 12.0, 80))
    assert "overloaded, next try in 8 s (2/5)" in text and "12 s" in text and "Esc interrupts" in text
    long = WorkFacts("waiting", 0.0, "Cannot reach http://127.0.0.1:9/v1: no route to host", 20.0, 2, 5)
    text = "".join(piece for piece, _ in work_pieces(long, 12.0, 80))
    assert "Cannot reach" in text and "…, next try in 8 s (2/5)" in text and "Esc interrupts" in text


@pytest.mark.parametrize("width", range(1, 90))
def test_T66_working_row_never_exceeds_its_width(width: int) -> None:
    for facts in (
        WorkFacts("running bash, grep 漢字", 0.0),
        WorkFacts("waiting", 0.0, "the server is overloaded", 20.0, 2, 5),
        WorkFacts(hint="Ctrl+C again leaves."),
    ):
        assert cell_len("".join(piece for piece, _ in work_pieces(facts, 75.0, width))) <= width


def test_working_row_is_empty_while_nothing_runs_and_a_hint_goes_before_all() -> None:
    assert work_pieces(WorkFacts(), 5.0, 80) == []
    pieces = work_pieces(WorkFacts("writing", 0.0, hint="Ctrl+C again leaves."), 5.0, 80)
    assert "".join(text for text, _ in pieces) == " Ctrl+C again leaves."


def test_spinner_turns_and_durations_are_readable() -> None:
    assert len({work_pieces(WorkFacts("x", 0.0), 0.0, 80, frame)[0] for frame in range(len(FRAMES))}) == len(FRAMES)
    assert [short_duration(s) for s in (-1, 7.9, 65, 3_720)] == ["0 s", "7 s", "1 m 05 s", "1 h 02 m"]

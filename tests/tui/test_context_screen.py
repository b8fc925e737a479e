"""The screen of the window: every part can be found, read and edited, and nothing is done before its price was told."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rich.cells import cell_len
from textual import events
from textual.app import App

from agent.context.pieces import ChartPoint, Edit, Piece
from tests.tui.context_window import EDITS, ContextApp, FakeWindow, some_pieces
from tests.tui.harness import press, resize, rows, screen_text, settle, until
from tui.screens.context import ContextScreen
from tui.screens.context_texts import heading, question
from tui.screens.message import MessageScreen
from tui.themes import CLAW_DARK, palette_for
from tui.widgets.action_bar import Key, bar_layout
from tui.widgets.piece_list import PieceList
from tui.widgets.piece_row import Columns, head_text, row_segments, short_age, what_text

HOSTILE = "a\x1b[2Jb\u202e[red]c[/red]\n漢字👩‍💻\x00" + "x" * 600


@asynccontextmanager
async def shown(source: FakeWindow | None = None, size: tuple[int, int] = (100, 34)) -> AsyncIterator[ContextApp]:
    app = ContextApp(source or FakeWindow())
    async with app.run_test(size=size):
        await settle(app)
        yield app


async def sees(app: App[Any], *texts: str) -> None:
    """Wait until all of this is on the screen, wherever its lines break."""
    await until(lambda: all(text in " ".join(screen_text(app).split()) for text in texts))


def selected(app: App[Any]) -> Piece:
    piece = app.screen.query_one(PieceList).selected
    assert piece is not None
    return piece


async def find(app: ContextApp, words: str) -> None:
    """Filter, all words at once."""
    await press(app, "slash")
    app.post_message(events.Paste(words))
    await settle(app)


async def to(app: ContextApp, key: int) -> None:
    """Select the first piece of an entry."""
    await press(app, "home")
    while key not in selected(app).keys:
        await press(app, "down")


# --------------------------------------------------------------------------- looking


async def test_map_list_and_chart_say_where_every_token_is() -> None:
    source = FakeWindow(points=[ChartPoint(1, 20_000), ChartPoint(2, 9_000, "compaction"), ChartPoint(3, 42_000)])
    async with shown(source) as app:
        text = screen_text(app)
        assert "≈42,342 of 172,000 tokens · 25% · compaction at 150,000 · window 200,000" in text
        for told in ("tool results 27.7k  14%", "free          130k  65%", "reserve      28.0k  14%", "▼ compaction"):
            assert told in text, told
        listed = [row for row in rows(app) if "src/reader.py" in row]
        assert listed[0].split()[:4] == ["18,400", "9.2%", short_age(0, int(time.time() * 1000)), "tool"]
        await press(app, "end")
        assert "Go on." in rows(app)[-2] and "▸" in rows(app)[-2]


async def test_ten_thousand_parts_open_and_move_without_a_stutter() -> None:
    many = [
        Piece("tool_results", "read", f"file {n}", 1 + n % 700, (n,), n, "call", actions=EDITS) for n in range(10_000)
    ]
    async with shown(FakeWindow(many)) as app:
        began = time.process_time()
        await press(app, "end")
        assert "file 9999" in screen_text(app)
        await press(app, *["pageup"] * 5, "s")
        await find(app, "9998")
        assert selected(app).detail == "file 9998"
        await sees(app, "1 of 10,000 parts")
        assert time.process_time() - began < 2.5


async def test_sorted_by_size_the_largest_is_selected_and_stays_so_by_position() -> None:
    async with shown() as app:
        await press(app, "end", "s")
        assert selected(app).tokens == 18_400 and "tokens▾" in screen_text(app)
        await press(app, "down")
        assert selected(app).tokens == 9_200
        await press(app, "s")
        assert selected(app).tokens == 9_200 and "tokens▾" not in screen_text(app)
        await press(app, "s", "end")
        assert selected(app).state == "dropped"


async def test_the_filter_looks_at_everything_a_row_shows() -> None:
    async with shown() as app:
        for words, count in (
            ("READER", 5),
            ("tool results read src", 2),
            ("dropped", 1),
            ("project", 1),
            ("pinned", 1),
            ("q§", 0),
        ):
            await find(app, words)
            assert app.screen.query_one(PieceList).count == (count, 17), words
            await sees(app, f"{count} of 17 parts")
            await press(app, "escape")
        assert app.screen.query_one(PieceList).count == (17, 17)


async def test_while_the_filter_is_typed_no_letter_acts_and_enter_gives_the_keys_back() -> None:
    source = FakeWindow()
    async with shown(source) as app:
        await press(app, "slash", *"pdxrus reader")
        assert source.applied == [] and source.undone == 0 and isinstance(app.screen, ContextScreen)
        await press(app, "escape", "slash", *"writer", "enter", "p")
        await sees(app, "Pin:")
        assert selected(app).keys == (58,)
        await press(app, "escape", "escape")
        assert app.screen.query_one(PieceList).count == (17, 17)
        await press(app, "escape")
        assert not isinstance(app.screen, ContextScreen)


async def test_enter_shows_the_whole_text_and_esc_comes_back() -> None:
    async with shown() as app:
        await to(app, 54)
        await press(app, "enter")
        assert isinstance(app.screen, MessageScreen) and "all of pytest -q" in screen_text(app)
        await press(app, "pagedown", "escape")
        assert isinstance(app.screen, ContextScreen) and selected(app).keys == (54,)


async def test_what_happens_meanwhile_is_shown() -> None:
    source = FakeWindow()
    async with shown(source) as app:
        await to(app, 54)
        source.held.append(Piece("user", "", "said meanwhile", 7_000, (61,), 0, "you"))
        await until(lambda: "≈49,342" in screen_text(app))
        assert selected(app).keys == (54,)


async def test_a_source_that_fails_is_told_and_the_screen_stays() -> None:
    source = FakeWindow()
    async with shown(source) as app:
        source.broken = OSError(5, "Input/output error")
        await press(app, "u", "d")
        app.source.head += 1
        source.held.append(Piece("user", "", "said meanwhile", 7_000, (61,), 0, "you"))
        await sees(app, "The window cannot be looked at: [Errno 5] Input/output error")
        await press(app, "end", "enter")
        assert app.is_running


# --------------------------------------------------------------------------- editing


@pytest.mark.parametrize(("key", "action", "state"), [("d", "drop", "dropped"), ("x", "shorten", "shortened")])
async def test_an_edit_is_priced_then_done_then_shown(key: str, action: str, state: str) -> None:
    source = FakeWindow()
    async with shown(source) as app:
        await to(app, 52)
        await press(app, key)
        assert source.applied == []
        told = f"{action.capitalize()}: frees about 18,400 tokens; 12,400 tokens of cache are written anew (≈ $0.040)."
        await sees(app, f"{told} – Enter does it, Esc not")
        await press(app, "enter")
        assert [(edit.action, edit.keys) for edit in source.applied] == [(action, (52,))]
        await sees(app, f"{action} done.")
        assert selected(app).state == state and "≈42,342" not in rows(app)[0]


async def test_sorted_by_size_the_next_largest_is_selected_after_an_edit() -> None:
    async with shown() as app:
        await press(app, "s", "d", "enter", "x", "enter")
        assert [(piece.tokens, piece.state) for piece in app.source.held if piece.keys in ((52,), (54,))] == [
            (0, "dropped"), (30, "shortened"),
        ]  # fmt: skip
        assert selected(app).tokens == 6_100


@pytest.mark.parametrize("way_out", ["escape", "down", "up", "slash"])
async def test_esc_or_going_elsewhere_does_nothing(way_out: str) -> None:
    source = FakeWindow()
    async with shown(source) as app:
        await to(app, 52)
        await press(app, "d", way_out)
        assert "Enter does it" not in screen_text(app) and source.applied == []
        assert isinstance(app.screen, ContextScreen)


async def test_p_pins_and_unpins_and_r_restores() -> None:
    source = FakeWindow()
    async with shown(source) as app:
        await to(app, 50)
        await press(app, "p", "enter")
        assert selected(app).is_pinned and "◆" in next(row for row in rows(app) if "CRLF? " in row)
        await press(app, "p", "enter")
        assert not selected(app).is_pinned
        await to(app, 56)
        await press(app, "r", "enter")
        assert selected(app).state == "whole"
        assert [edit.action for edit in source.applied] == ["pin", "unpin", "restore"]


async def test_call_and_result_are_pointed_out_together() -> None:
    async with shown() as app:
        await to(app, 51)  # thinking and reply of one entry
        await press(app, "d")
        marked = [row.strip()[0] for row in rows(app) if "LF alone" in row or "reader first" in row]
        assert marked == ["▸", "•"]


async def test_what_changed_between_question_and_answer_is_asked_anew() -> None:
    source = FakeWindow()
    async with shown(source) as app:
        await to(app, 52)
        await press(app, "d")
        source.cost_usd = 7.5
        await press(app, "enter")
        await sees(app, "The window changed meanwhile. Drop:")
        assert source.applied == []
        source.head += 1  # alone it changes nothing that was told
        await press(app, "enter")
        assert len(source.applied) == 1


async def test_a_refusal_says_why_and_an_error_changes_nothing() -> None:
    source = FakeWindow(refusal="The pins alone would not fit \x1b[2J[b]here[/b].")
    async with shown(source) as app:
        await to(app, 52)
        await press(app, "p")
        await sees(app, "The pins alone would not fit ␛[2J[b]here[/b].")
        source.refusal = ""
        source.failure = OSError(28, "No space left on device")
        await press(app, "d", "enter")
        await sees(app, "Nothing was changed: [Errno 28] No space left on device")
        source.failure = None
        await press(app, "d", "enter")
        source.failure = RuntimeError("A turn is running.")
        await press(app, "u", "enter")
        await sees(app, "Nothing was changed: A turn is running.")
        assert source.undone == 0


async def test_undo_asks_too_and_says_what_it_takes_back() -> None:
    source = FakeWindow()
    async with shown(source) as app:
        await press(app, "u", "enter")
        assert source.undone == 0 and isinstance(app.screen, MessageScreen)  # nothing to undo: Enter shows
        await press(app, "escape")
        await to(app, 52)
        await press(app, "d", "enter", "u")
        await sees(app, "Undo takes back the newest edit: drop. – Enter does it, Esc not")
        assert source.undone == 0
        await press(app, "enter")
        await sees(app, "The drop counts no longer.")
        assert source.undone == 1
        await press(app, "u")
        await sees(app, "There is no edit of the window to undo.")


async def test_what_stands_before_the_messages_is_not_edited() -> None:
    source = FakeWindow()
    async with shown(source) as app:
        for key in "pdxr":
            await press(app, "home", key)
            await sees(app, "cannot be edited")
            await press(app, "enter" if key == "r" else "down")
        assert source.applied == [] and isinstance(app.screen, MessageScreen)  # Enter shows what is selected


def test_a_question_says_what_is_freed_lost_and_moved() -> None:
    edit = Edit("pin", (), (4,), 9, note="It takes effect\nat the next compaction.")
    assert question(edit) == "Pin: frees nothing now; no cache is lost. It takes effect at the next compaction."
    edit = Edit("restore", (), (4, 5), 9, -3_210, 12_400, 0.000_2)
    assert question(edit) == (
        "Restore: adds about 3,210 tokens; 12,400 tokens of cache are written anew (≈ under $0.001). 2 entries move together."
    )
    for without_price in (None, 0.0):
        assert "(≈" not in question(Edit("drop", (), (4,), 9, 10, 20, without_price))


# --------------------------------------------------------------------------- mouse


async def test_a_click_selects_a_second_one_opens_and_the_wheel_scrolls() -> None:
    source = FakeWindow()
    source.held += [Piece("user", "", f"message {n}", 10, (100 + n,), 0, "you", actions=EDITS) for n in range(60)]
    async with shown(source) as app:
        place = app.screen.query_one(PieceList).region

        async def mouse(kind: type[events.MouseEvent], row: int) -> None:
            x, y = place.x + 12, place.y + row
            app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
            await settle(app)

        await mouse(events.MouseDown, 3)
        assert selected(app).name == "bash" and isinstance(app.screen, ContextScreen)
        for _ in range(5):
            await mouse(events.MouseScrollDown, 3)
        assert selected(app).name == "bash" and "Runs a command" not in screen_text(app)
        await mouse(events.MouseDown, 0)
        assert selected(app).name != "bash"
        await mouse(events.MouseDown, 0)
        assert isinstance(app.screen, MessageScreen)


async def test_a_click_on_a_key_of_the_foot_is_that_key() -> None:
    async with shown() as app:
        await to(app, 52)
        foot = rows(app)[-1]
        for kind in (events.MouseDown, events.MouseUp):
            x, y = foot.index("drop"), len(rows(app)) - 1
            app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
        await settle(app)
        await sees(app, "Drop: frees")


# --------------------------------------------------------------------------- sizes and foreign text


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (20, 5), (40, 10), (80, 24), (200, 60), (400, 120)])
async def test_T66_the_screen_lives_at_any_size(size: tuple[int, int]) -> None:
    source = FakeWindow(points=[ChartPoint(n, n * 900) for n in range(300)])
    async with shown(source, size) as app:
        for key in ("end", "d", "escape", "slash", "a", "escape", "pagedown", "c", "escape"):
            await press(app, key)
            assert len(rows(app)) == size[1]
            assert all(cell_len(row) == size[0] for row in rows(app))
        assert isinstance(app.screen, ContextScreen)
        await resize(app, 80, 24)
        await press(app, "home")
        assert "How claw works" in screen_text(app) and "Context" in rows(app)[0]


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (200, 60)])
async def test_small_terminals_show_gauge_list_and_price(size: tuple[int, int]) -> None:
    async with shown(FakeWindow(points=[ChartPoint(1, 9_000)]), size) as app:
        await to(app, 52)
        assert "≈42,342 of 172,000 tokens" in rows(app)[0] and "src/reader.py" in screen_text(app)
        assert ("The gauge over" in screen_text(app)) is (size[1] >= 30)
        await press(app, "d")
        await sees(app, "frees about 18,400 tokens", "Enter does it, Esc not", "src/reader.py")


async def test_where_the_chart_has_no_room_c_shows_it_in_the_lists_place() -> None:
    async with shown(FakeWindow(points=[ChartPoint(1, 9_000), ChartPoint(2, 80_000)]), (80, 24)) as app:
        assert "The gauge over" not in screen_text(app)
        await press(app, "c")
        await sees(app, "The gauge over 2 steps")
        assert "How claw works" not in screen_text(app)
        await press(app, "escape")
        await sees(app, "How claw works")


@pytest.mark.parametrize("width", [20, 40, 80, 140])
async def test_B24_foreign_text_is_shown_literally_and_breaks_no_row(width: int) -> None:
    held = [Piece("tool_results", HOSTILE, HOSTILE, 10, (1,), 0, HOSTILE, actions=EDITS), *some_pieces()]
    source = FakeWindow(held, note=HOSTILE)
    async with shown(source, (width, 30)) as app:
        await press(app, "d")
        text = screen_text(app)
        assert not {"\x1b", "\u202e", "\x00"} & set(text)
        assert width < 80 or "a␛[2Jb⟨U+202E⟩[red]c" in text
        assert all(cell_len(row) == width for row in rows(app))
        await press(app, "escape", "enter")
        assert isinstance(app.screen, MessageScreen) and "\x1b" not in screen_text(app)


@pytest.mark.parametrize("width", [1, 10, 43, 44, 59, 60, 80, 109, 110, 198, 400])
@pytest.mark.parametrize("detail", ["plain", "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字", "👩‍💻 é"])
def test_wide_characters_do_not_shift_a_column(width: int, detail: str) -> None:
    columns = Columns.at(width)
    piece = Piece("user", "", detail, 1_234, (1,), 0, detail)
    cells = [cell_len(segment.text) for segment in row_segments(piece, columns, 9_999, 0, palette_for(CLAW_DARK))]
    plain = Piece("user", "", "x", 1_234, (1,), 0, "x")
    assert sum(cells) == sum(cell_len(s.text) for s in row_segments(plain, columns, 9_999, 0, palette_for(CLAW_DARK)))
    assert columns.detail == 1 or 2 + sum(cells) - 1 <= width
    assert cell_len(head_text(width, "size")) <= max(width, 12)


def test_a_name_is_not_told_twice() -> None:
    assert what_text(Piece("tool_results", "read a.py", "a.py", 1), 40) == "read a.py"
    assert what_text(Piece("tool_results", "bash", "ls -la", 1), 40) == "bash · ls -la"
    assert what_text(Piece("tools", "edit", "Replaces texts: a list of edits", 1), 60).startswith("edit · Replaces")
    assert what_text(Piece("instructions", "/a/AGENTS.md", "/a/AGENTS.md", 1), 60) == "/a/AGENTS.md"
    assert what_text(Piece("user", "", "hello", 1), 40) == "hello"


def test_ages_have_at_most_four_characters() -> None:
    ages = [0, 59, 60, 3_599, 3_600, 86_399, 86_400, 8_639_999, 8_640_000, 10**10]
    assert [short_age(0, seconds * 1_000) for seconds in ages] == [
        "now", "now", "1m", "59m", "1h", "23h", "1d", "99d", "14w", "999w",
    ]  # fmt: skip
    assert short_age(None, 5) == "" and short_age(10_000, 5) == "now"


@pytest.mark.parametrize("width", range(0, 90, 3))
def test_the_foot_fits_and_keeps_the_important_keys(width: int) -> None:
    keys = [
        Key("enter", "Enter", "show", 6),
        Key("p", "p", "pin", 9),
        Key("d", "d", "drop", 9),
        Key("q", "Esc", "close", 2),
    ]
    placed = bar_layout(keys, width)
    assert all(at + cell_len(text) <= width for at, _, text in placed)
    assert [key.key for _, key, _ in placed] in (
        ["enter", "p", "d", "q"],
        ["enter", "p", "d"],
        ["p", "d"],
        ["p"],
        ["d"],
        [],
    )


@pytest.mark.parametrize("width", [1, 10, 30, 60, 90, 200])
def test_the_heading_fits(width: int) -> None:
    assert cell_len(heading(FakeWindow().gauge(), width).plain) <= width
    assert "42,342" in heading(FakeWindow(effective_tokens=0).gauge(), 60).plain

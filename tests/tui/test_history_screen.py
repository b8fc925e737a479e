import time
from pathlib import Path

import pytest

from agent.recall import Hit
from tests.tui.fake_session import Opener
from tests.tui.harness import press, rows, running, screen_text, settle, type_in, until
from tui.screens.history import HistoryScreen, around

DAY_MS = 86_400_000
NOW = int(time.time() * 1000)
LONG = f"{'before ' * 30}spoons{' behind' * 30}"
HITS = (
    Hit(12, "user", "", NOW - 3 * DAY_MS, "keep the \x1b[31mspoons[/b] in the drawer"),
    Hit(17, "result", "read", NOW - 5 * DAY_MS, LONG),
    Hit(40, "compaction", "", NOW, "the SPOON record"),
)


@pytest.mark.parametrize(
    ("excerpt", "words", "found"),
    [
        ("the spoons are in it", "spoons", "spoons"),
        ("the SPOONS are in it", "spoons", "SPOONS"),
        ("in the drawer are spoons", "spoons drawer", "drawer"),
        ("a drawer and the spoons", '"the spoons"', "the spoons"),
        ("a.b(c) [d]", "b(c) [d]", "b(c) [d]"),
        ("nothing of it", "spoons", ""),
        ("nothing of it", '""', ""),
        ("", "x", ""),
    ],
)
def test_the_words_are_marked_where_they_stand(excerpt: str, words: str, found: str) -> None:
    before, marked, behind = around(excerpt, words)
    assert marked == found and before + marked + behind == excerpt


def test_a_long_excerpt_is_cut_around_what_was_found() -> None:
    before, found, behind = around(LONG, "spoons")
    assert found == "spoons" and before.startswith("…") and behind.endswith("…")
    assert len(before + found + behind) <= 140


async def test_hits_are_listed_with_key_kind_and_excerpt() -> None:
    async with running(Opener(hits=HITS)) as (app, opener):
        await type_in(app, "/history the spoons")
        await until(lambda: isinstance(app.screen, HistoryScreen) and "12 user" in screen_text(app))
        text = screen_text(app)
        for part in ("3 d ago", "␛[31mspoons[/b] in the drawer", "17 result read", "40 compaction", "Enter", "Esc"):
            assert part in text
        assert "\x1b" not in text and opener.session.calls == [("search", "the spoons")]


async def test_enter_shows_the_whole_entry_and_esc_comes_back_to_the_list() -> None:
    async with running(Opener(hits=HITS)) as (app, _):
        await type_in(app, "/history spoons")
        await until(lambda: isinstance(app.screen, HistoryScreen) and app.focused is not None)
        await press(app, "down", "enter")
        await until(lambda: "all of entry 17" in screen_text(app) and "Entry 17 (result)" in screen_text(app))
        assert "␛[31mred" in screen_text(app)
        await press(app, "escape")
        await until(lambda: isinstance(app.screen, HistoryScreen))
        await press(app, "enter")
        await until(lambda: "all of entry 17" in screen_text(app))
        await press(app, "escape", "escape")
        await until(lambda: len(app.screen_stack) == 1)


async def test_the_list_narrows_down() -> None:
    async with running(Opener(hits=HITS)) as (app, _):
        await type_in(app, "/history spoons")
        await until(lambda: isinstance(app.screen, HistoryScreen) and app.focused is not None)
        await press(app, *"drawer")
        await until(lambda: "17 result" not in screen_text(app))
        assert "12 user" in screen_text(app)


async def test_nothing_found_is_said() -> None:
    async with running() as (app, _):
        await type_in(app, "/history forks [b]")
        await until(lambda: "Nothing in this session holds forks [b]." in screen_text(app))
        await press(app, "enter", "escape")
        await until(lambda: len(app.screen_stack) == 1)


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 10), (200, 60)])
async def test_T66_the_list_lives_at_any_size(size: tuple[int, int]) -> None:
    async with running(Opener(hits=HITS, cwd=Path("/x")), size=size) as (app, _):
        await type_in(app, "/history spoons")
        await until(lambda: isinstance(app.screen, HistoryScreen))
        await press(app, "down", "enter", "pagedown", "escape", "escape")
        await settle(app)
        assert len(rows(app)) == size[1] and len(app.screen_stack) == 1

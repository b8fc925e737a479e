"""Files named with `@` in the composer: what is offered, where, and what is sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.session_kit import make_project
from tests.tui.fake_session import Opener
from tests.tui.harness import press, resize, running, screen_text, settle, until
from tests.tui.test_composer import chosen, composer_of
from tui.app import ClawApp
from tui.widgets.completion import CompletionList

FILES = dict.fromkeys(("README.md", "src/app.py", "src/two words.md", "src/[b]x[b].py", "docs/guide.md"), "")


@asynccontextmanager
async def writing(folder: Path, **changes: Any) -> AsyncIterator[tuple[ClawApp, Opener, CompletionList]]:
    make_project(folder, FILES)
    async with running(cwd=folder, **changes) as (app, opener):
        await app.workers.wait_for_complete()
        await press(app, "x", "backspace")  # with the first key the files are listed
        await settle(app)
        await app.workers.wait_for_complete()
        yield app, opener, app.query_one(CompletionList)


async def write(app: ClawApp, text: str) -> None:
    await press(app, *text)


async def test_what_is_offered_follows_the_word_and_hides_without_a_match(tmp_path: Path) -> None:
    async with writing(tmp_path) as (app, _, popup):
        await write(app, "see @")
        assert chosen(popup)
        await write(app, "app")
        assert chosen(popup) == "@src/app.py "
        await until(lambda: "src/app.py" in screen_text(app))
        await write(app, "zzz")
        assert not popup.is_open
        await press(app, "backspace", "backspace", "backspace", "tab")
        assert composer_of(app).text == "see @src/app.py " and not popup.is_open


async def test_names_with_spaces_are_quoted_and_markup_is_text(tmp_path: Path) -> None:
    async with writing(tmp_path) as (app, _, popup):
        await write(app, "@two")
        assert chosen(popup) == '@"src/two words.md" '
        await press(app, "enter")
        assert composer_of(app).text == '@"src/two words.md" '
        await write(app, "@[b")
        await until(lambda: "src/[b]x[b].py" in screen_text(app))


async def test_the_word_under_the_cursor_is_completed_in_the_middle_of_a_text(tmp_path: Path) -> None:
    async with writing(tmp_path) as (app, _, popup):
        composer = composer_of(app)
        composer.put("first line\nlook at @gui now\nlast")
        composer.move_cursor((1, len("look at @gui")))
        await settle(app)
        assert chosen(popup) == "@docs/guide.md"
        await press(app, "tab")
        assert composer.text == "first line\nlook at @docs/guide.md now\nlast"
        assert composer.cursor_location == (1, len("look at @docs/guide.md"))
        assert composer.text[:5] == "first"


async def test_a_folder_is_gone_into_and_a_whole_name_is_sent_by_enter(tmp_path: Path) -> None:
    async with writing(tmp_path) as (app, opener, popup):
        await write(app, "@src")
        assert chosen(popup) == "@src/"
        await press(app, "tab")
        assert composer_of(app).text == "@src/" and popup.is_open
        await write(app, "app.py")
        await press(app, "enter")
        await until(lambda: ("prompt", "@src/app.py") in opener.session.calls)
        assert opener.session.calls == [("prepare", "src/app.py"), ("prompt", "@src/app.py")]


async def test_escape_closes_the_list_until_the_text_changes(tmp_path: Path) -> None:
    async with writing(tmp_path) as (app, opener, popup):
        await write(app, "@a")
        await press(app, "escape")
        assert not popup.is_open and opener.session.calls == []
        await press(app, "left", "right")
        assert not popup.is_open
        await write(app, "p")
        assert popup.is_open


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (20, 5), (40, 12), (80, 24), (200, 60)])
async def test_the_list_stands_above_the_field_at_every_size(tmp_path: Path, size: tuple[int, int]) -> None:
    async with writing(tmp_path, size=(80, 24)) as (app, _, popup):
        composer = composer_of(app)
        composer.put("\n".join("abcdef") + "\n@a")
        await resize(app, *size)
        await settle(app)
        if size[1] >= 12:
            assert popup.is_open and popup.region.bottom <= composer.region.y


async def test_messages_stay_in_order_while_the_files_of_one_are_read(tmp_path: Path) -> None:
    async with writing(tmp_path) as (app, opener, _):
        opener.session.read.clear()
        composer_of(app).put("@src/app.py first")
        await press(app, "enter")
        composer_of(app).put("second")
        await press(app, "enter")
        assert opener.session.calls == [("prepare", "src/app.py")]
        opener.session.read.set()
        await until(lambda: len(opener.session.calls) == 3)
        assert opener.session.calls[1:] == [("prompt", "@src/app.py first"), ("steer", "second")]

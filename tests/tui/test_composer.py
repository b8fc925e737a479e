from pathlib import Path

import pytest
from textual import events

from tests.tui.harness import press, resize, running, screen_text, settle, until
from tui.app import ClawApp
from tui.composing.history import PromptHistory
from tui.widgets.completion import CompletionList
from tui.widgets.composer import PASTE_CHARS, Composer


def composer_of(app: ClawApp) -> Composer:
    return app.query_one(Composer)


def chosen(popup: CompletionList) -> str:
    assert popup.is_open and popup.chosen is not None
    return popup.chosen.insert


async def test_the_field_has_the_focus_in_the_first_frame_and_does_not_blink() -> None:
    async with running(opened=False) as (app, _opener):
        assert app.focused is composer_of(app)
        assert not composer_of(app).cursor_blink


@pytest.mark.parametrize("keys", [["shift+enter"], ["ctrl+j"], ["backslash", "enter"]])
async def test_new_lines_do_not_send(keys: list[str]) -> None:
    async with running() as (app, opener):
        await press(app, "a", *keys, "b")
        assert composer_of(app).text == "a\nb"
        await press(app, "enter")
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", "a\nb")] and composer_of(app).text == ""


async def test_the_field_grows_to_eight_lines_and_no_further() -> None:
    async with running(size=(80, 40)) as (app, _):
        composer = composer_of(app)
        assert composer.size.height == 1
        composer.put("\n".join("abcde"))
        await until(lambda: composer.size.height == 5)
        composer.put("\n".join("abcdefghijklmno"))
        await until(lambda: composer.size.height == 8)


async def test_blank_text_is_not_sent() -> None:
    async with running() as (app, opener):
        await press(app, "space", "shift+enter", "enter")
        assert composer_of(app).text == " \n" and opener.session.calls == []


async def test_up_and_down_go_through_history_at_the_edges_only(tmp_path: Path) -> None:
    path = tmp_path / "history"
    PromptHistory(path).save("from the file")
    async with running(history_file=path) as (app, opener):
        composer = composer_of(app)
        await app.workers.wait_for_complete()
        composer.put("first\nsecond")
        await press(app, "enter")
        opener.session.end()
        await press(app, *"new", "up")
        assert composer.text == "first\nsecond"
        await press(app, "up")
        assert composer.text == "first\nsecond" and composer.cursor_location[0] == 0
        await press(app, "up")
        assert composer.text == "from the file"
        await press(app, "up", "down")
        assert composer.text == "first\nsecond"
        await press(app, "down")
        assert composer.text == "new"
    assert PromptHistory(path).read() == ["from the file", "first\nsecond"]


async def test_history_commands_do_not_open_the_list() -> None:
    async with running() as (app, _):
        composer_of(app).put("/context")
        await press(app, "enter")
        await until(lambda: len(app.screen_stack) == 2)
        await press(app, "escape", "up")
        assert composer_of(app).text == "/context" and not app.query_one(CompletionList).is_open
        await press(app, "up")
        assert composer_of(app).text == "/context"


async def test_a_slash_opens_the_list_and_its_keys_work() -> None:
    async with running() as (app, opener):
        popup = app.query_one(CompletionList)
        await press(app, "/", "m", "o")
        assert chosen(popup) == "/model"
        await until(lambda: "/mode [plan|ask|edits|auto]" in screen_text(app))
        await press(app, "down")
        assert chosen(popup) == "/mode"
        await press(app, "up", "up", "tab")
        assert composer_of(app).text == "/mode"
        await press(app, "space", "p")
        assert chosen(popup) == "/mode plan"
        await press(app, "enter")
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("mode", "plan")] and not popup.is_open


async def test_escape_closes_the_list_before_it_interrupts() -> None:
    async with running() as (app, opener):
        await press(app, "g", "o", "enter")
        await until(lambda: opener.session.running)
        await press(app, "/", "h", "escape")
        assert not app.query_one(CompletionList).is_open and composer_of(app).text == "/h"
        assert opener.session.running
        await press(app, "escape")
        await until(lambda: not opener.session.running)
        assert ("interrupt",) in opener.session.calls


async def test_the_list_stays_closed_in_a_path_or_a_later_line() -> None:
    async with running() as (app, _):
        composer_of(app).put("see\n/he")
        await settle(app)
        assert not app.query_one(CompletionList).is_open


async def test_a_paste_of_any_size_stands_as_a_token_and_is_sent_whole() -> None:
    async with running() as (app, opener):
        big = "line of text\n" * 200_000
        app.post_message(events.Paste("before "))
        app.post_message(events.Paste(big))
        await until(lambda: "[paste" in composer_of(app).text)
        assert composer_of(app).text == f"before [paste 1: {len(big):,} characters, 200,001 lines]"
        await press(app, "!", "enter")
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", f"before {big}!")]


async def test_small_pastes_are_inserted_with_their_lines_and_their_controls_made_visible() -> None:
    async with running() as (app, _):
        app.post_message(events.Paste("a\r\nb\rc\x1b[2J\u202e[b]x[/b]"))
        await until(lambda: composer_of(app).text)
        assert composer_of(app).text == "a\nb\nc␛[2J⟨U+202E⟩[b]x[/b]"
        assert "[b]x[/b]" in screen_text(app)


async def test_a_long_line_below_the_bound_is_wrapped_and_stays_editable() -> None:
    async with running() as (app, _):
        app.post_message(events.Paste("x" * PASTE_CHARS))
        await until(lambda: composer_of(app).text)
        await press(app, "y")
        assert composer_of(app).text == "x" * PASTE_CHARS + "y"


async def test_B26_spaces_and_joiners_of_other_scripts_can_be_typed() -> None:
    async with running() as (app, opener):
        typed = "日本\u3000語 a\xa0b 👩\u200d💻 می\u200cخواهم x\u200by"
        for character in typed:
            app.post_message(events.Key(f"u{ord(character):x}", character))
        await settle(app)
        await press(app, "enter")
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", typed.replace("\u200b", "⟨U+200B⟩"))]


async def test_B26_wide_characters_and_sequences_keep_the_cursor_in_place() -> None:
    async with running(size=(40, 12)) as (app, _):
        composer = composer_of(app)
        for size in ((40, 12), (80, 24), (200, 60), (1, 1), (40, 12)):
            await resize(app, *size)
            composer.put("漢字 👩‍💻 e\u0301 עברית")
            await press(app, "left", "a", "backspace", "end")
        assert composer.text == "漢字 👩‍💻 e\u0301 עברית"

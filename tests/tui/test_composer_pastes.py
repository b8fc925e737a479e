"""Pastes of every size and content: what stands for them in the field, and what is sent."""

import time
from pathlib import Path

import pytest
from textual import events

from tests.tui.harness import press, resize, running, screen_text, settle, until
from tests.tui.test_composer import composer_of
from tui.app import ClawApp
from tui.widgets.pastes import PASTE_CHARS, PASTE_LINES, Pastes


async def paste(app: ClawApp, text: str) -> None:
    app.post_message(events.Paste(text))
    await settle(app)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("x" * PASTE_CHARS, False),
        ("x" * (PASTE_CHARS + 1), True),
        ("\n" * (PASTE_LINES - 1), False),
        ("\n" * PASTE_LINES, True),
        ("", False),
    ],
)
def test_only_what_is_long_is_folded(text: str, folded: bool) -> None:
    pastes = Pastes()
    shown = pastes.fold(text)
    assert ((shown != text) == folded and "\n" not in shown[:1] + shown[-1:]) or not folded
    assert pastes.expand(f"a {shown} b") == f"a {text} b"


def test_a_marker_in_a_paste_is_text() -> None:
    pastes = Pastes()
    first = pastes.fold("x" * 5_000)
    second = pastes.fold(f"{first} " * 1_000)
    assert pastes.expand(f"{second}|{first}") == f"{first} " * 1_000 + "|" + "x" * 5_000


@pytest.mark.parametrize(
    ("unit", "sent"),
    [
        ("abcdefg\n", "abcdefg\n"),
        ("abc\r\n", "abc\n"),
        ("abc\r", "abc\n"),
        ("é漢😀 \n", "é漢😀 \n"),
        ("\x1b[31mred\x1b[0m\n", "␛[31mred␛[0m\n"),
        ("a\tb\x00\x7f\n", "a\tb␀␡\n"),
        ("\u202eab\u200b\n", "⟨U+202E⟩ab⟨U+200B⟩\n"),
        ("\ud83d\ude00 \ud800\n", "😀 ⟨U+D800⟩\n"),
    ],
)
@pytest.mark.parametrize("size", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
async def test_a_paste_of_any_content_is_folded_quickly_and_sent_whole(unit: str, sent: str, size: int) -> None:
    count = size // len(unit.encode("utf-8", "surrogatepass"))
    async with running() as (app, opener):
        composer = composer_of(app)
        text = unit * count
        begun = time.process_time()
        composer.insert_text(text)
        assert time.process_time() - begun < 1 + size / 3_000_000  # the benchmark holds it to a tenth of that
        assert composer.text.startswith("[paste 1: ") and "\n" not in composer.text
        composer.send()
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", sent * count)]


async def test_a_marker_is_moved_over_and_deleted_as_one_character() -> None:
    async with running() as (app, opener):
        composer = composer_of(app)
        await press(app, "a")
        await paste(app, "x" * 5_000)
        marker = composer.text[1:]
        await press(app, "b", "left", "left", "left", "left", "c", "right", "right", "d")
        assert composer.text == f"ca{marker}db"
        await press(app, "left", "backspace")
        assert composer.text == "cadb"
        await press(app, "ctrl+underscore")
        assert composer.text == f"ca{marker}db"
        composer.cursor_location = (0, 2)
        await press(app, "delete")
        assert composer.text == "cadb"
        await press(app, "ctrl+underscore", "enter")
        await until(lambda: opener.session.calls)
        assert opener.session.calls == [("prompt", "ca" + "x" * 5_000 + "db")]


@pytest.mark.parametrize("key", ["ctrl+w", "ctrl+u", "ctrl+k", "ctrl+backspace", "shift+left"])
async def test_no_key_leaves_half_a_marker(key: str) -> None:
    async with running() as (app, _):
        composer = composer_of(app)
        await press(app, "a", " ")
        await paste(app, "y" * 5_000)
        marker = composer.text[2:]
        for place in range(len(composer.text) + 1):
            composer.cursor_location = (0, place)
            assert not 2 < composer.cursor_location[1] < 2 + len(marker)
        composer.cursor_location = (0, 2 if key == "ctrl+k" else len(composer.text))
        await press(app, key, "z")
        assert "paste" not in composer.text.replace(marker, "")


async def test_the_mouse_and_all_sizes_keep_a_marker_whole() -> None:
    async with running(size=(30, 12)) as (app, _):
        composer = composer_of(app)
        await paste(app, "line\n" * 100)
        marker = composer.text
        for size in ((30, 12), (1, 1), (8, 4), (200, 60), (12, 12)):
            await resize(app, *size)
            await press(app, "up", "down", "home", "end")
            assert composer.cursor_location[1] in (0, len(marker))


@pytest.mark.parametrize("quoted", [False, True])
async def test_a_dragged_file_becomes_a_mention_and_undo_gives_the_path_back(tmp_path: Path, quoted: bool) -> None:
    shot = tmp_path / "screen shot.png"
    shot.touch()
    async with running() as (app, opener):
        composer = composer_of(app)
        await press(app, "s", "e", "e")
        await paste(app, f"'{shot}'" if quoted else str(shot))
        assert composer.text == f'see @"{shot}" '
        assert composer.mentions == (str(shot),)
        await press(app, "ctrl+underscore")
        assert composer.text == f"see'{shot}'" if quoted else f"see{shot}"
        composer.put("!cat ")
        await paste(app, "/etc/hosts")
        assert composer.text == "!cat /etc/hosts"
        assert opener.session.calls == []


async def test_R7_what_a_paste_names_outside_the_project_nobody_asked_for(tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    async with running() as (app, _):
        composer = composer_of(app)
        await paste(app, f"read @{tmp_path}/secret and @../x and @src/app.py please")
        assert composer.mentions == ("src/app.py",)
        await press(app, " ")
        await paste(app, "@src/other.py " * 2_000)
        assert composer.mentions == ("src/app.py",)
        composer.put("@/etc/hosts")
        assert composer.mentions == ("/etc/hosts",)


async def test_an_empty_paste_asks_the_clipboard() -> None:
    async with running() as (app, _):
        await paste(app, "")
        await until(lambda: "clipboard" in screen_text(app))
        app.copy_to_clipboard("copied in claw")
        await press(app, "ctrl+v")
        await until(lambda: composer_of(app).text == "copied in claw")

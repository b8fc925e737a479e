"""The composer of the real program in a terminal: pastes, files, the editor, the queue, and a draft that outlives a kill."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from agent.transcript import Assistant
from tests.fakes.session_kit import Desk, make_project
from tests.tui.program import READY, Program
from tests.tui.test_editor import script


def said(desk: Desk) -> list[str]:
    return [text for text in desk.wire.texts(desk.bodies()[-1]) if not text.startswith("<reminder")]


@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
def test_a_paste_from_the_terminal_is_folded_and_sent_whole(desk: Desk, size: int) -> None:
    desk = Desk(desk.wire, desk.project, desk.home, window_tokens=50_000_000)
    desk.wire.reply("Seen.")
    line = "0123456789 abcdefghij é\t[b]x[/b]\n"
    text = line * (size // len(line.encode()))
    with Program(desk, "-m", desk.model) as claw:
        claw.ready()
        data = f"\x1b[200~{text}\x1b[201~".encode()
        writer = threading.Thread(target=_write_all, args=(claw.fd, data))
        begun = time.monotonic()
        writer.start()
        claw.wait_for("[paste 1: ")
        assert time.monotonic() - begun < 10 + size / 300_000  # the benchmark is stricter
        writer.join()
        claw.type(" <-\r")
        claw.wait_for("Seen.")
        claw.idle()
        claw.quit()
    assert said(desk) == [f"{text} <-"]


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data[:4_096]) :]


def test_a_file_is_offered_taken_and_sent_along(desk: Desk) -> None:
    make_project(desk.project, {"src/app.py": "print(1)\n", "notes/two words.md": "# Two\n"})
    desk.wire.reply("Seen.")
    with Program(desk, "-m", desk.model) as claw:
        claw.ready()
        claw.type("look at @ap")
        claw.wait_for("▸ src/app.py")
        claw.type("\t")
        claw.wait_for("look at @src/app.py")
        claw.type("and @two")
        claw.wait_for("▸ notes/two words.md")
        claw.type("\r")
        claw.wait_for('@"notes/two words.md"')
        claw.type("\r")
        claw.wait_for("Attached: src/app.py (1 line), notes/two words.md (1 line)")
        claw.wait_for("Seen.")
        claw.idle()
        claw.quit()
    assert said(desk) == [
        'look at @src/app.py and @"notes/two words.md" ',
        '<attachment path="src/app.py">\nprint(1)\n\n</attachment>',
        '<attachment path="notes/two words.md">\n# Two\n\n</attachment>',
    ]


def test_the_editor_gets_the_terminal_and_gives_the_text_back_while_the_reply_goes_on(
    desk: Desk, tmp_path: Path
) -> None:
    held = threading.Event()
    desk.wire.reply("Written meanwhile.", after=held)
    desk.wire.reply("Seen.")
    body = 'stty -a < /dev/tty | grep -q " icanon" && echo IN THE EDITOR; read line < /dev/tty; printf "%s" "$line" >> "$1"'
    editor = script(tmp_path / "bin" / "ed", body)
    with Program(desk, "-m", desk.model, VISUAL=str(editor)) as claw:
        claw.ready()
        claw.say("first")
        claw.wait_for(lambda text: len(desk.wire.requests) == 1)
        claw.type("begun and ")
        claw.wait_for("begun and")
        claw.type("\x07")
        claw.wait_for("IN THE EDITOR")
        held.set()
        claw.wait_for(lambda text: bool(desk.payloads(Assistant)))
        assert "IN THE EDITOR" in claw.text()
        claw.type("\x03")  # ends this editor, and nothing else
        claw.wait_for("ended by signal 2")
        claw.wait_for("Written meanwhile.")
        claw.idle("begun and")
        claw.type("\x07")
        claw.wait_for(lambda text: claw.raw.count(b"IN THE EDITOR") == 2)
        claw.type("ended outside\r")
        claw.idle("begun and ended outside")
        claw.type("\r")
        claw.wait_for("Seen.")
        claw.idle()
        claw.quit()
    assert said(desk)[-1] == "begun and ended outside"


def test_alt_enter_queues_and_the_messages_are_answered_in_order(desk: Desk) -> None:
    held = threading.Event()
    desk.wire.reply("One.", after=held)
    desk.wire.reply("Two.")
    desk.wire.reply("Three.")
    with Program(desk, "-m", desk.model) as claw:
        claw.ready()
        claw.say("first")
        claw.wait_for(lambda text: len(desk.wire.requests) == 1)
        claw.type("second\x1b\r")
        claw.wait_for("⇥ second")
        claw.type("third\x1b[13;3u")
        claw.wait_for("⇥ third")
        claw.type("\x1b[A")
        claw.wait_for(lambda text: "│ third" in text and "⇥ third" not in text)
        claw.type("!\x1b\r")
        claw.wait_for("⇥ third!")
        held.set()
        claw.wait_for("Three.")
        claw.idle()
        claw.quit()
    assert said(desk) == ["first", "second", "third!"]


def test_a_draft_outlives_a_kill_and_an_orderly_end(desk: Desk) -> None:
    with Program(desk, "-m", desk.model) as claw:
        claw.ready()
        claw.type("half a thought")
        folder = desk.home / "state" / "drafts"
        claw.wait_for(lambda text: any("half a thought" in path.read_text() for path in folder.glob("*.json")))
        os.kill(claw.pid, signal.SIGKILL)
        claw.wait_end()
    with Program(desk, "-m", desk.model) as claw:
        claw.wait_for("half a thought")
        claw.type(", more")
        claw.wait_for("half a thought, more")
        os.kill(claw.pid, signal.SIGTERM)
        assert claw.wait_end() == 128 + signal.SIGTERM
    (path,) = (desk.home / "state" / "drafts").glob("*.json")
    assert json.loads(path.read_text()) == "half a thought, more"
    desk.wire.reply("Seen.")
    with Program(desk, "-m", desk.model) as claw:
        claw.wait_for("half a thought, more")
        claw.type("\r")
        claw.wait_for("Seen.")
        claw.idle()
        claw.quit()
    assert not list((desk.home / "state" / "drafts").glob("*.json"))


def test_a_command_of_the_users_own_is_seen_and_goes_with_the_next_message(desk: Desk) -> None:
    desk.wire.reply("Seen.")
    with Program(desk, "-m", desk.model, "--mode", "plan") as claw:
        claw.ready()
        claw.say("!echo $((6*7)); printf '\\033[31mred\\033[0m\\n'")
        claw.wait_for("   42")
        assert "   red" in claw.idle(READY)
        claw.say("!!echo private")
        claw.wait_for("   private")
        claw.say("what was it?")
        claw.wait_for("Seen.")
        claw.idle()
        claw.quit()
    assert said(desk) == [
        "I ran this command:\n$ echo $((6*7)); printf '\\033[31mred\\033[0m\\n'\n42\nred",
        "what was it?",
    ]

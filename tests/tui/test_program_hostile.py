"""Hostile text in everything that the real program draws: nothing of it reaches the terminal as a control sequence."""

import sys
from pathlib import Path

import pytest

from tests.fakes.claw_process import environment
from tests.fakes.hostile import HOSTILE, MARKUP, SENDABLE, leaks
from tests.fakes.session_kit import Desk
from tests.fakes.terminal import Terminal
from tests.faults import g15_terminal
from tests.tui.program import Program

TEXT = f"{MARKUP} " + " ".join(f"x{s}y" for s in SENDABLE)
ONE_LINE = TEXT.replace("\r", "").replace("\n", "").replace("\0", "")
NAMES = [f"n{s}.txt" for s in SENDABLE if "/" not in s and "\0" not in s]
VISIBLE = "␛]52;c;ZXZpbA==␇"


def hostile_project(project: Path) -> None:
    for name in NAMES:
        (project / name).write_text("x")
    (project / "bytes").write_bytes(TEXT.encode() + b"\n\x9b2J\x9d0;t\x9c\x90q\x9c\xff\n" + b"\x1b[31mred\x1b[0m\n")
    (project / "evil.txt").write_bytes(ONE_LINE.encode() + b"\nold\n" + ONE_LINE.encode() + b"\n")
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_bytes(f"ref: refs/heads/{ONE_LINE}\n".encode())


async def test_T59_T60_B23_B24_no_sequence_of_others_reaches_the_terminal(desk: Desk) -> None:
    wire = desk.wire
    wire.reply("Noted.")
    async with desk.open() as talk:
        await talk.session.prompt(TEXT)
    hostile_project(desk.project)
    with (desk.home / "config" / "config.toml").open("a") as config:
        config.write('["\\u001b]0;t\\u0007 [/x]"]\na = 1\n')
    command = "cat bytes; : '" + ONE_LINE.replace("'", "") + "'"
    edit = {"path": "evil.txt", "edits": [{"old": "old", "new": f"new {ONE_LINE}"}]}
    wire.reply(TEXT, thinking=TEXT, tools=[
        ("read", {"path": TEXT}), ("glob", {"pattern": "n*"}), ("grep", {"pattern": "old", "path": "evil.txt"}),
        ("bash", {"command": command}), ("bash", {"command": f"{TEXT}\0"}), ("edit", edit), ("no_such", {TEXT: TEXT}),
    ])  # fmt: skip
    wire.reply("THE END.")
    wire.server.responses.error(400, "invalid_request", TEXT)

    with Program(desk, "-m", desk.model, columns=160, rows=50) as claw:
        claw.ready()
        start = len(claw.raw)
        claw.type("\x0c")
        claw.wait_for("config.toml")
        claw.say("begin")
        for question in ("wants to run this command", "wants to change evil.txt"):
            claw.wait_for(question)
            claw.type("\x1b[F")
            shown = claw.answer("y", question)
            assert "␛" in shown or "\\x1b" in shown, shown
        claw.wait_for("THE END.")
        claw.idle()
        claw.type("\x0f")
        for _ in range(6):
            claw.type("\x1b[5~")
        claw.drain(0.2)
        claw.type("\x1b[1;5F")
        claw.say("fail")
        claw.wait_for("[/closing]")
        claw.idle()
        claw.say("/resume")
        claw.wait_for("╭─ Sessions")
        claw.wait_for("Enter open")
        claw.type("\x1b[B\r")
        claw.wait_for("Noted.")
        claw.drain(0.2)
        written = bytes(claw.raw[start:])
        claw.quit()
    assert VISIBLE in written.decode() and MARKUP in written.decode()
    assert leaks(written) == []
    assert wire.refusals == []


def test_what_the_tests_of_the_terminal_call_a_leak() -> None:
    for sequence in HOSTILE:
        assert leaks(f"x{sequence}y".encode("utf-8", "surrogatepass")) or sequence == "a\ufe0f\ufe0f", repr(sequence)
    assert leaks(b"x\x9b2Jy") != []
    for own in (
        "\x1b[1;31mred\x1b[0m",
        "\x1b[3;4Hx",
        "\x1b]8;id=1-2;https://x.y/\x1b\\x\x1b]8;;\x1b\\",
        "漢 ␛]0;t␇ 👩\u200d💻",
    ):
        assert leaks(own.encode()) == []


@pytest.mark.parametrize("form", ["text", "stream-json"])
def test_T59_print_mode_writes_no_sequence_of_others_onto_a_terminal(desk: Desk, form: str) -> None:
    desk.wire.reply(TEXT, tools=[("bash", {"command": f"echo '{ONE_LINE}'"})])
    desk.wire.server.responses.error(400, "invalid_request", TEXT)
    argv = [sys.executable, "-m", "claw", "-p", "go", "-m", desk.model, "--mode", "auto", "--output-format", form]
    with Terminal(argv, cwd=desk.project, env=environment(desk)) as terminal:
        assert terminal.wait_end(30) == 1
        written = bytes(terminal.raw)
    assert b"[/closing]" in written and leaks(written) == []


@pytest.mark.slow
def test_G15_a_part_of_the_gate_holds() -> None:
    reading = g15_terminal.measure(0.06)
    assert reading.holds, reading.reached

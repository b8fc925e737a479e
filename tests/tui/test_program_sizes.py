"""The real program while its terminal changes size, and where there is no terminal that it could draw on."""

import re
import subprocess
import sys
import threading

import pytest

from tests.fakes.claw_process import environment
from tests.fakes.model_server import Chunk, Reply
from tests.fakes.responses_wire import ResponseStream
from tests.fakes.session_kit import Desk
from tests.tui.program import Program

WORDS = [f"w{number:03}" for number in range(360)]
SIZES = ((200, 60), (20, 5), (1, 1), (3, 60), (200, 2), (80, 24))


def held_reply(gates: list[threading.Event]) -> Reply:
    """The words in equal parts, each behind its gate."""
    size = len(WORDS) // len(gates)
    text = " ".join(WORDS)
    stream = ResponseStream("gpt-test", {"input_tokens": 2_000, "output_tokens": 400}).text(text, 5 * size).complete()
    deltas = iter(gates)
    chunks = [Chunk(e, after=next(deltas) if b"output_text.delta" in e else None) for e in stream.events]
    return Reply(tuple(chunks))


def test_T66_the_size_changes_in_the_middle_of_a_stream_and_nothing_is_torn(desk: Desk) -> None:
    gates = [threading.Event() for _ in SIZES]
    desk.wire.server.responses.script(held_reply(gates))
    with Program(desk, "-m", desk.model) as claw:
        claw.ready()
        claw.say("count")
        claw.wait_for("waiting for gpt-test")
        for gate, (columns, rows) in zip(gates, SIZES, strict=True):
            claw.resize(columns, rows)
            gate.set()
            assert claw.read(20)  # it draws again
        claw.wait_for(WORDS[-1])
        claw.idle()
        for number in range(200):  # as a window does that is drawn larger with the mouse
            claw.resize(20 + number % 100, 60 - number % 50)
        claw.resize(120, 60)
        claw.wait_for(lambda text: re.findall(r"\bw\d{3}\b", text) == WORDS)
        claw.quit()


@pytest.mark.parametrize("term", ["dumb", ""])
def test_T65_a_terminal_that_cannot_draw_gets_two_plain_lines(desk: Desk, term: str) -> None:
    with Program(desk, term=term) as claw:
        assert claw.wait_end() == 2
        told = claw.raw.decode()
    assert f"TERM={term!r} cannot draw a screen" in told and "claw -p PROMPT" in told
    assert "\x1b" not in told and len(told.splitlines()) == 2


def test_too_few_open_files_are_told_before_anything_is_drawn(desk: Desk) -> None:
    with Program(desk, before=("/bin/sh", "-c", 'ulimit -n 8 && exec "$@"', "sh")) as claw:
        assert claw.wait_end() == 2
        told = claw.raw.decode()
    assert "Only 8 files may be open" in told and "ulimit -n" in told and "\x1b" not in told


def test_T65_without_a_terminal_nothing_is_drawn_into_the_file(desk: Desk) -> None:
    into = desk.home / "out"
    with into.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "claw"], cwd=desk.project, env=environment(desk, {"TERM": "xterm-256color"}),
            stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert (done.returncode, into.read_bytes()) == (2, b"")
    assert (
        done.stderr.decode()
        == "claw: The screen needs a terminal.\n      Use `claw -p PROMPT` for a task without one.\n"
    )

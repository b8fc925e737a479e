"""What the command line writes, whatever it is told to say and wherever that goes."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.claw_process import environment
from tests.fakes.hostile import HOSTILE, leaks
from tests.fakes.session_kit import Desk
from tests.tui.in_process import Place
from tests.tui.program import Program
from tui.standard_streams import CleanStream, clean_streams

NO_UTF_8 = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


def told(*texts: str, encoding: str = "utf-8") -> bytes:
    raw = io.BytesIO()
    stream = CleanStream(raw, encoding, "backslashreplace", write_through=True)
    for text in texts:
        print(text, end="", file=stream)
    stream.detach()
    return raw.getvalue()


def test_T59_no_text_of_any_origin_reaches_a_terminal_as_it_was() -> None:
    for sequence in HOSTILE:
        for texts in ([f"x{sequence}y"], [*f"x{sequence}y"]):
            assert leaks(told(*texts)) == [], repr(sequence)
    assert told("plain\tä漢 👩\u200d💻\n") == "plain\tä漢 👩\u200d💻\n".encode()


def test_T65_no_encoding_of_the_terminal_ends_the_program() -> None:
    assert told("⟨é\ud800", encoding="ascii") == rb"\u27e8\xe9\u27e8U+D800\u27e9"
    assert told("é漢", encoding="latin-1") == b"\xe9\\u6f22"


def test_the_streams_are_as_before_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with clean_streams():
        print("out \x1b[2J")
        print("err \x9b2J", file=sys.stderr)
        sys.stdout.buffer.write(b"\x1b[1mto the byte\n")
        sys.stdout.buffer.flush()
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr() == ("out ␛[2J\n\x1b[1mto the byte\n", "err ⟨U+9B⟩2J\n")


def test_T59_what_is_refused_is_repeated_clean(place: Place) -> None:
    hostile = "\x1b]0;t\x07\x9b2J\u202e"
    for argv in (
        ["sessions", "show", hostile], ["--mode", hostile], ["config", "set", f"x{hostile}", "1"], [hostile, hostile],
        ["login", hostile], ["sessions", "export", "--output", hostile, "x"], ["-p", "go", "--output-schema", hostile],
    ):  # fmt: skip
        done = place.claw(*argv)
        assert done.code == 2 and leaks((done.out + done.err).encode()) == [], argv


def test_T65_an_ascii_terminal_gets_the_screen_and_the_commands(desk: Desk) -> None:
    (desk.project / "naïve ␛").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "claw", "sessions", "show", "漢"], cwd=desk.project / "naïve ␛", env=environment(desk, NO_UTF_8),
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and b"Traceback" not in done.stderr
    desk.env |= NO_UTF_8
    with Program(desk, "-m", desk.model) as claw:
        assert "╭──" in claw.ready().text()
        claw.quit()


def test_T68_a_command_whose_reader_leaves_or_whose_disk_is_full_ends_quietly(desk: Desk) -> None:
    argv = [sys.executable, "-m", "claw", "config", "show"]
    reader, writer = os.pipe()
    os.close(reader)
    gone = subprocess.run(
        argv, cwd=desk.project, env=environment(desk), stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (gone.returncode, gone.stderr) == (141, b"")
    if Path("/dev/full").exists():
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                argv, cwd=desk.project, env=environment(desk), stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 1 and b"Traceback" not in done.stderr and len(done.stderr.splitlines()) == 2

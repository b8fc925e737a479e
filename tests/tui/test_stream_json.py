"""`--output-format stream-json` and `--input-format stream-json`, as scripts use them."""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from agent.events import (
    Event,
    MessageCompleted,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UserMessageAdded,
)
from providers.types import Usage
from tests.agent.processes.marks import comes_true
from tests.fakes.claw_process import Done, environment, finish, run, start
from tests.fakes.grammar import check_grammar
from tests.fakes.session_kit import Desk
from tests.fakes.wires import KEY
from tests.tui.print_kit import answer
from tui.headless.collector import Collector
from tui.headless.standard_input import MessageLines
from tui.headless.stream_json import EventStream, InputError, Result
from tui.subcommands.event_schema import line_type, schema_text

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "events.schema.json"
STREAM = ("--output-format", "stream-json")
BOTH = ("--input-format", "stream-json", *STREAM)


def lines_of(out: str) -> list[dict[str, Any]]:
    """The lines as objects; each is one, fits the published schema, and says its type first."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text()))
    lines = [json.loads(line) for line in out.splitlines()]
    for line in lines:
        validator.validate(line)
        assert next(iter(line)) == "type"
    return lines


def events_of(out: str) -> list[Event]:
    decode = msgspec.json.Decoder(line_type()).decode
    return [decode(line) for line in out.splitlines()]


def user(text: str) -> str:
    return json.dumps({"type": "user", "text": text}) + "\n"


def test_the_published_schema_is_up_to_date() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), (
        "run: python -m tui.subcommands.event_schema > docs/events.schema.json"
    )


async def test_a_run_is_its_events_as_they_happen_and_the_result_is_the_last_line(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("one\n")
    gate = threading.Event()
    desk.wire.reply(
        "I look.",
        thinking="hm",
        tools=[("read", {"path": "a.txt"}), ("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]}),
               ("bash", {"command": "printf 'a\\377b'; exit 3"}), ("nothing", {})],
        usage=Usage(100, 50, 20, 10),
        after=gate,
    )  # fmt: skip
    desk.wire.reply("Grüße 🎉", usage=Usage(10, 160, 0, 5))
    process = await start(desk, "-p", "go", "-m", desk.model, "--mode", "auto", *STREAM)
    assert process.stdout is not None
    out = ""
    while '"step_started"' not in out:
        out += (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
    gate.set()  # only now does the model answer
    done = await finish(process)
    out += done.out
    assert (done.code, done.err) == (0, "")
    lines, events = lines_of(out), events_of(out)
    assert check_grammar(event for event in events if not isinstance(event, Result)) == 1
    assert lines[0]["type"] == "setting" and lines[0]["model"] == desk.wire.model
    assert [line["type"] for line in lines[-3:] if line["type"] != "gauge"] == ["turn_ended", "result"]
    assert [event.tool for event in events if isinstance(event, ToolFinished)] == ["read", "edit", "bash", "nothing"]
    result = events[-1]
    assert isinstance(result, Result)
    assert (result.result, result.turns, result.stop_reason, result.is_error) == ("Grüße 🎉", 2, "end_turn", False)
    assert msgspec.to_builtins(result.usage) == {"input": 110, "cache_read": 210, "cache_write": 20, "output": 15}
    assert result.cost_usd is not None and (desk.folder / f"{result.session_id}.db").exists()


async def test_it_stops_at_max_cost_with_4(desk: Desk) -> None:
    for _ in range(3):
        desk.wire.reply("Again.", tools=[("glob", {"pattern": "*"})], usage=Usage(100_000, output_tokens=100))
    done = await run(desk, "-p", "go", "-m", desk.model, "--max-cost", "0.5", *STREAM)
    assert done.code == 4 and "--max-cost" in done.err
    *events, result = events_of(done.out)
    assert isinstance(result, Result) and (result.stop_reason, result.is_error, result.turns) == ("max_cost", True, 2)
    assert result.cost_usd is not None and 0.5 <= result.cost_usd < 0.7
    assert [event.reason for event in events if isinstance(event, TurnEnded)] == ["max_cost"]
    assert len(desk.bodies()) == 2


async def test_T68_a_closed_pipe_ends_it_quietly_with_141_and_the_session_is_saved(desk: Desk) -> None:
    gate = threading.Event()
    desk.wire.reply("x" * 1000, tools=[("glob", {"pattern": "*"})], after=gate)
    desk.wire.otherwise(lambda body: "Not wanted.")
    reading, writing = os.pipe()
    process = await start(desk, "-p", "hi", "-m", desk.model, *STREAM, stdout=writing)
    os.close(writing)
    await asyncio.to_thread(desk.wire.server.wait_for_requests, 1)
    os.close(reading)
    gate.set()
    assert await finish(process) == Done(141, "", "")
    assert [entry.kind for entry in desk.entries()][:4] == ["setting", "prefix", "user", "reminder"]


async def test_T68_a_full_disk_is_one_line_and_1(desk: Desk) -> None:
    desk.wire.otherwise(lambda body: "Yes.")
    full = os.open("/dev/full", os.O_WRONLY)
    process = await start(desk, "-p", "hi", "-m", desk.model, *STREAM, stdout=full)
    os.close(full)
    done = await finish(process)
    assert done.code == 1 and done.err.startswith("claw: ") and "No space left" in done.err.partition("\n")[0]
    assert "Traceback" not in done.err and len(done.err.splitlines()) == 2


async def test_a_reader_that_does_not_read_holds_up_no_signal(desk: Desk) -> None:
    desk.wire.reply("x" * 400_000)
    desk.wire.silence()
    reading, writing = os.pipe()
    process = await start(desk, *BOTH, "-m", desk.model, stdin=asyncio.subprocess.PIPE, stdout=writing)
    os.close(writing)
    assert process.stdin is not None
    process.stdin.write(user("one").encode() + user("two").encode())
    # The pipe is full long before the first answer ends, and the second request leaves all the same.
    await asyncio.to_thread(desk.wire.server.wait_for_requests, 2)
    process.send_signal(signal.SIGTERM)
    assert (await finish(process)).code == 143
    os.close(reading)


async def test_messages_are_turns_one_after_another_and_bad_lines_are_told_with_their_number(desk: Desk) -> None:
    desk.wire.reply("One.")
    desk.wire.reply("Two.")
    desk.wire.reply("Three.")
    bad = [
        "no json", "[1]", '"text"', "{}", '{"type": "nothing"}', '{"type": "user"}', '{"type": "user", "text": 1}',
        '{"type": "user", "text": "  "}', '{"type": "user", "text": "x", "more": 1}', '{"type": "end", "text": "x"}',
        '{"type": "user", "text": "\\ud800"}', "[" * 5000,
    ]  # fmt: skip
    text = user("first") + "\n" + "\n".join(bad) + "\n" + user("second\nline") + '{"type": "end"}\n' + user("too late")
    done = await run(desk, *BOTH, "-m", desk.model, "-p", "zeroth", stdin=text.encode() + b'{"type": "us\xffer"}\n')
    lines = lines_of(done.out)
    assert [line["line"] for line in lines if line["type"] == "input_error"] == list(range(3, 3 + len(bad)))
    assert [line["text"] for line in lines if line["type"] == "user_message"] == ["zeroth", "first", "second\nline"]
    assert check_grammar(event for event in events_of(done.out) if not isinstance(event, Result | InputError)) == 3
    assert lines[-1] | {"usage": 0, "cost_usd": 0, "duration_ms": 0, "session_id": ""} == {
        "type": "result", "result": "Three.", "session_id": "", "turns": 3, "usage": 0, "cost_usd": 0, "duration_ms": 0,
        "stop_reason": "bad_input", "refusals": [], "is_error": True,
    }  # fmt: skip
    assert done.code == 2 and "standard input" in done.err


async def test_interrupt_stops_the_turn_that_runs_and_the_next_message_is_answered(desk: Desk) -> None:
    desk.wire.unfinished("Half")
    desk.wire.reply("Whole.")
    process = await start(desk, *BOTH, "-m", desk.model, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(user("first").encode())
    await asyncio.to_thread(desk.wire.server.wait_for_requests, 1)
    done = await finish(process, b'{"type": "interrupt"}\n' + user("second").encode())
    assert (done.code, done.err) == (0, "")
    ended = [line["reason"] for line in lines_of(done.out) if line["type"] == "turn_ended"]
    assert ended == ["interrupted", "done"]
    assert lines_of(done.out)[-1]["result"] == "Whole."


async def test_a_failing_message_is_told_and_decides_the_exit_code(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.wire.reply("Hm.", tools=[("glob", {"pattern": "*"})])
    desk.wire.reply("Fine.")
    done = await answer(desk, capsys, "first", "second", max_turns=1)
    assert done.code == 4 and "--max-turns" in done.err
    assert done.result["result"] == "Fine."
    assert (done.result["stop_reason"], done.result["is_error"]) == ("max_turns", True)


async def test_after_max_cost_no_further_message_is_begun(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.wire.reply("Dear.", tools=[("glob", {"pattern": "*"})], usage=Usage(1_000_000, output_tokens=1))
    done = await answer(desk, capsys, "first", "second", max_cost=0.5)
    assert (done.code, done.result["stop_reason"]) == (4, "max_cost")
    assert len([event for event in done.events if isinstance(event, TurnEnded)]) == 1


async def test_keys_never_go_out_wherever_they_stand(desk: Desk) -> None:
    desk.wire.reply(f"I saw {KEY}.", tools=[("bash", {"command": f"echo {KEY[:8]}''{KEY[8:]} hdr-secret-value"})])
    desk.wire.reply("Done.")
    config = 'providers.openai.headers.X-Auth-Token="hdr-secret-value"'
    done = await run(desk, "-p", f"my key is {KEY}", "-m", desk.model, "--mode", "auto", "--config", config, *STREAM)
    assert done.code == 0
    assert KEY not in done.out and "hdr-secret-value" not in done.out
    told = "".join(line["text"] for line in lines_of(done.out) if line["type"] == "text")
    assert told == "I saw [redacted].Done."
    assert done.out.count("[redacted]") == 4  # also in the prompt, in the whole message, and in the call's arguments


async def test_nothing_to_read_is_a_run_of_no_turns(desk: Desk) -> None:
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", f"exec {sys.executable} -m claw {' '.join(BOTH)} -m {desk.model} <&-",
        cwd=desk.project, env=environment(desk), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    done = await finish(process)
    assert (done.code, done.err) == (0, "")
    assert lines_of(done.out)[-1]["turns"] == 0
    assert desk.bodies() == []


# --------------------------------------------------------------------------- in process


class Lines:
    """MessageLines on a pipe, and what it did."""

    def __init__(self, first: str = "") -> None:
        self.reading, self.writing = os.pipe()
        self.interrupts = 0
        self.bad: list[tuple[int, str]] = []
        self.lines = MessageLines(
            first, self._interrupt, lambda number, why: self.bad.append((number, why)), self.reading
        )

    def _interrupt(self) -> None:
        self.interrupts += 1

    def write(self, text: str) -> None:
        os.write(self.writing, text.encode())

    async def next(self) -> str | None:
        return await asyncio.wait_for(self.lines.next(), 40)

    def close(self) -> None:
        os.close(self.writing)


async def test_an_interrupt_is_for_the_message_before_it_and_none_is_left_over() -> None:
    piped = Lines()
    piped.write('{"type": "interrupt"}\n' + user("one"))
    assert await piped.next() == "one" and piped.interrupts == 0  # there was nothing to stop
    piped.write('{"type": "interrupt"}\n' + user("two"))
    assert await comes_true(lambda: piped.interrupts == 1)
    assert await piped.next() == "two"
    piped.write('{"type": "interrupt"}\n')
    assert await comes_true(lambda: piped.interrupts == 2)
    piped.close()
    assert await piped.next() is None and await piped.next() is None
    assert piped.interrupts == 2 and piped.bad == []


async def test_lines_may_come_in_pieces_and_the_last_without_an_end() -> None:
    piped = Lines("zero")
    whole = user("größe") + user("last").rstrip("\n")
    for at in range(0, len(whole), 7):
        piped.write(whole[at : at + 7])
    piped.close()
    assert [await piped.next() for _ in range(4)] == ["zero", "größe", "last", None]


async def test_stop_drops_what_waits() -> None:
    piped = Lines("zero")
    piped.write(user("one"))
    piped.lines.stop()
    assert await piped.next() is None
    piped.close()


async def test_half_of_a_character_does_not_stop_the_stream_and_secrets_are_found_in_json() -> None:
    reading, writing = os.pipe()
    stream = EventStream(('pa"ss\\word',), writing)
    stream.emit(ToolStarted("1", "read", "caf\udce9 \ud83d\ude00"))
    stream.emit(UserMessageAdded(1, 'my pa"ss\\word.'))
    await stream.finish()
    assert [json.loads(line) for line in os.read(reading, 10_000).splitlines()] == [
        {"type": "tool_started", "call_id": "1", "tool": "read", "title": "caf\N{REPLACEMENT CHARACTER} 😀"},
        {"type": "user_message", "key": 1, "text": "my [redacted].", "steering": False},
    ]
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("size", range(1, 12))
async def test_a_secret_in_pieces_never_goes_out_and_nothing_else_is_lost(size: int) -> None:
    reading, writing = os.pipe()
    stream = EventStream(("key-abkey-a", 'wor"d'), writing)
    said = 'A key-abkey-abkey-abkey-a, a wor"d, a key-ab, a "wor" and ke'
    for kind in (TextStreamed, ThinkingStreamed, TextStreamed):
        for at in range(0, len(said), size):
            stream.emit(kind(said[at : at + size], not at))
    stream.emit(TextStreamed("key-", True))
    stream.emit(TextStreamed("abkey-a", True))
    stream.emit(TextStreamed("k"))
    stream.emit(TurnEnded("done"))
    stream.emit(TextStreamed("wor"))
    await stream.finish()
    lines = [json.loads(line) for line in os.read(reading, 100_000).splitlines()]
    texts: list[str] = []
    for line in lines:
        if line.get("opens_block"):
            texts.append("")
        texts[-1] += line.get("text", "|")
    clean = 'A [redacted]b[redacted], a [redacted], a key-ab, a "wor" and ke'
    assert texts == [clean, clean, clean, "key-", "abkey-ak|wor"]
    os.close(reading)
    os.close(writing)


async def test_the_stream_reports_its_failure_once_and_goes_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = EventStream((), writing)
    failures: list[int] = []
    failed = asyncio.Event()

    def fail() -> None:
        failures.append(1)
        failed.set()

    stream.failed = fail
    for _ in range(3):
        stream.emit(TurnEnded("done"))
    await asyncio.wait_for(failed.wait(), 40)
    stream.emit(TurnEnded("done"))
    try:
        await stream.finish()
    except BrokenPipeError:
        pass
    else:
        raise AssertionError("nothing was said of the failure")
    assert failures == [1]
    os.close(writing)


def test_a_cost_limit_without_a_price_is_told_once() -> None:
    told: list[str] = []
    collector = Collector(told.append, has_cost_limit=True)
    for _ in range(2):
        collector.emit(MessageCompleted(2, (), Usage(10, 0, 0, 4), None, "end_turn"))
    assert len(told) == 1 and "price" in told[0]

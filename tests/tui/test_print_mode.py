"""`claw -p` as scripts use it: real processes, what they write where, and how they end."""

import asyncio
import os
import signal
import sys
import threading

import pytest

from agent.events import CompactionFinished, MessageCompleted
from providers.types import Usage
from tests.fakes.claw_process import Done, environment, finish, run, start
from tests.fakes.session_kit import Desk
from tui.headless.collector import Collector

WRONG_KEY = "sk-wrong-0123456789abcdef"
ANSWER = "Grüße, 世界 🎉: done."


def prompts(desk: Desk) -> list[str]:
    """What each request's first message says."""
    return [desk.wire.texts(body)[0] for body in desk.bodies()]


async def test_the_model_comes_from_the_key_and_even_a_quick_reply_has_its_price(anthropic_desk: Desk) -> None:
    anthropic_desk.wire.reply(ANSWER, usage=Usage(1000, output_tokens=100))
    done = await run(anthropic_desk, "-p", "hi", "--output-format", "json")
    assert (done.code, done.err) == (0, "")
    assert anthropic_desk.bodies()[0]["model"].startswith("claude-sonnet")
    assert done.json["result"] == ANSWER
    assert done.json["cost_usd"] > 0


async def test_json_is_one_object_with_the_documented_fields(desk: Desk) -> None:
    desk.wire.reply(
        tools=[("write", {"path": "a", "content": "x"}), ("bash", {"command": "ls"})], usage=Usage(100, 50, 20, 10)
    )
    desk.wire.reply(ANSWER, usage=Usage(10, 160, 0, 5))
    done = await run(desk, "-m", desk.model, "--output-format", "json", "--prompt", "-c")
    assert prompts(desk)[0] == "-c"
    result = done.json
    assert done.out.count("\n") == 1
    assert done.code == 3
    duration, cost, session_id = (result.pop(name) for name in ("duration_ms", "cost_usd", "session_id"))
    assert result == {
        "result": ANSWER,
        "turns": 2,
        "usage": {"input": 110, "cache_read": 210, "cache_write": 20, "output": 15},
        "stop_reason": "end_turn",
        "refusals": [
            {"tool": "write", "title": "a", "reason": "Edits are asked about in ask mode."},
            {"tool": "bash", "title": "ls", "reason": "Commands are asked about in ask mode."},
        ],
        "is_error": False,
    }
    assert duration > 0
    assert cost == pytest.approx((110 * 3 + 210 * 0.3 + 20 * 3.75 + 15 * 15) / 1e6)
    assert (desk.folder / f"{session_id}.db").exists()
    assert "permission was refused for: bash, write" in done.err and "--allowed-tools" in done.err


async def test_piped_input_stands_behind_the_prompt_and_no_session_keeps_nothing(desk: Desk) -> None:
    desk.wire.reply("Yes.")
    desk.wire.reply("Yes.")
    arguments = ("-m", desk.model, "--no-session")
    done = await asyncio.gather(
        run(desk, "-p", "Sum up:", *arguments, stdin="größe\n\n".encode()),
        run(desk, "-p", "-", *arguments, stdin=b"only \xff this"),
    )
    assert list(done) == [Done(0, "Yes.\n", "")] * 2
    assert sorted(prompts(desk)) == ["Sum up:\n\ngröße", "only \N{REPLACEMENT CHARACTER} this"]
    assert not desk.folder.exists()


async def test_T65_plain_surroundings_get_plain_text_and_a_prompt_with_dashes_stays_one(desk: Desk) -> None:
    desk.wire.reply(ANSWER)
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "1"}
    done = await run(desk, "-p", "--version of grüße?", "-m", desk.model, env=env)
    assert done == Done(0, f"{ANSWER}\n", "")
    assert prompts(desk) == ["--version of grüße?"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-p", "hi", "--no-such-option"), "--no-such-option"),
        (("-p",), "-p needs a prompt"),
        (("-p", "hi", "-m", "nowhere/model"), "nowhere/model"),
        (("-p", "hi", "--mode", "yolo"), "yolo"),
        (("-p", "hi", "-c"), "no session"),
        (("-p", "hi", "-r", "2020"), "No session begins with '2020'"),
        (("-p", "hi", "--max-turns", "0"), "positive"),
        (("-p", "hi", "--config", "context.triger=5"), "context.trigger"),
        (("-p", "  "), "no prompt"),
        (("-p", "hi", "--allowed-tools", "bash(git"), "bash(git"),
        ((), "needs a terminal"),
        (("sessions", "show", "nope"), "No session begins with 'nope'"),
    ],
)
async def test_T65_wrong_usage_ends_with_2_and_says_what_and_what_to_do(
    desk: Desk, arguments: tuple[str, ...], told: str
) -> None:
    done = await run(desk, *arguments)
    assert (done.code, done.out) == (2, "")
    what, _, remedy = done.err.partition("\n")
    assert what.startswith("claw: ") and told in done.err
    assert remedy.strip() and "Traceback" not in done.err and "\x1b" not in done.err


async def test_wrong_surroundings_end_with_2_too(desk: Desk) -> None:
    bad = await run(desk, "-p", "hi", "-m", desk.model, env={"CLAW_CONTEXT_WINDOW": "many"})
    assert bad.code == 2 and "CLAW_CONTEXT_WINDOW" in bad.err
    without = await run(desk, "-p", "hi", env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "https://example.invalid"})
    assert without.code == 2 and "OPENAI_API_KEY" in without.err
    (desk.home / "config" / "config.toml").write_text("[permisions]\n")
    config = await run(desk, "-p", "hi", "-m", desk.model)
    assert config.code == 2 and "config.toml" in config.err and "permissions" in config.err


async def test_an_answer_that_was_cut_off_and_went_on_is_printed_whole(desk: Desk) -> None:
    desk.wire.reply("First I look.", tools=[("glob", {"pattern": "*"})])
    desk.wire.reply("The answer is ", cut=True)
    desk.wire.reply("forty-two.")
    assert await run(desk, "-p", "hi", "-m", desk.model) == Done(0, "The answer is forty-two.\n", "")
    desk.wire.reply("I write.", tools=[("write", {"path": "a", "content": "x"})], cut=True)
    desk.wire.reply("I did not.")
    assert await run(desk, "-p", "hi", "-m", desk.model) == Done(0, "I did not.\n", "")


async def test_a_failing_provider_ends_with_1_in_its_own_words(desk: Desk) -> None:
    done = await run(desk, "-p", "hi", "-m", desk.model, "--output-format", "json", env={"OPENAI_API_KEY": WRONG_KEY})
    assert done.code == 1
    assert "Incorrect API key provided" in done.err and WRONG_KEY not in done.err
    result = done.json
    assert (result["is_error"], result["stop_reason"], result["result"]) == (True, "provider_error", "")


async def test_limits_end_with_4_and_a_full_window_with_5(desk: Desk) -> None:
    desk.wire.reply("Wait.", tools=[("glob", {"pattern": "*"})])
    done, full = await asyncio.gather(
        run(desk, "-p", "hi", "-m", desk.model, "--max-turns", "1"),
        run(desk, "-p", "hi", "-m", desk.model, env={"CLAW_BLOCKING_LIMIT": "1000"}),
    )
    assert (done.code, done.out) == (4, "Wait.\n")
    assert "--max-turns" in done.err
    assert (full.code, full.out) == (5, "")
    assert "context window is full" in full.err
    assert len(desk.bodies()) == 1


async def test_B1_a_window_that_is_always_too_full_ends_with_5_after_one_try_at_most(desk: Desk) -> None:
    """An 8k window, an instruction file of 7,000 tokens, and a server that counts 7,500 for every request."""
    (desk.project / "CLAUDE.md").write_text(" ".join(f"rule{number}" for number in range(2_300)))
    for _ in range(3):
        desk.wire.reply("One sentence.", usage=Usage(7_500, output_tokens=4))
    env = {"CLAW_CONTEXT_WINDOW": "8192"}
    first = await run(desk, "-p", "hi", "-m", desk.model, env=env)
    assert (first.code, first.out) == (0, "One sentence.\n")
    second = await run(desk, "-c", "-p", "go on", env=env)
    assert (second.code, second.out) == (5, "")
    assert "CLAUDE.md" in second.err and "instructions" in second.err and "--no-instructions" in second.err
    assert sum(map(desk.wire.is_summary, desk.bodies())) <= 1
    assert len(desk.bodies()) <= 2


async def test_T67_a_signal_ends_it_and_leaves_a_session_that_goes_on(desk: Desk) -> None:
    desk.wire.unfinished("Half of it")
    desk.wire.unfinished("Half of it")
    processes = [await start(desk, "-p", "hi", "-m", desk.model) for _ in range(2)]
    await asyncio.to_thread(desk.wire.server.wait_for_requests, 2)
    for process, number in zip(processes, (signal.SIGINT, signal.SIGTERM), strict=True):
        process.send_signal(number)
    done = [await finish(process) for process in processes]
    assert [each.code for each in done] == [130, 143]
    assert "Traceback" not in done[0].err + done[1].err
    desk.wire.reply("Whole.")
    assert await run(desk, "-c", "-p", "go on") == Done(0, "Whole.\n", "")
    assert desk.wire.texts(desk.bodies()[-1])[0] == "hi"


async def test_a_closed_pipe_ends_it_quietly_with_141(desk: Desk) -> None:
    gate = threading.Event()
    desk.wire.reply("x" * 100_000, after=gate)
    reading, writing = os.pipe()
    process = await start(desk, "-p", "hi", "-m", desk.model, stdout=writing)
    os.close(writing)
    await asyncio.to_thread(desk.wire.server.wait_for_requests, 1)
    os.close(reading)
    gate.set()
    assert await finish(process) == Done(141, "", "")


async def test_a_file_that_the_prompt_names_goes_along_and_one_that_the_piped_text_names_does_not(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("the words of a")
    (desk.project / "b.txt").write_text("the words of b")
    desk.wire.reply("Read.")
    done = await run(desk, "-p", "compare @a.txt and @./gone.txt", "-m", desk.model, stdin=b"see @b.txt")
    assert done.code == 0 and done.out == "Read.\n" and "gone.txt" in done.err
    texts = "\n".join(desk.wire.texts(desk.bodies()[-1]))
    assert "the words of a" in texts and "see @b.txt" in texts and "the words of b" not in texts


async def test_a_session_that_another_claw_has_open_is_not_touched_and_can_be_forked(desk: Desk) -> None:
    desk.wire.reply("One.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
        busy = await run(desk, "-p", "second", "-c")
        assert busy.code == 2 and "open in another claw" in busy.err and "--fork" in busy.err
        desk.wire.reply("Forked.")
        forked = await run(desk, "-p", "second", "-c", "--fork")
        assert forked == Done(0, "Forked.\n", "")
    assert desk.wire.texts(desk.bodies()[-1])[0] == "first"
    assert len(list(desk.folder.glob("*.db"))) == 2
    assert len(desk.entries(talk.session.id)) == 5


async def test_sessions_are_listed_and_shown(desk: Desk) -> None:
    desk.wire.reply("I look.", tools=[("glob", {"pattern": "*"})])
    desk.wire.reply("Nothing \x1b[31mred\x1b[0m here.")
    async with desk.open() as talk:
        await talk.session.prompt("what is here?\nlook")
    listed = await run(desk, "sessions", "list", "--all")
    assert listed.code == 0 and listed.out.count("\n") == 1
    assert talk.session.id in listed.out and str(desk.project.resolve()) in listed.out and "what is here?" in listed.out
    shown = await run(desk, "sessions", "show", talk.session.id[:-2])
    assert shown.code == 0 and "\x1b" not in shown.out
    for text in ("what is here?\nlook", "I look.\n→ glob", "files that git ignores", "red"):
        assert text in shown.out, text
    assert (await run(desk, "sessions", "list", "--json")).json[0]["id"] == talk.session.id


async def test_standard_streams_that_are_closed_do_no_harm(desk: Desk) -> None:
    desk.wire.reply(tools=[("bash", {"command": "echo hi"})])
    desk.wire.reply("One.")
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", f'exec {sys.executable} -m claw -p hi -m {desk.model} --mode auto <&- >&- 2>&-',
        cwd=desk.project, env={"PATH": os.environ["PATH"], **desk.env},
    )  # fmt: skip
    assert await asyncio.wait_for(process.wait(), 40) == 0
    assert len(desk.bodies()) == 2


async def test_T65_what_cannot_be_read_or_written_is_one_line_and_a_remedy(desk: Desk) -> None:
    desk.wire.otherwise(lambda body: "Yes.")
    (desk.project / "gone").mkdir()
    claw = f"{sys.executable} -m claw"
    task = f"-p hi -m {desk.model} --no-session"
    cases = {
        f"{claw} {task} </dev/null >/dev/full": (1, "No space left"),
        f"{claw} sessions list >/dev/full": (1, "No space left"),
        f"{claw} {task} 0>out": (2, "Standard input cannot be read"),
        f"cd gone && rmdir ../gone && {claw} {task} </dev/null": (2, "current directory"),
        f"{claw} {task} --fork </dev/null": (2, "--fork"),
    }
    for line, (code, told) in cases.items():
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", line, cwd=desk.project, env=environment(desk),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        done = await finish(process)
        what, _, remedy = done.err.partition("\n")
        assert (done.code, done.out) == (code, ""), line
        assert what.startswith("claw: ") and told in what and remedy.startswith("      "), done.err
        assert all(word not in done.err for word in ("Traceback", "Exception ignored", "Errno"))


async def test_a_prompt_glued_to_its_option_is_one(desk: Desk) -> None:
    desk.wire.otherwise(lambda body: "Yes.")
    done = await asyncio.gather(
        run(desk, "-pglued", "-m", desk.model, "--no-session"), run(desk, "--no-session", "-m", desk.model, "-p-1")
    )
    assert list(done) == [Done(0, "Yes.\n", "")] * 2
    assert sorted(prompts(desk)) == ["-1", "glued"]


async def test_T65_a_folder_and_a_prompt_that_are_no_text(desk: Desk) -> None:
    desk.wire.otherwise(lambda body: "Yes.")
    desk.project = desk.project.parent / os.fsdecode(b"caf\xe9")
    desk.project.mkdir()
    assert await run(desk, "-p", os.fsdecode(b"gr\xfc\xdfe"), "-m", desk.model) == Done(0, "Yes.\n", "")
    assert await run(desk, "-c", "-p", "again") == Done(0, "Yes.\n", "")
    assert prompts(desk) == ["gr\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}e"] * 2
    listed = await run(desk, "sessions", "list", "--all")
    assert listed.code == 0 and "caf\\xe9" in listed.out
    assert (await run(desk, "context", "--json")).json["used_tokens"] > 0


def test_a_compaction_is_part_of_what_a_run_costs() -> None:
    told: list[str] = []
    collector = Collector(told.append)
    collector.emit(MessageCompleted(2, (), Usage(10, 20, 30, 40), 0.5, "end_turn"))
    collector.emit(CompactionFinished(3, 9, 4, usage=Usage(1, 2, 3, 4), cost_usd=0.25))
    collector.emit(CompactionFinished(None, 9, 9, "No room.", Usage(1, 0, 0, 0), None))
    assert (collector.usage, collector.cost_usd) == (Usage(12, 22, 33, 44), 0.75)
    assert told == ["claw: not compacted: No room."]

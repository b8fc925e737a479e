"""A sample of what the gates of processes and signals measure; how quick it was is left to the gates."""

import asyncio
import signal
from pathlib import Path

import pytest

from agent.transcript import Result
from tests.agent.processes.marks import comes_true, marked, new_mark
from tests.agent.processes.running import linux_only
from tests.fakes.claw_process import start
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ResponsesSide
from tests.faults import g06_interrupt, g07_signals, g08_output
from tests.tui.program import Program


@linux_only
def test_T63_T64_G7_signals_and_a_lost_terminal_end_the_program_in_order() -> None:
    wanted = [(g07_signals.LOSS, "tool", 0), (signal.SIGTERM, "elsewhere", 1)]  # an editor has the terminal
    for trial in g07_signals.run_trials(wanted):
        assert (trial.code, trial.restored, trial.left, trial.resumed) == (trial.wanted_code, "", (), ""), trial


@pytest.mark.slow
@linux_only
@pytest.mark.timeout(300)
def test_T63_T64_G7_every_signal_in_every_state() -> None:
    assert [trial for trial in g07_signals.run_trials(g07_signals.trials(0.05)) if trial.fault] == []


def test_G7_small_shares_have_every_signal_and_every_state() -> None:
    few = g07_signals.trials(0.0)
    assert len(few) == 5 and len({number for number, _, _ in few}) == 5 and len({state for _, state, _ in few}) == 5
    assert len(g07_signals.trials(1.0)) == 500 and len({trial[:2] for trial in g07_signals.trials(0.05)}) == 25


@pytest.mark.slow
@linux_only
def test_T67_G6_an_interrupted_reply_and_command_leave_a_usable_prompt_and_nothing_else() -> None:
    found = g06_interrupt.trials(2, 1)
    assert (len(found.replies_s), len(found.commands_s), found.left, found.refusals) == (2, 1, 0, [])


@linux_only
async def test_T69_G8_floods_are_counted_whole_and_cost_no_memory(tmp_path: Path) -> None:
    wanted = [flood for flood in g08_output.floods(0.05) if not flood.in_session]
    for flood in wanted:
        (tmp_path / flood.name).mkdir()
    done = await asyncio.gather(*(g08_output.one_trial(flood, tmp_path / flood.name) for flood in wanted))
    assert [trial.total_bytes for trial in done] == [flood.total_bytes for flood in wanted]
    assert max(trial.between_mb for trial in done) < g08_output.MOST_MB
    assert max(trial.here_mb for trial in done) < 3 * g08_output.MOST_MB  # all three are in this process at once


@linux_only
async def test_R34_T63_print_mode_ends_in_order_too_with_a_command_that_ignores_TERM(tmp_path: Path) -> None:
    mark = new_mark()
    command = f"trap '' TERM HUP INT QUIT; echo partial; (setsid sleep {mark} &); sleep {mark}; sleep {mark}"
    (tmp_path / "project").mkdir()
    with ModelServer() as server:
        desk = Desk(ResponsesSide(server), tmp_path / "project", tmp_path / "home")
        desk.wire.reply("I work.", tools=[("bash", {"command": command})])
        claw = await start(desk, "-p", "work", "-m", desk.model, "--mode", "auto")
        assert await comes_true(lambda: len(marked(mark)) == 2, 30)
        claw.send_signal(signal.SIGQUIT)
        out, err = await asyncio.wait_for(claw.communicate(), 30)
        assert (claw.returncode, out, err) == (128 + signal.SIGQUIT, b"I work.\n", b"claw: Stopped by a signal.\n")
        assert marked(mark) == []
        (result,) = desk.payloads(Result)
        assert "partial" in str(result.blocks) and "nterrupted" in str(result.blocks)


@linux_only
def test_T67_what_is_sent_while_an_interrupted_command_still_ends_begins_the_next_turn(tmp_path: Path) -> None:
    mark = new_mark()
    command = f"trap '' TERM; echo is-up; while :; do sleep {mark}; done"
    (tmp_path / "project").mkdir()
    with ModelServer() as server:
        desk = Desk(ResponsesSide(server), tmp_path / "project", tmp_path / "home")
        desk.wire.reply("I work.", tools=[("bash", {"command": command})])
        desk.wire.reply("That instead.")
        with Program(desk, "-m", desk.model, "--mode", "auto") as claw:
            claw.ready()
            claw.say("work")
            claw.wait_for("   is-up")
            claw.type("\x03")
            claw.wait_for("Ctrl+C again leaves")
            claw.say("do that instead")
            claw.wait_for("That instead.")
            claw.idle()
            claw.quit()
        assert "do that instead" in desk.wire.texts(desk.bodies()[-1]) and desk.wire.refusals == []
    assert marked(mark) == []

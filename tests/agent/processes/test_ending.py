"""What a command may do to outlive its end: fork on, detach itself, stop whoever watches it. None of it succeeds."""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from agent.processes import CommandNotStartedError, RunOutcome, Spawner
from agent.spawner.limits import FILE_BYTES, MORE_PROCESSES
from agent.tools.endings import describe_end
from tests.agent.processes.marks import children_of, comes_true, marked, new_mark, runs
from tests.agent.processes.running import Run, command_line, linux_only, whole

ROOT = Path(__file__).parents[3]
CHAIN = "import os\nwhile True:\n    if os.fork():\n        os._exit(0)\n    os.setsid()"


@pytest.mark.parametrize(
    "template",
    [
        "while :; do setsid sleep {} & done",
        "while :; do (setsid setsid sleep {} &); done",
        "while :; do (sleep {} &); done",
        "(setsid setsid sleep {} &); sleep {}",
        "for i in 1 2 3 4; do setsid bash -c 'while :; do setsid sleep {} & done' & done; wait",
    ],
)
@linux_only
async def test_T73_what_is_born_while_the_others_are_told_is_told_too(run: Run, template: str) -> None:
    """Each of them ends on TERM, so none must wait for the KILL."""
    mark = new_mark()
    outcome = await run(template.replace("{}", mark), timeout_s=0.15)
    assert (outcome.status, outcome.signal, outcome.killed, outcome.survivors) == ("timeout", signal.SIGTERM, False, 0)
    assert marked(mark) == []


@linux_only
async def test_T73_what_a_process_starts_to_clean_up_may_end(run: Run) -> None:
    command = (
        'trap \'bash -c "sleep 0.2; echo cleaned"; setsid bash -c "sleep 0.2; echo all"; exit 7\' TERM;'
        " echo up; while :; do sleep 0.02; done 2>&-"
    )
    outcome = await run(command, timeout_s=1.2)
    assert (outcome.status, outcome.exit_code, outcome.killed) == ("timeout", 7, False)
    assert [line for line in whole(outcome).split(b"\n") if line != b"Terminated"] == [b"up", b"cleaned", b"all", b""]


@linux_only
async def test_T73_each_process_is_told_once(run: Run) -> None:
    command = "trap 'echo told' TERM; echo up; for i in $(seq 20); do setsid sleep 0.05; done; exit 4"
    outcome = await run(command, timeout_s=0.5)
    assert whole(outcome).count(b"told") == 1 and (outcome.exit_code, outcome.killed) == (4, False)


@linux_only
async def test_T41_a_chain_of_orphans_does_not_outrun_the_kill(run: Run, spawner: Spawner) -> None:
    mark = new_mark()
    outcome = await run(f'exec "{sys.executable}" -S -c "{CHAIN}" {mark}', timeout_s=10)
    assert (outcome.left_running, outcome.survivors) == (True, 0)
    assert marked(mark) == []
    assert await comes_true(lambda: children_of(spawner.pid or 0) == [])


HOST = """
import asyncio, sys
from pathlib import Path
from agent.hooks import CompactionHooks, HookFacts
from agent.jobs import Jobs
from agent.processes import Spawner
from agent.user_shell import run_user_command

async def main():
    folder, mark, chain = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    spawner = Spawner()
    detached = f"(setsid sleep {mark} &) ; trap '' TERM HUP INT; sleep {mark}; sleep {mark}"
    hooks = CompactionHooks(spawner, folder, print, [detached])
    jobs = Jobs(spawner, folder / "out", print, settle_s=0)
    print(await spawner.folder(), flush=True)
    running = [
        spawner.run(["bash", "-c", detached], cwd=folder, timeout_s=60),
        spawner.run(["bash", "-c", f"while :; do kill -STOP $PPID; sleep 0.001; : {mark}; done"], cwd=folder, timeout_s=60),
        spawner.run(["bash", "-c", f"while :; do setsid sleep {mark} & sleep 0.05; done"], cwd=folder, timeout_s=60),
        spawner.run([sys.executable, "-S", "-c", chain, mark], cwd=folder, timeout_s=60),
        run_user_command(detached, spawner, folder, lambda event: None),
        hooks.before(HookFacts("s", "auto", 1)),
        jobs.start(detached, ["bash", "-c", detached], folder),
    ]
    await asyncio.gather(*running, asyncio.Event().wait())

asyncio.run(main())
"""


@linux_only
async def test_T41_B21_killed_claw_takes_commands_jobs_hooks_and_the_user_s_own_along(tmp_path: Path) -> None:
    mark = new_mark()
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(tmp_path), mark, CHAIN, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    folder = Path((await host.stdout.readline()).decode().strip())
    # Two of each of the four, and some that fork on.
    assert await comes_true(lambda: len([pid for pid in marked(mark) if b"sleep" in command_line_of(pid)]) > 8, 20)
    assert any(path.name.startswith("hook-") for path in folder.iterdir())
    spawner = children_of(host.pid)
    host.kill()
    await host.communicate()
    assert await comes_true(lambda: not marked(mark))
    assert await comes_true(lambda: not any(map(runs, spawner)) and not folder.exists())


def command_line_of(pid: int) -> bytes:
    try:
        return b" ".join(command_line(pid))
    except OSError:
        return b""


@linux_only
async def test_a_spawner_that_is_killed_costs_running_commands_nothing(
    run: Run, spawner: Spawner, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    said: list[str] = []
    running = run(
        f"seq 1 30000; until [ -e {gate} ]; do sleep 0.01; done; seq 1 30000; echo end", on_output=said.append
    )
    assert await comes_true(lambda: "30000\n" in "".join(said))
    assert spawner.pid is not None

    os.kill(spawner.pid, signal.SIGKILL)
    assert whole(await run("echo other")) == b"other\n"
    gate.touch()
    outcome = await running
    assert (outcome.status, outcome.exit_code) == ("exited", 0) and outcome.tail.endswith(b"end\n")
    assert outcome.spill_file is not None and outcome.spill_file.read_bytes().endswith(b"end\n")
    await spawner.aclose()
    assert not outcome.spill_file.parent.exists()


# ------------------------------------------------------------------ limits


@linux_only
async def test_R36_a_command_has_soft_limits_and_goes_first_when_memory_runs_out(run: Run) -> None:
    lower = "until [ $(cat /proc/$PPID/oom_score_adj) -lt 500 ]; do sleep 0.01; done"
    outcome = await run(f"ulimit -Sf; ulimit -Hf; ulimit -Su; cat /proc/self/oom_score_adj; {lower}")
    file_size, hard_size, processes, score = whole(outcome).decode().split()
    assert int(file_size) * 1024 == FILE_BYTES and hard_size == "unlimited"
    assert MORE_PROCESSES < int(processes) < MORE_PROCESSES + 100_000
    assert int(score) >= 500 and outcome.status == "exited", "what watches the command must not go first"


@linux_only
async def test_R36_a_file_that_grows_without_end_ends_its_writer_and_that_is_said(run: Run) -> None:
    outcome = await run(f"exec truncate -s {FILE_BYTES + 1} big")
    assert (outcome.status, outcome.signal) == ("signal", signal.SIGXFSZ)
    assert "over 64 GiB (`ulimit -Sf unlimited`" in describe_end(outcome)
    allowed = await run(f"ulimit -Sf unlimited; truncate -s {FILE_BYTES + 1} big && rm big")
    assert allowed.exit_code == 0


@linux_only
async def test_R36_a_fork_bomb_is_bounded_and_ended(run: Run) -> None:
    """As an ordinary user, since the system does not hold root to it."""
    if (setpriv := shutil.which("setpriv")) is None:
        pytest.skip("setpriv is not installed")
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        pytest.skip("in a user namespace the limit counts for whoever made it")
    user = f"exec {setpriv} --reuid 61234 --clear-groups" if await is_root(run) else "exec"
    grow = "f() { [ $1 -gt 8 ] || { f $(($1 + 1)) & f $(($1 + 1)) & sleep 60; }; }"  # a thousand, if nothing stops it
    bomb = f"ulimit -Su $1; {grow}; f 0"
    mark = new_mark()
    outcome = await run(f"{user} bash -c '{bomb}' bomb {await own_tasks(run) + 40} {mark} 2>&1", timeout_s=1)
    assert (outcome.status, outcome.survivors) == ("timeout", 0) and b"fork" in whole(outcome)
    assert marked(mark) == []


async def is_root(run: Run) -> bool:
    return whole(await run("id -u")) == b"0\n"


async def own_tasks(run: Run) -> int:
    """Threads of this user; of the user that stands for an ordinary one there are none."""
    return 0 if await is_root(run) else int(whole(await run("ps -L --no-headers -u $(id -u) | wc -l")))


def test_an_outcome_that_was_not_killed_says_nothing_of_it() -> None:
    outcome = RunOutcome("exited", 0, None, 0, None, 0, 1, False)
    assert not outcome.killed and describe_end(outcome) == "exit code 0"


@linux_only
async def test_R36_where_no_process_can_be_started_that_is_said_and_what_runs_goes_on(
    run: Run, spawner: Spawner, tmp_path: Path
) -> None:
    if (strace := shutil.which("strace")) is None:
        pytest.skip("strace is not installed")
    mark, gate = new_mark(), tmp_path / "gate"
    running = run(f"until [ -e {gate} ]; do sleep 0.01; done; echo still here # {mark}")
    assert await comes_true(lambda: bool(spawner.pid and children_of(spawner.pid)))
    fault = "-einject=clone,clone3,fork,vfork:error=EAGAIN"
    tracer = await asyncio.create_subprocess_exec(
        strace, "-qq", "-o/dev/null", fault, "-p", str(spawner.pid), stderr=asyncio.subprocess.PIPE
    )
    try:
        status = Path(f"/proc/{spawner.pid}/status")
        if not await comes_true(lambda: f"TracerPid:\t{tracer.pid}" in status.read_text(), 5):
            pytest.skip("strace may not be attached here")
        before = spawner.pid
        with pytest.raises(CommandNotStartedError, match="Resource temporarily unavailable"):
            await run("echo never")
        assert spawner.pid == before
    finally:
        tracer.terminate()
        await tracer.communicate()
    assert whole(await run("echo again")) == b"again\n"
    gate.touch()
    assert whole(await running) == b"still here\n"

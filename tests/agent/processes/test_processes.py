import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.processes import CommandNotStartedError, Spawner, SpawnerError
from agent.spawner import wire
from agent.spawner.starting import start
from tests.agent.processes.marks import children_of, comes_true, marked, new_mark, runs
from tests.agent.processes.running import Run, command_line, linux_only, whole

ROOT = Path(__file__).parents[3]


async def test_a_command_says_what_it_did(run: Run, tmp_path: Path) -> None:
    outcome = await run("pwd; echo err >&2; echo out; exit 3")
    assert whole(outcome) == f"{tmp_path}\nerr\nout\n".encode()
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", 3, None)
    assert (outcome.total_bytes, outcome.spill_file, outcome.left_running) == (len(whole(outcome)), None, False)


async def test_it_has_a_session_of_its_own_no_terminal_and_no_input(run: Run) -> None:
    outcome = await run(
        "echo $$; ps -o pgid=,sid= -p $$ | tr -s ' '; tty; : </dev/tty; cat; echo end; ls -l /proc/$$/fd"
    )
    text = whole(outcome).decode()
    pid = text.split("\n", 1)[0]
    assert text.splitlines()[1].split() == [pid, pid]
    assert "not a tty" in text and "/dev/tty: No such device" in text
    assert "0 -> /dev/null" in text
    assert "socket:" not in text, "nothing of claw's is inherited"


READERS = (
    "cat",
    "read x",
    "read x </dev/tty",
    "select x in a b; do break; done",
    "python3 -c 'input()'",
    "python3 -c 'import getpass; getpass.getpass()'",
    "bash -i",
    "less /etc/passwd",
    "more /etc/passwd",
    "vim file",
    "ed file",
    "top",
    "sudo -S -k id",
    "su nobody -c id",
    "passwd",
    "ssh -o BatchMode=no 127.0.0.1 -p 1",
    "ssh-keygen -q -t ed25519 -f key",
    "git init -q r && cd r && touch a && git add a && git -c user.name=a -c user.email=a@b commit",
    "git clone -q ssh://127.0.0.1:1/x",
    "gpg --homedir . --gen-key",
    "openssl enc -aes-256-cbc",
)


async def test_T72_B22_whatever_reads_a_terminal_ends_by_itself(run: Run) -> None:
    outcomes = await asyncio.gather(*(run(command, timeout_s=40) for command in READERS))
    waited = [c for c, outcome in zip(READERS, outcomes, strict=True) if outcome.status != "exited"]
    assert waited == []
    assert sum(outcome.exit_code != 127 for outcome in outcomes) >= 6, "too few of them are installed"


@pytest.mark.parametrize(
    "template",
    [
        "sleep {} & echo done",
        "nohup sleep {} >/dev/null 2>&1 & echo done",
        "setsid sleep {} & echo done",
        "(setsid setsid sleep {} &) & echo done",
        "(sleep {} &) ; echo done",
        "setsid bash -c 'trap \"\" TERM HUP INT; sleep {} & while :; do sleep {}; done' & sleep 0.05; echo done",
        "sleep {} & kill -STOP $!; echo done",
        "setsid bash -c 'while :; do echo x; sleep 0.01; done; : {}' {} & echo done",
    ],
)
@linux_only
async def test_R36_T71_B21_T41_nothing_outlives_the_shell(run: Run, template: str) -> None:
    mark = new_mark()
    outcome = await run(template.replace("{}", mark))
    assert (outcome.status, outcome.exit_code, outcome.left_running) == ("exited", 0, True)
    assert b"done\n" in whole(outcome)
    assert marked(mark) == []


async def test_what_ends_soon_after_the_shell_is_waited_for(run: Run) -> None:
    outcome = await run("(sleep 0.1; echo late) & echo first")
    assert (whole(outcome), outcome.left_running) == (b"first\nlate\n", False)


@pytest.mark.parametrize(
    ("template", "number"),
    [
        ("echo part; sleep {}", signal.SIGTERM),
        ("echo part; kill -STOP $$; sleep {}", signal.SIGTERM),
        ("echo part; setsid sleep {} & (sleep {} &); sleep {}", signal.SIGTERM),
        ("echo part; sleep {} & kill -STOP $!; wait", signal.SIGTERM),
    ],
)
@linux_only
async def test_T73_a_time_out_ends_the_whole_tree(run: Run, template: str, number: int) -> None:
    mark = new_mark()
    outcome = await run(template.replace("{}", mark), timeout_s=1.5)
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("timeout", None, number)
    assert whole(outcome) == b"part\n" and not outcome.killed
    assert marked(mark) == []


@linux_only
async def test_T73_what_ignores_TERM_is_killed_after_two_seconds(run: Run) -> None:
    mark = new_mark()
    outcome = await run(
        f"trap '' TERM; setsid bash -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' & wait", timeout_s=1.0
    )
    assert (outcome.status, outcome.signal, outcome.killed) == ("timeout", signal.SIGKILL, True)
    assert outcome.duration_ms >= 3_000
    assert marked(mark) == []


@linux_only
async def test_a_tree_that_never_stops_forking_is_brought_down(run: Run) -> None:
    mark = new_mark()
    fork = f"f() {{ f & sleep {mark} & exit; }}; f"
    outcome = await run(f"{fork} & setsid bash -c '{fork}' & sleep {mark}", timeout_s=0.1)
    assert (outcome.status, outcome.survivors) == ("timeout", 0)
    assert marked(mark) == []


# ------------------------------------------------------------------ cancellation


@linux_only
async def test_T67_G6_cancelling_ends_the_tree_and_the_next_command_runs(run: Run) -> None:
    mark = new_mark()
    said: list[str] = []
    running = run(f"echo part; setsid sleep {mark} & (sleep {mark} &); sleep {mark}", on_output=said.append)
    assert await comes_true(lambda: len(marked(mark)) == 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert marked(mark) == [] and "".join(said) == "part\n"
    assert whole(await run("echo next")) == b"next\n"


@linux_only
async def test_a_second_cancellation_kills_at_once(run: Run) -> None:
    took_s: list[float] = []
    while min(took_s, default=2.0) >= 2.0 and len(took_s) < 4:  # a busy machine may need more than the grace
        mark = new_mark()
        running = run(f"trap '' TERM; while :; do sleep {mark}; done")
        assert await comes_true(lambda: bool(marked(mark)))  # noqa: B023 - it is called at once
        started = time.monotonic()
        running.cancel()
        await asyncio.wait({running}, timeout=0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await comes_true(lambda: not marked(mark))  # noqa: B023
        took_s.append(time.monotonic() - started)
    assert min(took_s) < 2.0


async def test_cancelled_before_it_started(run: Run, spawner: Spawner) -> None:
    for steps in range(6):
        running = run("sleep 0.2")
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert whole(await run("echo ok")) == b"ok\n"


@linux_only
async def test_an_error_in_the_reader_ends_the_command(run: Run) -> None:
    mark = new_mark()

    def fails(text: str) -> None:
        raise ValueError(text)

    with pytest.raises(ValueError, match="part"):
        await run(f"echo part; sleep {mark}", on_output=fails)
    assert await comes_true(lambda: not marked(mark))


# ------------------------------------------------------------------ not started, killed, closed


async def test_what_cannot_be_started_says_why(spawner: Spawner, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    for argv, cwd, path in (
        (["/no/such/program"], tmp_path, "/no/such/program"),
        (["true"], gone, str(gone)),
        ([str(tmp_path)], tmp_path, str(tmp_path)),
    ):
        with pytest.raises(CommandNotStartedError) as caught:
            await spawner.run(argv, cwd=cwd, timeout_s=5)
        assert caught.value.path == path
    for argv in (["true", "a\0b"], ["true", "\ud800"], ["true", "x" * 3_000_000]):
        with pytest.raises(CommandNotStartedError):
            await spawner.run(argv, cwd=tmp_path, timeout_s=5)
    strange = tmp_path / os.fsdecode(b"\xff\n")
    strange.mkdir()
    assert whole(await spawner.run(["pwd"], cwd=strange, timeout_s=5)) == os.fsencode(strange) + b"\n"


async def test_a_killed_spawner_is_replaced(run: Run, spawner: Spawner) -> None:
    await run("true")
    first = spawner.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert whole(await run("echo again")) == b"again\n"
    assert spawner.pid != first


@pytest.mark.parametrize(
    "murder", ["kill -9 $PPID", "kill -9 $(ps -o ppid= -p $PPID) $PPID", "kill -9 $PPID $(ps -o ppid= -p $PPID)"]
)
@linux_only
async def test_a_command_that_kills_its_supervisor_gains_nothing(run: Run, murder: str) -> None:
    mark = new_mark()
    with pytest.raises(SpawnerError, match="killed"):
        await run(f"sleep {mark} & {murder}; sleep {mark}")
    assert await comes_true(lambda: not marked(mark))
    assert whole(await run("echo again")) == b"again\n"


def test_a_command_tells_its_group_before_it_can_do_anything() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = {"argv": ["sh", "-c", "kill -9 $$"], "cwd": "/", "env": {"PATH": os.defpath}}
        process, output = start(request, theirs)
        os.close(output)
        assert process.wait() == -signal.SIGKILL
        assert ours.recv(100) == wire.frame(wire.BORN, str(process.pid).encode())
        with pytest.raises(OSError):
            start(request | {"argv": ["/no/such/program"]}, theirs)
        assert ours.recv(100)[: wire.HEADER.size] == wire.HEADER.pack(len(str(process.pid)), wire.BORN)


async def test_closing_ends_running_commands_and_cleans_up(tmp_path: Path) -> None:
    mark = new_mark()
    spawner = Spawner()
    running = asyncio.ensure_future(spawner.run(["sleep", mark], cwd=tmp_path, timeout_s=60))
    assert await comes_true(lambda: bool(marked(mark)))
    pid, folder = spawner.pid, Path(command_line(spawner.pid)[-2].decode())
    assert folder.is_dir()
    await spawner.aclose()
    await spawner.aclose()
    assert not Path(f"/proc/{pid}").exists() and not folder.exists() and marked(mark) == []
    with pytest.raises(SpawnerError):
        await running
    with pytest.raises(SpawnerError, match="closed"):
        await spawner.run(["true"], cwd=tmp_path, timeout_s=5)


CLAW = """
import asyncio, signal, sys
from pathlib import Path
from agent.processes import Spawner
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
async def main():
    spawner = Spawner()
    await spawner.run(["bash", "-c", sys.argv[1]], cwd=Path("/"), timeout_s=60, on_output=lambda text: print(text, flush=True))
asyncio.run(main())
"""


def start_claw(command: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", CLAW, command], cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@linux_only
async def test_T41_nothing_survives_the_end_of_claw(number: int) -> None:
    mark = new_mark()
    command = (
        f"setsid sleep {mark} & nohup sleep {mark} & (trap '' TERM; setsid sleep {mark} &) ; echo ready; sleep {mark}"
    )
    claw = start_claw(command)
    try:
        assert claw.stdout is not None
        while b"ready" not in claw.stdout.readline():
            pass
        assert await comes_true(lambda: len(marked(mark)) == 4)
        spawners = children_of(claw.pid)
        folder = Path(command_line(spawners[0])[-2].decode())
        claw.send_signal(number)
        claw.wait(30)
        assert await comes_true(lambda: not marked(mark))
        assert await comes_true(lambda: not runs(spawners[0]) and not folder.exists())
    finally:
        claw.kill()
        claw.wait()
        assert claw.stdout is not None
        claw.stdout.close()


@pytest.mark.parametrize(("count", "cancelled"), [(60, 15), pytest.param(500, 50, marks=pytest.mark.slow)])
@linux_only
async def test_T75_many_commands_leave_no_zombie_descriptor_or_thread(
    run: Run, spawner: Spawner, count: int, cancelled: int
) -> None:
    await run("true")

    def counts() -> tuple[int, ...]:
        return (
            len(list(Path("/proc/self/fd").iterdir())),
            threading.active_count(),
            len(children_of(spawner.pid or 0)),
            len(list(Path(f"/proc/{spawner.pid}/fd").iterdir())),
        )

    assert await comes_true(lambda: counts()[2] == 0)
    before = counts()
    for number in range(count):
        ends_early = number % (count // cancelled) == 0
        running = run("sleep 60" if ends_early else "true")
        if ends_early:
            await asyncio.sleep(0.002 * (number % 5))
            running.cancel()
        await asyncio.wait({running})
        assert running.cancelled() == ends_early
    assert await comes_true(lambda: all(now <= was for now, was in zip(counts(), before, strict=True))), (
        before,
        counts(),
    )


async def test_commands_side_by_side_do_not_touch_each_other(run: Run) -> None:
    mark = new_mark()
    long = run(f"sleep {mark}", timeout_s=30)
    assert await comes_true(lambda: bool(marked(mark)))
    outcomes = await asyncio.gather(*(run(f"echo {number}; sleep 0.05 & echo {number}") for number in range(8)))
    assert [whole(outcome) for outcome in outcomes] == [b"%d\n%d\n" % (number, number) for number in range(8)]
    assert len(marked(mark)) == 1
    long.cancel()
    await asyncio.wait({long})

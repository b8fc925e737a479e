import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.processes import CommandNotStartedError, RunOutcome, Spawner, SpawnerError
from tests.agent.process_marks import children_of, marked, new_mark, wait_until_gone, wait_until_there

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only process groups can be followed")
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def spawner() -> AsyncIterator[Spawner]:
    spawner = Spawner()
    yield spawner
    await spawner.aclose()


@pytest.fixture
def run(spawner: Spawner, tmp_path: Path) -> Callable[..., "asyncio.Future[RunOutcome]"]:
    def start(
        command: str, timeout_s: float = 20, on_output: Callable[[str], None] | None = None
    ) -> "asyncio.Future[RunOutcome]":
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", command]
        return asyncio.ensure_future(spawner.run(argv, cwd=tmp_path, timeout_s=timeout_s, on_output=on_output))

    return start


Run = Callable[..., "asyncio.Future[RunOutcome]"]


def whole(outcome: RunOutcome) -> bytes:
    return outcome.head + outcome.tail


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


@pytest.mark.parametrize(
    "command",
    [
        "cat",
        "read x",
        "python3 -c 'input()'",
        "less /etc/passwd",
        "more",
        "sudo -S -k id",
        "ssh -o BatchMode=no 127.0.0.1 -p 1",
    ],
)
async def test_T72_B22_whatever_reads_a_terminal_ends_at_once(run: Run, command: str) -> None:
    assert (await run(command, timeout_s=5)).status == "exited"


async def test_T72_vim_gives_up(run: Run) -> None:
    if (await run("command -v vim")).exit_code == 0:
        assert (await run("vim file", timeout_s=5)).status == "exited"


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
async def test_T71_B21_T41_nothing_outlives_the_shell(run: Run, template: str) -> None:
    mark = new_mark()
    started = time.monotonic()
    outcome = await run(template.replace("{}", mark))
    assert time.monotonic() - started < 2
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
    outcome = await run(template.replace("{}", mark), timeout_s=0.3)
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("timeout", None, number)
    assert whole(outcome) == b"part\n" and outcome.duration_ms < 2_000
    assert marked(mark) == []


@linux_only
async def test_T73_what_ignores_TERM_is_killed_after_two_seconds(run: Run) -> None:
    mark = new_mark()
    outcome = await run(
        f"trap '' TERM; setsid bash -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' & wait", timeout_s=0.2
    )
    assert (outcome.status, outcome.signal) == ("timeout", signal.SIGKILL)
    assert 2_000 < outcome.duration_ms < 4_000
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
    await wait_until_there(mark, 3)
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < 1
    assert marked(mark) == [] and "".join(said) == "part\n"
    assert whole(await run("echo next")) == b"next\n"


@linux_only
async def test_a_second_cancellation_kills_at_once(run: Run) -> None:
    mark = new_mark()
    running = run(f"trap '' TERM; while :; do sleep {mark}; done")
    await wait_until_there(mark)
    started = time.monotonic()
    running.cancel()
    await asyncio.wait({running}, timeout=0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await wait_until_gone(mark, 1) == []
    assert time.monotonic() - started < 1.5


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
    assert await wait_until_gone(mark, 2) == []


# ------------------------------------------------------------------ output


@pytest.mark.parametrize(
    ("command", "total", "missing"),
    [
        ("head -c 131072 /dev/zero", 131_072, None),
        ("head -c 131073 /dev/zero", 131_073, 0),
        ("seq 1 300000", 1_988_895, 0),
        ("yes | head -c 100M", 104_857_600, 37_748_864),
        ("head -c 50M /dev/zero | tr '\\0' x", 52_428_800, 0),
        ("head -c 300M /dev/zero >&2", 314_572_800, 247_464_064),
    ],
)
async def test_T69_B23_output_is_kept_whole_up_to_64_MiB(
    run: Run, command: str, total: int, missing: int | None
) -> None:
    outcome = await run(command)
    assert (outcome.exit_code, outcome.total_bytes) == (0, total)
    if missing is None:
        assert outcome.spill_file is None and len(whole(outcome)) == total
        return
    assert (len(outcome.head), len(outcome.tail)) == (65_536, 65_536)
    assert outcome.spill_file is not None and outcome.spill_missing_bytes == missing
    size = outcome.spill_file.stat().st_size
    assert size == total if missing == 0 else total - missing < size <= 64 * 1024 * 1024
    assert outcome.spill_file.stat().st_mode & 0o777 == 0o600
    assert outcome.spill_file.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in outcome.spill_file.parent.iterdir()] == [outcome.spill_file.name]
    with outcome.spill_file.open("rb") as file:
        assert file.read(len(outcome.head)) == outcome.head
        file.seek(-len(outcome.tail), os.SEEK_END)
        assert file.read() == outcome.tail


async def test_the_marker_of_a_capped_spill_stands_between_its_halves(run: Run) -> None:
    outcome = await run("seq -f %09.0f 1 8000000")
    assert outcome.spill_file is not None
    lines = outcome.spill_file.read_bytes().split(b"\n")
    marker = next(line for line in lines if line.startswith(b"[..."))
    assert marker == b"[... %d bytes are missing here ...]" % outcome.spill_missing_bytes
    kept = sum(len(line) + 1 for line in lines) - 1 - len(marker) - 2
    assert kept == 80_000_000 - outcome.spill_missing_bytes
    numbers = [int(line) for line in lines if len(line) == 9]
    assert numbers == sorted(numbers) and (numbers[0], numbers[-1]) == (1, 8_000_000)


@linux_only
async def test_T69_G8_a_flood_costs_little_memory_and_no_time_of_the_event_loop(run: Run, spawner: Spawner) -> None:
    await spawner.start()
    base = rss(os.getpid())
    peaks = [0, 0]
    pieces: list[tuple[float, int]] = []

    def watch(text: str) -> None:
        pieces.append((time.monotonic(), len(text)))
        peaks[0] = max(peaks[0], rss(os.getpid()))
        peaks[1] = max([peaks[1], *(rss(pid) for pid in children_of(spawner.pid or 0))])

    lags: list[float] = []
    running = run("yes", timeout_s=1.5, on_output=watch)
    while not running.done():
        before = time.monotonic()
        await asyncio.sleep(0.005)
        lags.append(time.monotonic() - before - 0.005)
    outcome = await running
    assert outcome.status == "timeout" and outcome.total_bytes > 10_000_000
    assert peaks[0] - base < 16_000_000 and peaks[1] < 32_000_000
    assert sorted(lags)[int(len(lags) * 0.99) - 1] < 0.1
    assert 2 <= len(pieces) <= 40 and max(size for _, size in pieces) < 10_000


def rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


async def test_live_output_comes_as_it_is_written(run: Run) -> None:
    said: list[str] = []
    arrived = asyncio.Event()

    def note(text: str) -> None:
        said.append(text)
        arrived.set()

    running = run("echo one; read -t 10 < <(sleep 0.3); echo two", on_output=note)
    await asyncio.wait_for(arrived.wait(), 5)
    assert said == ["one\n"] and not running.done()
    await running
    assert "".join(said) == "one\ntwo\n"


async def test_T74_characters_are_put_together_across_pieces(run: Run) -> None:
    said: list[str] = []
    await run(r"printf '\xe2\x82'; sleep 0.15; printf '\xac\xff|\xf0\x9f'", on_output=said.append)
    assert "".join(said) == "€\ufffd|\ufffd"


@linux_only
async def test_T70_a_full_pipe_is_no_trap(run: Run) -> None:
    started = time.monotonic()
    outcome = await run("yes & sleep 0.05; kill -9 $!; kill -9 $$")
    assert (outcome.status, outcome.signal) == ("signal", signal.SIGKILL)
    assert time.monotonic() - started < 2


async def test_a_full_disk_costs_the_spill_and_not_the_command(spawner: Spawner, tmp_path: Path) -> None:
    script = 'ulimit -f 40000 2>/dev/null; exec "$0" "$@"'
    del script
    await spawner.run(["true"], cwd=tmp_path, timeout_s=5)
    folder = next(Path(argument.decode()) for argument in command_line(spawner.pid) if b"/claw-" in argument)
    # A name that is taken makes the spill impossible, as a full disk would.
    (folder / "output-2").mkdir()
    outcome = await spawner.run(["head", "-c", "1000000", "/dev/zero"], cwd=tmp_path, timeout_s=5)
    assert (outcome.exit_code, outcome.spill_file) == (0, None)
    assert outcome.spill_missing_bytes == 1_000_000 - 131_072
    (folder / "output-2").rmdir()


def command_line(pid: int | None) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


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
    assert await wait_until_gone(mark, 2) == []
    assert whole(await run("echo again")) == b"again\n"


async def test_closing_ends_running_commands_and_cleans_up(tmp_path: Path) -> None:
    mark = new_mark()
    spawner = Spawner()
    running = asyncio.ensure_future(spawner.run(["sleep", mark], cwd=tmp_path, timeout_s=60))
    await wait_until_there(mark)
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
import asyncio, sys
from pathlib import Path
from agent.processes import Spawner
async def main():
    spawner = Spawner()
    await spawner.run(["bash", "-c", sys.argv[1]], cwd=Path("/"), timeout_s=60, on_output=lambda text: print(text, flush=True))
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@linux_only
async def test_T41_nothing_survives_the_end_of_claw(number: int) -> None:
    mark = new_mark()
    command = (
        f"setsid sleep {mark} & nohup sleep {mark} & (trap '' TERM; setsid sleep {mark} &) ; echo ready; sleep {mark}"
    )
    claw = subprocess.Popen([sys.executable, "-c", CLAW, command], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert claw.stdout is not None
        while b"ready" not in claw.stdout.readline():
            pass
        await wait_until_there(mark, 4)
        spawners = children_of(claw.pid)
        folder = Path(command_line(spawners[0])[-2].decode())
        claw.send_signal(number)
        claw.wait(5)
        assert await wait_until_gone(mark, 1) == []
        deadline = time.monotonic() + 2
        while (Path(f"/proc/{spawners[0]}").exists() or folder.exists()) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert not Path(f"/proc/{spawners[0]}").exists() and not folder.exists()
    finally:
        claw.kill()
        claw.wait()
        assert claw.stdout is not None
        claw.stdout.close()


@linux_only
async def test_T75_many_commands_leave_no_zombie_descriptor_or_thread(run: Run, spawner: Spawner) -> None:
    await run("true")

    def counts() -> tuple[int, int, list[int], int]:
        return (
            len(os.listdir("/proc/self/fd")),
            threading.active_count(),
            children_of(spawner.pid or 0),
            len(os.listdir(f"/proc/{spawner.pid}/fd")),
        )

    before = counts()
    for number in range(200):
        running = run("true" if number % 4 else "sleep 5")
        if number % 4 == 0:
            await asyncio.sleep(0.002 * (number % 5))
            running.cancel()
        await asyncio.wait({running})
        assert running.cancelled() == (number % 4 == 0)
    deadline = time.monotonic() + 2
    while counts() != before and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    if counts()[2]:
        print([(p, open(f'/proc/{p}/status').read()[:600], open(f'/proc/{p}/wchan').read(), os.listdir(f'/proc/{p}/fd'), [os.readlink(f'/proc/{p}/fd/{x}') for x in os.listdir(f'/proc/{p}/fd')], os.popen(f'cat /proc/{p}/stack').read(), children_of(p)) for p in counts()[2]])
    assert counts() == before
    assert before[2] == [] and children_of(os.getpid()).count(spawner.pid or 0) == 1


async def test_commands_side_by_side_do_not_touch_each_other(run: Run) -> None:
    mark = new_mark()
    long = run(f"sleep {mark}", timeout_s=30)
    await wait_until_there(mark)
    outcomes = await asyncio.gather(*(run(f"echo {number}; sleep 0.05 & echo {number}") for number in range(8)))
    assert [whole(outcome) for outcome in outcomes] == [b"%d\n%d\n" % (number, number) for number in range(8)]
    assert len(marked(mark)) == 1
    long.cancel()
    await asyncio.wait({long})

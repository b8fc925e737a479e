import asyncio
import os
import signal
import statistics
import time
from pathlib import Path

import pytest

from agent.processes import Spawner
from tests.agent.processes.marks import children_of
from tests.agent.processes.running import Run, command_line, linux_only, whole


@pytest.mark.parametrize(
    ("command", "total", "missing"),
    [
        ("head -c 131072 /dev/zero", 131_072, None),
        ("head -c 131073 /dev/zero", 131_073, 0),
        ("seq 1 300000", 1_988_895, 0),
        ("yes | head -c 100M", 104_857_600, 37_748_865),
        ("head -c 50M /dev/zero | tr '\\0' x", 52_428_800, 0),
        ("head -c 300M /dev/zero >&2", 314_572_800, 247_464_064 + 2 * 4_096),
    ],
)
async def test_R35_T69_B23_output_is_kept_whole_up_to_64_MiB(
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
    outcome = await run("seq 1 10000000")
    assert outcome.spill_file is not None
    data = outcome.spill_file.read_bytes()
    marker = b"\n[... %d bytes are missing here ...]\n" % outcome.spill_missing_bytes
    first, found, last = data.partition(marker)
    assert found and len(first) + len(last) == outcome.total_bytes - outcome.spill_missing_bytes
    assert first.startswith(b"1\n2\n3\n") and last.endswith(b"\n9999999\n10000000\n")
    assert abs(len(first) - len(last)) < 16 and first.endswith(b"\n") and last.startswith(b"\n")


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
    assert statistics.median(lags) < 0.1
    assert 2 <= len(pieces) <= outcome.duration_ms / 50 + 5 and max(size for _, size in pieces) < 10_000


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
    await asyncio.wait_for(arrived.wait(), 40)
    assert said == ["one\n"] and not running.done()
    await running
    assert "".join(said) == "one\ntwo\n"


async def test_T74_characters_are_put_together_across_pieces(run: Run) -> None:
    said: list[str] = []
    await run(r"printf '\xe2\x82'; sleep 0.15; printf '\xac\xff|\xf0\x9f'", on_output=said.append)
    assert "".join(said) == "€\ufffd|\ufffd"


@linux_only
async def test_T70_a_full_pipe_is_no_trap(run: Run) -> None:
    outcome = await run("yes & sleep 0.05; kill -9 $!; kill -9 $$")
    assert (outcome.status, outcome.signal) == ("signal", signal.SIGKILL)


async def test_a_full_disk_costs_the_spill_and_not_the_command(spawner: Spawner, tmp_path: Path) -> None:
    await spawner.run(["true"], cwd=tmp_path, timeout_s=5)
    folder = next(Path(argument.decode()) for argument in command_line(spawner.pid) if b"/claw-" in argument)
    # A name that is taken makes the spill impossible, as a full disk would.
    (folder / "output-2").mkdir()
    outcome = await spawner.run(["head", "-c", "1000000", "/dev/zero"], cwd=tmp_path, timeout_s=5)
    assert (outcome.exit_code, outcome.spill_file) == (0, None)
    assert outcome.spill_missing_bytes == 1_000_000 - 131_072
    (folder / "output-2").rmdir()

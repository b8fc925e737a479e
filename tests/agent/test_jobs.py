import asyncio
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.command_channel import CommandNotStartedError
from agent.events import Event, Notice
from agent.job import Job, duration, incomplete, job_title
from agent.job_line import Look
from agent.jobs import KEPT_ENDED, MOST_RUNNING, Jobs, NoSuchJobError, TooManyJobsError
from agent.processes import Spawner
from agent.spawner.output import UNSEEN_HEAD_BYTES, UNSEEN_TAIL_BYTES
from tests.agent.processes.marks import children_of, comes_true, marked, new_mark
from tests.agent.processes.running import linux_only

ROOT = Path(__file__).parents[2]


class Bench:
    """Jobs over a real spawner, and what they told."""

    def __init__(self, folder: Path) -> None:
        self.spawner = Spawner()
        self.told: list[Event] = []
        self.cwd = folder
        self.jobs = Jobs(self.spawner, folder / "out", self.told.append, settle_s=0)

    async def start(self, command: str) -> Job:
        return await self.jobs.start(command, ["/bin/bash", "--noprofile", "--norc", "-c", command], self.cwd)

    async def end_of(self, job: Job) -> None:
        assert job.task is not None
        await asyncio.wait_for(asyncio.shield(job.task), 40)

    async def said(self, job: Job, text: bytes) -> bytes:
        """Looks until the text has come, and everything that was seen."""
        seen = b""
        while text not in seen:
            look = await job.look()
            seen += look.head + look.tail
        return seen


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.jobs.close()
    await bench.spawner.aclose()


# ------------------------------------------------------------------ looking


async def test_each_look_shows_what_is_new_and_the_file_has_all(bench: Bench) -> None:
    gate = bench.cwd / "gate"
    job = await bench.start(f"echo one; until [ -e {gate} ]; do sleep 0.01; done; echo two; exit 3")
    assert await bench.said(job, b"one\n") == b"one\n"
    assert await job.look() == Look() and job.note.startswith("running for")
    gate.touch()
    await bench.end_of(job)
    look = await job.look()
    assert look.head == b"two\n" and (job.state, job.ending) == ("exited", "exit code 3")
    assert await job.look() == Look()
    path = Path(job.path)
    assert path.read_text() == "one\ntwo\n" and path.stat().st_mode & 0o777 == 0o600
    assert job.view().recent == "one\ntwo\n"


async def test_the_file_can_be_read_while_it_runs(bench: Bench) -> None:
    job = await bench.start("seq 1 50000; sleep 60")
    assert await comes_true(lambda: Path(job.path).stat().st_size == 288_894)


async def test_T74_a_character_that_is_not_whole_waits_for_the_next_look(bench: Bench) -> None:
    gate = bench.cwd / "gate"
    job = await bench.start(
        rf"printf 'a\xe2\x82'; until [ -e {gate} ]; do sleep 0.01; done; printf '\xac'; printf '\xf0'"
    )
    assert await bench.said(job, b"a") == b"a"
    gate.touch()
    await bench.end_of(job)
    assert (await job.look()).head == "€".encode() + b"\xf0"


@pytest.mark.parametrize(
    ("data", "cut"),
    [(b"", 0), (b"a", 0), ("€".encode(), 0), (b"x\xe2\x82", 2), (b"\xf0\x9f\x98", 3), (b"\xc3", 1), (b"\x80\x80\x80\x80", 0)],
)  # fmt: skip
def test_T74_where_a_character_is_cut(data: bytes, cut: int) -> None:
    assert incomplete(data) == cut


def test_looks_put_together_lose_nothing_between_them() -> None:
    small = Look(b"a", 0, b"").then(Look(b"b", 0, b"c"))
    assert small.head + small.tail == b"abc" and small.missing_bytes == 0
    full = Look(b"h" * UNSEEN_HEAD_BYTES, 5, b"t" * UNSEEN_TAIL_BYTES)
    later = full.then(Look(b"new"))
    assert (later.head, later.tail[-4:], len(later.tail)) == (full.head, b"tnew", UNSEEN_TAIL_BYTES)
    assert later.total_bytes == full.total_bytes + 3
    before = Look(b"old").then(full)
    assert before.head.startswith(b"oldh") and before.total_bytes == full.total_bytes + 3
    assert len(before.head) == UNSEEN_HEAD_BYTES


async def test_a_look_that_is_cancelled_loses_nothing(bench: Bench) -> None:
    job = await bench.start("echo one; sleep 60")
    assert await comes_true(lambda: Path(job.path).stat().st_size > 0)
    looking = asyncio.ensure_future(job.look())
    await asyncio.sleep(0)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    assert await bench.said(job, b"one\n") == b"one\n"


# ------------------------------------------------------------------ output without end


@linux_only
async def test_T69_a_flood_is_bounded_in_memory_and_file_and_the_loop_stays_free(bench: Bench) -> None:
    job = await bench.start("yes")
    lags: list[float] = []
    ends_at = time.monotonic() + 0.7
    while time.monotonic() < ends_at:
        before = time.monotonic()
        await asyncio.sleep(0.005)
        lags.append(time.monotonic() - before - 0.005)
    look = await job.look()
    assert look.missing_bytes > 1_000_000
    assert (len(look.head), len(look.tail)) == (UNSEEN_HEAD_BYTES, UNSEEN_TAIL_BYTES)
    assert statistics.median(lags) < 0.1
    assert sum(map(_rss, children_of(bench.spawner.pid or 0))) < 40_000_000
    assert len(job.view().recent) <= 32_000
    await bench.jobs.stop(job, "model")
    assert Path(job.path).stat().st_size <= 16 * 1024 * 1024
    assert [path.name for path in Path(job.path).parent.iterdir()] == ["job-1.txt"]


async def test_T69_a_hundred_megabytes_in_one_line(bench: Bench) -> None:
    job = await bench.start("head -c 100M /dev/zero | tr '\\0' x; printf END")
    await bench.end_of(job)
    look = await job.look()
    assert look.total_bytes == 100 * 1024 * 1024 + 3 and look.tail.endswith(b"xEND")
    assert job.outcome is not None and job.outcome.spill_missing_bytes > 0
    assert Path(job.path).stat().st_size <= 16 * 1024 * 1024


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_without_a_place_for_the_file_it_runs_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("no folder")
    bench = Bench(tmp_path)
    job = await bench.start("echo one")
    await bench.end_of(job)
    assert (await job.look()).head == b"one\n" and job.path == "" and job.state == "exited"
    await bench.jobs.close()
    await bench.spawner.aclose()


# ------------------------------------------------------------------ ending


@linux_only
@pytest.mark.parametrize(
    ("template", "processes"),
    [
        ("sleep {} & sleep 0.1; kill -STOP $!; echo up; wait", 1),
        ("(setsid setsid sleep {} &); echo up; sleep {}", 2),
        ("setsid sleep {} & echo up; kill -STOP $$", 1),
        ("sleep {} & echo up; sleep 0.1; kill -STOP $PPID; wait", 1),
    ],
)
async def test_T73_T71_an_end_takes_stopped_and_detached_children(bench: Bench, template: str, processes: int) -> None:
    mark = new_mark()
    job = await bench.start(template.replace("{}", mark))
    assert await bench.said(job, b"up") and await comes_true(lambda: len(marked(mark)) == processes)
    await bench.jobs.stop(job, "user")
    assert marked(mark) == [] and (job.state, job.ending) == ("cancelled", "ended by the user")
    assert job.outcome is not None and not job.outcome.killed


@linux_only
async def test_T73_the_session_s_end_takes_a_job_that_has_stopped_its_supervisor(bench: Bench) -> None:
    mark = new_mark()
    await bench.start(f"setsid sleep {mark} & sleep 0.1; kill -STOP $PPID; sleep {mark}")
    assert await comes_true(lambda: len(marked(mark)) == 2)
    await bench.jobs.close()
    await bench.spawner.aclose()
    assert marked(mark) == []


@linux_only
async def test_T73_what_ignores_TERM_is_killed_after_two_seconds(bench: Bench) -> None:
    mark = new_mark()
    job = await bench.start(f"trap '' TERM; echo up; while :; do sleep {mark}; done")
    assert await bench.said(job, b"up")
    started = time.monotonic()
    await bench.jobs.stop(job, "model")
    assert time.monotonic() - started > 1.9 and marked(mark) == []
    assert job.outcome is not None and (job.outcome.signal, job.outcome.killed) == (signal.SIGKILL, True)


@linux_only
async def test_T71_what_the_shell_leaves_behind_ends_with_it(bench: Bench) -> None:
    mark = new_mark()
    job = await bench.start(f"(setsid sleep {mark} &); echo up")
    await bench.end_of(job)
    assert marked(mark) == [] and job.ending == "exit code 0; what it had left running was ended too"


@linux_only
async def test_T75_fifty_jobs_started_and_ended_leave_no_zombie_and_no_descriptor(bench: Bench) -> None:
    mark = new_mark()
    warm = await bench.start("true")
    await bench.end_of(warm)

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    assert await comes_true(lambda: children_of(bench.spawner.pid or 0) == [])
    before = open_files()
    for _ in range(5):
        jobs = await asyncio.gather(*(bench.start(f"echo x; sleep {mark}") for _ in range(10)))
        await asyncio.gather(*(bench.jobs.stop(job, "model") for job in jobs))
    assert await comes_true(lambda: children_of(bench.spawner.pid or 0) == [])
    assert marked(mark) == [] and open_files() <= before
    assert len(bench.jobs.views()) >= KEPT_ENDED


async def test_at_most_ten_run_at_once_and_the_next_is_refused_with_the_reason(bench: Bench) -> None:
    jobs = await asyncio.gather(*(bench.start(f"sleep 6{n}") for n in range(MOST_RUNNING)))
    with pytest.raises(TooManyJobsError, match=r"10 commands run .*: 1 \(sleep 60\), .* bash_kill first"):
        await bench.start("true")
    await bench.jobs.stop(jobs[0], "model")
    assert (await bench.start("true")).number == MOST_RUNNING + 1


async def test_what_cannot_be_started_is_no_job(bench: Bench) -> None:
    with pytest.raises(CommandNotStartedError):
        await bench.jobs.start("x", ["/no/such/program"], bench.cwd)
    assert bench.jobs.views() == () and bench.jobs.take_news() == []


async def test_cancelled_while_it_starts_nothing_runs(bench: Bench) -> None:
    mark = new_mark()
    slow = Jobs(bench.spawner, bench.cwd / "slow", bench.told.append, settle_s=60)
    starting = asyncio.ensure_future(slow.start("x", ["/bin/sleep", mark], bench.cwd))
    assert await comes_true(lambda: bool(marked(mark)))
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert await comes_true(lambda: not marked(mark))


@linux_only
async def test_a_supervisor_that_is_killed_takes_the_job_along_and_that_is_told(bench: Bench) -> None:
    mark = new_mark()
    job = await bench.start(f"sleep {mark}")
    assert await comes_true(lambda: bool(marked(mark)))
    for pid in children_of(bench.spawner.pid or 0):
        os.kill(pid, signal.SIGKILL)
    await bench.end_of(job)
    assert job.state == "lost" and "supervisor was killed" in job.ending
    assert await comes_true(lambda: not marked(mark))


# ------------------------------------------------------------------ telling


async def test_an_end_is_noticed_at_once_and_told_to_the_model_once(bench: Bench) -> None:
    good, bad = await bench.start("sleep 0.05; true"), await bench.start("sleep 0.05; exit 2")
    await asyncio.gather(bench.end_of(good), bench.end_of(bad))
    levels = {event.text.split(":")[0]: event.level for event in bench.told if isinstance(event, Notice)}
    assert levels == {"Job 1 (sleep 0.05; true)": "info", "Job 2 (sleep 0.05; exit 2)": "warning"}
    (news,) = bench.jobs.take_news()
    first, second = news.text.split("\n")
    assert first.startswith("Job 1 (sleep 0.05; true): exit code 0, after 0.") and "exit code 2" in second
    assert bench.jobs.take_news() == []


async def test_the_user_s_end_is_told_and_the_session_s_is_not(bench: Bench) -> None:
    job, other = await bench.start("sleep 60"), await bench.start("sleep 61")
    await bench.jobs.stop(job, "user")
    assert [news.text.partition(",")[0] for news in bench.jobs.take_news()] == ["Job 1 (sleep 60): ended by the user"]
    told = len(bench.told)
    await bench.jobs.close()
    assert other.state == "lost" and len(bench.told) == told


async def test_what_ended_long_ago_is_named_with_its_file(bench: Bench) -> None:
    for _ in range(KEPT_ENDED + 2):
        job = await bench.start("echo x")
        await bench.end_of(job)
        job.is_told = True
    with pytest.raises(NoSuchJobError, match=r"Job 1 ended some time ago .*job-1\.txt"):
        bench.jobs.get(1)
    with pytest.raises(NoSuchJobError, match="There is no job 99"):
        bench.jobs.get(99)


async def test_running_jobs_have_a_line_for_the_record(bench: Bench) -> None:
    job = await bench.start("sleep 60\necho x")
    ended = await bench.start("true")
    await bench.end_of(ended)
    assert bench.jobs.lines() == (f"job 1: sleep 60 … (output in {job.path})",)


@pytest.mark.parametrize(
    ("command", "title"),
    [("  ls -l  ", "ls -l"), ("a\nb", "a …"), ("x" * 90, "x" * 80 + " …"), ("\x1b[31m\tred", " [31m red")],
)  # fmt: skip
def test_a_title_is_one_printable_line(command: str, title: str) -> None:
    assert job_title(command) == title


def test_durations() -> None:
    assert [duration(s) for s in (0.04, 9.96, 59, 61, 3_725)] == ["0.0 s", "10.0 s", "59 s", "1 min 1 s", "1 h 2 min"]


# ------------------------------------------------------------------ nothing outlives claw

HOST = """
import asyncio, sys
from pathlib import Path
from agent.jobs import Jobs
from agent.processes import Spawner

async def main():
    jobs = Jobs(Spawner(), Path(sys.argv[1]) / "out", print, settle_s=0)
    mark = sys.argv[2]
    for command in (
        f"setsid sleep {mark}",
        f"trap '' TERM; (sleep {mark} &); echo said; sleep {mark}",
        f"setsid sleep {mark} & kill -STOP $PPID; sleep {mark}",
    ):
        await jobs.start(command, ["/bin/bash", "-c", command], Path("/"))
    await asyncio.Event().wait()

asyncio.run(main())
"""


@linux_only
async def test_R33_T67_jobs_end_with_claw_also_when_it_is_killed_and_their_output_stays(tmp_path: Path) -> None:
    mark = new_mark()
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, str(tmp_path), mark, cwd=ROOT)
    said = tmp_path / "out" / "job-2.txt"
    # The mark stands on the command lines of the five `sleep`s and of the host.
    assert await comes_true(lambda: len(marked(mark)) == 6 and said.exists() and said.read_text() == "said\n")
    host.kill()
    await host.wait()
    assert await comes_true(lambda: marked(mark) == [])
    assert said.read_text() == "said\n"

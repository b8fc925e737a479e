"""The commands in the background of one session: which run, who ends them, and telling of each end once.

How processes are started and ended is agent/processes.py's business, what may run is the gate's. Decisions: at most ten run
at once, without a time limit; numbers are never used again in a session; what ended stays to be looked at until twenty newer
ones have ended; a job that an earlier process of the session began ended with that process, nobody knows how.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agent.config.paths import ensure_private_dir
from agent.events import Emit, Notice
from agent.job import EndedBy, Job, JobView, job_title
from agent.job_file import JobFile
from agent.job_line import JobLine
from agent.processes import Spawner
from agent.recorder import wall_clock_ms
from agent.session_secrets import SessionSecrets
from agent.tools.details import JobDetails
from agent.transcript import Entry, Reminder, Result

MOST_RUNNING = 10
KEPT_ENDED = 20
SETTLE_S = 0.2
"""A command that ends within this time is told of as one that ended: it is wrong, or needs no background."""
START_PATIENCE_S = 10.0
"""How long to wait for word that it runs: a job that stops its supervisor at once gives none."""
FOLLOW_S = 0.2
"""How far the file of a job may be behind what it writes."""
KIND = "job"
_TOLD = re.compile(r"^Job (\d+) \(", re.MULTILINE)


class TooManyJobsError(Exception):
    """As many run as may; the text says which."""


class NoSuchJobError(Exception):
    """No job has this number; the text says which there are."""


class Jobs:
    """Belongs to one session; everything is called in its event loop."""

    def __init__(
        self,
        spawner: Spawner,
        folder: Path,
        emit: Emit,
        *,
        settle_s: float = SETTLE_S,
        clock: Callable[[], int] = wall_clock_ms,
        secrets: SessionSecrets | None = None,
    ) -> None:
        """`folder`: where outputs are written, private to the user and without secrets."""
        self._secrets = secrets or SessionSecrets()
        self._spawner = spawner
        self._folder = folder
        self._emit = emit
        self._settle_s = settle_s
        self._clock = clock
        self._jobs: dict[int, Job] = {}
        self._last = 0
        self._before: dict[int, str] = {}
        """Jobs of an earlier process of which the model does not know that they ended."""
        self._closed = False

    def take_past(self, branch: Sequence[Entry]) -> None:
        """Know the jobs of a resumed session."""
        self._last, self._before = past_jobs(branch)

    # ------------------------------------------------------------------ beginning and ending

    def check_room(self) -> None:
        """
        Raises:
            TooManyJobsError
        """
        running = self._running()
        if len(running) >= MOST_RUNNING:
            named = ", ".join(f"{job.number} ({job.title})" for job in running)
            raise TooManyJobsError(
                f"{MOST_RUNNING} commands run in the background, which is as many as may: {named}. "
                "End one with bash_kill first."
            )

    async def start(self, command: str, argv: Sequence[str], cwd: Path) -> Job:
        """Start a command and leave it running. Returns once it runs; where it ended at once, the job says so.

        Raises:
            TooManyJobsError
            CommandNotStartedError, SpawnerError: as `Spawner.run` does.
        """
        self.check_room()
        private = await self._spawner.folder()
        self.check_room()  # others may have begun meanwhile; from here to where it is known nothing waits
        with contextlib.suppress(OSError):  # without the file the job runs all the same
            ensure_private_dir(self._folder)
        number = self._next_number()
        raw = private / f"job-{number}"
        file = JobFile(raw, self._path(number), self._secrets.stream())
        file.catch_up()  # so that it is there
        job = Job(number, command, JobLine(raw), self._clock(), file, self._secrets.stream)
        self._jobs[job.number] = job
        job.is_told = True  # until it is left alone, whoever started it tells of its end
        job.task = asyncio.create_task(self._run(job, argv, cwd), name=f"job {job.number}")
        try:
            await self._settled(job, job.task)
        except asyncio.CancelledError:
            job.task.cancel()
            raise
        if job.error is not None and not job.line.started.is_set():
            del self._jobs[job.number]
            raise job.error
        job.is_told = not job.is_running
        return job

    async def _settled(self, job: Job, task: "asyncio.Task[None]") -> None:
        started = asyncio.ensure_future(job.line.started.wait())
        try:
            await asyncio.wait({task, started}, timeout=START_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({task}, timeout=self._settle_s)
        finally:
            started.cancel()

    async def _run(self, job: Job, argv: Sequence[str], cwd: Path) -> None:
        following = asyncio.create_task(_follow(job), name=f"file of job {job.number}")
        try:
            await self._spawner.run(argv, cwd=cwd, timeout_s=None, on_output=job.show, job=job.line)
        except asyncio.CancelledError:
            pass  # it was ended; the line has the outcome
        except Exception as error:
            job.error = error
        following.cancel()
        if job.line.started.is_set():
            await asyncio.to_thread(job.file.catch_up, to_the_end=True)
        job.end()
        self._forget_old()
        if not (self._closed or job.is_told or job.ended_by == "model"):
            failed = job.state != "cancelled" and not (job.outcome is not None and job.outcome.exit_code == 0)
            text = f"Job {job.number} ({job.title}): {job.note}."
            self._emit(Notice("warning" if failed else "info", text, "/jobs shows its output."))

    async def stop(self, job: Job, by: EndedBy) -> None:
        """End a job and all it started: TERM, 2 s, KILL. Returns when it is over; it goes on ending if this is cancelled."""
        if not job.is_running or job.task is None:
            return
        job.ended_by = job.ended_by or by
        job.task.cancel()
        await asyncio.wait({job.task})

    async def close(self) -> None:
        """End everything at once."""
        self._closed = True
        tasks = [job.task for job in self._running() if job.task is not None]
        for job in self._running():
            job.line.drop()
        if tasks:
            await asyncio.wait(tasks)

    # ------------------------------------------------------------------ looking

    def get(self, number: int) -> Job:
        """
        Raises:
            NoSuchJobError
        """
        if (job := self._jobs.get(number)) is not None:
            return job
        if 0 < number <= self._last:
            path = self._path(number)
            where = f" What it wrote is in {path}." if path.exists() else ""
            raise NoSuchJobError(f"Job {number} ended some time ago and is kept no more.{where}")
        known = ", ".join(map(str, self._jobs)) or "none"
        raise NoSuchJobError(f"There is no job {number}. Jobs of this session: {known}.")

    def views(self) -> tuple[JobView, ...]:
        """All that are known, the newest first."""
        return tuple(job.view() for job in reversed(self._jobs.values()))

    def lines(self) -> tuple[str, ...]:
        """One line of each that runs, oldest first, for the record of a compaction."""
        return tuple(
            f"job {job.number}: {job.title}" + (f" (output in {job.path})" if job.path else "")
            for job in self._running()
        )

    def take_news(self) -> list[Reminder]:
        """What ended and was not told yet, as one reminder that is to be appended now; empty where there is nothing."""
        lines = [
            f"Job {number} ({title}) was begun before the session was resumed and ended with claw; how is unknown."
            for number, title in self._before.items()
        ]
        self._before = {}
        for job in self._jobs.values():
            if not job.is_running and not job.is_told:
                job.is_told = True
                lines.append(f"Job {job.number} ({job.title}): {job.note}. bash_output shows what it wrote.")
        return [Reminder(KIND, "\n".join(lines))] if lines else []

    # ------------------------------------------------------------------ inside

    def _running(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.is_running]

    def _path(self, number: int) -> Path:
        return self._folder / f"job-{number}.txt"

    def _next_number(self) -> int:
        self._last += 1
        while self._path(self._last).exists():
            self._last += 1
        return self._last

    def _forget_old(self) -> None:
        ended = [number for number, job in self._jobs.items() if not job.is_running and job.is_told]
        for number in ended[:-KEPT_ENDED]:
            del self._jobs[number]


async def _follow(job: Job) -> None:
    """Keep the file near to what the job writes."""
    while True:
        await job.has_news.wait()
        job.has_news.clear()
        await asyncio.to_thread(job.file.catch_up)
        await asyncio.sleep(FOLLOW_S)


def past_jobs(branch: Iterable[Entry]) -> tuple[int, dict[int, str]]:
    """The highest number of a job on the branch, and number → title of those whose end the model was not told."""
    last, open_jobs = 0, dict[int, str]()
    for entry in branch:
        match entry.payload:
            case Result(details=JobDetails(job=number, command=command, state=state)):
                last = max(last, number)
                open_jobs.pop(number, None)
                if state == "running":
                    open_jobs[number] = job_title(command)
            case Reminder(kind="job", text=text):
                for number in map(int, _TOLD.findall(text)):
                    open_jobs.pop(number, None)
    return last, open_jobs

"""The `bash_output` tool: what a job has written since one looked, and how it stands. It starts and ends nothing."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from agent.job import Job
from agent.jobs import Jobs, NoSuchJobError
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.details import JobDetails
from agent.tools.terminal_text import show_output


class BashOutputParams(Struct, frozen=True):
    id: int


class BashOutput:
    name: ClassVar[str] = "bash_output"
    params: ClassVar[type[Struct]] = BashOutputParams
    description: ClassVar[str] = load_description(__file__)

    def access(self, params: BashOutputParams, context: ToolContext) -> Access:
        return access_to(params.id, context)

    async def run(self, params: BashOutputParams, context: ToolContext) -> ToolOutput:
        return await look_at(find_job(params.id, context))


def access_to(number: int, context: ToolContext) -> Access:
    """
    Raises:
        ToolError: there is no such job.
    """
    return Access("record", f"{number}: {find_job(number, context).title}")


def find_job(number: int, context: ToolContext) -> Job:
    """
    Raises:
        ToolError: there is no such job.
    """
    jobs: Jobs | None = context.jobs
    if jobs is None:
        raise ToolError("Nothing can run in the background here.")
    try:
        return jobs.get(number)
    except NoSuchJobError as error:
        raise ToolError(str(error)) from None


async def look_at(job: Job, notes: Sequence[str] = ()) -> ToolOutput:
    """What is new of a job and how it stands, with `notes` behind that; its end counts as told by it."""
    look = await job.look()
    shown = show_output(look.head, look.tail, look.total_bytes)
    job.is_told = job.is_told or not job.is_running
    parts = [f"job {job.number}: {job.note}"]
    if shown.omitted_bytes and not notes and (path := job.path):
        parts.append(f"more of it is in {path}")
    note = "; ".join((*parts, *notes))
    nothing = "(nothing new)" if job.is_running or look.total_bytes else "(no further output)"
    details = JobDetails(job.number, job.command, job.state, shown.text, job.note)
    return ToolOutput(f"{shown.text or nothing}\n[{note}]", details)

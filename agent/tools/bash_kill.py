"""The `bash_kill` tool: ends a job with all it started."""

from typing import ClassVar

from msgspec import Struct

from agent.tools.base import Access, ToolContext, ToolOutput, load_description
from agent.tools.bash_output import access_to, find_job, look_at


class BashKillParams(Struct, frozen=True):
    id: int


class BashKill:
    name: ClassVar[str] = "bash_kill"
    params: ClassVar[type[Struct]] = BashKillParams
    description: ClassVar[str] = load_description(__file__)

    def access(self, params: BashKillParams, context: ToolContext) -> Access:
        return access_to(params.id, context)

    async def run(self, params: BashKillParams, context: ToolContext) -> ToolOutput:
        job = find_job(params.id, context)
        if not job.is_running:
            return await look_at(job, ["it had ended already"])
        assert context.jobs is not None
        await context.jobs.stop(job, "model")
        return await look_at(job)

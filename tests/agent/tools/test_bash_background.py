"""Commands in the background, as the model sees them: the three tools, and what a session tells of jobs by itself."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.events import Event, Notice
from agent.jobs import MOST_RUNNING, Jobs, NoSuchJobError
from agent.permissions.approval import Deny
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.tools.base import Tool, ToolContext, ToolError, ToolOutput, parse_arguments, spec
from agent.tools.bash import Bash, BashParams
from agent.tools.bash_kill import BashKill, BashKillParams
from agent.tools.bash_output import BashOutput, BashOutputParams
from agent.tools.details import JobDetails
from agent.transcript import Compaction, Reminder, Result
from tests.agent.processes.marks import comes_true, marked, new_mark
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Approver, Desk, Talk, is_prefix
from tests.fakes.wires import ResponsesSide

WAIT = "until [ -e gate ]; do sleep 0.01; done"


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    spawner = Spawner()
    jobs = Jobs(spawner, tmp_path / "out", lambda event: None, settle_s=0.1)
    yield ToolContext("c1", Workspace(tmp_path, tmp_path), spawner, {}, lambda text: None, jobs=jobs)
    await jobs.close()
    await spawner.aclose()


async def begin(context: ToolContext, command: str) -> ToolOutput:
    params = BashParams(command, background=True)
    Bash().access(params, context)
    return await Bash().run(params, context)


async def look(context: ToolContext, number: int = 1) -> ToolOutput:
    return await BashOutput().run(BashOutputParams(number), context)


def details(output: ToolOutput) -> JobDetails:
    assert isinstance(output.details, JobDetails)
    return output.details


# ------------------------------------------------------------------ the tools


async def test_the_call_returns_with_an_id_and_a_file_and_the_job_goes_on(context: ToolContext) -> None:
    begun = await begin(context, f"echo up; {WAIT}; echo over; exit 4")
    file = context.workspace.root / "out" / "job-1.txt"
    assert begun.text.startswith("up\n[job 1: running for 0.")
    assert begun.text.endswith(f"it ends with the session; all its output goes to {file}]") and not begun.is_error
    assert details(begun).state == "running" and details(begun).output == "up"
    assert (await look(context)).text.startswith("(nothing new)\n[job 1: running for ")
    (context.workspace.root / "gate").touch()
    assert await comes_true(lambda: file.read_text() == "up\nover\n")
    assert context.jobs is not None
    job = context.jobs.get(1)
    assert await comes_true(lambda: not job.is_running)
    ended = await look(context)
    assert ended.text.startswith("over\n[job 1: exit code 4, after ") and details(ended).state == "exited"
    assert not ended.is_error, "the look succeeded"
    assert context.jobs.take_news() == [], "the model has been told by the look"
    assert (await look(context)).text.startswith("(no further output)\n[job 1: exit code 4")


async def test_what_ends_at_once_is_told_like_a_command(context: ToolContext) -> None:
    output = await begin(context, "no-such-program")
    assert "no-such-program: command not found\n[job 1: exit code 127: command not found, after" in output.text
    assert output.is_error and not (await begin(context, "echo fine")).is_error


async def test_of_much_output_the_ends_are_shown_and_the_file_is_named(context: ToolContext) -> None:
    await begin(context, f"echo up; {WAIT}; seq 1 60000; echo over; sleep 60")
    file = context.workspace.root / "out" / "job-1.txt"
    (context.workspace.root / "gate").touch()
    assert await comes_true(lambda: file.stat().st_size == 3 + 348_894 + 5)
    output = await look(context)
    assert output.text.startswith("1\n2\n3\n") and "bytes left out …]" in output.text and len(output.text) < 70_000
    assert "59999\n60000\nover\n[job 1: running" in output.text and output.text.endswith(f"more of it is in {file}]")


async def test_kill_ends_all_it_started_and_says_so_also_twice(context: ToolContext) -> None:
    mark = new_mark()
    await begin(context, f"echo up; (setsid sleep {mark} &); sleep {mark}")
    killed = await BashKill().run(BashKillParams(1), context)
    assert marked(mark) == [] and killed.text.startswith("(no further output)\n[job 1: ended by bash_kill, after")
    assert details(killed).state == "cancelled"
    again = await BashKill().run(BashKillParams(1), context)
    assert again.text.endswith("it had ended already]")


async def test_the_eleventh_is_refused_before_anybody_is_asked(context: ToolContext) -> None:
    await asyncio.gather(*(begin(context, "sleep 60") for _ in range(MOST_RUNNING)))
    with pytest.raises(ToolError, match=r"10 commands run in the background.*End one with bash_kill"):
        Bash().access(BashParams("sleep 60", background=True), context)
    assert Bash().access(BashParams("sleep 60"), context).command == "sleep 60"


@pytest.mark.parametrize("tool", [BashOutput(), BashKill()])
async def test_an_unknown_job_is_an_error_that_names_the_known_ones(context: ToolContext, tool: Tool) -> None:
    await begin(context, "sleep 60")
    with pytest.raises(ToolError, match=r"There is no job 7\. Jobs of this session: 1\."):
        tool.access(parse_arguments(tool, '{"id": "7"}'), context)
    access = tool.access(parse_arguments(tool, '{"id": 1}'), context)
    assert (access.kind, access.title, access.command) == ("record", "1: sleep 60", None)
    context.jobs = None
    with pytest.raises(ToolError, match="Nothing can run in the background here"):
        tool.access(parse_arguments(tool, '{"id": 1}'), context)


def test_the_schemas_hold_what_is_built_and_no_more() -> None:
    assert set(spec(Bash()).parameters["properties"]) == {"command", "timeout_s", "background"}
    assert spec(BashOutput()).parameters == spec(BashKill()).parameters
    assert set(spec(BashKill()).parameters["properties"]) == {"id"}


# ------------------------------------------------------------------ a session's jobs


class Watcher(Talk):
    """Makes the file `told` when the user is told of an end, so that a command can wait for that."""

    def take(self, event: Event) -> None:
        super().take(event)
        if isinstance(event, Notice) and event.text.startswith("Job "):
            (self.desk.project / "told").touch()


@pytest.fixture
def desk(model_server: ModelServer, tmp_path: Path) -> Desk:
    (tmp_path / "project").mkdir()
    return Desk(ResponsesSide(model_server), tmp_path / "project", tmp_path / "home")


def script_a_job(desk: Desk, command: str) -> None:
    desk.wire.reply(tools=[("bash", {"command": command, "background": True})])
    desk.wire.reply("It runs.")


def told_of_jobs(desk: Desk) -> list[str]:
    return [reminder.text for reminder in desk.payloads(Reminder) if reminder.kind == "job"]


async def test_a_job_survives_its_turn_and_its_end_is_told_once_with_the_next_message(desk: Desk) -> None:
    script_a_job(desk, f"{WAIT}; exit 4")
    async with desk.open() as talk:
        await talk.session.prompt("Start it.")
        (job,) = talk.session.jobs()
        assert (job.state, job.number, job.command) == ("running", 1, f"{WAIT}; exit 4")
        (desk.project / "gate").touch()
        notice = await talk.seen(Notice)
        assert notice.level == "warning" and f"Job 1 ({WAIT}; exit 4): exit code 4" in notice.text
        for text in ("And?", "And now?"):
            desk.wire.reply("Noted.")
            await talk.session.prompt(text)
    flats = [desk.wire.flat(body) for body in desk.bodies()]
    assert is_prefix(flats[1], flats[2]) and is_prefix(flats[2], flats[3])
    (told,) = told_of_jobs(desk)
    assert told.startswith(f"Job 1 ({WAIT}; exit 4): exit code 4, after") and "exit code 4, after" in str(flats[2][-1])


async def test_an_end_while_the_model_works_is_told_behind_the_next_results(desk: Desk) -> None:
    desk.wire.reply(tools=[("bash", {"command": f"{WAIT}; exit 4", "background": True})])
    desk.wire.reply(tools=[("bash", {"command": "touch gate; until [ -e told ]; do sleep 0.01; done; echo went on"})])
    desk.wire.reply("Seen.")
    async with desk.open(listener=Watcher) as talk:
        await talk.session.prompt("Start it.")
    last = desk.wire.flat(desk.bodies()[-1])
    assert is_prefix(desk.wire.flat(desk.bodies()[-2]), last)
    assert "went on" in str(last[-1]) and "exit code 4, after" in str(last[-1])
    assert len(told_of_jobs(desk)) == 1


async def test_T67_esc_ends_the_turn_and_not_the_job_and_closing_ends_the_job(desk: Desk) -> None:
    mark = new_mark()
    desk.wire.reply(tools=[("bash", {"command": f"sleep {mark}", "background": True})])
    desk.wire.silence()
    async with desk.open() as talk:
        turn = asyncio.ensure_future(talk.session.prompt("Start it."))
        await talk.requested(2)
        talk.session.interrupt()
        assert (await turn).reason == "interrupted"
        assert talk.session.jobs()[0].state == "running" and len(marked(mark)) == 1
    assert await comes_true(lambda: marked(mark) == [])
    assert [text for text in talk.notices if "Job" in text] == []


async def test_the_gate_judges_the_command_and_nothing_else_is_asked_about(desk: Desk) -> None:
    mark = new_mark()
    desk.wire.reply(tools=[("bash", {"command": f"sleep {mark}", "background": True})])
    desk.wire.reply(tools=[("bash_output", {"id": 1}), ("bash_kill", {"id": 1})])
    desk.wire.reply("Done.")
    approver = Approver()
    async with desk.open(approver=approver, mode="ask") as talk:
        await talk.session.prompt("Start it.")
        assert [job.state for job in talk.session.jobs()] == ["cancelled"]
    assert [(request.tool, request.command) for request in approver.requests] == [("bash", f"sleep {mark}")]


async def test_plan_mode_and_a_refusal_start_nothing(desk: Desk) -> None:
    mark = new_mark()
    for mode in ("plan", "ask"):
        script_a_job(desk, f"sleep {mark}")
        async with desk.open(approver=Approver(Deny("no")), mode=mode) as talk:
            await talk.session.prompt("Start it.")
            assert talk.session.jobs() == () and talk.results[0].is_error and marked(mark) == []


async def test_the_user_ends_a_job_and_the_model_is_told(desk: Desk) -> None:
    script_a_job(desk, "sleep 60")
    async with desk.open() as talk:
        await talk.session.prompt("Start it.")
        await talk.session.kill_job(1)
        assert talk.session.jobs()[0].state == "cancelled"
        with pytest.raises(NoSuchJobError):
            await talk.session.kill_job(2)
        desk.wire.reply("Noted.")
        await talk.session.prompt("I ended it.")
    (told,) = told_of_jobs(desk)
    assert told.startswith("Job 1 (sleep 60): ended by the user, after")


async def test_after_a_resume_its_jobs_are_told_as_ended_once_and_numbers_go_on(desk: Desk) -> None:
    script_a_job(desk, "echo up; sleep 60")
    async with desk.open() as talk:
        await talk.session.prompt("Start it.")
    for text in ("two", "three"):
        async with desk.open(talk.path) as later:
            assert later.session.jobs() == ()
            desk.wire.reply(tools=[("bash_output", {"id": 1})])
            script_a_job(desk, "sleep 60")
            await later.session.prompt(text)
            first = later.results[0]
            assert first.is_error and "Job 1 ended some time ago" in first.text and "job-1.txt" in first.text
    told = told_of_jobs(desk)
    assert [text.partition(" was begun")[0] for text in told] == ["Job 1 (echo up; sleep 60)", "Job 2 (sleep 60)"]
    jobs = [result.details.job for result in desk.payloads(Result) if isinstance(result.details, JobDetails)]
    assert jobs == [1, 2, 3]
    (spilled,) = (desk.home / "cache" / "spills").glob("*/job-1.txt")
    assert spilled.read_text() == "up\n"


async def test_running_jobs_stand_in_the_record_of_a_compaction(desk: Desk) -> None:
    script_a_job(desk, "sleep 60")
    async with desk.open() as talk:
        await talk.session.prompt("Start it.")
        for number in range(6):
            desk.wire.reply(f"Answer {number}. " + "words " * 300)
            await talk.session.prompt(f"Question {number}.")
        desk.wire.otherwise(lambda body: "## Goal\nAll is well.\n\n## Progress\nSome.\n\n## Next steps\nMore.")
        finished = await talk.session.compact()
        assert finished.key is not None, finished.message
    (compaction,) = desk.payloads(Compaction)
    assert "## Commands still running\n\n- job 1: sleep 60 (output in " in compaction.text

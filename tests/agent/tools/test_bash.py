import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.tools.base import Tool, ToolContext, ToolError, ToolOutput, parse_arguments, spec
from agent.tools.bash import Bash, BashParams, Shell, find_shell
from agent.tools.details import CommandDetails
from tests.agent.processes.marks import comes_true, marked, new_mark


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    (tmp_path / "sub").mkdir()
    spawner = Spawner()
    said: list[str] = []
    yield ToolContext("c1", Workspace(tmp_path, tmp_path / "sub"), spawner, {}, said.append)
    await spawner.aclose()


async def run(context: ToolContext, command: str, timeout_s: int = 20) -> ToolOutput:
    return await Bash().run(BashParams(command, timeout_s), context)


def details(output: ToolOutput) -> CommandDetails:
    assert isinstance(output.details, CommandDetails)
    return output.details


async def test_output_then_how_it_ended(context: ToolContext) -> None:
    output = await run(context, "pwd; echo err >&2")
    cwd = context.workspace.cwd
    assert output.text == f"{cwd}\nerr\n[exit code 0]" and not output.is_error
    shown = details(output)
    assert (shown.command, shown.output, shown.exit_code, shown.status) == (
        "pwd; echo err >&2",
        f"{cwd}\nerr",
        0,
        "exited",
    )


@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("true", "(no output)\n[exit code 0]"),
        ("exit 3", "[exit code 3]"),
        ("no-such-program", "[exit code 127: command not found]"),
        ("/etc/passwd", "[exit code 126: found, but it cannot be executed]"),
        ("kill -SEGV $$", "[ended by SIGSEGV]"),
        ("bash -c 'kill -9 $$'; exit $?", "[exit code 137: ended by SIGKILL]"),
        ("sleep 60 & echo done", "done\n[exit code 0; a process it had left in the background was ended]"),
        ("if", "[exit code 2]"),
    ],
)
async def test_T74_the_last_line_says_how_it_ended(context: ToolContext, command: str, last: str) -> None:
    output = await run(context, command)
    assert output.text.endswith(last)
    assert output.is_error is ("exit code 0" not in last)


async def test_T73_a_time_out_is_said_with_what_came_so_far(context: ToolContext) -> None:
    output = await run(context, "echo part; sleep 60", timeout_s=1)
    assert output.text.startswith(
        "part\n[timed out after 1 s and was ended with everything it had started (if it waited"
    )
    assert (details(output).status, details(output).exit_code) == ("timeout", None)


async def test_T74_the_model_gets_no_control_sequences(context: ToolContext) -> None:
    output = await run(context, r"printf '\033]0;t\007\033[31mred\033[0m\n10%%\r99%%\n'; head -c 3 /dev/zero")
    assert output.text == "red\n99%\n␀␀␀\n[exit code 0]"


async def test_B23_binary_output_is_described(context: ToolContext) -> None:
    output = await run(context, "head -c 5000 /dev/urandom")
    assert output.text == "[Binary output, 5,000 bytes, not shown.]\n[exit code 0]"


async def test_B23_of_long_output_the_ends_are_shown_and_the_whole_is_kept(context: ToolContext) -> None:
    output = await run(context, "seq 1 100000")
    assert output.text.startswith("1\n2\n") and output.text.endswith("99999\n100000\n[exit code 0]")
    assert "bytes left out …]" in output.text and len(output.text) < 140_000
    assert output.spill_file is not None and output.spill_file.stat().st_size == 588_895
    assert output.spill_missing_bytes == 0


async def test_nothing_of_a_shell_persists(context: ToolContext) -> None:
    await run(context, "cd /; X=1; export Y=2; alias z=ls; f() { :; }")
    output = await run(context, "pwd; echo $X$Y; type z f")
    assert output.text.startswith(f"{context.workspace.cwd}\n\n")


async def test_R24_R37_commands_see_no_key_and_no_startup_file(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("echo startup")
    source = {
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "ANTHROPIC_API_KEY": "sk-1",
        "BASH_ENV": str(tmp_path / ".bashrc"),
    }
    spawner = Spawner(source)
    context = ToolContext("c1", Workspace(tmp_path, tmp_path), spawner, {}, lambda text: None)
    try:
        output = await run(context, "env; cat /proc/$PPID/environ")
    finally:
        await spawner.aclose()
    assert "sk-1" not in output.text and "startup" not in output.text and f"HOME={tmp_path}" in output.text


async def test_T74_a_deleted_directory_is_said(context: ToolContext) -> None:
    context.workspace.cwd.rmdir()
    with pytest.raises(ToolError, match=r"sub, where the session was started, is gone"):
        await run(context, "ls")


async def test_live_output_and_cancellation(context: ToolContext) -> None:
    mark = new_mark()
    said: list[str] = []
    context.progress = said.append
    running = asyncio.ensure_future(run(context, f"echo live; sleep {mark}"))
    assert await comes_true(lambda: bool(said and marked(mark)))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert said == ["live\n"]
    assert marked(mark) == []


# ------------------------------------------------------------------ before it runs


def test_access_is_the_exact_command(context: ToolContext) -> None:
    text = "\n  git log \\\n  --oneline [/x]  \n"
    access = Bash().access(BashParams(text), context)
    assert (access.kind, access.command, access.title, access.paths) == ("command", text, "git log \\", ())


@pytest.mark.parametrize("command", ["", " \n\t", "ls \0 x", "echo \ud800", "x" * 100_001])
def test_what_no_shell_can_run_is_refused(context: ToolContext, command: str) -> None:
    with pytest.raises(ToolError):
        Bash().access(BashParams(command), context)


async def test_the_longest_command_runs(context: ToolContext) -> None:
    command = "true " + "x" * 99_995
    assert Bash().access(BashParams(command), context).command == command
    assert (await run(context, command)).text.endswith("[exit code 0]")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"command": "ls"}', BashParams("ls", 120)),
        ('{"command": "ls", "timeout_s": 600}', BashParams("ls", 600)),
        ('{"command": "ls", "timeout_s": "5"}', BashParams("ls", 5)),
        ('{"command": "ls", "timeout_s": null}', BashParams("ls", 120)),
    ],
)
def test_parameters(arguments: str, expected: BashParams) -> None:
    assert parse_arguments(Bash(), arguments) == expected


@pytest.mark.parametrize("timeout", ["0", "-1", "601", "120000", '"soon"', "[]"])
def test_a_bad_time_out_is_an_error(timeout: str) -> None:
    with pytest.raises(ToolError, match="timeout_s"):
        parse_arguments(Bash(), f'{{"command": "ls", "timeout_s": {timeout}}}')


def test_the_tool_as_the_model_sees_it() -> None:
    tool: Tool = Bash()
    described = spec(tool)
    assert described.parameters == {
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "background": {"type": "boolean", "default": False},
            "timeout_s": {"type": "integer", "minimum": 1, "maximum": 600, "default": 120},
        },
        "required": ["command"],
        "additionalProperties": False,
    }
    assert len(described.description) <= 150 * 4


def test_T74_the_shell_is_found_or_missed(tmp_path: Path) -> None:
    missing = (str(tmp_path / "none"),)
    (tmp_path / "bin").mkdir()
    own = tmp_path / "bin" / "bash"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    clean = ("--noprofile", "--norc", "-c")
    assert find_shell("") == Shell(("/bin/bash", *clean))
    assert find_shell(f"relative:.:{tmp_path}/bin", missing) == Shell((str(own), *clean))
    assert find_shell("bin", missing) == Shell(("/bin/sh", "-c"), "bash is not installed, so /bin/sh ran this")
    assert find_shell("", missing, missing) is None


async def test_T74_without_any_shell_the_model_is_told(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        await Bash(Shell(("/no/such/shell", "-c"))).run(BashParams("ls"), context)
    output = await Bash(Shell(("/bin/sh", "-c"), "a note")).run(BashParams("echo x"), context)
    assert output.text == "x\n[exit code 0; a note]"

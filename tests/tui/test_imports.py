"""What is imported when: neither screen nor SDK before they are needed, and never a project's module in claw's place."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.claw_process import environment, finish
from tests.fakes.session_kit import Desk, make_project

ROOT = Path(__file__).resolve().parents[2]
CLAW = Path(sys.executable).with_name("claw")
HEAVY = ("textual", "anthropic", "openai", "httpx2", "pydantic", "tiktoken", "genai_prices")
TRAPS = (
    "agent/__init__.py", "providers/__init__.py", "tui/__init__.py", "tomllib.py", "textual.py", "msgspec.py", "openai.py",
    "pathspec.py", "sqlite3.py", "asyncio.py", "json.py", "argparse.py", "tomli_w.py", "tiktoken.py", "genai_prices.py",
)  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """The heavy packages that are loaded once a fresh process has run the code."""
    script = f"{code}\nimport sys\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=50
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import agent.session",
        "import tui.cli",
        "import tui.launch.wiring, tui.headless.one_task, tui.print_mode",
        "import tui.subcommands.reports",
    ],
)
def test_nothing_heavy_is_loaded_to_open_a_session(code: str) -> None:
    assert loaded_after(code) == set()


def test_one_task_never_loads_the_screen(desk: Desk) -> None:
    desk.wire.reply("Yes.")
    script = (
        "import sys\nfrom tui.cli import run\n"
        f"code = run(['-p', 'hi', '-m', {desk.model!r}, '--no-session'])\n"
        "assert code == 0, code\n"
        "print(*(name for name in ('textual', 'rich', 'anthropic') if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment(desk), capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stdout) == (0, "Yes.\n\n"), done.stderr


def hostile(desk: Desk, *more: str) -> None:
    """Modules that leave a file behind when they are imported."""
    trap = f"open({str(desk.home / 'caught')!r}, 'a').write(__name__ + '\\n')\nraise ImportError('trap')\n"
    make_project(desk.project, dict.fromkeys((*TRAPS, *more), trap))


async def claw_there(desk: Desk, how: str, env: dict[str, str]) -> tuple[int, str, str]:
    """`claw -p` with a tool call in the hostile folder."""
    desk.wire.reply(
        tools=[("bash", {"command": "echo hi"}), ("glob", {"pattern": "*.py"}), ("grep", {"pattern": "trap"})]
    )
    desk.wire.reply("Safe.")
    start = {"script": [str(CLAW)], "module": [sys.executable, "-m", "claw"]}[how]
    process = await asyncio.create_subprocess_exec(
        *start, "-p", "hi", "-m", desk.model, "--mode", "auto", cwd=desk.project, env={**environment(desk), **env},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    return await finish(process)


@pytest.mark.parametrize("how", ["script", "module"])
async def test_T13_a_hostile_folder_is_never_imported_from(desk: Desk, how: str) -> None:
    # `python -m` itself looks into the folder for what it needs to find a module, before claw is there to say otherwise.
    hostile(desk, "sitecustomize.py", "usercustomize.py")
    done = await claw_there(desk, how, {})
    assert not (desk.home / "caught").exists(), (desk.home / "caught").read_text()
    assert done == (0, "Safe.\n", "")


@pytest.mark.parametrize("how", ["script", "module"])
async def test_T13_nor_where_PYTHONPATH_names_it(desk: Desk, how: str) -> None:
    # A sitecustomize.py on PYTHONPATH is run by the interpreter for every program, before any of its code.
    hostile(desk)
    done = await claw_there(desk, how, {"PYTHONPATH": f".:{desk.project}:"})
    assert not (desk.home / "caught").exists(), (desk.home / "caught").read_text()
    assert done == (0, "Safe.\n", "")

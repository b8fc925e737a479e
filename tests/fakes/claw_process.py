"""Runs claw as a process of its own, as a shell or a script would."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.fakes.session_kit import Desk


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(desk: Desk, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of the developer's but where programs are. Warnings are errors there too."""
    return {"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error", **desk.env, **(extra or {})}


async def start(
    desk: Desk,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
    **options: Any,
) -> asyncio.subprocess.Process:
    """Start `python -m claw` in the desk's project, in a session of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "claw",
        *arguments,
        cwd=desk.project,
        env=environment(desk, env),
        stdin=stdin,
        stdout=options.pop("stdout", asyncio.subprocess.PIPE),
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        **options,
    )


async def run(
    desk: Desk, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None, **options: Any
) -> Done:
    """Run claw to its end."""
    pipe = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
    process = await start(desk, *arguments, env=env, stdin=pipe, **options)
    return await finish(process, stdin)


async def finish(process: asyncio.subprocess.Process, stdin: bytes | None = None) -> Done:
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin), 50)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Done(process.returncode, (out or b"").decode(), err.decode())

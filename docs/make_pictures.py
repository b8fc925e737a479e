"""Makes the pictures of the README with the program itself: the demo, played in a headless terminal.

Run it from a clone: `.venv/bin/python docs/make_pictures.py`.
"""

import asyncio
import contextlib
import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import TextArea

from claw import __version__
from tui.app import ClawApp
from tui.bridge import Launch, Target
from tui.launch.arguments import parse
from tui.launch.screen_mode import Screens
from tui.launch.startup import starting
from tui.widgets.piece_list import PieceList

HERE = Path(__file__).parent
SIZE = (110, 38)


async def play(theme: str) -> str:
    """The demo up to its second permission dialog, as SVG."""
    async with demo(theme, "ask") as (app, pilot):
        await dialog(app, pilot)
        await pilot.press("y")
        await dialog(app, pilot)
        return picture(app)


async def explain(theme: str) -> str:
    """The window of the demo at its end, which was compacted on the way, with one reply pinned and the largest part about to be
    dropped, as SVG."""
    os.environ["CLAW_DEMO_CHARS_PER_S"] = "0"  # nobody reads along
    async with demo(theme, "edits") as (app, pilot):
        await over(app, pilot)
        app.overlays.context()
        await pilot.pause(0.5)
        await pilot.press("s", "home")
        pieces = app.screen.query_one(PieceList)
        while not (pieces.selected and pieces.selected.kind == "assistant"):
            await pilot.press("down")
        await pilot.press("p", "enter", "home", "d")
        await pilot.pause(0.5)
        return picture(app)


@contextlib.asynccontextmanager
async def demo(theme: str, mode: str) -> AsyncIterator[tuple[ClawApp, Pilot[None]]]:
    """The demo with its task sent."""
    with starting(parse(["demo", "--mode", mode]), dict(os.environ), __version__) as startup:
        launch = Launch(
            open=Screens(startup).open,
            cwd=Path("~/calc"),
            model="scripted/demo",
            version=__version__,
            target=Target("demo"),
            theme=theme,
        )
        app = ClawApp(launch)
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause(1.0)
            app.query_one(TextArea).insert("sum(2, 3) returns 23 and should return 5. Keep the public interface.")
            await pilot.press("enter")
            yield app, pilot
            await app.current.aclose()  # it writes into the folder that goes now


async def dialog(app: ClawApp, pilot: Pilot[None]) -> None:
    """Wait for a permission dialog and until it takes keys."""
    await pilot.pause(0.5)
    for _ in range(300):
        if app.screen.is_modal:
            break
        await pilot.pause(0.1)
    else:
        raise TimeoutError(f"no dialog appeared: {app.screen}")
    await pilot.pause(0.6)


async def over(app: ClawApp, pilot: Pilot[None]) -> None:
    """Wait until the demo's turn has ended."""
    begun = False
    for _ in range(600):
        await pilot.pause(0.1)
        session = app.current.session
        if begun and session is not None and not session.running:
            return
        begun = begun or (session is not None and session.running)
    raise TimeoutError("the demo does not end")


def picture(app: ClawApp) -> str:
    return anonymous(app.export_screenshot(title="claw"))


def anonymous(svg: str) -> str:
    """Without the random parts of names, so that the same picture is the same file."""
    svg = re.sub(r"claw-demo-\w{8}", "claw-demo-00000000", svg)
    return re.sub(r"terminal-\d+", "terminal", svg)


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["CLAW_HOME"] = home
        for name in ("claw-dark", "claw-light"):
            (HERE / f"{name}.svg").write_text(asyncio.run(play(name)), encoding="utf-8")
            context = name.replace("claw-", "claw-context-")
            (HERE / f"{context}.svg").write_text(asyncio.run(explain(name)), encoding="utf-8")


if __name__ == "__main__":
    main()

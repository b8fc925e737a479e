"""Makes the pictures of the README with the program itself: the demo, played in a headless terminal.

Run it from a clone: `.venv/bin/python docs/make_pictures.py`.
"""

import asyncio
import os
import re
import tempfile
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import TextArea

from claw import __version__
from tui.app import ClawApp
from tui.arguments import parse
from tui.bridge import Launch, Target
from tui.screen_mode import Screens
from tui.startup import starting

HERE = Path(__file__).parent
SIZE = (110, 38)


async def play(theme: str) -> str:
    """The demo up to its second permission dialog, as SVG."""
    with starting(parse(["demo"]), dict(os.environ), __version__) as startup:
        screen = Screens(startup)
        launch = Launch(
            open=screen.open,
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
            await dialog(app, pilot)
            await pilot.press("y")
            await dialog(app, pilot)
            svg = app.export_screenshot(title="claw")
            app.leave()
        return anonymous(svg)


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


def anonymous(svg: str) -> str:
    """Without the random parts of names, so that the same picture is the same file."""
    svg = re.sub(r"claw-demo-\w{8}", "claw-demo-00000000", svg)
    return re.sub(r"terminal-\d+", "terminal", svg)


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["CLAW_HOME"] = home
        for name in ("claw-dark", "claw-light"):
            (HERE / f"{name}.svg").write_text(asyncio.run(play(name)), encoding="utf-8")


if __name__ == "__main__":
    main()

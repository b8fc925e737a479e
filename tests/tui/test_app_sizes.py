import asyncio
import time

import pytest
from textual import events
from textual.geometry import Size

from agent.events import TextStreamed
from agent.permissions.approval import ApprovalRequest
from tests.tui.harness import press, resize, rows, running, screen_text, settle, type_in, until
from tui.widgets.composer import Composer


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (20, 5), (40, 10), (80, 24), (200, 60), (400, 120)])
async def test_T66_every_screen_lives_at_any_size(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        opener.session.emit(TextStreamed("# Title\n\n| a | b |\n|---|---|\n| 漢字 | 👩‍💻 |\n\n```py\nx = 1\n```\n"))
        for open_screen in (
            app.overlays.help,
            app.overlays.context,
            app.overlays.pick_model,
            app.overlays.pick_session,
        ):
            open_screen()
            await settle(app)
            await press(app, "pagedown", "end", "escape")
        question = asyncio.create_task(
            opener.session.ask(ApprovalRequest("1", "bash", "x", command="ls " * 90, rule="r"))
        )
        await settle(app)
        await press(app, "pagedown", "end", "home")
        question.cancel()
        await settle(app)
        assert app.is_running and len(rows(app)) == size[1]


async def test_T66_two_thousand_resizes_while_streaming() -> None:
    async with running() as (app, opener):
        await type_in(app, "g")
        await until(lambda: opener.session.running)
        began = time.process_time()
        for number in range(2_000):
            width, height = (1, 1) if number % 7 == 0 else (20 + number % 180, 5 + number % 55)
            app.post_message(events.Resize(Size(width, height), Size(width, height)))
            if number % 100 == 0:
                opener.session.emit(TextStreamed(f"line {number}\n\n"))
                await settle(app)
        await resize(app, 80, 24)
        await until(lambda: "line 1900" in screen_text(app))
        assert time.process_time() - began < 5


async def test_T66_the_timer_of_a_resize_fires_also_where_the_machine_stalls() -> None:
    async with running() as (app, _):
        fired: list[bool] = []
        app.set_timer(1e-9, lambda: fired.append(True))  # is late before it is waited for
        await until(lambda: fired)


@pytest.mark.parametrize("size", [(20, 5), (30, 8)])
async def test_a_tiny_screen_shows_that_claw_works_and_gives_the_row_back(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, opener):
        before = rows(app)
        await type_in(app, "g")
        await until(lambda: "waiting" in rows(app)[-3] and " s" in rows(app)[-3])
        assert "Ask for" in rows(app)[-2] and "ask" in rows(app)[-1]
        await resize(app, size[0], 4)  # where there is no row to spare
        assert "waiting" not in screen_text(app) and "Ask for" in rows(app)[-2] and "ask" in rows(app)[-1]
        await resize(app, *size)
        opener.session.end()
        await until(lambda: "waiting" not in screen_text(app))
        assert rows(app)[-2:] == before[-2:] and "g" in rows(app)[-3]


@pytest.mark.parametrize(("size", "last"), [((80, 24), -1), ((40, 10), -1), ((20, 5), -1)])
async def test_composer_and_status_stay_in_view(size: tuple[int, int], last: int) -> None:
    async with running(size=size) as (app, _):
        await press(app, "h", "i")
        text = rows(app)
        assert "ask" in text[last]
        assert any("hi" in row for row in text[-4:])
        app.query_one(Composer).put("\n".join("abcdefghij"))
        await settle(app)
        assert "ask" in rows(app)[last] and any("j" in row for row in rows(app)[-4:])

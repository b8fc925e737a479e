"""A session that cannot be written here, on the real screen over real files: what is offered, and what reading only means."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from agent.events import RecordingChanged
from agent.session import Session
from agent.store import sessions
from agent.store.base import QueuedMessage, ReadOnlyError
from agent.store.index import SessionIndex
from agent.store.lock import SessionBusyError
from agent.store.reading import reading
from agent.store.removal import Removal
from agent.store.schema import connect
from agent.store.session_file import SessionFile
from tests.fakes.session_kit import Approver, Desk
from tests.tui.harness import late_key, screen_text, settle, type_in, until
from tui.app import ClawApp
from tui.bridge import Launch, Target
from tui.launch.screen_mode import Screens
from tui.launch.startup import SetupError
from tui.launch.wiring import Opener
from tui.screens.busy_session import BusySessionScreen
from tui.screens.sessions import SessionsScreen
from tui.widgets.composer import Composer


def ignore(text: str) -> None:
    raise AssertionError(text)


@asynccontextmanager
async def screen(desk: Desk, **arguments: bool) -> AsyncIterator[ClawApp]:
    screens = Screens(desk.startup(None, **arguments))
    app = ClawApp(
        Launch(
            open=screens.open,
            cwd=desk.project,
            model=desk.model,
            list_sessions=screens.list_sessions,
            stored_sessions=screens.stored_sessions,
            export=screens.export,
        )
    )
    async with app.run_test(size=(100, 34)):
        yield app
        await app.current.aclose()


async def talked(desk: Desk) -> Path:
    """A session of two messages."""
    desk.wire.otherwise(lambda body: "An answer about walruses.")
    async with desk.open() as talk:
        await talk.session.prompt("a question")
        return talk.path


@contextmanager
def held(path: Path) -> Iterator[SessionFile]:
    store, _ = sessions.open_session(path, ignore)
    try:
        yield store
    finally:
        store.close()


def everything(folder: Path) -> dict[str, bytes]:
    """All session files, without what only says that they are open."""
    return {
        f.name: f.read_bytes()
        for f in folder.iterdir()
        if f.suffix not in (".lock", ".viewing") and "-shm" not in f.name
    }


async def composed(app: ClawApp, text: str) -> None:
    await until(lambda: app.query_one(Composer).text == text)


async def offered(app: ClawApp) -> str:
    await until(lambda: isinstance(app.screen, BusySessionScreen) and app.screen.is_drawn)
    await settle(app)
    return screen_text(app)


async def test_T94_a_second_claw_is_offered_four_ways_with_the_reason(desk: Desk) -> None:
    path = await talked(desk)
    with held(path):
        async with screen(desk, continue_last=True) as app:
            shown = await offered(app)
            for text in (
                f"Session {path.stem} is open in",
                "(process ",
                "Fork it",
                "Read only",
                "Another session",
                "Cancel",
            ):
                assert text in shown, shown
            await late_key(app, "c")
            await until(lambda: "No session is open." in screen_text(app))
            await type_in(app, "!echo mine")  # what is sent tries again
            await offered(app)
            await late_key(app, "c")
            composer = app.query_one(Composer)
            await until(lambda: composer.text == "!echo mine")  # it was for this session, and for no other
            composer.put("")
            await type_in(app, "and now")
            await offered(app)
            await late_key(app, "a")
            await until(lambda: isinstance(app.screen, SessionsScreen))
            await until(lambda: composer.text == "and now")
            assert app.current.session is None and "↳" not in screen_text(app)


async def test_T94_a_session_that_is_open_stays_open_when_another_cannot_be_had(desk: Desk) -> None:
    path = await talked(desk)
    with held(path):
        async with screen(desk) as app:
            await until(lambda: app.current.session is not None)
            app.send(f"/resume {path.stem}")  # at once: the first one may not be open in all respects
            await offered(app)
            mine = app.current.session
            assert mine is not None
            await late_key(app, "escape")
            await until(lambda: not isinstance(app.screen, BusySessionScreen))
            await type_in(app, "here")
            await until(lambda: "An answer about walruses." in screen_text(app))
            assert app.current.session is mine


async def test_T94_a_fork_of_a_session_that_is_open_elsewhere_goes_on_with_what_was_sent(desk: Desk) -> None:
    path = await talked(desk)
    with held(path):
        before = everything(desk.folder)
        async with screen(desk, continue_last=True) as app:
            await offered(app)
            app.send("a second question")
            await late_key(app, "f")
            await until(lambda: screen_text(app).count("An answer about walruses.") == 2)
            session = app.current.session
            assert session is not None and session.id != path.stem and not session.read_only
            await until(lambda: not session.running)
        assert everything(desk.folder).items() >= before.items()
    assert sessions.load(desk.folder / f"{session.id}.db").meta.forked_from == path.stem


async def test_T94_reading_only_shows_everything_and_writes_nothing(desk: Desk) -> None:
    path = await talked(desk)
    requests = len(desk.wire.requests)
    with held(path) as store:
        store.enqueue(QueuedMessage(1, "waits over there"))
        store.append([])
        await store.durable(0)
        async with screen(desk, continue_last=True) as app:
            await offered(app)
            before = everything(desk.folder)
            await late_key(app, "r")
            await until(
                lambda: "Only for reading" in screen_text(app) and "An answer about walruses." in screen_text(app)
            )
            await until(lambda: "/fork goes on" in str(app.query_one(Composer).placeholder))
            session = app.current.session
            assert isinstance(session, Session) and [hit.key for hit in session.search("walruses")]
            length = len(session.branch)
            for text in ("a prompt", "!touch made", "!!touch made"):
                await type_in(app, text)
                await composed(app, text)
                app.query_one(Composer).put("")
            await until(lambda: screen_text(app).count("Nothing was sent") >= 1)
            app.send("/title Another")
            app.send("/compact")
            app.send("/export out.md")
            await until(lambda: "Exported to" in screen_text(app))
            assert "walruses" in (desk.project / "out.md").read_text()
            with pytest.raises(ReadOnlyError):
                await session.prompt("past the screen")
            with pytest.raises(ReadOnlyError):
                await session.run_shell("touch made")
            await settle(app)
            assert "The title is" not in screen_text(app) and session.title == "a question"
            assert len(session.branch) == length and not session.queued
            assert everything(desk.folder) == before and not (desk.project / "made").exists()
            assert len(desk.wire.requests) == requests, "no model was asked"
            with pytest.raises(SessionBusyError, match="open in another"):
                removal(desk).remove([path])
    async with screen(desk) as app:  # while nobody else has it
        await until(lambda: app.current.session is not None)
        app.current.open(Target("read", path.stem, "For a look."))
        await until(lambda: "Only for reading. For a look." in screen_text(app))
        with pytest.raises(SessionBusyError, match="being read"):
            removal(desk).remove([path])
        app.current.open(Target("resume", path.stem))
        await until(lambda: "Only for reading" not in screen_text(app))
        session = app.current.session
        assert session is not None and session.id == path.stem and not session.read_only
        assert "Ask for something" in str(app.query_one(Composer).placeholder)
    assert removal(desk).remove([path]).sessions == 1


def removal(desk: Desk) -> Removal:
    return Removal(desk.folder, desk.home / "cache" / "spills", SessionIndex(desk.folder, None))


async def test_T94_where_nobody_can_be_asked_it_is_refused_and_told_how_to_go_on(desk: Desk) -> None:
    path = await talked(desk)
    with held(path):
        with pytest.raises(SetupError, match=r"open in another claw \(process \d+, since .*\)\.\nAdd --fork"):
            Opener(desk.startup()).open(ignore_event, None, path)
        session = Opener(desk.startup()).open(ignore_event, None, path, fork=True)
        await session.close()


async def test_T96_a_newer_session_opens_for_reading_and_says_so(desk: Desk) -> None:
    path = await talked(desk)
    with reading(path) as connection:
        last = connection.execute("SELECT MAX(key) FROM entry").fetchone()[0]
    store = connect(path)
    store.execute("INSERT INTO entry VALUES (?, ?, 'dream', 5, ?)", (last + 1, last, b'{"type":"dream"}'))
    store.close()
    before = everything(desk.folder)
    told: list[object] = []
    session = await asyncio.to_thread(
        Opener(desk.startup()).open, told.append, Approver(), path, False, asyncio.get_running_loop()
    )
    assert session.read_only and any(isinstance(e, RecordingChanged) and "newer claw" in e.fault for e in told)
    assert any("(dream, 16 bytes)" in repr(event) for event in session.replay())
    await session.close()
    with pytest.raises(SetupError, match=r"newer claw knows\.\nUpdate claw, or add --fork"):
        Opener(desk.startup()).open(ignore_event, None, path)
    assert everything(desk.folder) == before


def ignore_event(event: object) -> None:
    pass

"""Screens and actions around a session: set-up, configuration, theme, clipboard, export, diff, side questions. As in
`overlays.py`, everything heavy is imported when it is first needed.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui.bridge import Launch, NoKey, SessionControls, Target
from tui.current import CurrentSession, said
from tui.themes import theme_names
from tui.theming import ThemedApp

if TYPE_CHECKING:
    from tui.answers import CodeBlock
    from tui.screens.side_question import SideQuestionScreen


class MoreOverlays:
    """Opens screens on the application it is made for."""

    def __init__(self, app: ThemedApp, launch: Launch, current: CurrentSession) -> None:
        self._app = app
        self._launch = launch
        self._current = current

    def set_up(self, leave: Callable[[], None] | None = None) -> None:
        """The set-up; `leave` is what Quit does where it is the first screen, which cannot be closed otherwise."""
        from tui.screens.setup import SetupScreen

        def chosen(choice: str | None) -> None:
            if choice == "demo":
                self._current.open(Target("demo"))
            elif choice == "quit" and leave is not None:
                leave()
            elif choice:
                self._current.use_set_up(choice)

        missing = self._launch.missing_key or NoKey(*self._launch.own_files)
        self._app.push_screen(SetupScreen(self._launch.make_set_up(), missing, is_first=leave is not None), chosen)

    def config(self) -> None:
        from tui.screens.config import ConfigScreen

        async def fetch() -> None:
            try:
                text = await asyncio.to_thread(self._launch.show_config)
            except Exception as error:
                return self._current.notice("error", f"The configuration cannot be shown: {said(error)}")
            self._app.push_screen(ConfigScreen(text))
            return None

        self._beside(fetch())

    # ------------------------------------------------------------------ theme

    def pick_theme(self) -> None:
        from tui.screens.theme import ThemeScreen

        app = self._app
        names = theme_names(tuple(app.available_themes))

        def chosen(name: str | None) -> None:
            if name is not None:
                self.use_theme(name)

        app.push_screen(ThemeScreen(names, app.theme_wish, app.wish_theme), chosen)

    def use_theme(self, name: str) -> None:
        """Put a theme in force and keep the choice; an unknown name is told."""
        names = theme_names(tuple(self._app.available_themes))
        found = next((known for known in names if known == name.lower()), None)
        if found is None:
            import difflib

            near = difflib.get_close_matches(name.lower(), names, 1, 0.4)
            meant = f"Did you mean /theme {near[0]}? " if near else ""
            return self._current.notice("warning", f"There is no theme {name}.", f"{meant}/theme shows them all.")
        self._app.wish_theme(found)
        self._beside(self._keep_theme(found))
        return None

    async def _keep_theme(self, name: str) -> None:
        try:
            remark = await asyncio.to_thread(self._launch.keep_theme, name)
        except Exception as error:
            return self._current.notice("warning", f"The theme holds until claw ends: {said(error)}")
        if remark:
            self._current.notice("info", remark)
        return None

    # ------------------------------------------------------------------ out of the session

    def copy(self, text: str) -> None:
        self._app.copy_to_clipboard(text)

    def pick_code(self, blocks: "Sequence[CodeBlock]", picked: "Callable[[CodeBlock], None]") -> None:
        from tui.screens.code_blocks import CodeBlocksScreen

        screen = CodeBlocksScreen(blocks)
        self._app.push_screen(screen, lambda place: picked(blocks[int(place)]) if place else None)

    def export(self, session_id: str, file: str) -> None:
        async def run() -> None:
            try:
                told = await asyncio.to_thread(self._launch.export, session_id, file)
            except Exception as error:
                return self._current.notice("error", f"Nothing was exported: {said(error)}")
            return self._current.notice("info", told)

        self._beside(run())

    def diff(self, session: SessionControls) -> None:
        from agent.git_diff import git_diff
        from tui.screens.diff import DiffScreen, edit_rows

        cwd, project = Path(session.cwd), Path(session.project)
        self._app.push_screen(DiffScreen(edit_rows(session.replay()), lambda: git_diff(cwd, project)))

    def ask_aside(self, session: SessionControls, question: str) -> None:
        """Ask beside the conversation; the dialog and the call end together."""
        from tui.screens.side_question import SideQuestionScreen

        screen = SideQuestionScreen(question)
        asking = asyncio.create_task(_ask_aside(session, question, screen), name="side question")

        def closed(_: None) -> None:
            asking.cancel()

        self._app.push_screen(screen, closed)

    def _beside(self, work: Awaitable[None]) -> None:
        self._app.run_worker(work, exit_on_error=False)


async def _ask_aside(session: SessionControls, question: str, screen: "SideQuestionScreen") -> None:
    try:
        answer = await session.ask_aside(question, screen.take, lambda retry: screen.start_over(retry.reason))
    except Exception as error:
        with contextlib.suppress(Exception):  # the dialog may be gone with the program
            screen.fail(said(error))
    else:
        screen.answer(answer)

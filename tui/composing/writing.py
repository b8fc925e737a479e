"""What surrounds the composer: its history and draft, the project's files, the editor, the clipboard. It hands on what was
sent and decides nothing about it.
"""

import asyncio
import importlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App, SuspendNotSupported
from textual.content import Content

from agent.config.paths import project_root
from tui.bridge import Launch, SessionControls
from tui.commands import complete
from tui.composing.history import PromptHistory
from tui.current import CurrentSession
from tui.signals import ignoring_interrupts
from tui.widgets.completion import Choice, CompletionList
from tui.widgets.composer import INVITATION, Composer
from tui.widgets.offers import MOST_FILES

if TYPE_CHECKING:  # imported when the first frame is drawn, or when they are first needed
    from textual.worker import Worker

    from tui.composing.clipboard import PastedImages
    from tui.composing.drafts import Drafts
    from tui.composing.file_index import FileIndex

HandOn = Callable[[str, Sequence[str], bool], None]
"""Takes a text, the files it names, and whether it waits for the end of the turn."""

DRAFT_S = 0.5
"""How long after the last change the draft is written at the latest."""
HINT_S = 4.0
SCRIPTED = "scripted"
"""The provider of the demo."""
READING = "Only for reading: /fork goes on in a copy, /resume opens another"
DEMO = "Ask for something: any message plays the demo. / for commands"


class Writing:
    """The composer with everything it needs; implements its `Surroundings`."""

    def __init__(
        self,
        app: App[Any],
        launch: Launch,
        current: CurrentSession,
        hand_on: HandOn,
        hint: Callable[[str, float], None],
    ) -> None:
        """`hint` says something for some seconds."""
        self._app = app
        self._current = current
        self._hand_on = hand_on
        self._hint = hint
        self._cwd = launch.cwd
        # Without a model only the demo can be played, and that leaves nothing behind.
        kept = launch.history_file if launch.missing_key is None else None
        self._history = PromptHistory(kept)
        self._drafts_folder = kept.parent / "drafts" if kept is not None else None
        self._drafts: Drafts | None = None
        self._root: Path | None = None
        """Of the project; None until the disk was asked."""
        self._index: FileIndex | None = None
        self._listing = False
        self._images: PastedImages | None = None
        self._found: tuple[str, Sequence[str]] | None = None
        """What was found last, and for what."""
        self._saves = 0
        self._saving = False
        self._busy = False
        """Whether the editor or the clipboard's program runs."""
        self._editing: Worker[None] | None = None
        self.popup = CompletionList(id="completion")
        self.composer = Composer(self, self.popup, self._history, id="composer")

    def start(self) -> None:
        """What the disk knows, once the first frame is drawn."""
        self._app.run_worker(self._load(), exit_on_error=False)

    async def _load(self) -> None:
        past, root, self._drafts, draft = await asyncio.to_thread(self._read)
        self._history.prepend(past)
        if draft and self.composer.is_blank:
            self.composer.put(draft)
            self._hint("What you had not sent is back.", HINT_S)
        self._root = root
        if not self.composer.is_blank:  # written before that was known
            self._list_files()

    def _read(self) -> "tuple[list[str], Path, Drafts, str]":
        """In a thread: what was sent before, the project's root, its drafts, and the one that was not sent."""
        from tui.composing.drafts import Drafts

        root = project_root(self._cwd)
        drafts = Drafts(self._drafts_folder, root)
        return self._history.read(), root, drafts, drafts.adopt()

    def write_to(self, session: SessionControls, history_file: Path | None) -> None:
        """Say what can be written to a session that was opened. What is sent is kept from now on in `history_file`, except
        in the demo; a draft is kept from the next start on."""
        is_demo = session.provider_name == SCRIPTED
        if not is_demo:  # a model that was set up just now
            self._history.keep_in(history_file)
        self.composer.placeholder = Content(READING if session.read_only else DEMO if is_demo else INVITATION)

    def remember(self, text: str) -> None:
        """Keep a text that was sent in the history."""
        if self._history.add(text):
            threading.Thread(target=self._history.save, args=(text,), name="claw-history", daemon=True).start()

    def save_now(self) -> None:
        """Write the draft before claw ends, and end the editor if it has the terminal. Touches the disk."""
        if self._editing is not None:
            self._editing.cancel()
        self._saves += 1
        if self._drafts is not None:
            self._drafts.save(self.composer.whole_text, self._saves)

    # ------------------------------------------------------------------ what the composer asks

    def complete(self, text: str) -> Sequence[Choice]:
        return complete(text)

    def find_files(self, query: str) -> Sequence[str]:
        if self._index is None:
            self._list_files()
            return ()
        if self._index.is_stale:
            self._app.run_worker(self._refresh_index(), exit_on_error=False)
        if self._found is None or self._found[0] != query:
            self._found = (query, self._index.find(query, MOST_FILES))
        return self._found[1]

    def _list_files(self) -> None:
        """Begin the list of the project's files, which nobody needs before something is written."""
        if self._root is not None and not self._listing:
            self._listing = True
            self._app.run_worker(self._make_index(self._root), exit_on_error=False)

    async def _make_index(self, root: Path) -> None:
        await asyncio.to_thread(importlib.import_module, "tui.composing.file_index")
        from tui.composing.file_index import FileIndex

        self._index = FileIndex(root, self._cwd)
        await self._refresh_index()

    async def _refresh_index(self) -> None:
        assert self._index is not None
        await self._index.refresh()
        self._found = None
        self.composer.offer_again()

    def send(self, text: str, mentions: Sequence[str], *, after_turn: bool) -> None:
        self._hand_on(text, mentions, after_turn)

    def send_waiting(self) -> None:
        self._current.send_waiting()

    def take_back(self) -> str | None:
        return self._current.take_back()

    def text_changed(self) -> None:
        self._list_files()
        if not self._saving:
            self._saving = True
            self._app.set_timer(DRAFT_S, self._save_draft)

    def _save_draft(self) -> None:
        self._saving = False
        if self._drafts is None:
            return
        self._saves += 1
        arguments = (self.composer.whole_text, self._saves)
        threading.Thread(target=self._drafts.save, args=arguments, name="claw-draft", daemon=True).start()

    def search_history(self) -> None:
        from tui.screens.history_search import HistorySearch

        texts = self._history.newest_first()

        def chosen(result: str | None) -> None:
            if result:
                self.composer.put(texts[int(result.removeprefix("\0"))])

        self._app.push_screen(HistorySearch(texts), chosen)

    def edit_outside(self) -> None:
        if not self._busy:
            self._busy = True
            self._editing = self._app.run_worker(self._edit(), exit_on_error=False)

    async def _edit(self) -> None:
        from tui.composing import editor

        try:
            command = editor.find_editor(os.environ, project_root(self._cwd))
            self.composer.put(await self._edited(command, self.composer.whole_text))
        except editor.EditorError as error:
            self._current.notice("warning", str(error))
        except SuspendNotSupported:
            self._current.notice("warning", "This terminal cannot be handed to an editor.")
        finally:
            self._busy = False

    async def _edited(self, command: Sequence[str], text: str) -> str:
        """Give the terminal to the editor. The session goes on meanwhile; nothing is painted until it is over."""
        from tui.composing.editor import EditorError, edit_text

        result: str | EditorError
        with self._app.batch_update(), ignoring_interrupts(), self._app.suspend():
            try:  # an error must not leave this block: the application would stay suspended
                result = await edit_text(command, text)
            except EditorError as error:
                result = error
        if isinstance(result, EditorError):
            raise result
        return result

    def paste_clipboard(self) -> None:
        if not self._busy:
            self._busy = True
            self._app.run_worker(self._paste_image(), exit_on_error=False)

    async def _paste_image(self) -> None:
        """An image if there is one, else what was copied inside claw."""
        from tui.composing import clipboard

        try:
            reader = clipboard.image_reader()
            data = await clipboard.read_image(reader) if reader is not None else None
            if data is not None:
                self._images = self._images or clipboard.PastedImages()
                self.composer.insert_mention(str(self._images.keep(data)))
            elif self._app.clipboard:
                self.composer.insert_text(self._app.clipboard)
            else:
                self._hint("There is no image on the clipboard." if reader else clipboard.HINT, HINT_S)
        except OSError as error:
            self._hint(f"The image cannot be kept: {error}", HINT_S)
        finally:
            self._busy = False

"""The conversation on the screen: turns what happens in a session into blocks of the column that `BlockView` draws.

It takes plain texts and details, never events, sessions or stores. All of it is foreign and is sanitized on its way into
a block. No method draws at once: whatever was added stands on the screen with the next frame, so adding in bulk is cheap.
"""

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Horizontal

from agent.tools.details import ResultDetails
from tui import sanitize
from tui.sanitize import clean
from tui.widgets import code, markdown
from tui.widgets.blocks import Block, Compaction, Foldable, Level, Notice, UserText, reply_block
from tui.widgets.blockview import BlockView
from tui.widgets.cards import Card
from tui.widgets.folding import Folding
from tui.widgets.items import AssistantItem, CompactionItem, Item, NoticeItem, ThinkingItem, ToolItem, UserItem
from tui.widgets.live import LiveText, LiveThinking
from tui.widgets.scrollbar import ScrollBar
from tui.widgets.splitter import Splitter
from tui.widgets.thinking import Thinking
from tui.widgets.trimming import OLDER, bound, trim


def warm_up() -> None:
    """Import the Markdown parser and the lexers, which the first block needs; call it in a thread."""
    sanitize.warm_up()
    markdown.warm_up()
    code.warm_up()


class TranscriptView(BlockView):
    """The transcript without its scroll bar; `TranscriptPane` puts both side by side."""

    class Copied(BlockView.Copied):
        """Selected text was copied to the clipboard (`text`)."""

    class FollowChanged(BlockView.FollowChanged):
        """The view began or ceased to follow the end (`following`)."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._folding = Folding(self.column, self.viewport)
        self._text: LiveText | None = None
        self._thinking: LiveThinking | None = None
        self._streamed: list[Block] = []
        """All blocks of the reply that is being streamed."""
        self._open_cards: dict[str, Card] = {}
        self._progressed: set[str] = set()
        self._sent: UserText | None = None
        """Shown by `begin_user` and not recorded yet."""
        self._most = 0
        """How many blocks there may be; 0 until the first message is sent."""
        self._all_open = False
        self._found: int | None = None

    # ---- what the user wrote
    def begin_user(self, text: str) -> None:
        """Show a message at once, before the session has recorded it."""
        self._trim()
        self._sent = UserText(clean(text))
        self._append(self._sent)

    def add_user(self, key: int, text: str, typed: str = "") -> None:
        """A recorded message; one shown by `begin_user` with the same text becomes it instead of standing twice, also where
        messages that waited were recorded before it. `typed`: the command that sent it, if one did."""
        shown = self._sent
        if shown is None or shown.text != clean(text):
            self._append(UserText(clean(text), key, clean(typed)))
            return
        shown.key, self._sent = key, None
        if self.column.blocks[-1] is not shown:
            self._remove([shown])
            self._append(shown)

    # ---- the reply that is being streamed
    def feed(self, text: str, opens_block: bool = False) -> None:
        """A further piece of the reply (Markdown). `opens_block`: it starts a new text block."""
        if opens_block or self._thinking is not None:
            self._close_parts()
        if self._text is None:
            self._text = LiveText()
        self._text.feed(text)
        self.content_changed()

    def feed_thinking(self, text: str, opens_block: bool = False) -> None:
        """A further piece of the model's thinking; it folds to one line as soon as something else follows."""
        if opens_block or self._text is not None:
            self._close_parts()
        if self._thinking is None:
            self._thinking = LiveThinking()
            self._append_streamed([self._thinking.block])
        self._thinking.feed(text)
        self.content_changed()

    def end_message(self) -> None:
        """The reply is complete (or was interrupted: what is there stays)."""
        self._close_parts()
        self._streamed = []

    def discard_stream(self) -> None:
        """Take away everything of the reply that is being streamed: a retry starts it anew."""
        self._close_parts()
        self._remove(self._streamed)
        self._streamed = []

    def _close_parts(self) -> None:
        if self._text is not None:
            self._append_streamed(self._text.finish())
            self.column.set_tail(None)
            self.column.redraw(self._text.stale())
            self._text = None
        if self._thinking is not None:
            thinking, self._thinking = self._thinking, None
            thinking.finish()
            self._changed(thinking.block)
            if not thinking.block.text:
                self._remove([thinking.block])
        self.content_changed()

    def update_column(self) -> None:
        if self._text is not None:
            self._append_streamed(self._text.drain())
            self.column.redraw(self._text.stale())
            self.column.set_tail(self._text.tail())
        if self._thinking is not None and self._thinking.drain():
            self._changed(self._thinking.block)
        for call_id in self._progressed:
            self._changed(self._open_cards[call_id])
        self._progressed.clear()

    def _append_streamed(self, blocks: list[Block]) -> None:
        for block in blocks:
            self.column.append(block)
        self._streamed += blocks

    # ---- finished messages
    def add_assistant(self, text: str) -> None:
        """A finished reply, or a finished text block of one."""
        splitter = Splitter()
        pieces = splitter.feed(clean(text)) + splitter.finish()
        self._append(*(reply_block(piece, splitter.references) for piece in pieces))

    def add_thinking(self, text: str) -> None:
        if text.strip():
            thinking = Thinking(clean(text).strip())
            self._append(thinking)

    def load(self, items: Iterable[Item]) -> None:
        """Replace everything by a recorded conversation and follow its end."""
        self.clear()
        for item in items:
            self._load(item)

    def _load(self, item: Item) -> None:
        match item:
            case UserItem(text, key):
                self._append(UserText(clean(text), key))
            case AssistantItem(text):
                self.add_assistant(text)
            case ThinkingItem(text):
                self.add_thinking(text)
            case ToolItem():
                self.start_tool(item.call_id, item.tool, item.title)
                self.finish_tool(item.call_id, item.is_error, item.details, item.text)
            case NoticeItem(level, text):
                self.add_notice(level, text)
            case CompactionItem(text):
                self.add_compaction(text)

    def clear(self) -> None:
        """Take everything away, also what is being streamed."""
        self._text = self._thinking = self._sent = self._found = None
        self._most = 0
        self._streamed = []
        self._open_cards.clear()
        self._progressed.clear()
        self._selection.clear()
        self.column.set_tail(None)
        self.column.replace([])
        self.viewport.following = True
        self.content_changed()

    # ---- tools
    def start_tool(self, call_id: str, tool: str, title: str) -> None:
        """A card for a call that runs now; it closes the reply that was streamed."""
        self.end_message()
        card = self._open_cards[call_id] = Card(call_id, tool, title)
        self._append(card)

    def tool_progress(self, call_id: str, text: str) -> None:
        """A further piece of live output; the card shows the last lines while the tool runs."""
        if card := self._open_cards.get(call_id):
            card.progress(text)
            self._progressed.add(call_id)
            self.content_changed()

    def finish_tool(
        self, call_id: str, is_error: bool, details: ResultDetails | None, text: str, redacted: int = 0
    ) -> None:
        """The result of a call that was started. Small diffs are shown at once, everything else stays folded."""
        card = self._open_cards.pop(call_id, None)
        if card is None:
            return
        self._progressed.discard(call_id)
        card.finish(is_error, details, text, redacted)
        self._changed(card)
        if card.can_open and (card.wants_open or self._all_open):
            self._unfold(card)
        self.content_changed()

    # ---- other
    def add_notice(self, level: Level, text: str) -> None:
        """claw itself says something, for instance that a request is tried again."""
        self._append(Notice(level, clean(text).strip()))

    def add_compaction(self, text: str) -> None:
        """The context was compacted here. The first line is shown on a rule, further ones unfold."""
        self._append(Compaction(clean(text).strip()))

    # ---- folding
    def toggle(self, block: Foldable) -> None:
        """Fold or unfold a block; what is on screen above its body stays where it is."""
        if not block.can_open:
            return
        self.update_column()
        self.viewport.pin()
        if block.is_open:
            self._fold(block)
        else:
            self._unfold(block)
        self.frame()

    def toggle_last_card(self) -> bool:
        """Fold or unfold the newest block that can be; False if there is none."""
        foldable = (b for b in reversed(self.column.blocks) if isinstance(b, Card | Thinking) and b.can_open)
        if (block := next(foldable, None)) is None:
            return False
        self.toggle(block)
        return True

    def toggle_all_cards(self) -> None:
        """Unfold all cards and thinking, those to come included; fold all if that is how it stands."""
        self.update_column()
        self._all_open = not self._all_open
        self._selection.clear()
        self._folding.fold_all((Card, Thinking), self._all_open)
        self.frame()

    def _unfold(self, block: Foldable) -> None:
        self._selection.clear()
        self._folding.unfold(block)

    def _fold(self, block: Foldable) -> None:
        self._selection.clear()
        self._folding.fold(block)

    # ---- searching
    def find(self, text: str, backwards: bool = True) -> bool:
        """Go to the next block that contains the text, from the one found last or the end; case is ignored.

        False if there is none, and nothing moves. The text of folded blocks is searched too.
        """
        self.update_column()
        blocks, needle = self.column.blocks, text.casefold()
        start = len(blocks) if self._found is None else self._found
        order = range(min(start, len(blocks)) - 1, -1, -1) if backwards else range(start + 1, len(blocks))
        found = next((at for at in order if needle in blocks[at].text.casefold()), None)
        if found is None:
            self._found = None
            return False
        self._found = found
        self.viewport.show(found)
        self.frame()
        return True

    # ---- blocks
    def _trim(self) -> None:
        self._most = self._most or bound(len(self.column.blocks))
        if not self._selection and trim(self.column, self.viewport, Notice("info", OLDER), self._most):
            self._found = None
            self.content_changed()

    def _append(self, *blocks: Block) -> None:
        if self._text is not None:
            self.update_column()
        for block in blocks:
            self.column.append(block)
        self.content_changed()

    def _changed(self, block: Block) -> None:
        if (at := self.column.index(block)) is not None:
            self.column.changed(at)

    def _remove(self, blocks: Iterable[Block]) -> None:
        for block in list(blocks):
            if (at := self.column.index(block)) is not None:
                if isinstance(block, Foldable) and block.is_open:
                    self._fold(block)
                self._selection.clear()
                self.column.remove(at, at + 1)
                self.viewport.removed(at, at + 1)
        self.content_changed()


class TranscriptPane(Horizontal):
    """The transcript and its scroll bar beside it. Yield this in `compose`; the view is `.view`."""

    DEFAULT_CSS = "TranscriptPane { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view = TranscriptView()
        self._bar = ScrollBar(self.view.jump)
        self.view.on_thumb = self._bar.show

    def compose(self) -> ComposeResult:
        yield self.view
        yield self._bar

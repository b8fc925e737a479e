"""The window edited by its user: the list of its parts, what an edit would free and lose, doing it, and undoing it.

Everything is worked out on values first (`plan…`), and appended in one transaction (`apply`) if the session has not moved
on. Decisions: nothing is edited while a turn runs; tokens count as lost where the newest request had them in the provider's
cache and the next one will not, nothing where that cache has expired; `undo` takes back the newest edit that counts, and
an undo made before a restart of claw is not taken for a restore.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.context import tokens
from agent.context.cache_cost import cached_request, cost_of_lost, covered_messages
from agent.context.chart import chart
from agent.context.edit_history import PastEdit, newest_edit
from agent.context.edits import Change, Edits, drop, newest_message, pin, restore, shorten, unpin
from agent.context.listing import list_pieces
from agent.context.pieces import Action, ChartPoint, Edit, Piece, Refused
from agent.context.pins import pin_text, pinned_tokens, pins_refusal, recorded_texts
from agent.context.reports import first_sent
from agent.context.whole import whole_text
from agent.gauge import change_text
from agent.snapshots import ReadFile
from agent.tools.base import ToolError
from agent.transcript import Drop, Entry, Payload, Pin, Prefix, Undo, undone_keys
from agent.window import Window

if TYPE_CHECKING:
    from agent.conversation import Conversation

_RUNNING = "A turn is running. Edit the window when it has ended, or stop it with Esc."
_REPLACED = (
    "A summary has replaced that part since: it stands in the window again after /undo compact; your own words also after "
    "the next compaction."
)
_DONE: dict[Action, str] = {
    "pin": "Pinned",
    "unpin": "Unpinned",
    "drop": "Dropped",
    "shorten": "Shortened",
    "restore": "Restored",
}


class WindowEditor:
    """Edits the window of one conversation."""

    def __init__(
        self,
        conversation: "Conversation",
        *,
        is_running: Callable[[], bool] = lambda: False,
        begin: Callable[[], None] = lambda: None,
        read_file: ReadFile | None = None,
        head_at_start: int | None = None,
    ) -> None:
        """`begin` appends what has to stand before the first entry of this process, if that is not there yet.
        `head_at_start` is the transcript's head when this process opened it; None: the head now."""
        self._talk = conversation
        self._is_running = is_running
        self._begin = begin
        self._read_file = read_file
        self._head_at_start = (conversation.recorder.transcript.head if head_at_start is None else head_at_start) or 0
        self._own_undos: set[int] = set()

    # ------------------------------------------------------------------ looking

    def pieces(self) -> list[Piece]:
        """Every part of the next request, and what could be restored; the tokens sum up to the gauge."""
        return list_pieces(self._branch, *self._talk.reading())

    def chart(self) -> list[ChartPoint]:
        """The gauge over the session so far."""
        meter = self._talk.recorder.meter
        counts = meter.counts()

        def size(entry: Entry) -> int:
            if isinstance(entry.payload, Prefix):
                return tokens.prefix_tokens(meter.counter, entry.payload.sections, entry.payload.tools)
            if (known := counts.get(entry.key)) is not None:
                return meter.calibrated(known)
            message = first_sent(entry)
            return 0 if message is None else meter.calibrated(tokens.message_tokens(meter.counter, message))

        return chart(self._branch, size, meter.count)

    def show(self, piece: Piece) -> str:
        """The whole text of a piece, whatever became of it in the window. Foreign text."""
        by_key = {entry.key: entry for entry in self._branch}
        blob = self._talk.recorder.store.blob
        return whole_text(piece, by_key, recorded_texts(self._branch), self._talk.reading()[0].prefix, blob)

    # ------------------------------------------------------------------ planning

    def plan(self, action: Action, keys: Iterable[int] = ()) -> Edit | Refused:
        """What an action on the pieces of these entries would do. Without keys, `pin` takes your newest message."""
        edits = Edits(self._branch, self._talk.recorder.window)
        match action:
            case "drop":
                return self._edit(action, drop(edits, keys))
            case "shorten":
                return self._edit(action, shorten(edits, keys, self._talk.recorder.meter.count))
            case "restore":
                return self._edit(action, restore(edits, keys))
            case "unpin":
                return self._edit(action, unpin(edits, keys))
        chosen = tuple(keys) or (newest_message(self._branch),)
        named = [key for key in chosen if key is not None]
        return self._edit(action, pin(edits, named) if named else Refused("There is no message to pin yet."))

    def plan_pin_text(self, text: str) -> Edit | Refused:
        """Pin a text of the user's own."""
        return self._pin_snapshot(Pin(text=text.strip("\n"))) if text.strip() else Refused("There is no text to pin.")

    def plan_pin_file(self, path: Path, first: int | None = None, last: int | None = None) -> Edit | Refused:
        """Pin a file as it is now, or its lines `first` to `last` (1-based, both included; None: its beginning or end)."""
        if self._read_file is None:
            return Refused("Files cannot be read here.")
        try:
            text = self._read_file(path).removesuffix("\n")
        except ToolError as error:
            return Refused(error.text)
        lines = text.split("\n")
        start, end = first or 1, last or len(lines)
        if not 1 <= start <= end or start > len(lines):
            return Refused(f"{path} has {len(lines):,} lines; there is no range {start}-{end} in it.")
        end = min(end, len(lines))
        chosen = "\n".join(lines[start - 1 : end])
        if not chosen.strip():
            return Refused(f"There is no text in {path}" + ("." if first is None else f", lines {start}-{end}."))
        is_whole = (start, end) == (1, len(lines))
        return self._pin_snapshot(Pin(path=str(path), text=chosen, lines=None if is_whole else (start, end)))

    def _pin_snapshot(self, payload: Pin) -> Edit | Refused:
        undone = undone_keys(self._branch)
        if any(entry.payload == payload and entry.key not in undone for entry in self._branch):
            return Refused("Exactly this is pinned already.")
        note = "It goes with your next message, and stays word for word behind every later compaction's summary."
        return self._edit("pin", Change((payload,), (), note))

    def _edit(self, action: Action, change: Change | Refused) -> Edit | Refused:
        if isinstance(change, Refused):
            return change
        if self._is_running():
            return Refused(_RUNNING)
        recorder = self._talk.recorder
        if (head := recorder.transcript.head) is None:
            return Refused("The session has not begun yet: send a message first.")
        entries = _as_entries(self._branch, change.payloads)
        if (reason := self._too_much_pinned(entries)) is not None:
            return Refused(reason)
        window, meter = recorder.window, recorder.meter
        after = Window([*self._branch, *entries])
        freed = meter.preview(window) - meter.preview(after)
        # A snapshot is not in a window before the next message comes.
        freed -= sum(meter.count(pin_text(e, {})) for e in entries if isinstance(e.payload, Pin) and not e.payload.keys)
        cached = cached_request(self._branch, recorder.now_ms())
        lost = sum(meter.all_message_tokens()[covered_messages(cached, after) : covered_messages(cached, window)])
        cost = cost_of_lost(self._talk.facts.price, lost, meter.used().tokens)
        return Edit(action, change.payloads, change.keys, head, freed, lost, cost, change.note)

    def _too_much_pinned(self, entries: Sequence[Entry]) -> str | None:
        meter = self._talk.recorder.meter
        new = [entry for entry in entries if isinstance(entry.payload, Pin)]
        if not new:
            return None
        return pins_refusal(
            pinned_tokens(self._branch, meter.count),
            pinned_tokens(self._branch, meter.count, new),
            self._talk.limits.trigger - meter.floor_tokens,
            self._talk.settings.pin_tokens,
        )

    # ------------------------------------------------------------------ doing

    def apply(self, edit: Edit) -> str:
        """Append an edit; one line of what happened.

        Raises:
            RuntimeError: a turn runs, or the session has moved on since the edit was planned; nothing is changed.
        """
        if self._is_running():
            raise RuntimeError(_RUNNING)
        if edit.head != self._talk.recorder.transcript.head:
            raise RuntimeError("The session has moved on since this was worked out. Look at the window again.")
        count = len(edit.keys)
        things = f"{count:,} {'entry' if count == 1 else 'entries'}" if count else "the text"
        what = f"{_DONE[edit.action]} {things}"
        back = edit.keys if edit.action == "restore" else ()
        return self._append(edit.payloads, what, edit.note, back)

    def newest(self) -> str:
        """What `undo` would take back, in a word; empty: nothing."""
        newest = self._newest_edit()
        return "" if newest is None else newest.name

    def undo(self) -> str:
        """Take back the newest edit that counts (pin, drop, shortening, restore, unpin); one line of what happened.

        Raises:
            RuntimeError: a turn runs.
        """
        if self._is_running():
            raise RuntimeError(_RUNNING)
        newest = self._newest_edit()
        if newest is None:
            return "There is no edit of the window to undo."
        undone = [entry.payload for entry in self._branch if entry.key in newest.keys]
        back = [key for payload in undone if isinstance(payload, Drop) for key in payload.keys]
        said = self._append((Undo(newest.keys),), f"The {newest.name} is undone", "", back)
        self._own_undos.add(self._talk.recorder.transcript.head or 0)
        return said

    def _append(self, payloads: Sequence[Payload], what: str, note: str, back: Collection[int] = ()) -> str:
        """Append; what happened. `back`: keys of the entries that it brings back."""
        recorder = self._talk.recorder
        self._begin()
        meter, window = recorder.meter, recorder.window
        before, whole = meter.used(), meter.preview(window)
        recorder.append(*payloads)
        freed = whole - meter.preview(window)
        if freed > 0:
            self._talk.compactor.guard.reset()
        self._talk.emit_gauge()
        if not {key for keys in window.keys for key in keys}.issuperset(back):
            note = f"{note} {_REPLACED}".strip()
        return f"{what}{change_text(before, meter.used(), freed)}. {note}".strip()

    def _newest_edit(self) -> PastEdit | None:
        # What an earlier process undid is not known to be more than that.
        return newest_edit(self._branch, lambda key: key not in self._own_undos and key > self._head_at_start)

    @property
    def _branch(self) -> Sequence[Entry]:
        return self._talk.recorder.transcript.branch


def _as_entries(branch: Sequence[Entry], payloads: Sequence[Payload]) -> list[Entry]:
    """The payloads as they will stand behind the branch."""
    head = branch[-1].key
    return [Entry(head + n, head + n - 1, 0, payload) for n, payload in enumerate(payloads, 1)]

"""What the user's edits of a window append: drop, shorten, restore, pin and unpin, as pure functions of a branch.

Nothing is counted, priced or appended here. A call and its result move together, a reply takes its results along; a pinned
entry is neither dropped nor shortened, a dropped one is not pinned, and a step whose results were not sent yet is left
alone. Decisions: a restore undoes every entry that dropped or shortened a key, the pipeline's clearings too, and what else
those entries did stands in front of that undo anew; a reply comes back with its results, a result with its reply's call;
an unpin undoes whole pins.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from agent.context.pieces import Refused
from agent.context.pins import live_pins
from agent.context.shorten import Count, cut_middle
from agent.transcript import (
    Assistant,
    ClearedItem,
    Clearing,
    Drop,
    Entry,
    Payload,
    Pin,
    Reminder,
    Result,
    Undo,
    User,
    undone_keys,
)
from agent.window import Window
from agent.window_blocks import user_blocks
from providers.types import AssistantMessage, ImageBlock, TextBlock, ToolCall

SHORT_TOKENS = 400
"""What a shortened text keeps, the note included."""
WORTH_SHORTENING_TOKENS = 600
_HEAD_SHARE = 0.6


class Change(Struct, frozen=True):
    """What an edit would append."""

    payloads: tuple[Payload, ...]
    keys: tuple[int, ...]
    """All entries that it moves, in the order of the transcript."""
    note: str = ""


class Edits:
    """What edits and pins there are on a branch, and which entries belong together."""

    def __init__(self, branch: Sequence[Entry], window: Window) -> None:
        self.branch = branch
        self.window = window
        undone = undone_keys(branch)
        self.by_key = {entry.key: entry for entry in branch}
        self.changes = [e for e in branch if isinstance(e.payload, Drop | Clearing) and e.key not in undone]
        self.pins = live_pins(branch)
        self.dropped = frozenset(k for e in self.changes if isinstance(e.payload, Drop) for k in e.payload.keys)
        self.cleared = frozenset(
            item.key for e in self.changes if isinstance(e.payload, Clearing) for item in e.payload.items
        )
        self.pinned = frozenset(k for e in self.pins if isinstance(e.payload, Pin) for k in e.payload.keys)
        self.standing = frozenset(key for keys in window.keys for key in keys)
        self.reply_of: dict[int, int] = {}
        """Key of each result → key of the reply that called."""
        self.results_of: dict[int, list[int]] = {}
        self._pair()
        self.in_progress = _unsent_step(window)
        self.opener = _opener(window)
        """Key of the first message if a reply follows it, so that it cannot go alone; else None."""

    def _pair(self) -> None:
        reply, calls = 0, frozenset[str]()
        for entry in self.branch:
            if isinstance(entry.payload, Assistant):
                reply = entry.key
                calls = frozenset(b.id for b in entry.payload.blocks if isinstance(b, ToolCall))
            elif isinstance(entry.payload, Result) and entry.payload.call_id in calls:
                self.reply_of[entry.key] = reply
                self.results_of.setdefault(reply, []).append(entry.key)

    def is_dropped(self, key: int) -> bool:
        """Whether an entry is out of the window by a drop, its own or its reply's."""
        return key in self.dropped or self.reply_of.get(key) in self.dropped

    def is_message(self, key: int) -> bool:
        """Whether an entry of the branch is one that can be pinned and dropped."""
        entry = self.by_key.get(key)
        return entry is not None and isinstance(entry.payload, User | Assistant | Result | Reminder)


def drop(edits: Edits, keys: Iterable[int]) -> Change | Refused:
    """Take entries out of the window."""
    asked = sorted(set(keys))
    if (refused := _not_there(edits, asked, "dropped")) is not None:
        return refused
    gone = {key for asked_key in asked for key in (asked_key, *edits.results_of.get(asked_key, ()))}
    moved = gone | {edits.reply_of[key] for key in gone if key in edits.reply_of}
    if pinned := sorted(moved & edits.pinned):
        return Refused(f"{_entries(pinned)} {_is(pinned)} pinned; unpin first.")
    if moved & edits.in_progress:
        return Refused("The step in progress cannot be dropped: its results were not sent yet. Send a message first.")
    payload = Drop(tuple(sorted(gone - edits.dropped)))
    if not _begins_with_user(edits, payload):
        return Refused("The window has to begin with a message of yours: drop the replies behind this one as well.")
    return Change((payload,), tuple(sorted(moved)))


def shorten(edits: Edits, keys: Iterable[int], count: Count) -> Change | Refused:
    """Put head and tail in the place of long results and long texts of the user."""
    asked = sorted(set(keys))
    if (refused := _not_there(edits, asked, "shortened")) is not None:
        return refused
    if done := [key for key in asked if key in edits.cleared]:
        return Refused(f"{_entries(done)} {_is(done)} shortened already; restore first to shorten anew.")
    if pinned := [key for key in asked if key in edits.pinned]:
        return Refused(f"{_entries(pinned)} {_is(pinned)} pinned; unpin first.")
    if set(asked) & edits.in_progress:
        return Refused("The step in progress cannot be shortened: its results were not sent yet.")
    items = [item for key in asked for item in _short_items(edits.by_key[key], count)]
    if not items:
        return Refused(
            "There is no long text in it: only results and your own texts are shortened, from 600 tokens on."
        )
    return Change((Clearing(tuple(items), "user"),), tuple(dict.fromkeys(item.key for item in items)))


def restore(edits: Edits, keys: Iterable[int]) -> Change | Refused:
    """Bring dropped and shortened entries back as they were, and nothing else."""
    back = set(keys)
    for entry in edits.changes:
        if isinstance(entry.payload, Drop):
            with_replies = {r for key in back.intersection(entry.payload.keys) for r in edits.results_of.get(key, ())}
            back |= with_replies.intersection(entry.payload.keys)
    back |= {edits.reply_of[key] for key in back if edits.reply_of.get(key) in edits.dropped}
    back &= edits.dropped | edits.cleared
    if not back:
        return Refused("There is nothing to restore: it was neither dropped nor shortened.")
    touched = [entry for entry in edits.changes if _keys_of(entry) & back]
    rest = [left for entry in touched if (left := _without(edits, entry, back)) is not None]
    return Change((*rest, Undo(tuple(entry.key for entry in touched))), tuple(sorted(back)))


def pin(edits: Edits, keys: Iterable[int]) -> Change | Refused:
    """Keep entries word for word behind every later compaction's summary."""
    asked = sorted(set(keys))
    if unknown := [key for key in asked if not edits.is_message(key)]:
        return Refused(f"{_entries(unknown)} cannot be pinned: only messages, results and reminders can.")
    if dropped := [key for key in asked if edits.is_dropped(key)]:
        return Refused(f"{_entries(dropped)} {_is(dropped)} dropped; restore first.")
    new = tuple(key for key in asked if key not in edits.pinned)
    if not new:
        return Refused(f"{_entries(asked)} {_is(asked)} pinned already.")
    return Change((Pin(new),), new, "It takes effect at the next compaction; until then nothing in the window changes.")


def unpin(edits: Edits, keys: Iterable[int]) -> Change | Refused:
    """Undo pins, named by their own keys or by what they pin."""
    asked = set(keys)
    found = [entry for entry in edits.pins if entry.key in asked or asked.intersection(_keys_of(entry))]
    if not found:
        return Refused("It is not pinned.")
    moved = {key for entry in found for key in (_keys_of(entry) or {entry.key})}
    return Change((Undo(tuple(entry.key for entry in found)),), tuple(sorted(moved)))


def newest_message(branch: Sequence[Entry]) -> int | None:
    """Key of the newest message that the user typed."""
    users = (e for e in reversed(branch) if isinstance(e.payload, User) and not e.payload.synthetic)
    return next((entry.key for entry in users), None)


# --------------------------------------------------------------------------- inside


def _not_there(edits: Edits, keys: Sequence[int], what: str) -> Refused | None:
    if not keys:
        return Refused("Nothing is chosen.")
    if gone := [key for key in keys if edits.is_dropped(key)]:
        return Refused(f"{_entries(gone)} {_is(gone)} dropped already.")
    if absent := [key for key in keys if key not in edits.standing]:
        return Refused(f"{_entries(absent)} {'does' if len(absent) == 1 else 'do'} not stand in the window.")
    if fixed := [key for key in keys if not edits.is_message(key)]:
        return Refused(f"{_entries(fixed)} cannot be {what}: a summary is undone, a pin is unpinned.")
    return None


def _begins_with_user(edits: Edits, payload: Drop) -> bool:
    """Whether the window behind a drop begins as providers want it, or as it began before."""
    before = edits.window.keys[0] if edits.window.keys else ()
    if not before or before[0] not in payload.keys:
        return True
    head = edits.branch[-1]
    after = Window([*edits.branch, Entry(head.key + 1, head.key, 0, payload)])
    return not after.keys or not isinstance(_own(edits, after.keys[0]), Assistant)


def _own(edits: Edits, keys: tuple[int, ...]) -> Payload | None:
    return edits.by_key[keys[0]].payload if keys else None


def _unsent_step(window: Window) -> frozenset[int]:
    """The newest reply with calls and what stands behind it, while no other reply follows."""
    at = window.stable - 1
    behind = window.keys[at:] if 0 <= at < len(window.keys) else []
    calls = behind and any(isinstance(block, ToolCall) for block in window.messages[at].blocks)
    return frozenset(key for keys in behind for key in keys) if calls else frozenset()


def _opener(window: Window) -> int | None:
    alone = len(window.messages) > 1 and isinstance(window.messages[1], AssistantMessage)
    return window.keys[0][0] if alone and window.keys[0] else None


def _short_items(entry: Entry, count: Count) -> list[ClearedItem]:
    texts: list[tuple[int | None, str]] = []
    match entry.payload:
        case Result(blocks=blocks) if not any(isinstance(block, ImageBlock) for block in blocks):
            texts = [(None, "\n".join(block.text for block in blocks if isinstance(block, TextBlock)))]
        case User(blocks=user):
            for place, block in enumerate(user):
                shown = user_blocks(entry.key, User((block,)), {})
                texts += [(place, b.text) for b in shown if isinstance(b, TextBlock)]
    long = [(place, text) for place, text in texts if count(text) >= WORTH_SHORTENING_TOKENS]
    return [
        ClearedItem(entry.key, cut_middle(text, SHORT_TOKENS, count, _note(entry.key), _HEAD_SHARE), place)
        for place, text in long
    ]


def _note(key: int) -> Callable[[int], str]:
    def note(left_out: int) -> str:
        return (
            f"[About {left_out:,} tokens were taken out here by the user. "
            f"Entry {key} of the session has all of it; `recall` gives it.]"
        )

    return note


def _keys_of(entry: Entry) -> frozenset[int]:
    match entry.payload:
        case Drop(keys=keys) | Pin(keys=keys):
            return frozenset(keys)
        case Clearing(items=items):
            return frozenset(item.key for item in items)
    return frozenset()


def _without(edits: Edits, entry: Entry, back: Collection[int]) -> Drop | Clearing | None:
    """What an edit did besides what comes back; of a clearing only what no later one has overridden."""
    if isinstance(entry.payload, Drop):
        keys = tuple(key for key in entry.payload.keys if key not in back)
        return Drop(keys) if keys else None
    assert isinstance(entry.payload, Clearing)
    later = {
        (item.key, item.block)
        for other in edits.changes
        if other.key > entry.key and isinstance(other.payload, Clearing)
        for item in other.payload.items
    }
    items = tuple(i for i in entry.payload.items if i.key not in back and (i.key, i.block) not in later)
    return Clearing(items, entry.payload.reason) if items else None


def _entries(keys: Sequence[int]) -> str:
    return f"Entry {keys[0]}" if len(keys) == 1 else f"Entries {', '.join(map(str, keys))}"


def _is(keys: Sequence[int]) -> str:
    return "is" if len(keys) == 1 else "are"

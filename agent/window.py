"""The window: what is sent to the model, as a pure function of the branch.

`Window.apply` folds one more entry in at the cost of that entry; `window` builds from nothing, and both give the same
(a property test says so). Compaction, clearing, drop, undo, rewind, prefix and a change of model or effort rebuild once,
which is when the old request stops being a prefix of the new one. There are no settings, no clock and no I/O here.

Decisions: a call without a result gets its answer when the next user or assistant entry closes the step (`MISSING_RESULT`);
a result that comes later than that, or without a call, is left out. A reminder joins the newest message that was not sent
yet, where "sent" means that an assistant entry follows, an empty interrupted one included; else it waits. So does a pin
with a text of its own. What is pinned stands in a compaction's message as that compaction recorded it, until the pin is
undone. A dropped result takes its call along, and a dropped reply its results.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from agent.transcript import (
    Assistant,
    Clearing,
    Compaction,
    Drop,
    Entry,
    Pin,
    Prefix,
    Reminder,
    Result,
    Rewind,
    Setting,
    Undo,
    User,
    of_kinds,
    undone_keys,
)
from agent.window_blocks import assistant_blocks, render_rider, user_blocks, visible
from providers.types import (
    AssistantMessage,
    Effort,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    WireApi,
)

MISSING_RESULT = "[No result: the call was interrupted. Its effects are unknown; check before you rely on them.]"

_CHANGING = (Setting, Prefix, Compaction, Clearing, Drop, Pin, Undo, Rewind, Reminder)
"""What can change how other entries stand in the window."""


class Window:
    """The live window of one branch. Read its attributes; only `apply` changes it."""

    def __init__(self, branch: Sequence[Entry] = ()) -> None:
        self.prefix = Prefix((), ())
        self.messages: list[Message] = []
        self.keys: list[tuple[int, ...]] = []
        """For each message the entries it was made of: the message's own first, then one for each block that rides on it
        (reminders, pins)."""
        self.generation = 0
        """Key of the last entry that broke the prefix; 0 if none did."""
        self.stable = 0
        """How many leading messages can no longer change within this generation."""
        self.sent = 0
        """How many leading messages the newest request of this generation had that was answered or broke off."""
        self.compaction: Entry | None = None
        """The compaction whose message stands first, if any; one with `first_replaced` stands elsewhere."""
        self.pins: frozenset[int] = frozenset()
        """Keys of the pins that count."""
        self.provider = ""
        self.model = ""
        self.family = ""
        self.api: WireApi = "anthropic"
        self.effort: Effort | None = None
        self.mode = ""
        self._open: dict[str, int] = {}  # id of each unanswered call of the last assistant message → its place in it
        self._answered: list[int] = []  # places of the calls answered so far, as they stand in `messages`
        self._waiting: list[Entry] = []  # reminders and texts of pins without a host
        self._cleared: dict[tuple[int, int | None], str] = {}
        self._dropped: frozenset[int] = frozenset()
        self._dropped_calls: dict[int, set[str]] = {}  # key of a reply → ids of its calls whose results are dropped
        self._ranges: frozenset[int] = frozenset()  # compactions that count and replace from a middle on
        self._reminders_of: dict[int, list[Entry]] = {}
        self._rebuild(branch)

    # ------------------------------------------------------------------ reading

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Ids of the newest assistant message's calls that have no result yet, in call order."""
        return tuple(sorted(self._open, key=lambda call_id: self._open[call_id]))

    @property
    def summaries(self) -> frozenset[int]:
        """Keys of the compactions whose messages stand in the window, if what follows has not replaced them."""
        return self._ranges if self.compaction is None else self._ranges | {self.compaction.key}

    @property
    def thinned(self) -> Collection[int]:
        """Keys of the replies that stand without some of their calls, whose results were dropped."""
        return self._dropped_calls.keys()

    def sealed(self) -> list[Message]:
        """A copy of the messages in which open calls have their placeholder, so that it can be sent as it is."""
        copy = Window()
        copy.messages, copy.keys = list(self.messages), list(self.keys)
        copy._open, copy._answered = dict(self._open), list(self._answered)
        copy._close_step()
        return copy.messages

    # ------------------------------------------------------------------ folding

    def apply(self, branch: Sequence[Entry], entry: Entry) -> bool:
        """Fold in `entry`, the newest of `branch`. True if that broke the prefix and everything was made anew."""
        if self._breaks(entry):
            self._rebuild(branch)
            return True
        if isinstance(entry.payload, Pin):
            self.pins |= {entry.key}
        self._fold(entry)
        return False

    def _breaks(self, entry: Entry) -> bool:
        payload = entry.payload
        if isinstance(payload, Setting):
            changes = (
                (payload.provider, self.provider),
                (payload.model, self.model),
                (payload.family, self.family),
                (payload.api, self.api),
                (payload.effort, self.effort),
            )
            return any(new is not None and new != old for new, old in changes)
        if isinstance(payload, Reminder):
            return payload.of is not None
        return isinstance(payload, Compaction | Clearing | Drop | Undo | Rewind | Prefix)

    def _rebuild(self, branch: Sequence[Entry]) -> None:
        self._clear_messages()
        self.generation = 0
        self._waiting = []
        self.compaction = compaction = self._collect_edits(branch)
        # The current model decides which thinking can be sent, so settings are folded before anything else.
        self.prefix = Prefix((), ())
        self.provider = self.model = self.family = self.mode = ""
        self.api, self.effort = "anthropic", None
        for entry in of_kinds(branch, *_CHANGING):
            if isinstance(entry.payload, Setting | Prefix):
                if self._breaks(entry):
                    self.generation = entry.key
                self._fold_setting(entry.payload)
            elif self._breaks(entry):
                self.generation = entry.key
        first_kept = 0
        if compaction is not None:
            first_kept = self._place_compaction(compaction, branch)
        for entry in branch:
            if entry.key >= first_kept and not isinstance(entry.payload, Setting | Prefix):
                self._fold(entry)

    def _collect_edits(self, branch: Sequence[Entry]) -> Entry | None:
        """Note what is cleared, dropped and re-attached; the newest compaction that counts."""
        undone = undone_keys(branch)
        compaction: Entry | None = None
        cleared: dict[tuple[int, int | None], str] = {}
        dropped: set[int] = set()
        pins: set[int] = set()
        ranges: set[int] = set()
        self._reminders_of = {}
        for entry in of_kinds(branch, *_CHANGING):
            payload = entry.payload
            if isinstance(payload, Reminder) and payload.of is not None:
                self._reminders_of.setdefault(payload.of, []).append(entry)
            elif entry.key in undone:
                continue
            elif isinstance(payload, Compaction) and payload.first_replaced:
                ranges.add(entry.key)
            elif isinstance(payload, Compaction):
                compaction = entry
            elif isinstance(payload, Pin):
                pins.add(entry.key)
            elif isinstance(payload, Clearing):
                cleared.update({(item.key, item.block): item.text for item in payload.items})
            elif isinstance(payload, Drop):
                dropped.update(payload.keys)
        self._cleared, self._dropped = cleared, frozenset(dropped)
        self.pins, self._ranges = frozenset(pins), frozenset(ranges)
        self._dropped_calls = _calls_of(branch, self._dropped)
        return compaction

    def _clear_messages(self) -> None:
        self.messages, self.keys = [], []
        self.stable = self.sent = 0
        self._open, self._answered = {}, []

    def _place_compaction(self, entry: Entry, branch: Sequence[Entry]) -> int:
        """Put its message first; the key from which on entries stand behind it."""
        assert isinstance(entry.payload, Compaction)
        # A reminder that still waited where it is cut belongs to a message that stays.
        replaced = branch[: bisect_left(branch, entry.payload.first_kept, key=lambda entry: entry.key)]
        for one in replaced[self._newest_host(replaced) :]:
            if not isinstance(one.payload, Setting | Prefix):
                self._fold(one)
        self._clear_messages()
        self._push_compaction(entry.key, entry.payload)
        return entry.payload.first_kept

    def _newest_host(self, branch: Sequence[Entry]) -> int:
        """Place of the newest message of the user; nothing that came before it can still be waiting. 0: there is none."""
        for place in range(len(branch) - 1, -1, -1):
            entry = branch[place]
            if entry.kind == "user" and entry.key not in self._dropped:
                assert isinstance(entry.payload, User)
                if user_blocks(entry.key, entry.payload, self._cleared):
                    return place
        return 0

    def _push_compaction(self, key: int, payload: Compaction) -> None:
        reattached = [r for r in self._reminders_of.get(key, []) if r.key not in self._dropped]
        pinned = [item for item in payload.pinned if item.pin in self.pins]
        riders = (*(TextBlock(item.text) for item in pinned), *(render_rider(r) for r in reattached))
        keys = (key, *(item.pin for item in pinned), *(r.key for r in reattached))
        self._push(UserMessage((TextBlock(payload.text), *riders)), keys)

    def _replace_range(self, key: int, payload: Compaction) -> None:
        """Put a compaction's message in the place of everything from its `first_replaced` on."""
        end = len(self.keys)
        base = None if self.compaction is None else self.compaction.key
        while end and (not self.keys[end - 1] or payload.first_replaced <= self.keys[end - 1][0] != base):
            end -= 1
        del self.messages[end:], self.keys[end:]
        self.stable, self.sent = min(self.stable, end), 0
        self._find_open()
        self._close_step()
        self._waiting = [entry for entry in self._waiting if entry.key < payload.first_replaced]
        self._push_compaction(key, payload)

    def _fold(self, entry: Entry) -> None:
        payload = entry.payload
        if entry.key in self._dropped:
            return
        match payload:
            case Prefix() | Setting():
                self._fold_setting(payload)
            case User():
                self._close_step()
                if blocks := user_blocks(entry.key, payload, self._cleared):
                    self._push(UserMessage(blocks), (entry.key,))
                    self._attach_waiting()
            case Assistant():
                self._close_step()
                self._fold_assistant(entry.key, payload)
            case Result():
                self._fold_result(entry.key, payload)
            case Reminder(of=None):
                self._waiting.append(entry)
                self._attach_waiting()
            case Pin(keys=()) if entry.key in self.pins:
                self._waiting.append(entry)
                self._attach_waiting()
            case Compaction() if entry.key in self._ranges:
                self._replace_range(entry.key, payload)
            case _:
                pass

    def _fold_setting(self, payload: Prefix | Setting) -> None:
        if isinstance(payload, Prefix):
            self.prefix = payload
            return
        self.provider = payload.provider or self.provider
        self.model = payload.model or self.model
        self.family = payload.family or self.family
        self.api = payload.api or self.api
        self.effort = payload.effort or self.effort
        self.mode = payload.mode or self.mode

    def _fold_assistant(self, key: int, payload: Assistant) -> None:
        # Two servers may speak one API for one model, and yet not read each other's signatures.
        same = (payload.api, payload.family, payload.provider) == (self.api, self.family, self.provider)
        self.sent = len(self.messages) if key > self.generation else 0
        dropped = self._dropped_calls.get(key, ())
        if blocks := assistant_blocks(key, payload.blocks, self._cleared, dropped, keep_reasoning=same):
            self._push(AssistantMessage(blocks), (key,))
            calls = [b for b in blocks if isinstance(b, ToolCall)]
            self._open = {call.id: place for place, call in enumerate(calls)}
            self._answered = []
        self.stable = len(self.messages)

    def _fold_result(self, key: int, payload: Result) -> None:
        place = self._open.pop(payload.call_id, None)
        if place is None:
            return
        text = self._cleared.get((key, None))
        blocks = payload.blocks if text is None else (TextBlock(text),)
        message = ToolResultMessage(payload.call_id, visible(blocks), payload.is_error)
        self._insert_result(place, message, (key,))
        self._attach_waiting()

    def _insert_result(self, place: int, message: ToolResultMessage, keys: tuple[int, ...]) -> None:
        """Put a result where call order wants it; results that come in order are simply appended."""
        earlier = bisect_left(self._answered, place)
        at = len(self.messages) - len(self._answered) + earlier
        self.messages.insert(at, message)
        self.keys.insert(at, keys)
        self._answered.insert(earlier, place)

    def _close_step(self) -> None:
        """Answer the calls that nothing answered."""
        for call_id in self.open_calls:
            self._insert_result(
                self._open.pop(call_id), ToolResultMessage(call_id, (TextBlock(MISSING_RESULT),), True), ()
            )
        self._answered = []

    def _find_open(self) -> None:
        """Which calls of the step at the end have no answer (any more)."""
        start = len(self.messages)
        while start and isinstance(self.messages[start - 1], ToolResultMessage):
            start -= 1
        answered = {m.call_id for m in self.messages[start:] if isinstance(m, ToolResultMessage)}
        blocks = self.messages[start - 1].blocks if start else ()
        calls = [(place, b.id) for place, b in enumerate(b for b in blocks if isinstance(b, ToolCall))]
        self._open = {call_id: place for place, call_id in calls if call_id not in answered}
        self._answered = [place for place, call_id in calls if call_id in answered]

    def _push(self, message: Message, keys: tuple[int, ...]) -> None:
        self.messages.append(message)
        self.keys.append(keys)

    def _attach_waiting(self) -> None:
        if not self._waiting or len(self.messages) <= self.stable:
            return
        host = self.messages[-1]  # never a reply: what ends with one is stable
        self.messages[-1] = replace(host, blocks=(*host.blocks, *map(render_rider, self._waiting)))
        self.keys[-1] = (*self.keys[-1], *(entry.key for entry in self._waiting))
        self._waiting = []


def _calls_of(branch: Sequence[Entry], dropped: frozenset[int]) -> dict[int, set[str]]:
    """The calls that go with dropped results, by the reply they stand in."""
    calls: dict[int, set[str]] = {}
    reply = 0
    for entry in branch:
        if isinstance(entry.payload, Assistant):
            reply = entry.key
        elif isinstance(entry.payload, Result) and entry.key in dropped:
            calls.setdefault(reply, set()).add(entry.payload.call_id)
    return calls


def window(branch: Sequence[Entry]) -> Window:
    """The window of a branch, built from nothing."""
    return Window(branch)

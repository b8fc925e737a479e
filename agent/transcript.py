"""The append-only record of a session: entries, their tree, and the branch that counts. Pure; storage lives in store/.

An entry's key grows by one with each entry; order is the key, never the clock. The head is the entry with the highest
key, and a new entry's parent is the head, except a rewind's, whose parent is its target. The branch is the path from the
root to the head. Nothing here is ever changed or removed.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agent.packs import Opened, Pack, packed
from agent.tools.details import ResultDetails
from providers.types import (
    AssistantBlock,
    Effort,
    ImageBlock,
    PromptSection,
    StopReason,
    TextBlock,
    ToolSpec,
    Usage,
    WireApi,
)


class InstructionFile(Struct, frozen=True):
    """An instruction file as it stood when the prefix was made. `path` is "config" for text from config.toml."""

    path: str
    sha256: str
    tokens: int
    reason: str
    """Why it was loaded: its layer, for instance "user" or "project"."""


class Prefix(Struct, frozen=True, tag="prefix"):
    """What stands before the messages; the newest one on the branch counts."""

    sections: tuple[PromptSection, ...]
    tools: tuple[ToolSpec, ...]
    instruction_files: tuple[InstructionFile, ...] = ()
    version: str = ""


class Redaction(Struct, frozen=True):
    """A secret that was taken out when the entry was made; `[redacted N]` stands for it. See agent/redaction.py."""

    number: int
    kind: str
    """In words."""
    fingerprint: str = ""
    """By which the same secret is known again; empty where it could be guessed by that."""


class ShellBlock(Struct, frozen=True, tag="shell"):
    """A command that the user ran with `!`, and its output."""

    command: str
    output: str


class AttachmentBlock(Struct, frozen=True, tag="attachment"):
    """A file as it was when it was attached. Exactly one of `text` and `sha256` (a blob) is set."""

    path: str
    text: str | None = None
    sha256: str | None = None


class User(Struct, frozen=True, tag="user"):
    blocks: tuple[TextBlock | ImageBlock | ShellBlock | AttachmentBlock, ...]
    synthetic: bool = False
    """Written by claw to make the model go on (a cut or empty reply): not the user's words, never in the record."""
    redacted: tuple[Redaction, ...] = ()
    """What was taken out of commands' outputs and attached files, never of the words."""


class Assistant(Struct, frozen=True, tag="assistant"):
    """One reply, whole or as far as it was streamed.

    An interrupted reply without blocks records that a request left and nothing came back.
    """

    blocks: tuple[AssistantBlock, ...]
    provider: str
    model: str
    api: WireApi
    family: str
    effort: Effort | None
    usage: Usage
    stop_reason: StopReason
    detail: str = ""
    interrupted: bool = False
    cost_usd: float | None = None
    """None where the price is unknown."""


class FileFact(Struct, frozen=True):
    """What a tool learnt of a file: the hash of the whole content, and which lines the model saw or wrote."""

    path: str
    """Real absolute path."""
    sha256: str
    ranges: tuple[tuple[int, int], ...] = ()
    """Line ranges shown, 1-based, both ends included. Empty: none (for instance after an edit)."""
    whole: bool = False
    """The model has seen, or written, the whole content."""
    change: Literal["read", "edited", "written"] = "read"


class Spill(Struct, frozen=True):
    """The whole of an output that was capped: a blob of the session."""

    sha256: str
    size_bytes: int
    missing_bytes: int = 0
    """What even the spill could not hold."""


class Result(Struct, frozen=True, tag="result"):
    call_id: str
    tool: str
    blocks: tuple[TextBlock | ImageBlock, ...]
    is_error: bool = False
    title: str = ""
    """What it acted on, in one line, as shown while it ran."""
    details: ResultDetails | None = None
    files: tuple[FileFact, ...] = ()
    spill: Spill | None = None
    redacted: tuple[Redaction, ...] = ()


class Reminder(Struct, frozen=True, tag="reminder"):
    """A fact for the model, attached to the newest message that was not sent yet."""

    kind: str
    text: str
    of: int | None = None
    """The compaction that re-attached it: it stands in that compaction's message and counts while that counts."""


class PinnedText(Struct, frozen=True):
    """What a pin keeps, as it stands behind a compaction's text."""

    pin: int
    """Key of the pin; once that is undone, the text stands there no more."""
    text: str


class Compaction(Struct, frozen=True, tag="compaction"):
    """Replaces everything before `first_kept`, or from `first_replaced` on, by one user message."""

    text: str
    """Record and summary: the message without what is pinned and re-attached."""
    summary: str
    """The summary alone, so that the next compaction can update it."""
    first_kept: int
    """Key of the first entry that stays; one past the head's key if none stays."""
    trigger: Literal["auto", "manual", "overflow"]
    tokens_before: int
    tokens_after: int
    usage: Usage = Usage()
    cost_usd: float | None = None
    focus: str = ""
    first_replaced: int = 0
    """Not 0: what stands before this entry stays as it is, and everything from it up to this compaction is replaced."""
    pinned: tuple[PinnedText, ...] = ()
    """In the order of the pins."""


class ClearedItem(Struct, frozen=True):
    key: int
    text: str
    """What stands instead."""
    block: int | None = None
    """One block of that entry only; None: all its content."""


class Clearing(Struct, frozen=True, tag="clearing"):
    items: tuple[ClearedItem, ...]
    reason: Literal["budget", "snip", "clear", "collapse", "user"]


class Pin(Struct, frozen=True, tag="pin"):
    """Entries, or a text as it was, that stand word for word behind every later compaction's summary.

    A text goes with the next message at once; entries stand in the window until a compaction replaces them.
    """

    keys: tuple[int, ...] = ()
    path: str = ""
    """Of the file that the text was taken from; empty: the user's own text."""
    text: str = ""
    lines: tuple[int, int] | None = None
    """First and last line of the text in its file, 1-based, both included; None: the whole file."""


class Drop(Struct, frozen=True, tag="drop"):
    """These entries stand in the window no more: a reply with its results, a result with its call."""

    keys: tuple[int, ...] = ()


class Undo(Struct, frozen=True, tag="undo"):
    """The entries with these keys (compaction, clearing, pin, drop, undo) count no longer."""

    keys: tuple[int, ...]


class Rewind(Struct, frozen=True, tag="rewind"):
    """Its parent is the target; the branch goes on from there."""


class Setting(Struct, frozen=True, tag="setting", omit_defaults=True):
    """From here on. None: unchanged. A recorded mode is a record, never an authority."""

    provider: str | None = None
    model: str | None = None
    family: str | None = None
    api: WireApi | None = None
    effort: Effort | None = None
    mode: str | None = None
    title: str | None = None
    cwd: str | None = None
    tools: tuple[str, ...] | None = None
    """The only tools of the session, where it was given just some."""
    appended: str | None = None
    """What the command line added to the system prompt."""


class Unknown(Struct, frozen=True, tag="unknown"):
    """An entry of a kind that a newer claw wrote. It keeps its place, and is shown as a line; it is never sent, and never
    written: a session with one is only read. (Fields of an entry are added and never taken away, for the same reason.)"""

    kind: str
    size_bytes: int


Payload = (
    Prefix
    | User
    | Assistant
    | Result
    | Reminder
    | Compaction
    | Clearing
    | Pin
    | Drop
    | Undo
    | Rewind
    | Setting
    | Unknown
)


class Entry:
    """One entry. What it says never changes; how it keeps that does: see `Transcript`."""

    __slots__ = ("_kept", "_place", "key", "kind", "parent", "time_ms")

    def __init__(self, key: int, parent: int | None, time_ms: int, payload: Payload) -> None:
        self.key = key
        self.parent = parent
        self.time_ms = time_ms
        """Wall clock, for display only."""
        self.kind = str(payload.__struct_config__.tag)
        """Tells what the payload is without opening a pack."""
        self._kept: Payload | Pack[Payload] = payload
        self._place = 0

    @property
    def payload(self) -> Payload:
        kept = self._kept
        return kept.values()[self._place] if isinstance(kept, Pack) else kept

    @property
    def is_packed(self) -> bool:
        return isinstance(self._kept, Pack)

    def pack(self, pack: "Pack[Payload]", place: int) -> None:
        """Keep the payload as this value of a pack from now on."""
        self._place = place  # before the pack: threads read it too
        self._kept = pack

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        mine, theirs = (self.key, self.parent, self.time_ms), (other.key, other.parent, other.time_ms)
        return mine == theirs and self.payload == other.payload

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Entry(key={self.key}, parent={self.parent}, time_ms={self.time_ms}, payload={self.payload!r})"


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)
_list_decoder: msgspec.json.Decoder[list[Payload]] = msgspec.json.Decoder(list[Payload])
_TOGETHER = (frozenset({"assistant", "result"}), frozenset({"user"}), frozenset({"reminder", "compaction", "clearing"}))
"""Kinds that are long or many, those that are looked for together in one pack. The others are looked through all the time."""
_PACKED = frozenset[str]().union(*_TOGETHER)
_PACKED_AT_ONCE = 2_000
"""Most entries that one compaction packs, so that the first one of an old session takes no longer than any other."""


def encode_payload(payload: Payload) -> bytes:
    return _encoder.encode(payload)


def decode_payload(raw: bytes | str) -> Payload:
    """
    Raises:
        msgspec.ValidationError: not a payload this version knows.
    """
    return _decoder.decode(raw)


class Transcript:
    """All entries of a session and its current branch. `append` is the only way in.

    What a compaction replaced is hardly ever looked at again, so it is packed: of a long session there is many times more
    of it than of what still counts.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._opened: Opened[Payload] = Opened(_list_decoder.decode)
        self._all: list[Entry] = []  # in the order of their keys
        self._branch: list[Entry] = []
        for entry in entries:
            self.add(entry)

    @property
    def head(self) -> int | None:
        """Key of the newest entry, or None while there is none."""
        return self._branch[-1].key if self._branch else None

    @property
    def branch(self) -> Sequence[Entry]:
        """The entries that count, root first. The list is live: it grows with `append`, and a rewind replaces it."""
        return self._branch

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, key: int) -> Entry:
        if (entry := self.get(key)) is None:
            raise KeyError(key)
        return entry

    def get(self, key: int) -> Entry | None:
        place = bisect_left(self._all, key, key=_key_of)
        found = self._all[place] if place < len(self._all) else None
        return found if found is not None and found.key == key else None

    def append(self, payload: Payload, time_ms: int, parent: int | None = None) -> Entry:
        """Add an entry behind the head; `parent` is given for a rewind alone."""
        is_rewind = isinstance(payload, Rewind)
        entry = Entry((self.head or 0) + 1, parent if is_rewind else self.head, time_ms, payload)
        self.add(entry)
        if isinstance(payload, Compaction) and not payload.first_replaced:
            self._pack_before(payload.first_kept)
        return entry

    def _pack_before(self, key: int) -> None:
        end = bisect_left(self._branch, key, key=_key_of)
        wanted: list[Entry] = []
        for entry in reversed(self._branch[:end]):
            if entry.is_packed or len(wanted) == _PACKED_AT_ONCE:
                break
            if entry.kind in _PACKED:
                wanted.append(entry)
        for kinds in _TOGETHER:  # apart, so that who looks for one kind opens few packs
            chosen = [entry for entry in reversed(wanted) if entry.kind in kinds]
            places = packed([encode_payload(entry.payload) for entry in chosen], self._opened)
            for entry, (pack, place) in zip(chosen, places, strict=True):
                entry.pack(pack, place)

    def add(self, entry: Entry) -> None:
        """Add an entry read from a store. Keys must grow.

        Raises:
            ValueError: a key that does not grow, or an unknown parent.
        """
        if self._branch and entry.key <= self._branch[-1].key:
            raise ValueError(f"entry {entry.key} does not follow entry {self._branch[-1].key}")
        if entry.parent not in (None, self.head) and self.get(entry.parent) is None:
            raise ValueError(f"entry {entry.key} names the unknown parent {entry.parent}")
        self._all.append(entry)
        if entry.parent == self.head:
            self._branch.append(entry)
        else:
            self._branch = self._path_to(entry)

    def _path_to(self, entry: Entry) -> list[Entry]:
        path = [entry]
        while (parent := path[-1].parent) is not None:
            path.append(self[parent])
        path.reverse()
        return path


def _key_of(entry: Entry) -> int:
    return entry.key


def of_kinds(branch: Iterable[Entry], *kinds: type[Struct]) -> Iterator[Entry]:
    """The entries of a branch with such payloads. No other payload is looked at, which may have to be unpacked for that."""
    tags = {kind.__struct_config__.tag for kind in kinds}
    return (entry for entry in branch if entry.kind in tags)


def undone_keys(branch: Iterable[Entry]) -> frozenset[int]:
    """Keys of the entries that an undo on this branch has cancelled; an undo that was undone cancels nothing."""
    undone: set[int] = set()
    for entry in sorted(of_kinds(branch, Undo), key=lambda e: e.key, reverse=True):
        if entry.key not in undone and isinstance(entry.payload, Undo):
            undone.update(entry.payload.keys)
    return frozenset(undone)


def to_plain(payload: Payload) -> dict[str, Any]:
    """The payload as plain JSON values, for display and export."""
    plain = msgspec.to_builtins(payload)
    assert isinstance(plain, dict)
    return plain

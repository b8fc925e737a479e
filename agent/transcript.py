"""The append-only record of a session: entries, their tree, and the branch that counts. Pure; storage lives in store/.

An entry's key grows by one with each entry; order is the key, never the clock. The head is the entry with the highest
key, and a new entry's parent is the head, except a rewind's, whose parent is its target. The branch is the path from the
root to the head. Nothing here is ever changed or removed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

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


Payload = Prefix | User | Assistant | Result | Reminder | Compaction | Clearing | Pin | Drop | Undo | Rewind | Setting


class Entry(Struct, frozen=True):
    key: int
    parent: int | None
    time_ms: int
    """Wall clock, for display only."""
    payload: Payload

    @property
    def kind(self) -> str:
        return str(self.payload.__struct_config__.tag)


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)


def encode_payload(payload: Payload) -> bytes:
    return _encoder.encode(payload)


def decode_payload(raw: bytes | str) -> Payload:
    """
    Raises:
        msgspec.ValidationError: not a payload this version knows.
    """
    return _decoder.decode(raw)


class Transcript:
    """All entries of a session and its current branch. `append` is the only way in."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._by_key: dict[int, Entry] = {}
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
        return len(self._by_key)

    def __getitem__(self, key: int) -> Entry:
        return self._by_key[key]

    def get(self, key: int) -> Entry | None:
        return self._by_key.get(key)

    def append(self, payload: Payload, time_ms: int, parent: int | None = None) -> Entry:
        """Add an entry behind the head; `parent` is given for a rewind alone."""
        is_rewind = isinstance(payload, Rewind)
        entry = Entry((self.head or 0) + 1, parent if is_rewind else self.head, time_ms, payload)
        self.add(entry)
        return entry

    def add(self, entry: Entry) -> None:
        """Add an entry read from a store. Keys must grow.

        Raises:
            ValueError: a key that does not grow, or an unknown parent.
        """
        if self._branch and entry.key <= self._branch[-1].key:
            raise ValueError(f"entry {entry.key} does not follow entry {self._branch[-1].key}")
        if entry.parent is not None and entry.parent not in self._by_key:
            raise ValueError(f"entry {entry.key} names the unknown parent {entry.parent}")
        self._by_key[entry.key] = entry
        if entry.parent == self.head:
            self._branch.append(entry)
        else:
            self._branch = self._path_to(entry)

    def _path_to(self, entry: Entry) -> list[Entry]:
        path = [entry]
        while (parent := path[-1].parent) is not None:
            path.append(self._by_key[parent])
        path.reverse()
        return path


def undone_keys(branch: Iterable[Entry]) -> frozenset[int]:
    """Keys of the entries that an undo on this branch has cancelled; an undo that was undone cancels nothing."""
    undone: set[int] = set()
    for entry in sorted((e for e in branch if isinstance(e.payload, Undo)), key=lambda e: e.key, reverse=True):
        if entry.key not in undone and isinstance(entry.payload, Undo):
            undone.update(entry.payload.keys)
    return frozenset(undone)


def to_plain(payload: Payload) -> dict[str, Any]:
    """The payload as plain JSON values, for display and export."""
    plain = msgspec.to_builtins(payload)
    assert isinstance(plain, dict)
    return plain

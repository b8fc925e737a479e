"""A long session's old entries are kept small, and are what they were."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from agent.transcript import Assistant, Compaction, Entry, Result, Transcript, Undo, User, of_kinds
from agent.window import Window
from providers.types import TextBlock, ToolCall, Usage
from tests.agent.context.talk import Talk


def filled(turns: int) -> Talk:
    talk = Talk()
    for turn in range(turns):
        talk.user(f"message {turn}")
        talk.reply(f"I look at {turn}. " + "word " * 40, (f"c{turn}",))
        talk.result(f"c{turn}", f"line {turn}\n" * 40)
        talk.reply(f"Done with {turn}.")
    return talk


def compact(talk: Talk, first_kept: int) -> int:
    return talk.append(Compaction("summary", "summary", first_kept, "manual", 2, 1)).key


def size_of(value: Any, seen: set[int]) -> int:
    """Bytes of a value and of all that hangs on it and on nothing before it."""
    if id(value) in seen or value is None or isinstance(value, bool | type):
        return 0
    seen.add(id(value))
    inner: Iterable[Any] = ()
    if isinstance(value, Entry):
        inner = (value._kept,)
    elif hasattr(value, "_data"):
        inner = (value._data,)
    elif isinstance(value, msgspec.Struct):
        inner = (getattr(value, name) for name in value.__struct_fields__)
    elif isinstance(value, tuple | list):
        inner = value
    return sys.getsizeof(value) + sum(size_of(each, seen) for each in inner)


def test_T110_what_a_compaction_replaced_is_packed_and_says_what_it_said() -> None:
    talk = filled(100)
    entries = talk.branch
    payloads = [entry.payload for entry in entries]
    before = size_of(entries, set())
    compact(talk, entries[-3].key)
    assert [entry.payload for entry in entries] == payloads
    assert [type(entry.payload) for entry in entries] == [type(payload) for payload in payloads]
    packed = [entry for entry in entries if entry.is_packed]
    assert len(packed) > 390 and not any(entry.is_packed for entry in entries[-3:])
    assert {entry.kind for entry in packed} == {"assistant", "result", "user"}
    assert size_of(entries, set()) < before / 3


def test_a_window_made_of_packed_entries_is_the_window() -> None:
    talk = filled(30)
    before = list(talk.window.messages)
    key = compact(talk, talk.branch[-3].key)
    compact(talk, talk.branch[-2].key)
    assert talk.window.messages != before
    talk.append(Undo((key, key + 1)))
    assert talk.window.messages == before == Window(talk.branch).messages


def test_entries_are_alike_packed_or_not() -> None:
    fresh, talk = filled(10), filled(10)
    compact(talk, talk.branch[-1].key)
    assert talk.branch[: len(fresh.branch)] == fresh.branch
    assert any(entry.is_packed for entry in talk.branch)
    assert repr(talk.branch[3]) == repr(fresh.branch[3]) and hash(talk.branch[3]) == hash(fresh.branch[3])


def test_only_wanted_kinds_are_looked_at() -> None:
    transcript = Transcript()
    usage = Usage(1, 0, 0, 1)
    for number in range(3):
        transcript.append(User((TextBlock(f"{number}"),)), 0)
        call = ToolCall(f"{number}", "read", "{}")
        transcript.append(Assistant((call,), "p", "m", "chat", "m", None, usage, "tool_use"), 0)
        transcript.append(Result(f"{number}", "read", (TextBlock("text"),)), 0)
    assert [entry.key for entry in of_kinds(transcript.branch, User, Result)] == [1, 3, 4, 6, 7, 9]

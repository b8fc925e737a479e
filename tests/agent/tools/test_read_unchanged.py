"""Files are really read; transcript and window follow as in a session."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest

from agent.context.superseded import ShownFiles
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.results import SpillFolder, to_result
from agent.tools.base import ToolContext
from agent.tools.read import Read, ReadParams
from agent.transcript import (
    Assistant,
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Entry,
    FileFact,
    Payload,
    Reminder,
    Rewind,
    Setting,
    Transcript,
    Undo,
    User,
)
from agent.window import Window
from providers.types import TextBlock, ToolCall, Usage

TEXT = "".join(f"line {n} of the file\n" for n in range(1, 40))


class Reader:
    """A session that reads: every answer is recorded as the recorder does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.transcript = Transcript()
        self.window = Window()
        self.shown = ShownFiles(self.transcript, self.window)
        self.known: dict[str, FileFact] = {}
        self.append(Setting("p", "m", "m", "anthropic"))
        self.append(User((TextBlock("go"),)))

    def append(self, payload: Payload, parent: int | None = None) -> Entry:
        entry = self.transcript.append(payload, 0, parent)
        self.window.apply(self.transcript.branch, entry)
        return entry

    async def read(self, max_tokens: int = 100_000, **params: object) -> tuple[int, str]:
        """Key of the result, and its text."""
        call = ToolCall(f"c{len(self.transcript)}", "read", "{}")
        self.append(Assistant((call,), "p", "m", "anthropic", "m", None, Usage(), "tool_use"))
        context = ToolContext(
            call.id,
            Workspace(self.root, self.root),
            cast(Spawner, None),  # no file tool uses it
            self.known,
            lambda text: None,
            shows_whole=self.shown.whole,
        )
        output = await Read().run(msgspec.convert({"path": "a.py", **params}, ReadParams), context)
        self.known.update({fact.path: fact for fact in output.files})
        key = (self.transcript.head or 0) + 1
        result, _ = to_result(call, "a.py", output, key, max_tokens, SpillFolder(self.root / "spills"), len)
        entry = self.append(result)
        (block,) = result.blocks
        assert isinstance(block, TextBlock)
        return entry.key, block.text


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    (tmp_path / "a.py").write_text(TEXT)
    return Reader(tmp_path)


def unchanged(key: int) -> str:
    return f"[Unchanged since you read it (entry {key}): the whole of a.py stands above. If it was cleared since, read it again.]"


async def test_K8_a_whole_file_that_stands_in_the_window_is_not_sent_again(reader: Reader) -> None:
    first, text = await reader.read()
    assert text.startswith("1\tline 1") and text.endswith("39\tline 39 of the file")
    for _ in range(3):
        _, again = await reader.read()
        assert again == unchanged(first)  # the copy itself is named, never an answer about it
    assert reader.known[str(reader.root / "a.py")].whole


async def test_a_part_is_read_as_asked(reader: Reader) -> None:
    await reader.read()
    for params in ({"offset": 2}, {"limit": 5}, {"offset": 1, "limit": 1_999}):
        _, text = await reader.read(**params)
        assert "\tline" in text


async def test_parts_that_add_up_are_no_whole_copy(reader: Reader) -> None:
    await reader.read(limit=20)
    await reader.read(offset=21)
    assert reader.known[str(reader.root / "a.py")].whole
    _, text = await reader.read()
    assert text.startswith("1\tline 1")


@pytest.mark.parametrize("change", ["", TEXT + "more\n", TEXT.replace("7", "8")], ids=["emptied", "longer", "edited"])
async def test_a_changed_file_is_read_and_a_change_taken_back_is_not(reader: Reader, change: str) -> None:
    first, _ = await reader.read()
    (reader.root / "a.py").write_text(change)
    _, text = await reader.read()
    assert not text.startswith("[Unchanged")
    (reader.root / "a.py").write_text(TEXT)
    _, text = await reader.read()
    assert text == unchanged(first)


async def test_a_text_shorter_than_the_answer_is_sent(reader: Reader) -> None:
    (reader.root / "a.py").write_text("tiny\n")
    await reader.read()
    assert (await reader.read())[1] == "1\ttiny"


async def test_a_copy_that_was_cut_where_it_was_recorded_shows_nothing(reader: Reader) -> None:
    (reader.root / "a.py").write_text(TEXT * 40)
    _, text = await reader.read(max_tokens=300)
    assert "lines left out" in text
    _, text = await reader.read()
    assert text.startswith("1\tline 1")


async def test_a_copy_with_cut_lines_or_more_lines_than_are_shown_is_not_whole(reader: Reader) -> None:
    for content in ("x" * 2_001 + "\n" + TEXT, TEXT * 60):
        (reader.root / "a.py").write_text(content)
        await reader.read()
        _, text = await reader.read()
        assert not text.startswith("[Unchanged")


async def test_another_encoding_is_told_and_still_whole(reader: Reader) -> None:
    (reader.root / "a.py").write_bytes(TEXT.replace("line", "zeile é").encode("latin-1"))
    first, text = await reader.read()
    assert text.endswith("encoding: Latin-1]") or "encoding" in text
    assert (await reader.read())[1] == unchanged(first)


def _cleared(reader: Reader, key: int) -> None:
    reader.append(Clearing((ClearedItem(key, "[cleared]"),), "clear"))


def _dropped(reader: Reader, key: int) -> None:
    reader.append(Drop((key,)))


def _compacted(reader: Reader, key: int) -> None:
    reader.append(Compaction("history", "s", key + 1, "manual", 100, 10))


def _replaced_from(reader: Reader, key: int) -> None:
    reader.append(Compaction("history", "s", key + 1, "manual", 100, 10, first_replaced=key - 1))


def _rewound(reader: Reader, key: int) -> None:
    reader.append(Rewind(), parent=2)
    reader.append(User((TextBlock("again"),)))


@pytest.mark.parametrize("gone", [_cleared, _dropped, _compacted, _replaced_from, _rewound])
async def test_a_copy_that_left_the_window_is_read_again_and_an_undo_brings_it_back(
    reader: Reader, gone: Callable[[Reader, int], None]
) -> None:
    first, _ = await reader.read()
    reader.append(Assistant((TextBlock("seen"),), "p", "m", "anthropic", "m", None, Usage(), "end_turn"))
    assert (await reader.read())[1] == unchanged(first)
    gone(reader, first)
    edit = reader.transcript.head or 0
    key, text = await reader.read()
    assert text.startswith("1\tline 1")
    assert (await reader.read())[1] == unchanged(key)
    if gone is not _rewound:
        reader.append(Undo((edit,)))
        reader.append(Clearing((ClearedItem(key, "[cleared]"),), "clear"))
        assert (await reader.read())[1] == unchanged(first)


async def test_a_reminder_on_the_copy_does_not_hide_it(reader: Reader) -> None:
    first, _ = await reader.read()
    reader.append(Reminder("git", "the branch is main"))
    assert (await reader.read())[1] == unchanged(first)


class Counted(Transcript):
    """Counts how many entries are looked up."""

    asked = 0

    def get(self, key: int) -> Entry | None:
        self.asked += 1
        return super().get(key)


async def test_a_look_costs_what_came_since_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    looks: list[int] = []
    for copies in (20, 400):
        reader = Reader(tmp_path)
        counted = Counted(reader.transcript.branch)
        reader.transcript = counted
        reader.shown = ShownFiles(counted, reader.window)
        for _ in range(copies):
            await reader.read(limit=3)
        reader.shown.whole("x", "y")
        counted.asked = 0
        await reader.read(limit=3)
        await reader.read()
        looks.append(counted.asked)
    assert looks[0] == looks[1] <= 8

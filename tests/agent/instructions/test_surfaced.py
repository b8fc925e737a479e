"""What is told in the middle of a session: its limits, the choice, and what the window says of it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.paths import Paths
from agent.context.clearing import CLEARED_TEXT
from agent.instructions import surfaced
from agent.instructions.discovery import Place
from agent.instructions.item import InstructionItem
from agent.instructions.nested import folders_of
from agent.transcript import (
    Assistant,
    ClearedItem,
    Clearing,
    Drop,
    FileFact,
    Payload,
    Prefix,
    Reminder,
    Result,
    Rewind,
    Setting,
    Transcript,
    Undo,
    User,
)
from agent.window import Window
from providers.types import TextBlock, ToolCall, Usage


def item(path: str, text: str = "Use tabs.", **fields: object) -> InstructionItem:
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return InstructionItem(path, "project", "in the project", text=text, sha256=sha256, **fields)  # type: ignore[arg-type] # any field


def never(item: InstructionItem) -> bool:
    return False


# --------------------------------------------------------------------------- limits


@given(
    st.text(st.sampled_from("ab \n\n<é漢😀"), max_size=9_000)
    | st.lists(st.text("<project_instructions>", min_size=20, max_size=300), max_size=300).map("\n".join),
    st.integers(surfaced.LEAST_BYTES, surfaced.MAX_BYTES),
)
def test_K16_whatever_the_text_a_reminder_keeps_to_200_lines_and_4096_bytes(text: str, max_bytes: int) -> None:
    rule = item("/p/sub/AGENTS.md", text)
    told = surfaced.render(rule, max_bytes)
    assert len(told.encode()) <= max_bytes and told.count("\n") + 1 <= surfaced.MAX_LINES
    assert told.split("\n", 1)[0] == surfaced.head(rule)
    assert told.endswith("</project_instructions>") and told.count("</project_instructions>") == 1
    if "[Cut here" in told:
        assert "Read /p/sub/AGENTS.md for the rest" in told


def test_K16_a_text_is_cut_at_a_line_and_only_where_it_must_be() -> None:
    short = item("/p/a/AGENTS.md", "\n".join(f"line {n}" for n in range(150)))
    assert "[Cut here" not in surfaced.render(short)
    lines = surfaced.render(item("/p/a/AGENTS.md", "\n".join(f"line {n}" for n in range(400)))).split("\n")
    assert len(lines) <= 200 and lines[2] == "line 0" and lines[-3] == f"line {len(lines) - 5}"
    assert lines[-2].startswith("[Cut here. Read /p/a/AGENTS.md")
    one = surfaced.render(item("/p/a/AGENTS.md", "漢" * 3_000))
    assert one.count("漢") > 1_000 and "�" not in one


@given(st.text(st.sampled_from("ab \n<é"), max_size=6_000), st.integers(surfaced.LEAST_BYTES, surfaced.MAX_BYTES))
def test_what_was_told_is_told_again_only_when_it_says_something_else(text: str, max_bytes: int) -> None:
    rule = item("/p/sub/AGENTS.md", text)
    for told in (surfaced.render(rule, max_bytes), surfaced.changed(rule).text):
        assert surfaced.is_as_told(told, rule) and not surfaced.is_as_told(told, None)
        assert not surfaced.is_as_told(told, item("/p/sub/AGENTS.md", f"x{text}"))
    gone = surfaced.gone(surfaced.head(rule)).text
    assert surfaced.is_as_told(gone, None) and not surfaced.is_as_told(gone, rule)


def test_K16_at_most_five_a_turn_the_most_specific_ones_in_their_order() -> None:
    rules = [item(f"/p/{'d/' * n}AGENTS.md", f"rule {n}") for n in range(9)]
    selection = surfaced.select(rules, {}, never)
    assert [r.text.split("\n")[2] for r in selection.reminders] == [f"rule {n}" for n in range(4, 9)]
    assert selection.waiting == tuple(rule.path for rule in rules[:4])
    assert {reminder.kind for reminder in selection.reminders} == {"instructions"}
    assert surfaced.select(rules, {}, never, most=0).reminders == ()


def test_K16_a_small_window_is_not_filled() -> None:
    rules = [item(f"/p/{n}/AGENTS.md", "word " * 2_000) for n in range(5)]
    for effective in (6_554, 26_215, 180_000):
        room = surfaced.turn_bytes(effective)
        told = surfaced.select(rules, {}, never, max_bytes=room)
        size = sum(len(reminder.text.encode()) for reminder in told.reminders)
        assert size <= room <= effective // 2 and told.reminders
    assert len(surfaced.select(rules, {}, never, max_bytes=surfaced.turn_bytes(180_000)).reminders) == 5
    assert surfaced.turn_bytes(None) == 5 * 4_096


def test_K16_the_selector_applies_both_filters_itself() -> None:
    seen, read, new = (item(f"/p/{name}/AGENTS.md", name) for name in ("seen", "read", "new"))
    standing = {surfaced.head(seen): surfaced.render(seen)}
    selection = surfaced.select([seen, read, new, new], standing, lambda one: one is read)
    assert [reminder.text for reminder in selection.reminders] == [surfaced.render(new)]


@pytest.mark.parametrize(
    "path",
    [
        "/p/AGENTS.md",
        "/p (they hold for x)/A.md",
        "/p, from line 3, x/A.md",
        "/p/\udcff\n[/x].md",
        "/p/A.md, from line x",
    ],
)
@pytest.mark.parametrize("line", [1, 12])
def test_the_first_line_names_one_item_and_gives_its_path_back(path: str, line: int) -> None:
    one = item(path, line=line, condition="src/**, *.md")
    first = surfaced.head(one)
    assert "\n" not in first and first.encode()
    assert surfaced.path_of(first) == path.encode("unicode_escape").decode() or surfaced.path_of(first) == path
    assert first != surfaced.head(item(path, line=line + 1, condition="src/**, *.md"))
    assert surfaced.path_of("The instruction file /p is not as it was.") == ""


# --------------------------------------------------------------------------- which places, which rules


def place(project: Path, cwd: Path, *added: Path) -> Place:
    home = project.parent / "home"
    return Place(Paths(home, home, home, home, home, managed=home / "none"), project, cwd, added)


def test_folders_below_and_beside_the_current_one_count_and_those_above_were_read(tmp_path: Path) -> None:
    project, other = tmp_path / "p", tmp_path / "other"
    for folder in (project / "cwd/a/b", project / "side/x", other / "y"):
        folder.mkdir(parents=True)
    where = place(project, project / "cwd", other)
    assert folders_of(project / "cwd/a/b/f.py", where) == (project / "cwd/a", project / "cwd/a/b")
    assert folders_of(project / "cwd/a", where) == (project / "cwd/a",)
    assert folders_of(project / "cwd/f.py", where) == folders_of(project / "cwd", where) == ()
    assert folders_of(project / "f.py", where) == ()
    assert folders_of(project / "side/x/new/f.py", where) == tuple(
        project / n for n in ("side", "side/x", "side/x/new")
    )
    assert folders_of(other / "y/f", where) == (other / "y",) and folders_of(other / "f", where) == ()
    assert folders_of(tmp_path / "else/f", where) == ()


# --------------------------------------------------------------------------- what stands in the window

SETTING = Setting("anthropic", "m", "f", "anthropic", None, "ask")


class Record:
    """A transcript with its window, and what `Standing` sees of it, compared with a look from nothing each time."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.window = Window()
        self.standing = surfaced.Standing()
        self.add(SETTING, Prefix((), ()))

    def add(self, *payloads: Payload, parent: int | None = None) -> int:
        for payload in payloads:
            entry = self.transcript.append(payload, 0, parent)
            self.window.apply(self.transcript.branch, entry)
        fresh = surfaced.Standing()
        fresh.look(self.window, self.transcript.get)
        self.standing.look(self.window, self.transcript.get)
        assert (self.standing.told, self.standing.read) == (fresh.told, fresh.read)
        return entry.key

    def step(self, number: int, facts: Sequence[FileFact] = (), *riders: Reminder) -> int:
        call = ToolCall(f"c{number}", "read", "{}")
        reply = Assistant((call,), "anthropic", "m", "anthropic", "f", None, Usage(), "tool_use")
        key = self.add(reply, Result(call.id, "read", (TextBlock("1\tx"),), files=tuple(facts)))
        return self.add(*riders) if riders else key


def test_K16_what_was_told_is_found_in_the_window_and_goes_with_it() -> None:
    record, rule = Record(), item("/p/sub/AGENTS.md")
    told = Reminder("instructions", surfaced.render(rule))
    start = record.add(User((TextBlock("go"),)))
    rider = record.step(1, (), told)
    assert list(record.standing.told) == [surfaced.head(rule)]
    drop = record.add(Drop((rider,)))
    assert record.standing.told == {}
    record.add(Undo((drop,)))
    assert list(record.standing.told) == [surfaced.head(rule)]
    record.add(Rewind(), parent=start)
    assert record.standing.told == {}
    record.step(2, (), Reminder("date", "Today."), told)
    assert list(record.standing.told) == [surfaced.head(rule)]


def test_K16_what_the_model_read_itself_counts_while_its_result_stands_whole() -> None:
    record = Record()
    record.add(User((TextBlock("go"),)))
    first = record.step(1, (FileFact("/p/sub/AGENTS.md", "aa", ((1, 1),), whole=True), FileFact("/p/b", "bb")))
    assert record.standing.read == {"/p/sub/AGENTS.md": "aa"}
    record.step(2)
    clearing = record.add(Clearing((ClearedItem(first, CLEARED_TEXT),), "clear"))
    assert record.standing.read == {}
    record.add(Undo((clearing,)))
    assert record.standing.read == {"/p/sub/AGENTS.md": "aa"}


def test_looking_again_costs_what_is_new() -> None:
    record, looked = Record(), []
    record.add(User((TextBlock("go"),)))
    for number in range(30):
        record.step(number)

    def get(key: int) -> object:
        looked.append(key)
        return record.transcript.get(key)

    record.step(31)
    record.standing.look(record.window, get)  # type: ignore[arg-type] # counts what is asked for
    assert len(looked) <= 3

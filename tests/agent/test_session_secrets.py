"""What becomes of outputs, messages and files on their way into a session's record."""

import hashlib
from pathlib import Path

import pytest

from agent.events import (
    CompactionFinished,
    Event,
    Notice,
    RetryScheduled,
    TextStreamed,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from agent.redacted_events import RedactedEvents
from agent.redaction import KnownValues
from agent.session_secrets import SessionSecrets
from agent.spawner.output import SpillFile
from agent.spill_pieces import CleanCopy, pieces
from agent.store.titles import title_of
from agent.tools.base import ToolOutput
from agent.tools.details import CommandDetails, DiffDetails, TextDetails
from agent.tools.redacted_text import marker_fault, marker_hint
from agent.tools.terminal_text import show_output
from agent.tools.truncate import cap_text, newest
from agent.transcript import AttachmentBlock, Entry, FileFact, Redaction, Result, ShellBlock, User
from providers.types import TextBlock
from tests.fakes.secret_keys import made_keys, made_pem

KEYS = made_keys(4)
KEY, OTHER = KEYS["GitHub"], KEYS["Anthropic"]
NOTE = "\n[claw took what looks like a secret out of this: [redacted 1] stands for it"


def result_entry(key: int, output: ToolOutput) -> Entry:
    return Entry(
        key, key - 1 or None, 0, Result("c", "bash", (TextBlock(output.text),), redacted=output.redacted or ())
    )


def test_R50_text_details_and_facts_are_taken_together_and_explained_once() -> None:
    secrets = SessionSecrets()
    facts = (FileFact("/a", "h", ((1, 2),), whole=True), FileFact("/b", "h", whole=True, change="edited"))
    details = CommandDetails(f"echo {KEY}", f"out {OTHER}", 0, 5, note=f"and {KEY}")
    output = secrets.output_now(ToolOutput(f"out {OTHER}", details, files=facts))
    assert output.text.startswith(f"out [redacted 1]{NOTE}")
    assert output.details == CommandDetails("echo [redacted 2]", "out [redacted 1]", 0, 5, note="and [redacted 2]")
    assert output.redacted is not None and [item.number for item in output.redacted] == [1, 2]
    assert [item.kind for item in output.redacted] == ["Anthropic key", "GitHub token"]
    assert [fact.whole for fact in output.files] == [False, True]
    again = secrets.output_now(ToolOutput(f"diff {KEY}", DiffDetails("a", f"-{KEY}\n+x", 1, 1)))
    assert again.text == "diff [redacted 2]" and again.details == DiffDetails("a", "-[redacted 2]\n+x", 1, 1)
    assert secrets.output_now(again) is again, "what was looked at is not looked at again"


def test_R50_a_file_that_holds_a_marker_by_itself_is_seen_whole() -> None:
    secrets = SessionSecrets()
    fact = FileFact("/a", "h", whole=True)
    output = secrets.output_now(ToolOutput("see [redacted 3] in the manual", files=(fact,)))
    assert output.text == "see [redacted 3] in the manual" and output.files == (fact,) and output.redacted == ()
    assert secrets.text(KEY) == "[redacted 4]"


def test_R50_numbers_go_on_after_a_resume() -> None:
    first = SessionSecrets(KnownValues(["hunter22-x"]))
    one = first.output_now(ToolOutput(f"{KEY} hunter22-x"))
    two = first.output_now(ToolOutput(OTHER))
    again = SessionSecrets(KnownValues(["hunter22-x"]), [result_entry(1, one), result_entry(2, two)])
    output = again.output_now(ToolOutput(f"{KEYS['npm']} {OTHER} {KEY} hunter22-x"))
    assert output.text == "[redacted 4] [redacted 3] [redacted 1] [redacted 5]", "not explained a second time"
    stored = "".join(repr(item) for item in (*(one.redacted or ()), *(two.redacted or ())))
    assert KEY[5:20] not in stored and "hunter" not in stored


def test_R50_what_the_user_types_stays_and_what_comes_with_it_does_not() -> None:
    secrets = SessionSecrets()
    words = TextBlock(f"use {KEY}")
    given = User((words, ShellBlock(f"curl -H 'x: {OTHER}'", f"got {OTHER}"), AttachmentBlock("a", text=f"k {KEY}")))
    user = secrets.user(given)
    block, shell, attached = user.blocks
    assert block == words and isinstance(shell, ShellBlock) and isinstance(attached, AttachmentBlock)
    assert shell.command == "curl -H 'x: [redacted 1]'" and shell.output.startswith(f"got [redacted 1]{NOTE}")
    assert attached.text == "k [redacted 2]" and len(user.redacted) == 2
    assert secrets.user(User((words,))) == User((words,))


def test_R50_typed_secrets_are_named_without_being_told_and_once() -> None:
    secrets = SessionSecrets(KnownValues(["hunter22-x"]))
    text = f"my key is {KEY}, and again {KEY}, and hunter22-x"
    assert secrets.seen_in(text) == ("GitHub token (ghp_…)", "known value (hunt…)")
    secrets.accept(text)
    assert secrets.seen_in(text) == () and secrets.seen_in(OTHER) == ("Anthropic key (sk-a…)",)
    assert secrets.seen_in("the quick brown fox") == ()


async def test_T101_a_spill_is_cleaned_and_stays_private(tmp_path: Path) -> None:
    secrets, path, pem = SessionSecrets(), tmp_path / "spill", made_pem(8)
    filling = "line of words\n" * 9_000
    path.write_bytes(f"{filling}{KEY}\n{pem}\n{filling}".encode() + b"\xff\xfe \x1b[31mred\x1b[0m " + OTHER.encode())
    path.chmod(0o600)
    output = await secrets.output(ToolOutput("head and tail", spill_file=path))
    assert output.spill_file == path and [p.name for p in tmp_path.iterdir()] == ["spill"]
    assert output.spill_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == (
        f"{filling}[redacted 1]\n[redacted 2]\n{filling}".encode() + b"\xff\xfe \x1b[31mred\x1b[0m [redacted 3]"
    )
    assert len(output.redacted or ()) == 3


@pytest.mark.parametrize("size", [100, 5_000, 60_000])
async def test_T101_where_the_middle_of_a_spill_is_missing_no_half_of_a_secret_stays(tmp_path: Path, size: int) -> None:
    path = tmp_path / "spill"
    spill = SpillFile(str(path), 20_000)
    first = b"a b " * 2_480 + OTHER.encode()
    whole = first + b"x" * 30_000 + OTHER.encode() + b" c d" * 2_470
    for start in range(0, len(whole), size):
        spill.write(whole[start : start + size])
    missing = spill.finish()
    kept = path.read_bytes()
    assert OTHER.encode()[:12] not in kept and OTHER.encode()[-20:] not in kept
    gap = b"\n[... %d bytes are missing here ...]\n" % missing
    assert gap in kept and kept.endswith(b" c d") and len(whole) - missing + len(gap) == len(kept)
    output = await SessionSecrets().output(ToolOutput("x", spill_file=path, spill_missing_bytes=missing))
    assert output.spill_file == path and path.read_bytes() == kept
    assert output.spill_sha256 == hashlib.sha256(kept).hexdigest()


async def test_T101_words_beside_what_is_missing_are_looked_at_as_two_texts(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    spill = SpillFile(str(path), 20_000)
    spill.write(b"ab " * 3_200 + f"token = {OTHER} password:\n".encode() + b"x y " * 9_000 + f"{KEY} ".encode())
    missing = spill.finish()
    output = await SessionSecrets().output(ToolOutput("x", spill_file=path, spill_missing_bytes=missing))
    kept = path.read_bytes()
    assert output.redacted is not None and [item.kind for item in output.redacted] == ["Anthropic key", "GitHub token"]
    assert b"token = [redacted 1] password:\n" in kept and kept.endswith(b"x y [redacted 2] ")


def test_what_goes_over_into_the_last_half_is_not_lost(tmp_path: Path) -> None:
    for size in (7, 4_000, 30_000):
        path = tmp_path / f"spill-{size}"
        spill = SpillFile(str(path), 20_000)
        whole = b"".join(b"%d " % number for number in range(4_000))[:19_000]
        for start in range(0, len(whole), size):
            spill.write(whole[start : start + size])
        assert spill.finish() == 0 and path.read_bytes() == whole


def test_pieces_of_a_whole_spill_are_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    path.write_bytes(bytes(range(256)) * 1_000)
    with path.open("rb") as source:
        assert b"".join(pieces(source, 0)) == bytes(range(256)) * 1_000


@pytest.mark.parametrize("place", [65_536 - len(KEY) - 1, 65_536 - 9, 65_536, 3 * 65_536 + 4_000, 4 * 65_536 - 20])
@pytest.mark.parametrize("filler", [b"y\n", b"x"])
async def test_T101_a_key_between_pieces_that_are_all_alike_is_found(tmp_path: Path, place: int, filler: bytes) -> None:
    path = tmp_path / "spill"
    before, behind = filler * (place // len(filler)), filler * 200_000
    path.write_bytes(b"%s %s %s" % (before, KEY.encode(), behind))
    output = await SessionSecrets().output(ToolOutput("x", spill_file=path))
    assert path.read_bytes() == b"%s [redacted 1] %s" % (before, behind) and len(output.redacted or ()) == 1


def test_a_copy_that_fails_leaves_the_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    path.write_bytes(b"abc secret def")
    with pytest.raises(InterruptedError), CleanCopy(path) as copy:
        copy.write(b"abc ", is_changed=False)
        copy.write(b"[redacted 1]", is_changed=True)
        raise InterruptedError
    assert path.read_bytes() == b"abc secret def" and list(tmp_path.iterdir()) == [path]


async def test_a_spill_without_secrets_stays_the_file_it_is(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    path.write_bytes(b"line of words\n" * 20_000)
    before = path.stat()
    output = await SessionSecrets().output(ToolOutput("x", spill_file=path))
    assert output.spill_file == path and (path.stat().st_ino, path.stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )


async def test_a_spill_that_cannot_be_cleaned_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    path.write_text(KEY)
    (tmp_path / "spill.clean").mkdir()
    output = await SessionSecrets().output(ToolOutput("x", spill_file=path))
    assert output.spill_file is None and not path.exists()


def test_at_once_what_only_a_file_holds_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    path.write_text(KEY)
    output = SessionSecrets().output_now(ToolOutput(f"x {KEY}", spill_file=path))
    assert output.spill_file is None and not path.exists() and output.text.startswith("x [redacted 1]")


@pytest.mark.parametrize("before", range(0, 90, 3))
def test_T101_no_half_of_a_key_stays_where_an_output_is_cut(before: int) -> None:
    filling = "ab cd " * 3_000
    text = f"{filling}{'x' * (before % 7)} {OTHER} {filling}"
    halves = (OTHER[len(OTHER) // 2 :], OTHER[12 : len(OTHER) // 2])
    capped = cap_text(text, 2 * len(filling) - 2 * before)
    shown = SessionSecrets().text(capped.text("[…]"))
    assert not any(half in shown for half in halves)
    data = text.encode()
    middle = len(filling) + before
    command = SessionSecrets().text(show_output(data[:middle], data[middle + 20 :], len(data)).text)
    assert not any(half in command for half in halves)


def test_the_newest_part_of_a_text_begins_with_a_whole_word() -> None:
    text = f"one two {OTHER} three four " + "x y " * 60
    for most in range(200, len(text)):
        kept = newest(text, most)
        assert len(kept) <= most and text.endswith(kept) and (OTHER[-20:] not in kept or OTHER in kept)
    assert newest("abc", 3) == "abc" and newest("abcdef", 4) == "cdef"


def test_events_are_told_without_secrets_and_live_output_as_one_text() -> None:
    told: list[Event] = []
    emit = RedactedEvents(SessionSecrets(KnownValues(["hunter22-x"])), told.append)
    for event in (
        ToolStarted("1", "bash", f"curl {KEY}"), ToolProgress("1", f"a {KEY[:9]}"), ToolProgress("1", KEY[9:]),
        ToolProgress("1", " b\n"), ToolFinished("1", "bash", 3, False, TextDetails("x"), "clean already", 1),
        Notice("error", f"it said hunter22-x and {OTHER}", "do"), RetryScheduled(f"refused {KEY}", 1.0, 1, 2),
        TurnEnded("provider_error", f"401: {KEY}"), CompactionFinished(None, 1, 1, f"hook: {KEY}"),
        TextStreamed(f"the model says {KEY}"), TurnEnded("done"),
    ):  # fmt: skip
        emit(event)
    assert told == [
        ToolStarted("1", "bash", "curl [redacted 1]"), ToolProgress("1", "a "), ToolProgress("1", "[redacted 1] b\n"),
        ToolFinished("1", "bash", 3, False, TextDetails("x"), "clean already", 1),
        Notice("error", "it said [redacted 2] and [redacted 3]", "do"), RetryScheduled("refused [redacted 1]", 1.0, 1, 2),
        TurnEnded("provider_error", "401: [redacted 1]"), CompactionFinished(None, 1, 1, "hook: [redacted 1]"),
        TextStreamed(f"the model says {KEY}"), TurnEnded("done"),
    ]  # fmt: skip


def test_R50_a_marker_is_written_only_where_it_stands_already() -> None:
    assert "[redacted 2]" in marker_fault("KEY=secret\n", "KEY=[redacted 2]\n", "a")
    assert marker_fault("see [redacted 1]\nold", "see [redacted 1]\nnew", "a") == ""
    assert marker_fault("see [redacted 1]", "see [redacted 1] [redacted 1]", "a") != ""
    assert marker_fault("", "a [redacted] b [redacted x] [redacted 1234567]", "a") == ""
    assert "[redacted 1]" in marker_hint("KEY=[redacted 1]") and marker_hint("KEY=x") == ""


def test_a_redaction_in_an_entry_tells_nothing_but_its_number_and_kind() -> None:
    assert Redaction(1, "GitHub token") == Redaction(1, "GitHub token", "")


def test_R50_titles_of_sessions_hold_no_secret_and_no_half_of_one() -> None:
    said = Entry(1, None, 0, User((TextBlock(f"{'x' * 60} {OTHER}\nmore"),)))
    assert title_of([said]) == f"{'x' * 60} [redacted]"
    assert title_of([Entry(1, None, 0, User((TextBlock("plain words"),)))]) == "plain words"

"""The loss report: exact things of the removed part that stand nowhere any more."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.losses import MOST_LOSSES, Loss, losses
from agent.tools.details import CommandDetails
from agent.transcript import Assistant, Compaction, Entry, FileFact, Payload, Result, ShellBlock, User
from providers.types import TextBlock, ToolCall, Usage


def branch(*payloads: Payload) -> list[Entry]:
    return [Entry(key, key - 1 or None, 0, payload) for key, payload in enumerate(payloads, 1)]


def user(text: str) -> User:
    return User((TextBlock(text),))


def reply(text: str, *calls: ToolCall) -> Assistant:
    return Assistant((TextBlock(text), *calls), "p", "m", "anthropic", "m", None, Usage(), "end_turn")


def result(text: str, **fields: Any) -> Result:
    return Result("c", fields.pop("tool", "bash"), (TextBlock(text),), **fields)


def command(line: str, exit_code: int, output: str) -> Result:
    return result(output, details=CommandDetails(line, output, exit_code, 1))


def report(entries: Sequence[Entry], kept: str = "") -> tuple[Loss, ...]:
    return losses(entries, {entry.key for entry in entries}, kept)


def texts(found: Sequence[Loss], kind: str) -> list[str]:
    return [loss.text for loss in found if loss.kind == kind]


KINDS: dict[str, tuple[Payload, str, str]] = {
    "path in a reply": (reply("It lies in `src/deep/x.py`."), "path", "src/deep/x.py"),
    "path of a call": (reply("", ToolCall("c", "read", '{"path": "lib/y.rs"}')), "path", "lib/y.rs"),
    "path of a result": (result("ok", files=(FileFact("/w/z.go", "0" * 64),)), "path", "/w/z.go"),
    "file name": (user("please look at README.md first"), "path", "README.md"),
    "command": (command("make -j8 check", 0, "fine"), "command", "make -j8 check"),
    "the user's command": (User((ShellBlock("git log -3", "x"),)), "command", "git log -3"),
    "number": (reply("It takes 48,117 of them."), "number", "48,117"),
    "decimal": (user("the limit is 0.75 of it"), "number", "0.75"),
    "version": (reply("Use 3.11.2 there."), "number", "3.11.2"),
    "date": (reply("Since 2026-11-30 it fails."), "number", "2026-11-30"),
    "number in output": (command("wc", 0, "took 4711 units"), "number", "4711"),
    "snake case": (reply("It is parse_header that fails."), "name", "parse_header"),
    "camel case": (reply("It is parseHeader that fails."), "name", "parseHeader"),
    "dotted": (reply("It is app.core.Thing that fails."), "name", "app.core.Thing"),
    "in backticks": (reply("Set `retry` there."), "name", "retry"),
    "error": (command("make", 2, "a.c:3: error: no such file"), "error", "a.c:3: error: no such file"),
    "exception": (result("E   ValueError: bad\nrest", is_error=True), "error", "E   ValueError: bad"),
    "demand": (user("Never change the public names."), "demand", "Never change the public names."),
    "demand in German": (user("Bitte niemals die Tests löschen."), "demand", "Bitte niemals die Tests löschen."),
    "demand in Chinese": (user("不要修改公共接口的名称。"), "demand", "不要修改公共接口的名称。"),
    "any sentence of the user": (user("Blue would be nicest"), "demand", "Blue would be nicest"),
    "an earlier summary's": (Compaction("x", "The port is 5,173.", 1, "auto", 1, 1), "number", "5,173"),
}


@pytest.mark.parametrize("case", KINDS)
def test_each_kind_is_found_with_its_entry_and_is_none_where_it_still_stands(case: str) -> None:
    payload, kind, text = KINDS[case]
    entries = branch(user("hello there you"), payload)
    found = report(entries)
    assert Loss(kind, text, 2) in found  # type: ignore[arg-type]  # a kind
    assert Loss(kind, text, 2) not in report(entries, f"… {text} …")  # type: ignore[arg-type]
    assert losses(entries, set(), "") == ()


def test_a_number_or_name_within_another_is_not_the_same() -> None:
    entries = branch(reply("It has 4711 entries of parse_it."))
    assert texts(report(entries, "14711 and parse_item"), "number") == ["4711"]
    assert texts(report(entries, "14711 and parse_item"), "name") == ["parse_it"]


def test_blank_space_makes_no_difference() -> None:
    entries = branch(user("Never change\tthe   public names."))
    assert report(entries, "quoted:\nNever change the public\nnames.") == ()


def test_what_is_said_again_is_told_once_with_its_newest_entry() -> None:
    entries = branch(reply("See `a/b.py`."), reply("See `a/b.py`."), reply("Something else."))
    assert [loss for loss in report(entries) if loss.text == "a/b.py"] == [Loss("path", "a/b.py", 2)]


def test_only_what_was_removed_is_looked_at_and_synthetic_messages_are_nobodys_words() -> None:
    entries = branch(user("Never do it."), User((TextBlock("You must go on now."),), synthetic=True))
    assert losses(entries, {2}, "") == ()
    assert texts(losses(entries, {1, 2}, ""), "demand") == ["Never do it."]


def test_demands_come_first_then_errors_commands_paths_numbers_names() -> None:
    entries = branch(
        reply("name_of_it 48,117 in lib/y.rs"),
        command("make check", 1, "fatal: it broke"),
        user("You must keep it."),
    )
    kinds = [loss.kind for loss in report(entries)]
    assert kinds == ["demand", "error", "command", "path", "number", "name"]


def test_it_is_bounded_and_no_kind_crowds_out_the_others() -> None:
    many = "\n".join(f"You must keep thing number {n}." for n in range(500))
    entries = branch(user(many), command("make check", 1, "fatal: it broke"), reply("name_of_it in lib/y.rs"))
    found = report(entries)
    assert len(found) == MOST_LOSSES
    assert {loss.kind for loss in found} >= {"demand", "error", "command", "path", "name"}
    assert len(report(branch(user(many)))) == MOST_LOSSES


def test_a_long_sentence_is_told_by_its_beginning() -> None:
    (loss,) = (one for one in report(branch(user("never " * 500))) if one.kind == "demand")
    assert len(loss.text) <= 300


@given(st.lists(st.text(max_size=200), max_size=6), st.text(max_size=300))
def test_any_text_gives_exact_substrings_that_are_not_kept(parts: list[str], kept: str) -> None:
    entries = branch(*(user(part) for part in parts), *(reply(part) for part in parts))
    said = " ".join(parts)
    for loss in report(entries, kept):
        assert loss.text in said
        if loss.kind not in ("number", "name"):
            assert " ".join(loss.text.split()) not in " ".join(kept.split())
    assert report(entries, "\n".join(parts)) == ()

"""The subcommands that only look, as text and as JSON, over a session that a real conversation left behind."""

import hashlib
import sqlite3

import pytest

from providers.types import Usage
from tests.agent.test_session_compaction import SUMMARY
from tests.fakes.claw_process import run
from tests.fakes.session_kit import Desk, Talk, make_project
from tui.subcommands.reports import ago

RULES = "Use tabs. [/x]\n"


async def talked(desk: Desk) -> Talk:
    """A call, a compaction, and a reply whose usage was reported."""
    make_project(desk.project, {"AGENTS.md": RULES, "a.txt": "one\n"})
    desk.wire.reply("I look.", tools=[("read", {"path": "a.txt"})])
    for number in range(6):
        desk.wire.reply(f"answer {number} " + "word " * 300)
    async with desk.open() as talk:
        for number in range(6):
            await talk.session.prompt(f"question {number}\x1b[31m " + "word " * 300)
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
        desk.wire.reply("Last.", usage=Usage(3_000, output_tokens=7))
        await talk.session.prompt("the end")
    return talk


async def test_a_session_is_listed_and_shown_entry_by_entry(desk: Desk) -> None:
    talk = await talked(desk)
    (info,) = (await run(desk, "sessions", "list", "--json")).json
    assert (info["id"], info["project"]) == (talk.session.id, str(desk.project.resolve()))
    assert info["entries"] == len(desk.entries()) and info["title"].startswith("question 0")
    listed = await run(desk, "sessions", "list")
    assert (listed.code, listed.err) == (0, "") and "\x1b" not in listed.out and "now" in listed.out
    shown = await run(desk, "sessions", "show", talk.session.id)
    for text in ("] user\nquestion 0", "I look.\n→ read", "answer 5", "] compaction\n", "] assistant\nLast."):
        assert text in shown.out, text
    raw = await run(desk, "sessions", "show", talk.session.id, "--json")
    assert raw.out.count("\n") == len(desk.entries())
    assert '"type":"compaction"' in raw.out and "\x1b" not in raw.out


async def test_context_says_what_the_next_request_will_send_part_by_part(desk: Desk) -> None:
    talk = await talked(desk)
    result = (await run(desk, "context", "--json")).json
    parts = result.pop("parts")
    gauge = talk.session.gauge()
    assert result == {
        "session_id": talk.session.id,
        "model": desk.model,
        "used_tokens": 3_007,
        "is_estimate": False,
        "effective_window_tokens": gauge.effective_window_tokens,
        "context_window_tokens": 200_000,
        "trigger_tokens": gauge.trigger_tokens,
    }
    assert sum(part["tokens"] for part in parts) == 3_007
    assert {part["kind"] for part in parts} >= {"system", "tools", "instructions", "summary", "user", "assistant"}
    keys = {entry.key for entry in desk.entries()}
    assert {key for part in parts for key in part["entries"]} <= keys
    text = await run(desk, "context", talk.session.id)
    head, *rows = text.out.splitlines()
    assert head.startswith(f"{desk.model}: 3,007 of ") and f"compaction begins at {gauge.trigger_tokens:,}" in head
    groups = {row[31:]: row for row in rows if row[31] != " "}
    assert {"system", "tools", "instructions", "summary", "user", "assistant", "reminders"} <= groups.keys()
    assert sum(int(row[:9].replace(",", "")) for row in groups.values()) == 3_007
    assert "now" in groups["user"] and "now" not in groups["tools"]
    assert any(row[31:] == "  read" for row in rows) and any(row.endswith("/AGENTS.md") for row in rows)


async def test_M5_context_takes_the_stored_counts_and_names_results_by_file(desk: Desk) -> None:
    """A stored count that is far off shows that nothing was counted anew."""
    make_project(desk.project, {"a.txt": "one\n"})
    desk.wire.reply("I look.", tools=[("read", {"path": "./a.txt"})], usage=Usage())
    desk.wire.reply("Done.", usage=Usage())
    async with desk.open() as talk:
        await talk.session.prompt("read it")
    before = {(p["kind"], p["name"]): p for p in (await run(desk, "context", "--json")).json["parts"]}
    (key,) = before["tool_results", "read a.txt"]["entries"]
    with sqlite3.connect(talk.path) as connection:
        changed = connection.execute("UPDATE count SET tokens = 5000 WHERE key = ?", (key,)).rowcount
    connection.close()
    assert changed == 1
    after = {(p["kind"], p["name"]): p for p in (await run(desk, "context", "--json")).json["parts"]}
    assert after["tool_results", "read a.txt"]["tokens"] > 5_000 > before["tool_results", "read a.txt"]["tokens"]
    assert after["user", ""] == before["user", ""]


async def test_instructions_are_told_with_size_hash_and_why(desk: Desk) -> None:
    nothing = await run(desk, "instructions")
    assert (nothing.code, nothing.out) == (0, "No instruction files apply here.\n")
    make_project(desk.project, {"AGENTS.md": RULES, "CLAUDE.md": RULES})
    (desk.home / "config" / "AGENTS.md").write_text("Mine.\n")
    result = (await run(desk, "instructions", "--json")).json
    by_name = {file["path"].removeprefix(f"{desk.project.resolve()}/"): file for file in result["files"]}
    file = by_name["AGENTS.md"]
    assert file["sha256"] == hashlib.sha256(RULES.encode()).hexdigest()
    assert file["loaded"] and file["active"] and file["layer"] == "project" and 0 < file["tokens"] < 20
    assert file.keys() == {
        "path", "layer", "reason", "tokens", "sha256", "loaded", "skipped_because", "cut_chars", "duplicates",
        "condition", "active", "includes",
    }  # fmt: skip
    assert sum(file["layer"] == "user" for file in result["files"]) == 1
    assert sum(file["loaded"] for file in result["files"]) == 2, "the same text twice is loaded once"
    text = await run(desk, "instructions")
    assert text.out.count("\n") >= 3 and "skipped: " in text.out and "loaded" in text.out


async def test_without_a_session_and_with_a_damaged_one_it_is_said(desk: Desk) -> None:
    none = await run(desk, "context")
    assert none.code == 2 and "no session" in none.err and "claw sessions list" in none.err
    assert (await run(desk, "sessions", "list")).out == "There are no sessions yet.\n"
    assert (await run(desk, "sessions", "list", "--json")).json == []
    desk.wire.reply("Yes.")
    async with desk.open() as talk:
        await talk.session.prompt("first")
    with sqlite3.connect(talk.path) as connection:
        connection.execute("UPDATE entry SET payload = 'x' WHERE kind = 'assistant'")
    connection.close()
    shown = await run(desk, "sessions", "show", talk.session.id)
    assert shown.code == 0 and "first" in shown.out and "1 entries" not in shown.err
    assert "1 entry of the session could not be read and is left out" in shown.err
    (desk.folder / "broken.db").write_bytes(b"no database")
    listed = await run(desk, "sessions", "list")
    assert listed.code == 0 and talk.session.id in listed.out and "broken.db" in listed.err


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "now"), (59, "now"), (60, "1 min ago"), (7_200, "2 h ago"), (86_400, "1 d ago"), (14 * 86_400, "1970-01-01")],
)
def test_how_long_ago_is_told_in_few_characters(seconds: int, said: str) -> None:
    now_ms = 20 * 86_400_000
    then = ago(now_ms - seconds * 1000, now_ms)
    assert then == said or (said == "1970-01-01" and then.startswith("1970-01-"))

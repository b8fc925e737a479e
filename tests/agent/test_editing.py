"""The window edited through an open session, on both wires: what the server then gets, and that all of it can be undone."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.context.compaction_values import Span
from agent.context.pieces import Action, Edit, Piece, Refused
from agent.editing import WindowEditor
from agent.events import CompactionFinished, GaugeChanged
from agent.permissions.workspace import Workspace
from agent.snapshots import workspace_reader
from agent.tools.base import ToolError
from agent.transcript import Compaction, Drop, Pin, User
from providers.types import Usage
from tests.agent.test_session_compaction import SUMMARY, said, small, words
from tests.fakes.session_kit import Desk, Talk, is_prefix, make_project
from tests.fakes.wires import Flat

LONG = "\n".join(f"line {number} of the long file" for number in range(600))


def editor(talk: Talk) -> WindowEditor:
    return talk.session.editor


def piece(talk: Talk, kind: str, text: str = "") -> Piece:
    """The only piece of a kind that holds a text."""
    found = [p for p in editor(talk).pieces() if p.kind == kind and text in editor(talk).show(p)]
    assert len(found) == 1, found
    return found[0]


def planned(edit: Edit | Refused) -> Edit:
    assert isinstance(edit, Edit), edit
    return edit


def do(talk: Talk, action: Action, *pieces: Piece) -> Edit:
    edit = planned(editor(talk).plan(action, [key for p in pieces for key in p.keys]))
    assert editor(talk).apply(edit)
    return edit


def refusal(edit: Edit | Refused) -> str:
    assert isinstance(edit, Refused), edit
    return edit.reason


def messages(flat: Flat) -> Flat:
    return [(role, block) for role, block in flat if role not in ("tool", "system")]


async def read_two_files(desk: Desk, talk: Talk) -> None:
    """Two steps of a turn with a read each, one of them long; then a turn without calls."""
    make_project(desk.project, {"a.txt": LONG, "b.txt": "short b\n"})
    desk.wire.reply("I look.", tools=[("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})])
    desk.wire.reply("I have read both.")
    desk.wire.reply("Nothing else.")
    assert (await talk.session.prompt("Read a.txt and b.txt.")).reason == "done"
    assert (await talk.session.prompt("Anything else?")).reason == "done"


async def next_request(desk: Desk, talk: Talk, text: str = "go on") -> Flat:
    desk.wire.reply("Yes.")
    assert (await talk.session.prompt(text)).reason == "done"
    return messages(desk.last_flat())


@pytest.mark.parametrize("action", ["drop", "shorten"])
async def test_after_an_edit_the_request_is_valid_and_undone_the_old_bytes_come_back(
    desk: Desk, action: Action
) -> None:
    async with desk.open() as talk:
        await read_two_files(desk, talk)
        before = await next_request(desk, talk)
        listed = [(p.kind, p.keys, p.state) for p in editor(talk).pieces()]
        result = piece(talk, "tool_results", "line 599")
        edit = do(talk, action, result)
        assert edit.freed_tokens > result.tokens * 3 // 5
        edited = await next_request(desk, talk)
        texts = said(desk, desk.bodies()[-1])
        assert "line 300 of" not in texts and ("line 599" in texts) == (action == "shorten")
        assert "short b" in texts and len([b for role, b in edited if role == "result"]) == (
            1 if action == "drop" else 2
        )
        assert editor(talk).newest() == ("drop" if action == "drop" else "shortening")
        assert "is undone" in editor(talk).undo()
        after = await next_request(desk, talk)
        assert is_prefix(before, after)
        assert [(p.kind, p.keys, p.state) for p in editor(talk).pieces()][: len(listed)] == listed
        assert editor(talk).newest() == ""
        assert editor(talk).undo() == "There is no edit of the window to undo."


async def test_a_restore_brings_the_same_bytes_back_and_can_be_undone_itself(desk: Desk) -> None:
    async with desk.open() as talk:
        await read_two_files(desk, talk)
        before = await next_request(desk, talk)
        first, second = piece(talk, "tool_results", "line 599"), piece(talk, "tool_results", "short b")
        do(talk, "drop", first, second)
        assert "short b" not in str(await next_request(desk, talk))
        edit = do(talk, "restore", piece(talk, "tool_results", "short b"))
        assert edit.freed_tokens < 0 and edit.keys == second.keys
        restored = str(await next_request(desk, talk))
        assert "short b" in restored and "line 599" not in restored
        assert "restoring is undone" in editor(talk).undo()
        assert "short b" not in str(await next_request(desk, talk))
        assert "drop is undone" in editor(talk).undo()
        assert is_prefix(before, await next_request(desk, talk))


async def test_a_reply_and_a_user_message_can_be_dropped_and_what_the_request_must_keep_cannot(desk: Desk) -> None:
    async with desk.open() as talk:
        await read_two_files(desk, talk)
        assert "has to begin" in refusal(editor(talk).plan("drop", piece(talk, "user", "Read a.txt").keys))
        reply = piece(talk, "assistant", "I look.")
        edit = do(talk, "drop", reply)
        assert len(edit.keys) == 3, "with both results"
        do(talk, "drop", piece(talk, "user", "Anything else?"))
        flat = await next_request(desk, talk)
        assert [role for role, _ in flat] == ["user", "user", "assistant", "assistant", "user"]
        assert "Anything else?" not in str(flat)


@pytest.mark.parametrize("gone", [("line 599",), ("short b",), ("line 599", "short b")])
async def test_a_reply_that_thought_stays_valid_whatever_of_its_results_is_dropped(
    desk: Desk, gone: tuple[str, ...]
) -> None:
    make_project(desk.project, {"a.txt": LONG, "b.txt": "short b\n"})
    async with desk.open(effort="high") as talk:
        desk.wire.reply(thinking="hm", tools=[("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})])
        desk.wire.reply("Done.", thinking="so")
        await talk.session.prompt("Read both.")
        for text in gone:
            do(talk, "drop", piece(talk, "tool_results", text))
        flat = str(await next_request(desk, talk))
        assert all(text not in flat for text in gone) and "Done." in flat
        do(talk, "drop", piece(talk, "assistant", "Done."))
        do(talk, "restore", *[p for p in editor(talk).pieces() if p.state == "dropped"])
        flat = str(await next_request(desk, talk))
        assert all(text in flat for text in (*gone, "Done."))


async def test_the_list_and_the_gauge_agree_and_the_edit_says_what_it_frees_and_loses(desk: Desk) -> None:
    async with desk.open() as talk:
        await read_two_files(desk, talk)
        pieces = editor(talk).pieces()
        assert sum(p.tokens for p in pieces) == talk.session.gauge().used_tokens
        result = piece(talk, "tool_results", "line 599")
        assert (result.name, result.detail, result.origin) == ("read a.txt", "a.txt", "read a.txt")
        edit = planned(editor(talk).plan("drop", result.keys))
        used = talk.session.gauge().used_tokens
        lost = sum(p.tokens for p in pieces[pieces.index(result) + 1 :])
        # The call went too, in the message before; the newest reply was in no request yet.
        assert lost < edit.cache_lost_tokens < lost + result.tokens + 100
        assert edit.cost_usd == pytest.approx(edit.cache_lost_tokens * (3.75 - 0.3) / 1e6)
        shown = len(talk.of(GaugeChanged))
        said = editor(talk).apply(edit)
        after = talk.of(GaugeChanged)[shown].used_tokens
        # What was measured and what is estimated now are not compared.
        assert said == (
            f"Dropped 2 entries, which frees about {edit.freed_tokens:,} tokens; until the next reply the gauge is an "
            f"estimate (≈{after:,})."
        )
        assert abs((used - after) - edit.freed_tokens) <= max(20, used // 50)
        again = planned(editor(talk).plan("restore", result.keys))
        assert (again.cache_lost_tokens, again.cost_usd) == (0, 0.0), "it was lost already"
        assert "line 599" in editor(talk).show(next(p for p in editor(talk).pieces() if p.state == "dropped"))


async def test_what_a_summary_has_replaced_since_it_was_dropped_does_not_come_back_unseen(one_desk: Desk) -> None:
    desk = one_desk
    desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else words("answer-", 60))
    async with desk.open() as talk:
        for turn in range(8):
            await talk.session.prompt(words(f"question{turn}-", 60))
        users = [entry.key for entry in desk.entries() if isinstance(entry.payload, User)]
        editor(talk).apply(planned(editor(talk).plan("drop", [users[2]])))
        assert (await talk.session.compact()).key is not None
        assert "question2-0" not in str(talk.session.editor.pieces())
        told = editor(talk).undo()
        assert "The drop is undone" in told and "/undo compact" in told
        assert (await talk.session.compact()).key is None, "there is nothing new to compact"
        await talk.session.undo_compaction()
        await talk.session.prompt("and now?")
        assert words("question2-", 60) in desk.wire.texts(desk.bodies()[-1])
        editor(talk).apply(planned(editor(talk).plan("drop", [users[3]])))
        assert "/undo compact" not in editor(talk).undo()


async def test_nothing_is_edited_while_a_turn_runs_or_when_the_session_moved_on(one_desk: Desk) -> None:
    desk = one_desk
    async with desk.open() as talk:
        assert "has not begun" in refusal(editor(talk).plan_pin_text("early"))
        assert "no message to pin" in refusal(editor(talk).plan("pin"))
        assert {p.kind for p in editor(talk).pieces()} == {"system", "tools"}
        await read_two_files(desk, talk)
        edit = planned(editor(talk).plan("drop", piece(talk, "tool_results", "line 599").keys))
        entries = len(desk.entries())
        desk.wire.silence()
        requests = len(desk.bodies())
        talk.session.steer("and this")
        turn = asyncio.create_task(talk.session.prompt("stall"))
        await talk.requested(requests + 1)
        with pytest.raises(RuntimeError, match="A turn is running"):
            editor(talk).apply(edit)
        with pytest.raises(RuntimeError, match="A turn is running"):
            editor(talk).undo()
        assert "A turn is running" in refusal(editor(talk).plan("pin"))
        talk.session.interrupt()
        await turn
        with pytest.raises(RuntimeError, match="has moved on"):
            editor(talk).apply(edit)
        assert not desk.payloads(Drop) and len(desk.entries()) > entries


# --------------------------------------------------------------------------- pins

RULES = "one\nnever rename `parse`\nthree\n"
SNAPSHOT = '<pinned path="rules.txt" lines="2-2">\nnever rename `parse`\n</pinned>'


def answered(desk: Desk) -> None:
    """Every further request for a summary gets one, every other request a reply of 300 words."""
    desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else words("answer-", 300))


async def compact(desk: Desk, talk: Talk, way: str, start: int) -> None:
    done = len(talk.of(CompactionFinished))
    for turn in range(4 if way == "manual" else 0):
        await talk.session.prompt(words(f"before{turn}-", 60))
    if way in ("manual", "range"):
        await talk.session.compact("", Span(first_replaced=start) if way == "range" else None)
    if way == "overflow":
        desk.wire.overflow()
    for turn in range(20):
        if len(talk.of(CompactionFinished)) > done:
            break
        assert (await talk.session.prompt(words(f"more{turn}-", 60))).reason == "done"
    assert talk.of(CompactionFinished)[-1].key is not None, talk.of(CompactionFinished)[-1].message


@pytest.mark.parametrize("way", ["manual", "auto", "overflow", "range"])
async def test_B2_pins_are_the_same_bytes_through_every_way_of_compacting(desk: Desk, way: str) -> None:
    """Then through a second compaction, a resume and a fork, and through both of these compacted again."""
    desk = small(desk, CLAW_AUTOCOMPACT_PCT="40" if way == "auto" else "95")
    make_project(desk.project, {"rules.txt": RULES})
    async with desk.open() as talk:
        desk.wire.reply("I look.", tools=[("read", {"path": "rules.txt"})])
        desk.wire.reply("Read.")
        await talk.session.prompt("Look at rules.txt first; mark ZQ-17.")
        answered(desk)
        start = piece(talk, "user", "ZQ-17").keys[0]
        wishes: tuple[Callable[[], Edit | Refused], ...] = (
            lambda: editor(talk).plan("pin", piece(talk, "tool_results", "three").keys),
            lambda: editor(talk).plan("pin"),
            lambda: editor(talk).plan_pin_file(Path("rules.txt"), 2, 2),
            lambda: editor(talk).plan_pin_text("Always answer in Latin."),
        )
        for wish in wishes:
            editor(talk).apply(planned(wish()))
        await talk.session.prompt("with the snapshots")
        await compact(desk, talk, way, start)
        (first,) = [c.pinned for c in desk.payloads(Compaction)]
        await talk.session.prompt("and now?")
        if way != "range":
            await compact(desk, talk, "manual", 0)
    texts = [item.text for item in first]
    assert len(texts) == 4 and "three" in texts[0] and "ZQ-17" in texts[1] and texts[2] == SNAPSHOT
    assert "Always answer in Latin." in texts[3]
    _same(desk, texts)
    async with desk.open(talk.path) as later:
        await later.session.prompt("resumed")
        _same(desk, texts)
        await compact(desk, later, "manual", 0)
        await later.session.prompt("resumed again")
        _same(desk, texts)
    async with desk.open(talk.path, fork=True) as forked:
        await forked.session.prompt("forked")
        _same(desk, texts)
        await compact(desk, forked, "manual", 0)
        assert [item.text for item in desk.payloads(Compaction, forked.session.id)[-1].pinned] == texts


def _same(desk: Desk, texts: list[str]) -> None:
    """In the newest request each pinned text stands once as a block of its own, and in their order."""
    found = [text for text in desk.wire.texts(desk.bodies()[-1]) if text in texts]
    assert found == texts


async def test_pins_alone_that_would_not_fit_are_refused_with_the_figures(one_desk: Desk) -> None:
    desk = small(one_desk, CLAW_AUTOCOMPACT_PCT="95")
    async with desk.open(config=("context.pin_tokens=300",)) as talk:
        answered(desk)
        await talk.session.prompt(words("question-", 60))
        reason = refusal(editor(talk).plan_pin_text(words("rule", 200)))
        assert "`[context] pin_tokens`" in reason and "may have 300" in reason and "Pin a smaller part." in reason
        editor(talk).apply(planned(editor(talk).plan_pin_text(words("rule", 90))))
        assert "Unpin something first" in refusal(editor(talk).plan_pin_text(words("other", 90)))
    async with desk.open() as talk:
        await talk.session.prompt("hi")
        room = talk.session.gauge().trigger_tokens - sum(p.tokens for p in editor(talk).pieces() if not p.keys)
        assert "half of the room" in refusal(editor(talk).plan_pin_text(words("rule", room // 2)))


async def test_a_pin_says_when_it_acts_and_what_is_pinned_twice_or_nothing_is_refused(one_desk: Desk) -> None:
    desk = one_desk
    make_project(desk.project, {"a.txt": "one\ntwo\n", "empty.txt": "", "b.bin": "\0\1"})
    async with desk.open() as talk:
        desk.wire.reply("Hi.")
        await talk.session.prompt("hello")
        edit = planned(editor(talk).plan("pin"))
        assert (edit.freed_tokens, edit.cache_lost_tokens) == (0, 0) and "next compaction" in edit.note
        assert "next compaction" in editor(talk).apply(edit)
        snapshot = planned(editor(talk).plan_pin_file(Path("a.txt")))
        assert snapshot.freed_tokens < 0 and "next message" in snapshot.note
        assert snapshot.payloads == (Pin(path="a.txt", text="one\ntwo"),)
        editor(talk).apply(snapshot)
        assert "pinned already" in refusal(editor(talk).plan_pin_file(Path("a.txt")))
        assert "pinned already" in refusal(editor(talk).plan("pin"))
        assert refusal(editor(talk).plan_pin_text(" \n")) == "There is no text to pin."
        for first, last in ((5, 6), (2, 1), (0, -1)):
            assert "2 lines" in refusal(editor(talk).plan_pin_file(Path("a.txt"), first, last))
        assert planned(editor(talk).plan_pin_file(Path("a.txt"), 2, 99)).payloads == (
            Pin(path="a.txt", text="two", lines=(2, 2)),
        )
        for name, said_of_it in (
            ("empty.txt", "no text"), ("b.bin", "binary"), ("gone.txt", "does not exist"), ("../x", "outside"), (".", "folder"),
        ):  # fmt: skip
            assert said_of_it in refusal(editor(talk).plan_pin_file(Path(name))), name
        waiting = [p for p in editor(talk).pieces() if p.kind == "pins"]
        assert [(p.tokens, p.actions) for p in waiting] == [(0, ("unpin",))] and "next message" in waiting[0].origin
        assert editor(talk).newest() == "pin" and "The pin is undone" in editor(talk).undo()
        assert not [p for p in editor(talk).pieces() if p.kind == "pins"]
        do(talk, "unpin", piece(talk, "user", "hello"))
        assert editor(talk).newest() == "unpinning"
        assert "unpinning is undone" in editor(talk).undo() and piece(talk, "user", "hello").is_pinned


def test_files_closed_by_a_rule_are_not_read_for_a_pin(tmp_path: Path) -> None:
    make_project(tmp_path, {".env": "SECRET=1\n", "crlf.txt": "a\r\nb\r\n"})
    workspace = Workspace(tmp_path, tmp_path)
    read = workspace_reader(workspace)
    assert read(Path("crlf.txt")) == "a\nb\n" and read(Path(".env")) == "SECRET=1\n"
    workspace.is_closed = lambda real: real.name == ".env"
    with pytest.raises(ToolError, match="deny closes it"):
        read(Path(".env"))


# --------------------------------------------------------------------------- across a restart


async def test_edits_hold_after_a_resume_and_can_be_undone_there(desk: Desk) -> None:
    async with desk.open() as talk:
        await read_two_files(desk, talk)
        before = await next_request(desk, talk)
        first, second = piece(talk, "tool_results", "line 599"), piece(talk, "tool_results", "short b")
        do(talk, "shorten", first)
        do(talk, "drop", second)
        do(talk, "restore", second)
        do(talk, "drop", second)
        editor(talk).undo()
    async with desk.open(talk.path) as later:
        assert editor(later).newest() == "shortening", "what was undone or taken back before is not the newest"
        flat = await next_request(desk, later)
        assert "line 300 of" not in str(flat) and "short b" in str(flat)
        editor(later).undo()
        assert is_prefix(before, await next_request(desk, later))
    kinds = [type(entry.payload).__name__ for entry in desk.entries()]
    assert kinds.count("Undo") == 3, "and nothing was rewritten"


async def test_the_first_entry_of_a_resumed_session_may_be_an_edit(desk: Desk) -> None:
    async with desk.open() as talk:
        await read_two_files(desk, talk)
    async with desk.open(talk.path) as later:
        do(later, "drop", piece(later, "tool_results", "line 599"))
        assert "line 599" not in str(await next_request(desk, later))
    kinds = [type(entry.payload).__name__ for entry in desk.entries()]
    assert kinds[kinds.index("Drop") - 1] == "Setting", "what is in force now stands before it"


async def test_M5_the_whole_text_of_what_was_spilled_shortened_or_thought_can_be_shown(desk: Desk) -> None:
    lines = "\n".join(f"number {n} of many" for n in range(8_000))
    make_project(desk.project, {"big.txt": lines})
    async with desk.open() as talk:
        desk.wire.reply("I look.", tools=[("bash", {"command": "cat big.txt"})])
        desk.wire.reply("Done.")
        await talk.session.prompt("Read it.")
        result = piece(talk, "tool_results")
        assert lines in editor(talk).show(result), "the spill has what the result had to leave out"
        do(talk, "shorten", result)
        short = piece(talk, "tool_results")
        assert short.state == "shortened" and short.tokens < 500, short
        assert lines in editor(talk).show(short)
        assert '"command"' in editor(talk).show(piece(talk, "tools", '"command"'))


async def test_the_chart_has_the_reports_and_the_edits_of_the_session(desk: Desk) -> None:
    async with desk.open() as talk:
        make_project(desk.project, {"a.txt": LONG})
        desk.wire.reply("I look.", tools=[("read", {"path": "a.txt"})], usage=Usage(2_000, output_tokens=100))
        desk.wire.reply("Read.", usage=Usage(9_000, output_tokens=10))
        await talk.session.prompt("Read a.txt.")
        assert [(p.used_tokens, p.event) for p in editor(talk).chart()] == [(2_100, "step"), (9_010, "step")]
        do(talk, "drop", piece(talk, "tool_results"))
        editor(talk).undo()
        dropped, undone = editor(talk).chart()[2:]
        assert (dropped.event, undone.event) == ("edit", "undo") and dropped.used_tokens < 5_000
        assert undone.used_tokens == 9_010

"""The list of a window's parts, and as a property: it sums to the gauge, and what it offers works."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.edits import Edits, drop, pin
from agent.context.listing import list_pieces
from agent.context.meter import Meter
from agent.context.pieces import Refused
from agent.context.tokens import Counter
from agent.transcript import Compaction, InstructionFile, Pin, PinnedText, Prefix, Reminder, Transcript, User
from agent.window import Window
from providers.types import PromptSection, ThinkingBlock
from tests.agent.context.talk import TOOLS, Talk
from tests.agent.context.test_edits import ACTIONS, LONG, check_pairs, do, edits, pieces
from tests.agent.strategies import transcripts
from tests.examples import examples


def test_the_list_says_of_each_part_what_it_is_where_it_came_from_and_what_can_be_done() -> None:
    talk = Talk()
    talk.now_ms = 77
    sections = (PromptSection("identity", "You are\nclaw.", True), PromptSection("instructions", "rules " * 9, False))
    talk.append(Prefix(sections, TOOLS, (InstructionFile("/p/AGENTS.md", "", 9, "project"),)))
    old = talk.user("old " * 5)
    compaction = talk.append(Compaction("history", "Goal: fix", old + 1, "auto", 9, 5, pinned=(PinnedText(0, ""),))).key
    pasted = talk.user(LONG)
    reminder = talk.append(Reminder("date", "Monday")).key
    thought = talk.reply("I look", ("a",), extra=(ThinkingBlock("hm", "sig"),))
    result = talk.result("a", LONG)
    waiting = talk.append(Pin(path="src/a.py", text="x", lines=(3, 4))).key
    listed = list_pieces(talk.branch, talk.window, talk.meter)
    assert [(p.kind, p.name, p.detail, p.origin) for p in listed[:3]] == [
        ("system", "identity", "You are claw.", "system prompt"),
        ("instructions", "/p/AGENTS.md", "/p/AGENTS.md", "instruction file (project)"),
        ("tools", "read", "Reads a file.", "tool"),
    ]
    found = {(p.keys[0], p.kind): (p.origin, p.actions) for p in listed if p.keys}
    assert found == {
        (compaction, "summary"): ("summary of 1 entries", ()),
        (pasted, "user"): ("typed by you", ("pin", "drop", "shorten")),
        (reminder, "reminders"): ("told by claw: date", ("pin", "drop")),
        (thought, "assistant"): ("reply of m", ("pin",)),
        (thought, "thinking"): ("thought by m", ("pin",)),
        (result, "tool_results"): ("read", ("pin",)),
        (waiting, "pins"): ("pinned from src/a.py", ("unpin",)),
    }
    assert all(p.time_ms == 77 for p in listed if p.keys) and listed[-1].detail == "src/a.py:3-4"
    assert len(pieces(talk)[pasted].detail) == 160
    talk.reply("done")
    assert pieces(talk)[result].actions == ("pin", "drop", "shorten")


def test_what_is_dropped_stands_in_its_place_and_what_a_compaction_replaced_is_not_listed() -> None:
    talk = Talk()
    gone = talk.user("gone")
    first = talk.user("first")
    reply, result = talk.step("a", LONG)
    last = talk.reply("done")
    for key in (gone, reply):
        do(talk, drop(edits(talk), [key]))
    listed = [p for p in list_pieces(talk.branch, talk.window, talk.meter) if p.keys]
    assert [p.keys[0] for p in listed] == [gone, first, reply, result, last]
    assert [p.state for p in listed] == ["dropped", "whole", "dropped", "dropped", "whole"]
    assert all((p.tokens, p.actions) == (0, ("restore",)) for p in listed if p.state == "dropped")
    talk.append(Compaction("history", "s", first, "auto", 9, 5))
    assert gone not in pieces(talk) and reply in pieces(talk)


def test_a_pinned_piece_can_be_unpinned_alone_and_so_can_a_pin_that_a_summary_carries() -> None:
    talk = Talk()
    key = talk.user(LONG)
    talk.reply("done")
    do(talk, pin(edits(talk), [key]))
    assert (pieces(talk)[key].is_pinned, pieces(talk)[key].actions) == (True, ("unpin",))
    mark = talk.branch[-1].key
    talk.append(Compaction("history", "s", mark + 1, "auto", 9, 5, pinned=(PinnedText(mark, "the text"),)))
    carried = pieces(talk)[mark]
    assert (carried.kind, carried.origin, carried.actions) == ("pins", f"pinned entry {key}", ("unpin",))


@settings(max_examples=examples(15), deadline=None)
@given(transcripts(), st.data())
def test_offered_actions_work_and_any_edit_leaves_calls_and_results_paired(
    transcript: Transcript, data: st.DataObject
) -> None:
    for _ in range(3):
        window = Window(transcript.branch)
        meter = Meter(Counter())
        meter.rebuild(transcript.branch, window)
        listed = list_pieces(transcript.branch, window, meter)
        assert sum(piece.tokens for piece in listed) == (meter.used().tokens if listed else 0)
        assert [piece for piece in listed if piece.tokens < 0] == []
        with_actions = [piece for piece in listed if piece.actions]
        if not with_actions:
            return
        piece = data.draw(st.sampled_from(with_actions))
        action = data.draw(st.sampled_from(piece.actions))
        change = ACTIONS[action](Edits(transcript.branch, window), list(piece.keys))
        if isinstance(change, Refused):
            assert action == "drop" and "has to begin" in change.reason, change.reason
            return
        for payload in change.payloads:
            transcript.append(payload, 0)
        after = Window(transcript.branch)
        check_pairs(after)
        if action in ("drop", "restore"):
            standing = {key for keys in after.keys for key in keys}
            assert (piece.keys[0] in standing) == (action == "restore") or not _shows(transcript, piece.keys[0])


def _shows(transcript: Transcript, key: int) -> bool:
    """Whether an entry alone makes a message, or belongs to a call that is there."""
    payload = transcript[key].payload
    return isinstance(payload, User) and bool(Window([transcript[key]]).messages)

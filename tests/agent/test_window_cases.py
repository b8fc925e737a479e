import pytest

from agent.transcript import (
    AttachmentBlock,
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Payload,
    Pin,
    PinnedText,
    Prefix,
    Reminder,
    Rewind,
    Setting,
    ShellBlock,
    Transcript,
    Undo,
    User,
)
from agent.window import MISSING_RESULT, Window, window
from agent.window_blocks import sendable_blocks
from providers.types import (
    AssistantBlock,
    AssistantMessage,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
)
from tests.agent.test_window import SETTING, assistant, result, user

COMPARED = (
    "messages", "keys", "generation", "stable", "sent", "open_calls", "pins", "summaries", "thinned", "prefix", "provider",
    "model", "family", "api", "effort", "mode",
)  # fmt: skip
CALL, OTHER = ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")
UNFINISHED = ToolCall("c", "read", "{", finished=False)
TEXT, MORE = TextBlock("text"), TextBlock("more")
REDACTED = OpaqueBlock("anthropic", "m", {"type": "redacted_thinking"})
REASONING = OpaqueBlock("responses", "m", {"type": "reasoning"})
SERVER_TOOL = OpaqueBlock("anthropic", "m", {"type": "server_tool_use"})
SIGNED = ThinkingBlock("thought", "signature")


def live(*payloads: Payload) -> Window:
    """The window, folded entry by entry, which is the one that is built from nothing."""
    transcript, folded = Transcript(), Window()
    for payload in payloads:
        entry = transcript.append(payload, 0)
        assert folded.apply(transcript.branch, entry) == (folded.generation == entry.key)
    rebuilt = window(transcript.branch)
    for name in COMPARED:
        assert getattr(folded, name) == getattr(rebuilt, name), name
    return rebuilt


def texts(shown: Window) -> list[list[str]]:
    return [[block.text for block in m.blocks if isinstance(block, TextBlock)] for m in shown.messages]


def compaction(first_kept: int, first_replaced: int = 0) -> Compaction:
    return Compaction("summary", "s", first_kept, "auto", 9, 3, first_replaced=first_replaced)


# ------------------------------------------------------------------ blocks


@pytest.mark.parametrize("reasoning", [REDACTED, REASONING, SIGNED])
def test_reasoning_is_left_out_where_nothing_follows_it(reasoning: AssistantBlock) -> None:
    assert sendable_blocks((TEXT, reasoning), True) == (TEXT,)
    assert sendable_blocks((reasoning, reasoning), True) == ()
    assert sendable_blocks((TEXT, reasoning, UNFINISHED, MORE), True) == (TEXT, MORE)
    assert sendable_blocks((reasoning, TextBlock(" "), TEXT), True) == (reasoning, TEXT)
    assert sendable_blocks((reasoning, TEXT), False) == (TEXT,)


def test_other_opaque_blocks_may_stand_last_and_unsigned_thinking_nowhere() -> None:
    assert sendable_blocks((TEXT, SERVER_TOOL), True) == (TEXT, SERVER_TOOL)
    assert sendable_blocks((ThinkingBlock("thought"), TEXT), True) == (TEXT,)


def test_commands_attachments_and_pinned_ranges_say_what_they_are() -> None:
    shown = live(
        SETTING,
        User(
            (ShellBlock("ls", "a.py"), AttachmentBlock('a"b.py', "x = 1"), AttachmentBlock("b.png", sha256="0"), TEXT)
        ),
        Pin(path="a.py", text="x = 1", lines=(3, 4)),
        Pin(path="b.py", text="y = 2"),
    )
    assert texts(shown) == [
        [
            "I ran this command:\n$ ls\na.py",
            "<attachment path='a\"b.py'>\nx = 1\n</attachment>",
            '<attachment path="b.png">\n\n</attachment>',
            "text",
            '<pinned path="a.py" lines="3-4">\nx = 1\n</pinned>',
            '<pinned path="b.py">\ny = 2\n</pinned>',
        ]
    ]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (ClearedItem(2, "[gone]"), [["[gone]"], ["text", "more"], ["A"]]),
        (ClearedItem(2, "[gone]", 1), [["go", "[gone]"], ["text", "more"], ["A"]]),
        (ClearedItem(3, "[gone]", 1), [["go", "on"], ["text", "[gone]"], ["A"]]),
        (ClearedItem(3, "[gone]", 2), [["go", "on"], ["text", "more"], ["A"]]),
    ],
)
def test_a_message_or_one_of_its_texts_is_cleared_but_never_a_call(
    item: ClearedItem, expected: list[list[str]]
) -> None:
    said = User((TextBlock("go"), TextBlock("on")))
    shown = live(SETTING, said, assistant(TEXT, MORE, CALL), result("a", "A"), Clearing((item,), "clear"))
    assert texts(shown) == expected
    assert shown.messages[1].blocks[-1] == CALL


# ------------------------------------------------------------------ settings and generation


def test_each_setting_stands_until_it_is_given_anew_and_what_is_told_breaks_nothing() -> None:
    shown = live(
        Setting("p", "m", "f", "responses", "high", "ask"),
        Setting(title="t"),
        user("go"),
        Setting(mode="auto"),
        Reminder("date", "Monday"),
        Pin((3,)),
    )
    state = (shown.provider, shown.model, shown.family, shown.api, shown.effort, shown.mode)
    assert state == ("p", "m", "f", "responses", "high", "auto")
    assert shown.generation == 1


@pytest.mark.parametrize(
    "changed",
    [Setting(provider="q"), Setting(model="n"), Setting(family="n"), Setting(api="chat"), Setting(effort="low")],
)
def test_a_change_of_what_answers_breaks_the_prefix(changed: Setting) -> None:
    assert live(SETTING, user("go"), changed, Setting(mode="ask")).generation == 3


@pytest.mark.parametrize(
    "edit", [Prefix((), ()), compaction(3), Drop((2,)), Clearing((), "clear"), Undo((2,)), Rewind()]
)
def test_edits_break_the_prefix(edit: Payload) -> None:
    assert live(SETTING, user("go"), edit).generation == 3


def test_what_a_compaction_replaces_does_not_bring_back_an_older_model() -> None:
    older, newer = Setting(model="n", family="n"), Setting(model="m", family="m")
    shown = live(SETTING, user("one"), older, assistant(TEXT), newer, user("two"), compaction(5))
    assert (shown.model, shown.family) == ("m", "m")


# ------------------------------------------------------------------ calls and results


def test_a_reply_too_answers_the_calls_before_it_and_a_copy_is_sealed_alone() -> None:
    shown = live(SETTING, user("go"), assistant(CALL, OTHER), result("b", "B"), assistant(TEXT))
    assert texts(shown) == [["go"], [], [MISSING_RESULT], ["B"], ["text"]]
    shown = live(SETTING, user("go"), assistant(CALL, OTHER), result("b", "B"))
    assert (shown.open_calls, len(shown.sealed()), len(shown.messages)) == (("a",), 4, 3)
    sealed = live(SETTING, user("go")).sealed()
    sealed.clear()
    assert live(SETTING, user("go")).sealed()


def test_a_step_whose_end_is_replaced_is_answered_once_more() -> None:
    shown = live(
        SETTING, user("go"), assistant(CALL, OTHER), result("a", "A"), result("b", "B"), compaction(6, first_replaced=5)
    )
    assert texts(shown) == [["go"], [], ["A"], [MISSING_RESULT], ["summary"]]
    assert shown.keys == [(2,), (3,), (4,), (), (6,)]
    assert texts(live(SETTING, user("go"), compaction(3, first_replaced=2), user("on"))) == [["summary"], ["on"]]


# ------------------------------------------------------------------ what rides on messages


def test_what_is_told_while_a_call_runs_joins_its_result() -> None:
    shown = live(SETTING, user("go"), assistant(CALL), Reminder("date", "Monday"), result("a", "A"))
    assert shown.keys == [(2,), (3,), (5, 4)]
    shown = live(SETTING, Reminder("date", "Monday"), user("go"), Pin(text="keep"))
    assert shown.keys == [(3, 2, 4)]
    assert texts(shown) == [["go", '<reminder kind="date">\nMonday\n</reminder>', "<pinned>\nkeep\n</pinned>"]]


def test_a_failed_result_stays_one_when_something_joins_it() -> None:
    failed = live(SETTING, user("go"), assistant(CALL, OTHER), user("on"), Reminder("date", "Monday")).messages
    assert [getattr(message, "is_error", None) for message in failed] == [None, None, True, True, None]


@pytest.mark.parametrize("edit", [Setting(mode="ask"), Drop((5,))])
def test_a_reminder_waits_across_a_message_that_does_not_stand(edit: Payload) -> None:
    said = user(" ") if isinstance(edit, Setting) else user("dropped")
    shown = live(
        SETTING, user("go"), assistant(TEXT), Reminder("date", "Monday"), said, edit, user("on"), compaction(7)
    )
    assert shown.keys == [(8,), (7, 4)]


def test_what_still_waited_is_replaced_with_the_rest_from_its_own_place_on() -> None:
    waiting = (SETTING, user("go"), assistant(TEXT), Reminder("date", "Monday"))
    assert live(*waiting, compaction(5, first_replaced=4), user("on")).keys == [(2,), (3,), (5,), (6,)]
    assert live(*waiting, assistant(MORE), compaction(6, first_replaced=5), user("on")).keys[-2:] == [(6,), (7, 4)]


def test_a_compaction_of_the_rest_leaves_the_one_that_stands_first() -> None:
    shown = live(SETTING, user("one"), user("two"), compaction(3), user("three"), compaction(6, first_replaced=3))
    assert shown.keys == [(4,), (6,)]
    assert shown.summaries == {4, 6}
    assert live(SETTING, user("one"), compaction(3, first_replaced=2)).summaries == {3}


def test_only_what_is_pinned_and_not_dropped_stands_behind_a_summary() -> None:
    pinned = Compaction("all", "s", 4, "auto", 9, 3, pinned=(PinnedText(3, "pinned"),))
    told = (Reminder("file", "a.py", of=4), Reminder("file", "b.py", of=4))
    assert live(SETTING, user("one"), Pin((2,)), pinned, *told).keys == [(4, 3, 5, 6)]
    shown = live(SETTING, user("one"), Pin((2,)), pinned, *told, Drop((5,)))
    assert shown.keys == [(4, 3, 6)]


def test_what_is_dropped_takes_along_what_belongs_to_it_alone() -> None:
    payloads = (SETTING, user("go"), assistant(CALL, OTHER), result("a", "A"), result("b", "B"))
    shown = live(*payloads, Drop((4,)))
    assert shown.messages[1:] == [AssistantMessage((OTHER,)), ToolResultMessage("b", (TextBlock("B"),))]
    assert set(shown.thinned) == {3}
    assert live(*payloads, Drop((2,))).keys == [(3,), (4,), (5,)]
    assert live(*payloads, assistant(TEXT), Drop((3,))).keys == [(2,), (6,)]

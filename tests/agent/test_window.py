import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.transcript import (
    Assistant,
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Entry,
    Payload,
    Pin,
    PinnedText,
    Prefix,
    Reminder,
    Result,
    Rewind,
    Setting,
    Transcript,
    Undo,
    User,
)
from agent.window import MISSING_RESULT, Window, window
from providers.types import (
    AssistantMessage,
    Message,
    OpaqueBlock,
    PromptSection,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from tests.agent.context.test_compaction_property import unanswered
from tests.agent.strategies import transcripts, trees


def user(text: str) -> User:
    return User((TextBlock(text),))


def assistant(
    *blocks: TextBlock | ToolCall | ThinkingBlock | OpaqueBlock, family: str = "m", interrupted: bool = False
) -> Assistant:
    return Assistant(blocks, "p", family, "responses", family, None, Usage(1), "end_turn", interrupted=interrupted)


def result(call_id: str, text: str) -> Result:
    return Result(call_id, "read", (TextBlock(text),))


SETTING = Setting(provider="p", model="m", family="m", api="responses")


def folded(*payloads: Payload) -> tuple[Transcript, Window]:
    transcript, live = Transcript(), Window()
    for payload in payloads:
        live.apply(transcript.branch, transcript.append(payload, 0))
    return transcript, live


def flat(messages: list[Message]) -> list[tuple[str, bytes]]:
    out: list[tuple[str, bytes]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if isinstance(message, ToolResultMessage):
            out.append((role, msgspec.json.encode(message.call_id)))
        out.extend((role, msgspec.json.encode(block)) for block in message.blocks)
    return out


@given(trees())
def test_fold_equals_rebuild_also_where_the_user_went_back(entries: list[Entry]) -> None:
    live, transcript = Window(), Transcript()
    for entry in entries:
        transcript.add(entry)
        live.apply(transcript.branch, entry)
        assert not unanswered(live.sealed())
    rebuilt = window(transcript.branch)
    for name in (
        "pins",
        "prefix",
        "messages",
        "keys",
        "generation",
        "stable",
        "sent",
        "compaction",
        "provider",
        "mode",
        "open_calls",
        "model",
        "family",
        "api",
        "effort",
    ):
        assert getattr(live, name) == getattr(rebuilt, name), name


@given(transcripts())
def test_calls_and_results_never_part(transcript: Transcript) -> None:
    messages = window(transcript.branch).sealed()
    open_ids: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert open_ids and message.call_id == open_ids.pop(0)
            continue
        assert not open_ids
        assert message.blocks
        if isinstance(message, AssistantMessage):
            open_ids = [block.id for block in message.blocks if isinstance(block, ToolCall)]
    assert not open_ids


@given(transcripts())
def test_the_old_request_is_a_prefix_unless_the_generation_changed(transcript: Transcript) -> None:
    live = Window()
    seen = []
    sent: list[tuple[str, bytes]] = []
    generation = 0
    for entry in transcript.branch:
        if isinstance(entry.payload, Assistant) and not live.open_calls:
            # A request was built from the window as it stood, then the reply came.
            sent, generation = flat(live.messages), live.generation
        seen.append(entry)
        live.apply(seen, entry)
        if live.generation == generation:
            assert flat(live.sealed())[: len(sent)] == sent
        else:
            sent = []


def test_going_back_behind_the_prefix_leaves_none() -> None:
    transcript, live = folded(SETTING, Prefix((PromptSection("s", "text", True),), ()), user("go"))
    entry = transcript.append(Rewind(), 0, parent=1)
    live.apply(transcript.branch, entry)
    assert live.prefix == window(transcript.branch).prefix == Prefix((), ())


def test_an_undo_of_an_undo_gives_back_what_a_range_compaction_a_pin_and_a_drop_did_and_a_rewind_takes_all_back() -> (
    None
):
    transcript, live = folded(
        SETTING,
        user("one"),
        assistant(ToolCall("a", "read", "{}")),
        result("a", "A"),
        assistant(TextBlock("first")),
        user("two"),
        assistant(TextBlock("second")),
    )

    def add(payload: Payload, parent: int | None = None) -> list[str]:
        entry = transcript.append(payload, 0, parent)
        live.apply(transcript.branch, entry)
        rebuilt = window(transcript.branch)
        assert (live.messages, live.keys, live.pins) == (rebuilt.messages, rebuilt.keys, rebuilt.pins)
        assert not unanswered(live.sealed())
        return [b.text for m in live.messages for b in m.blocks if isinstance(b, TextBlock)]

    whole = add(Pin((2,)))
    middle = add(Compaction("rest", "r", 9, "manual", 10, 5, first_replaced=6))
    assert middle == ["one", "A", "first", "rest"]
    dropped = add(Drop((4,)))
    assert dropped == ["one", "first", "rest"]
    compacted = add(Compaction("all", "s", 6, "auto", 10, 5, pinned=(PinnedText(8, "pinned one"),)))
    assert compacted == ["all", "pinned one", "rest"]
    assert add(Undo((8,))) == ["all", "rest"]
    assert add(Undo((12,))) == compacted
    assert add(Undo((11,))) == dropped
    assert add(Undo((10,))) == middle
    assert add(Undo((15,))) == dropped
    assert add(Undo((9, 14))) == ["all", "pinned one", "two", "second"]
    assert add(Rewind(), parent=12) == ["all", "rest"]
    assert add(Rewind(), parent=8) == whole
    assert add(Rewind(), parent=17) == ["all", "pinned one", "two", "second"]


@given(transcripts(), st.data())
def test_rewind_gives_the_window_of_its_target(transcript: Transcript, data: st.DataObject) -> None:
    if not len(transcript):
        return
    target = data.draw(st.sampled_from([entry.key for entry in transcript.branch]))
    before = window([entry for entry in transcript.branch if entry.key <= target])
    transcript.append(Rewind(), 0, parent=target)
    assert window(transcript.branch).messages == before.messages


def test_a_missing_result_is_filled_in_call_order() -> None:
    calls = (ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}"), ToolCall("c", "read", "{}"))
    _, live = folded(SETTING, user("go"), assistant(*calls), result("b", "B"), user("go on"))
    answers = [m for m in live.messages if isinstance(m, ToolResultMessage)]
    assert [(m.call_id, m.is_error) for m in answers] == [("a", True), ("b", False), ("c", True)]
    assert answers[0].blocks == (TextBlock(MISSING_RESULT),)


def test_results_in_the_wrong_order_and_orphans_are_put_right_T93() -> None:
    calls = (ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}"))
    _, live = folded(
        SETTING,
        user("go"),
        result("x", "orphan"),
        assistant(*calls),
        result("b", "B"),
        result("a", "A"),
        result("a", "twice"),
    )
    assert [m.call_id for m in live.messages if isinstance(m, ToolResultMessage)] == ["a", "b"]
    assert "orphan" not in str(live.messages) and "twice" not in str(live.messages)


def test_a_reminder_joins_the_newest_unsent_message_and_otherwise_waits() -> None:
    _, live = folded(
        SETTING, user("one"), Reminder("date", "Monday"), assistant(TextBlock("hi")), Reminder("branch", "main")
    )
    assert live.messages[0] == UserMessage((TextBlock("one"), TextBlock('<reminder kind="date">\nMonday\n</reminder>')))
    assert "main" not in str(live.messages)
    _, live = folded(SETTING, user("one"), assistant(TextBlock("hi")), Reminder("branch", "main"), user("two"))
    assert live.messages[-1].blocks[-1] == TextBlock('<reminder kind="branch">\nmain\n</reminder>')


def test_an_empty_interrupted_reply_marks_what_was_sent() -> None:
    _, live = folded(SETTING, user("one"), assistant(interrupted=True), Reminder("date", "Monday"), user("two"))
    assert live.messages[0] == UserMessage((TextBlock("one"),))
    assert len(live.messages) == 2


def test_reasoning_goes_back_only_to_its_own_family_and_never_alone() -> None:
    reasoning = OpaqueBlock("responses", "m", {"type": "reasoning", "id": "r"})
    reply = assistant(ThinkingBlock("summary"), reasoning, TextBlock("hi"))
    _, live = folded(SETTING, user("one"), reply)
    assert live.messages[1] == AssistantMessage((reasoning, TextBlock("hi")))
    _, live = folded(SETTING, user("one"), reply, Setting(model="n", family="n"))
    assert live.messages[1] == AssistantMessage((TextBlock("hi"),))
    _, live = folded(
        SETTING, user("one"), assistant(TextBlock("hi"), reasoning, ToolCall("a", "read", "{", finished=False))
    )
    assert live.messages[1] == AssistantMessage((TextBlock("hi"),))


def test_compaction_replaces_the_middle_and_its_undo_brings_it_back() -> None:
    transcript, live = folded(
        SETTING, user("one"), assistant(TextBlock("two")), user("three"), assistant(TextBlock("four"))
    )
    before = list(live.messages)
    compaction = transcript.append(Compaction("HISTORY", "h", 4, "manual", 10, 5), 0)
    live.apply(transcript.branch, compaction)
    assert live.messages == [UserMessage((TextBlock("HISTORY"),)), *before[2:]]
    live.apply(transcript.branch, transcript.append(Reminder("file", "a.py", of=compaction.key), 0))
    assert len(live.messages[0].blocks) == 2
    undo = transcript.append(Undo((compaction.key,)), 0)
    live.apply(transcript.branch, undo)
    assert live.messages == before
    live.apply(transcript.branch, transcript.append(Undo((undo.key,)), 0))
    assert live.messages[0].blocks[0] == TextBlock("HISTORY")


def test_clearing_keeps_the_pair_and_changes_the_text() -> None:
    transcript, live = folded(
        SETTING, user("go"), assistant(ToolCall("a", "read", "{}")), result("a", "long"), assistant(TextBlock("ok"))
    )
    live.apply(transcript.branch, transcript.append(Clearing((ClearedItem(4, "[gone]"),), "clear"), 0))
    assert live.messages[2] == ToolResultMessage("a", (TextBlock("[gone]"),))
    assert live.generation == 6


def test_a_setting_of_the_mode_does_not_break_the_prefix() -> None:
    _, live = folded(
        SETTING, user("one"), assistant(TextBlock("x")), Setting(mode="auto", title="t"), Setting(model="m")
    )
    assert live.generation == 1
    assert live.mode == "auto"


def test_the_newest_prefix_counts() -> None:
    first, second = Prefix((), (), version="1"), Prefix((), (), version="2")
    _, live = folded(first, user("one"), second)
    assert live.prefix == second


def test_a_reminder_that_waited_across_the_cut_stays_with_its_message() -> None:
    _, live = folded(
        SETTING,
        user("old"),
        assistant(TextBlock("yes")),
        Reminder("date", "It is Monday."),
        assistant(TextBlock("half"), interrupted=True),
        user("new"),
    )
    kept = live.messages[-1]
    _, live = folded(
        SETTING,
        user("old"),
        assistant(TextBlock("yes")),
        Reminder("date", "It is Monday."),
        assistant(TextBlock("half"), interrupted=True),
        user("new"),
        Compaction("summary", "summary", 6, "auto", 10, 5),
    )
    assert live.messages == [UserMessage((TextBlock("summary"),)), kept]
    assert any("It is Monday." in str(block) for block in kept.blocks)


def test_what_was_sent_last_is_known_from_the_entries_alone() -> None:
    start: tuple[Payload, ...] = (SETTING, user("one"))
    call = assistant(ToolCall("c1", "read", "{}"))
    sent = [
        folded(*start)[1].sent,
        folded(*start, call)[1].sent,
        folded(*start, call, result("c1", "r"))[1].sent,
        folded(*start, call, result("c1", "r"), assistant(TextBlock("two")), user("three"))[1].sent,
        folded(*start, assistant(interrupted=True))[1].sent,
        folded(*start, call, result("c1", "r"), Setting(model="other", family="other"))[1].sent,
    ]
    assert sent == [0, 1, 1, 3, 1, 0]


def test_a_dropped_result_takes_its_call_along_and_a_dropped_reply_its_results() -> None:
    calls = assistant(
        TextBlock("look"),
        ToolCall("a", "read", "{}"),
        OpaqueBlock("responses", "m", {"type": "reasoning"}),
        ToolCall("b", "read", "{}"),
    )
    payloads = (SETTING, user("go"), calls, result("a", "one"), result("b", "two"), assistant(TextBlock("done")))
    transcript, live = folded(*payloads, Drop((5,)))
    assert [m.blocks for m in live.messages] == [
        (TextBlock("go"),),
        (TextBlock("look"), ToolCall("a", "read", "{}")),
        (TextBlock("one"),),
        (TextBlock("done"),),
    ]
    live.apply(transcript.branch, transcript.append(Drop((3,)), 0))
    assert [m.blocks for m in live.messages] == [(TextBlock("go"),), (TextBlock("done"),)]
    live.apply(transcript.branch, transcript.append(Undo((7, 8)), 0))
    assert flat(live.messages) == flat(folded(*payloads)[1].messages)


def test_what_is_pinned_stands_behind_the_summary_in_order_until_it_is_undone() -> None:
    first, second = PinnedText(3, "pinned one"), PinnedText(4, "pinned two")
    compaction = Compaction("old work", "s", 6, "manual", 9, 3, pinned=(first, second))
    transcript, live = folded(
        SETTING,
        user("the words"),
        Pin((2,)),
        Pin(path="a.py", text="x = 1", lines=(3, 3)),
        assistant(TextBlock("ok")),
        user("on"),
        compaction,
    )
    assert [m.blocks for m in live.messages] == [
        (TextBlock("old work"), TextBlock("pinned one"), TextBlock("pinned two")),
        (TextBlock("on"),),
    ]
    assert live.keys == [(7, 3, 4), (6,)]
    live.apply(transcript.branch, transcript.append(Undo((3,)), 0))
    assert live.messages[0].blocks == (TextBlock("old work"), TextBlock("pinned two"))


def test_the_text_of_a_pin_goes_with_the_next_message_once() -> None:
    _, live = folded(
        SETTING, user("go"), assistant(TextBlock("ok")), Pin(text="keep this"), user("on"), assistant(), user("x")
    )
    assert [m.blocks for m in live.messages] == [
        (TextBlock("go"),),
        (TextBlock("ok"),),
        (TextBlock("on"), TextBlock("<pinned>\nkeep this\n</pinned>")),
        (TextBlock("x"),),
    ]


def test_a_compaction_from_a_message_on_leaves_what_stands_before_it() -> None:
    payloads = (
        SETTING,
        user("first"),
        assistant(TextBlock("ok")),
        user("then"),
        assistant(ToolCall("a", "read", "{}")),
        result("a", "r"),
    )
    rest = Compaction("the rest", "r", 7, "manual", 9, 3, first_replaced=4)
    transcript, live = folded(*payloads, rest, user("on"), assistant(TextBlock("yes")))
    texts = [m.blocks for m in live.messages]
    assert texts == [
        (TextBlock("first"),),
        (TextBlock("ok"),),
        (TextBlock("the rest"),),
        (TextBlock("on"),),
        (TextBlock("yes"),),
    ]
    assert live.compaction is None
    # A later compaction of everything can keep the message of this one, or replace it.
    live.apply(transcript.branch, transcript.append(Compaction("all", "a", 7, "manual", 9, 3), 0))
    assert [m.blocks for m in live.messages] == [(TextBlock("all"),), *texts[2:]]
    live.apply(transcript.branch, transcript.append(Compaction("all", "a", 8, "manual", 9, 3), 0))
    assert [m.blocks for m in live.messages] == [(TextBlock("all"),), *texts[3:]]
    live.apply(transcript.branch, transcript.append(Undo((10, 11)), 0))
    assert [m.blocks for m in live.messages] == texts
    live.apply(transcript.branch, transcript.append(Undo((7,)), 0))
    assert flat(live.messages)[:6] == flat(folded(*payloads)[1].messages)

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.transcript import (
    Assistant,
    ClearedItem,
    Clearing,
    Compaction,
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
from agent.window import MISSING_RESULT, Window, window
from providers.types import (
    AssistantMessage,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from tests.agent.strategies import transcripts


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


@given(transcripts())
def test_fold_equals_rebuild(transcript: Transcript) -> None:
    live = Window()
    seen = []
    for entry in transcript.branch:
        seen.append(entry)
        live.apply(seen, entry)
    rebuilt = window(transcript.branch)
    for name in (
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

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.context.budget import ContextSettings
from agent.context.compaction import Compacted, NotCompacted, Span, Trigger, compact
from agent.transcript import Entry, Payload, Rewind, Transcript, Undo, User
from agent.window import Window
from providers.types import AssistantMessage, Message, TextBlock, ToolCall, ToolResultMessage
from tests.agent.context.compaction_kit import Model, commit, full
from tests.agent.context.talk import Talk, texts
from tests.agent.strategies import transcripts, trees
from tests.examples import examples

TRIGGERS: list[Trigger] = ["auto", "manual", "manual", "overflow"]


def unanswered(messages: list[Message]) -> bool:
    """Whether a call stands without its result, or a result without its call."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.call_id not in waiting:
                return True
            waiting.remove(message.call_id)
        elif waiting:
            return True
        elif isinstance(message, AssistantMessage):
            waiting = [block.id for block in message.blocks if isinstance(block, ToolCall)]
    return bool(waiting)


def shown_words(branch: list[Entry], window: Window) -> list[str]:
    """Texts of the user that stand in the window as they were written."""
    standing = {keys[0]: str(message) for keys, message in zip(window.keys, window.messages, strict=True) if keys}
    return [
        block.text
        for entry in branch
        if isinstance(entry.payload, User) and entry.key in standing
        for block in entry.payload.blocks
        if isinstance(block, TextBlock) and block.text.strip() and str(TextBlock(block.text)) in standing[entry.key]
    ]


@st.composite
def spans(draw: st.DrawFn) -> Span:
    key = draw(st.integers(1, 30))
    return draw(st.sampled_from([Span(), Span(key), Span(key), Span(0, key)]))


@settings(max_examples=examples(20), deadline=None)
@given(transcripts(), transcripts(8), st.sampled_from(TRIGGERS), spans())
def test_invariants_4_5_6_any_compaction_of_any_transcript(
    first: Transcript, later: Transcript, trigger: Trigger, span: Span
) -> None:
    talk = Talk()
    for entry in first.branch:
        talk.append(entry.payload)
    full(talk, turns=3, words=250)
    for entry in later.branch:
        if isinstance(entry.payload, User | Undo):
            talk.append(entry.payload)
    before = (talk.branch, list(talk.window.messages), talk.meter.used())
    words = shown_words(talk.branch, talk.window)
    short = ContextSettings(keep_recent_tokens=50, preserve_recent=2)
    inputs = replace(talk.inputs(trigger, window=32_768, settings=short), span=span if trigger == "manual" else Span())
    outcome = asyncio.run(compact(inputs, Model("ok")))
    again = asyncio.run(compact(inputs, Model("ok")))
    assert outcome == again
    assert (talk.branch, talk.window.messages, talk.meter.used()) == before
    if isinstance(outcome, NotCompacted):
        assert outcome.reason
        return
    assert isinstance(outcome, Compacted)
    entry = commit(talk, outcome)
    assert not unanswered(talk.window.sealed())
    assert [text for text in words if text not in texts(talk.window)] == []
    assert outcome.compaction.tokens_after == talk.meter.used().tokens < before[2].tokens
    if not outcome.compaction.first_replaced:
        assert talk.window.keys[0][0] == entry.key
    talk.append(Undo((entry.key,)))
    assert talk.window.messages == before[1]


@settings(max_examples=examples(15), deadline=None)
@given(trees(14), st.sampled_from(TRIGGERS), spans(), st.data())
def test_invariants_4_5_6_hold_where_the_user_went_back_and_an_undo_of_the_undo_and_a_rewind_behind_it(
    entries: list[Entry], trigger: Trigger, span: Span, data: st.DataObject
) -> None:
    talk = Talk()
    first = talk.transcript.head or 0

    def add(payload: Payload, parent: int | None = None) -> Entry:
        entry = talk.transcript.append(payload, 0, parent)
        broke = talk.window.apply(talk.transcript.branch, entry)
        talk.meter.apply(entry, talk.window, broke=broke)
        return entry

    def go_back() -> None:
        add(Rewind(), data.draw(st.integers(first, talk.transcript.head or first)))

    for entry in entries:
        go_back() if isinstance(entry.payload, Rewind) else add(entry.payload)
    full(talk, turns=3, words=250)
    if data.draw(st.booleans()):
        go_back()
        full(talk, turns=2, words=250)
    before = list(talk.window.messages)
    words = shown_words(talk.branch, talk.window)
    short = ContextSettings(keep_recent_tokens=50, preserve_recent=2)
    inputs = replace(talk.inputs(trigger, window=32_768, settings=short), span=span if trigger == "manual" else Span())
    outcome = asyncio.run(compact(inputs, Model("ok")))
    if isinstance(outcome, NotCompacted):
        return
    entry = commit(talk, outcome)
    after = list(talk.window.messages)
    assert not unanswered(talk.window.sealed()) and after == Window(talk.branch).messages
    assert [text for text in words if text not in texts(talk.window)] == []
    undo = add(Undo((entry.key,)))
    assert talk.window.messages == before
    add(Undo((undo.key,)))
    assert talk.window.messages == after
    add(Rewind(), entry.parent)
    assert talk.window.messages == before

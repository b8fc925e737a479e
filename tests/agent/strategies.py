"""Random but plausible transcripts, for properties of the window and what stands on it."""

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
from providers.types import OpaqueBlock, PromptSection, TextBlock, ThinkingBlock, ToolCall, Usage

TEXTS = st.sampled_from(["", " ", "fix it", "[/x] 你好", "a\nb", "long " * 40])
CALL_IDS = st.sampled_from(["a", "b", "c"])


@st.composite
def assistants(draw: st.DrawFn) -> Assistant:
    blocks = draw(
        st.lists(
            st.one_of(
                st.builds(TextBlock, TEXTS),
                st.builds(ThinkingBlock, TEXTS, st.sampled_from([None, "sig"])),
                st.builds(OpaqueBlock, st.just("responses"), st.just("m"), st.just({"type": "reasoning"})),
            ),
            max_size=3,
        )
    )
    ids = draw(st.lists(CALL_IDS, unique=True, max_size=3))
    calls = [ToolCall(i, "read", "{}", draw(st.sampled_from([True, True, False]))) for i in ids]
    family = draw(st.sampled_from(["m", "n"]))
    return Assistant(
        (*blocks, *calls),
        "p",
        family,
        "responses",
        family,
        None,
        Usage(10, 0, 0, 5),
        "end_turn",
        interrupted=draw(st.booleans()),
    )


def step(transcript: Transcript) -> st.SearchStrategy[Payload]:
    """A payload that may follow what is there."""
    keys = [entry.key for entry in transcript.branch]
    some_key = st.sampled_from(keys) if keys else st.just(1)
    edits = [e.key for e in transcript.branch if isinstance(e.payload, Compaction | Clearing | Drop | Pin | Undo)]
    pins = [e.key for e in transcript.branch if isinstance(e.payload, Pin)]
    options: list[st.SearchStrategy[Payload]] = [
        st.builds(User, st.lists(st.builds(TextBlock, TEXTS), min_size=1, max_size=2).map(tuple)),
        assistants(),
        st.builds(Result, CALL_IDS, st.just("read"), st.builds(TextBlock, TEXTS).map(lambda b: (b,)), st.booleans()),
        st.builds(Reminder, st.just("date"), TEXTS),
        st.builds(
            Setting, model=st.sampled_from(["m", "n"]), family=st.sampled_from(["m", "n"]), api=st.just("responses")
        ),
        st.builds(
            Prefix, st.builds(PromptSection, st.just("s"), TEXTS, st.booleans()).map(lambda s: (s,)), st.just(())
        ),
        some_key.map(
            lambda key: Compaction(
                "summary", "s", key, "manual", 10, 5, pinned=tuple(PinnedText(pin, f"pin {pin}") for pin in pins)
            )
        ),
        some_key.map(
            lambda key: Compaction("rest", "r", keys[-1] + 1 if keys else 1, "manual", 10, 5, first_replaced=key)
        ),
        some_key.map(lambda key: Drop((key,))),
        st.one_of(some_key.map(lambda key: Pin((key,))), st.builds(Pin, st.just(()), st.just("a.py"), TEXTS)),
        some_key.map(lambda key: Clearing((ClearedItem(key, "[cleared]"),), "clear")),
    ]
    if edits:
        options.append(st.sampled_from(edits).map(lambda key: Undo((key,))))
    return st.one_of(options)


@st.composite
def transcripts(draw: st.DrawFn, max_size: int = 18) -> Transcript:
    transcript = Transcript()
    for _ in range(draw(st.integers(0, max_size))):
        transcript.append(draw(step(transcript)), 0)
    return transcript


@st.composite
def trees(draw: st.DrawFn, max_size: int = 20) -> list[Entry]:
    """All entries of a transcript in which the user went back and forth between branches, as they came to be."""
    transcript = Transcript()
    entries: list[Entry] = []
    for _ in range(draw(st.integers(0, max_size))):
        if entries and draw(st.integers(0, 4)) == 0:
            target = draw(st.sampled_from(entries)).key
            entries.append(transcript.append(Rewind(), 0, parent=target))
        else:
            entries.append(transcript.append(draw(step(transcript)), 0))
    return entries

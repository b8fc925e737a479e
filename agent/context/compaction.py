"""One compaction in three steps on values alone: `prepare` (pure), `summarise` (all calls), `finish` (pure).

Whoever asks for it appends the result; a failure is a value and changes nothing. No call is made where it could not help:
nothing to cut, a floor (system, tools, instructions, pins) over the trigger, or messages that stay and are too large.
`finish` may be given a branch that has grown since `prepare`: what is new stays word for word, and the record is made for
the branch as it is then. Decision: a compaction "from a message on" cannot be finished once the conversation went on,
since what came later would be replaced without being summarised.
"""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.context.attachments import Attachment, reattached, standing_whole
from agent.context.budget import summary_output_cap
from agent.context.compaction_values import (
    Ask,
    CallEstimate,
    Compacted,
    CompactionInputs,
    Draft,
    NotCompacted,
    Progress,
    Span,
    Summary,
    Trigger,
)
from agent.context.cut import Cut, NoCut, cut_from, cut_up_to, find_cut, smallest_tail_tokens, with_whole_ranges
from agent.context.guard import CompactionGuard
from agent.context.hopeless import hopeless
from agent.context.pins import pinned_texts, pinned_tokens
from agent.context.record import Record, make_record
from agent.context.record_facts import Known
from agent.context.summarising import estimate, summarise
from agent.context.summary import Reply, message_text, missing_sections
from agent.transcript import Assistant, Compaction, Entry, Payload, PinnedText, Reminder, Result, User
from agent.window import Window

__all__ = [
    "Ask",
    "Attachment",
    "CallEstimate",
    "Compacted",
    "Compaction",
    "CompactionGuard",
    "CompactionInputs",
    "Draft",
    "NotCompacted",
    "Progress",
    "Reply",
    "Span",
    "Summary",
    "Trigger",
    "compact",
    "estimate",
    "finish",
    "floor_tokens",
    "prepare",
    "summarise",
]

_MOST_FACTS_TOKENS = 4_000
_LEAST_SUMMARY_TOKENS = 150
"""What an automatic summary takes at least; where there is no more to gain, or no room for it, no call is made."""
_FULL_FRACTION = 0.65
"""Up to here of the room things are attached again."""


class _Sizes(Struct, frozen=True):
    """In tokens."""

    pins: int
    room: int
    messages: list[int]
    newest: int


async def compact(inputs: CompactionInputs, ask: Ask) -> Compacted | NotCompacted:
    """All three steps. Cancellation goes through and changes nothing."""
    draft = prepare(inputs)
    if isinstance(draft, NotCompacted):
        return draft
    return finish(inputs, draft, await summarise(inputs, draft, ask))


def floor_tokens(inputs: CompactionInputs) -> int:
    """What no compaction can remove: system, tools, instructions, pins."""
    return inputs.meter.floor_tokens + pinned_tokens(inputs.branch, inputs.meter.count)


# --------------------------------------------------------------------------- before the calls


def prepare(inputs: CompactionInputs) -> Draft | NotCompacted:
    """What would be replaced, or why nothing is. Changes nothing and asks nobody."""
    limits, window = inputs.thresholds, inputs.window
    if not limits.can_compact:
        return NotCompacted("compaction is switched off (CLAW_DISABLE_COMPACT)", False)
    if not inputs.branch:
        return NotCompacted("there are no messages yet", False)
    sizes = _sizes(inputs)
    manual = inputs.trigger == "manual"
    if sizes.room <= 0 or (not manual and sizes.newest >= sizes.room):
        final = sizes.room + sizes.pins <= 0
        return hopeless(inputs, pins=sizes.pins, newest=sizes.newest, final=final)
    cut = _cut(inputs, sizes)
    if isinstance(cut, NoCut):
        # Automatically it is tried because the window is too full, and then nothing to cut is a failure.
        return NotCompacted(cut.reason, not manual)
    record = _record(inputs, cut, sizes.room)
    if (reason := _frees_nothing(inputs, cut, record, sizes)) is not None:
        return NotCompacted(reason, True)
    if not manual and _leaves_no_room(inputs, cut, record, sizes):
        # With the newest message alone behind it there may be room for a long request.
        cut = _cut(inputs, sizes, shortest=True)
        assert isinstance(cut, Cut)
        record = _record(inputs, cut, sizes.room)
        if _leaves_no_room(inputs, cut, record, sizes):
            return hopeless(inputs, pins=sizes.pins, newest=sizes.newest, request=record.request_tokens)
    cap = summary_output_cap(limits, inputs.facts.max_output_tokens, sizes.room)
    head = inputs.branch[-1].key
    return Draft(cut, sizes.room, cap, _previous(window, cut), head, window.generation)


def _sizes(inputs: CompactionInputs) -> _Sizes:
    limits, meter = inputs.thresholds, inputs.meter
    # What the provider found too long is a better limit than what was believed.
    limit = limits.trigger if inputs.trigger != "overflow" else min(limits.trigger, meter.used().tokens)
    pins = pinned_tokens(inputs.branch, meter.count)
    messages = meter.all_message_tokens()
    room = limit - meter.floor_tokens - pins
    return _Sizes(pins, room, messages, smallest_tail_tokens(inputs.window, messages))


def _cut(inputs: CompactionInputs, sizes: _Sizes, shortest: bool = False) -> Cut | NoCut:
    """Where to cut; with the `shortest` tail only the newest message with its results stays."""
    window, span, settings = inputs.window, inputs.span, inputs.settings
    if span.first_replaced and span.first_kept is not None:
        return NoCut('"from" and "up to" cannot be asked for together')
    if span.first_replaced:
        cut = cut_from(window, sizes.messages, span.first_replaced, inputs.branch[-1].key)
    elif span.first_kept is not None:
        cut = cut_up_to(window, sizes.messages, span.first_kept)
    else:
        cut = find_cut(
            window,
            sizes.messages,
            room_tokens=sizes.room,
            keep_tokens=0 if shortest or inputs.trigger == "manual" else settings.keep_recent_tokens,
            preserve_recent=1 if shortest else settings.preserve_recent,
        )
    return with_whole_ranges(cut, inputs.branch) if isinstance(cut, Cut) else cut


def _frees_nothing(inputs: CompactionInputs, cut: Cut, record: Record, sizes: _Sizes) -> str | None:
    replaced = sum(sizes.messages[cut.start if cut.first_replaced else 0 : cut.end])
    least = 0 if inputs.trigger == "manual" else _LEAST_SUMMARY_TOKENS
    if inputs.meter.count(record.text) + least < replaced:
        return None
    return "the user's own words are nearly all there is to replace, so it would free nothing"


def _leaves_no_room(inputs: CompactionInputs, cut: Cut, record: Record, sizes: _Sizes) -> bool:
    """Whether what stays for certain leaves no room for a summary."""
    return cut.kept_tokens + inputs.meter.count(record.text) + _LEAST_SUMMARY_TOKENS >= sizes.room


def _previous(window: Window, cut: Cut) -> str:
    if cut.start == 0 or cut.first_replaced or window.compaction is None:
        return ""
    payload = window.compaction.payload
    return payload.summary if isinstance(payload, Compaction) else ""


def _record(
    inputs: CompactionInputs,
    cut: Cut,
    room: int,
    *,
    summary: str = "",
    keep: Sequence[str] = (),
    pinned: Sequence[PinnedText] = (),
) -> Record:
    return make_record(
        inputs.branch,
        cut.first_kept,
        words_tokens=min(inputs.settings.user_words_tokens, room // 5),
        facts_tokens=min(_MOST_FACTS_TOKENS, room // 10),
        count=inputs.meter.count,
        first_replaced=cut.first_replaced,
        known=Known(inputs.todos, inputs.plan, inputs.jobs, [item.pin for item in pinned], keep),
        summary=summary,
    )


# --------------------------------------------------------------------------- after the calls


def finish(
    inputs: CompactionInputs, draft: Draft, summary: Summary, keep: Sequence[str] = ()
) -> Compacted | NotCompacted:
    """What is to be appended, next behind the head of `inputs.branch`; or why nothing is changed.

    `keep`: texts that the user wants to have in the record as they are.
    """
    fault = summary.fault or ("the summary is empty" if not summary.text.strip() else None)
    if fault is not None:
        return _failed(fault, summary)
    if (moved_on := _moved_on(inputs, draft)) is not None:
        return _failed(moved_on, summary, failed=False)
    room = _sizes(inputs).room
    payload, missing = _payload(inputs, draft, summary, keep, room)
    before = inputs.meter.preview(inputs.window)
    after = inputs.meter.preview(_window_with(inputs, payload))
    if after >= before:
        return _failed("the summary is not shorter than what it replaces", summary)
    floor = floor_tokens(inputs)
    # What is attached again must neither fill the window nor make the compaction a poor one.
    free = min(int(_FULL_FRACTION * room) - (after - floor), before - after - (before - floor) // 4)
    reminders = _reattached(inputs, draft, free)
    after = inputs.meter.preview(_window_with(inputs, payload, *reminders))
    return Compacted((replace(payload, tokens_after=after), *reminders), missing, floor)


def _failed(reason: str, summary: Summary, failed: bool = True) -> NotCompacted:
    return NotCompacted(
        f"{reason}; nothing was changed",
        failed,
        remedy=summary.remedy,
        usage=summary.usage,
        cost_usd=summary.cost_usd,
    )


def _moved_on(inputs: CompactionInputs, draft: Draft) -> str | None:
    """Why a summary made earlier cannot be put into this branch; None if it can."""
    branch = inputs.branch
    place = bisect_left(branch, draft.head, key=lambda entry: entry.key)
    if place == len(branch) or branch[place].key != draft.head:
        return "the messages that were summarised are not part of the conversation any more"
    if inputs.window.generation != draft.generation:
        return "the window was changed while the summary was written"
    added = branch[place + 1 :]
    none_kept = draft.first_replaced or draft.first_kept > draft.head
    if none_kept and any(isinstance(entry.payload, User | Assistant | Result | Reminder) for entry in added):
        return "the conversation went on while the summary was written"
    return None


def _payload(
    inputs: CompactionInputs, draft: Draft, summary: Summary, keep: Sequence[str], room: int
) -> tuple[Compaction, tuple[str, ...]]:
    """The compaction without what is attached again, and the sections that its summary does not have."""
    branch, cut = inputs.branch, draft.cut
    if draft.first_kept > draft.head:
        cut = replace(cut, first_kept=branch[-1].key + 1)
    pinned = pinned_texts(branch, inputs.window, cut.first_kept, first_replaced=cut.first_replaced)
    record = _record(inputs, cut, room, summary=summary.text, keep=keep, pinned=pinned)
    missing = missing_sections(summary.text)
    text = message_text(
        record.text, summary.text, record.has_request, missing, inputs.can_recall, from_middle=bool(cut.first_replaced)
    )
    payload = Compaction(
        text=text,
        summary=summary.text,
        first_kept=cut.first_kept,
        trigger=inputs.trigger,
        tokens_before=inputs.meter.used().tokens,
        tokens_after=0,
        usage=summary.usage,
        cost_usd=summary.cost_usd,
        focus=inputs.focus,
        first_replaced=cut.first_replaced,
        pinned=pinned,
    )
    return payload, missing


def _reattached(inputs: CompactionInputs, draft: Draft, most_tokens: int) -> tuple[Reminder, ...]:
    if not inputs.attachments:
        return ()
    standing = standing_whole(inputs.branch, inputs.window, draft.first_kept, draft.first_replaced)
    key = inputs.branch[-1].key + 1
    return reattached(inputs.attachments, key, most_tokens, inputs.meter.count, standing)


def _window_with(inputs: CompactionInputs, *payloads: Payload) -> Window:
    """The window as it would be with these entries behind its branch."""
    head = inputs.branch[-1]
    coming = [Entry(head.key + n, head.key + n - 1, head.time_ms, payload) for n, payload in enumerate(payloads, 1)]
    return Window([*inputs.branch, *coming])

"""What is pinned, and the text with which a pin stands behind a compaction's summary. Pure functions of a branch.

A pin's text is made once: what an earlier compaction that counts has recorded is taken over letter for letter, and what is
made anew comes from entries alone, so that every way of compacting, resuming and forking gives the same. Decisions: a pin
of several entries is rendered whole as soon as one of them no longer stands word for word (one that was shortened or
cleared does not); images and thinking cannot be carried in text, so an image is named and thinking is left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from agent.context.fence import fence
from agent.context.shorten import Count
from agent.transcript import (
    Assistant,
    Clearing,
    Compaction,
    Drop,
    Entry,
    Pin,
    PinnedText,
    Reminder,
    Result,
    User,
    of_kinds,
    undone_keys,
)
from agent.window import Window
from agent.window_blocks import render_rider, user_blocks
from providers.types import ImageBlock, TextBlock, ToolCall, UserBlock

_OVERHEAD_TOKENS = 4
"""Of one more block in a message."""
_TITLE_CHARS = 200


def live_pins(branch: Sequence[Entry]) -> tuple[Entry, ...]:
    """The pins that count, oldest first."""
    undone = undone_keys(branch)
    return tuple(entry for entry in of_kinds(branch, Pin) if entry.key not in undone)


def pinned_texts(
    branch: Sequence[Entry], window: Window, first_kept: int, *, first_replaced: int = 0
) -> tuple[PinnedText, ...]:
    """What a coming compaction has to carry: each pin, oldest first, that would not stand in the window behind it.

    `first_kept` and `first_replaced` are those of the compaction's payload; `window` is the branch's.
    """
    if not window.pins:
        return ()
    head = branch[-1]
    # The user message takes what still waits for one: that is not lost.
    compaction = Compaction("-", "", first_kept, "manual", 0, 0, first_replaced=first_replaced)
    coming = (
        Entry(head.key + 1, head.key, 0, compaction),
        Entry(head.key + 2, head.key + 1, 0, User((TextBlock("-"),))),
    )
    probe = Window([*branch, *coming])
    standing = {key for keys in probe.keys for key in keys}
    changed, dropped, recorded = _edited(branch)
    by_key = {entry.key: entry for entry in branch}
    texts = []
    for pin in live_pins(branch):
        assert isinstance(pin.payload, Pin)
        keys = [key for key in pin.payload.keys if key not in dropped]
        whole = all(key in standing and key not in changed for key in keys)
        if pin.key in standing or (pin.payload.keys and whole):
            continue
        if text := recorded.get(pin.key) or pin_text(pin, by_key):
            texts.append(PinnedText(pin.key, text))
    return tuple(texts)


def pinned_tokens(branch: Sequence[Entry], count: Count, pins: Iterable[Entry] | None = None) -> int:
    """Tokens of all pins that count (or of `pins`), as they stand behind a summary."""
    recorded = recorded_texts(branch)
    by_key = {entry.key: entry for entry in branch}
    texts = (recorded.get(pin.key) or pin_text(pin, by_key) for pin in (live_pins(branch) if pins is None else pins))
    return sum(count(text) + _OVERHEAD_TOKENS for text in texts if text)


def pinned_keys(branch: Sequence[Entry]) -> frozenset[int]:
    """Keys of the entries that pins which count name."""
    return frozenset(key for pin in live_pins(branch) if isinstance(pin.payload, Pin) for key in pin.payload.keys)


def pins_refusal(pinned_tokens: int, new_tokens: int, room_tokens: int, budget_tokens: int | None) -> str | None:
    """Why a pin of `new_tokens` cannot be added to those there are; None if it fits.

    `room_tokens`: what lies between what always stays and the trigger; `budget_tokens`: the user's own limit.
    """
    half = max(0, room_tokens // 2)
    most = half if budget_tokens is None else min(half, max(0, budget_tokens))
    together = pinned_tokens + new_tokens
    if together <= most:
        return None
    whose = "`[context] pin_tokens`" if most < half else "half of the room that is left for a conversation"
    others = f", {pinned_tokens:,} of them for what is pinned already" if pinned_tokens else ""
    remedy = "Unpin something first, or pin a smaller part." if pinned_tokens else "Pin a smaller part."
    return f"This needs {together:,} tokens in pins{others}, and they may have {most:,} ({whose}). {remedy}"


def recorded_texts(branch: Sequence[Entry]) -> dict[int, str]:
    """Key of each pin that a compaction which counts carries → its text there."""
    return _edited(branch)[2]


def pin_text(pin: Entry, by_key: Mapping[int, Entry]) -> str:
    """The text of a pin that no compaction has recorded yet; `by_key` is the branch."""
    payload = pin.payload
    assert isinstance(payload, Pin)
    if not payload.keys:
        return render_rider(pin).text
    return "\n\n".join(text for key in payload.keys if key in by_key and (text := _entry_text(by_key[key])))


def _edited(branch: Sequence[Entry]) -> tuple[Collection[int], Collection[int], dict[int, str]]:
    """Keys of shortened entries, keys of dropped ones, and the texts of pins that compactions recorded."""
    undone = undone_keys(branch)
    changed: set[int] = set()
    dropped: set[int] = set()
    recorded: dict[int, str] = {}
    for entry in of_kinds(branch, Clearing, Drop, Compaction):
        if entry.key in undone:
            continue
        match entry.payload:
            case Clearing(items=items):
                changed.update(item.key for item in items)
            case Drop(keys=keys):
                dropped.update(keys)
            case Compaction(pinned=pinned):
                recorded.update((item.pin, item.text) for item in pinned)
    return changed, dropped, recorded


def _entry_text(entry: Entry) -> str:
    match entry.payload:
        case User() as user:
            role, text = "user", _text(user_blocks(entry.key, user, {}))
        case Assistant(blocks=blocks):
            role = "assistant"
            parts = [b.text for b in blocks if isinstance(b, TextBlock) and b.text.strip()]
            parts += [f"[calls {b.name} {b.arguments}]" for b in blocks if isinstance(b, ToolCall) and b.finished]
            text = "\n".join(parts)
        case Result(tool=tool, title=title, blocks=blocks):
            role, text = " ".join(f"result of {tool} {title[:_TITLE_CHARS]}".split()), _text(blocks)
        case Reminder(kind=kind, text=text):
            role = f"reminder {kind}"
        case _:
            return ""
    return f"Pinned, entry {entry.key} ({role}), word for word:\n{fence(text)}" if text.strip() else ""


def _text(blocks: Sequence[UserBlock]) -> str:
    return "\n".join(f"[image {b.sha256[:12]}]" if isinstance(b, ImageBlock) else b.text for b in blocks)

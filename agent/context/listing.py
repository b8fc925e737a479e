"""The window as a list: every part of the next request one by one, with where it came from and what can be done with it.

Behind what is sent stands what could be: dropped entries in the places they would have, and pins that wait. The list is
made from nothing each time it is looked at. All texts are foreign.
"""

from collections.abc import Iterator, Sequence

from agent.context.breakdown import PartKind, Share, shares
from agent.context.edits import WORTH_SHORTENING_TOKENS, Edits
from agent.context.meter import Meter
from agent.context.pieces import Action, Piece
from agent.transcript import Assistant, Compaction, Drop, Entry, Pin, Reminder, Result, User
from agent.window import Window
from agent.window_blocks import user_blocks
from providers.types import TextBlock, ToolCall

_DETAIL_CHARS = 160


def list_pieces(branch: Sequence[Entry], window: Window, meter: Meter) -> list[Piece]:
    """The pieces in the order of the request; their tokens sum up to the gauge."""
    edits = Edits(branch, window)
    places = _places(branch, window, edits)
    placed: list[tuple[int, Piece]] = []
    at = -1
    for share in shares(window, meter):
        at = places.get(share.key, at) if share.key is not None else at
        placed.append((at, _standing(share, edits)))
    for key, place in places.items():
        if key not in edits.standing and edits.is_dropped(key):
            placed.append((place, _dropped(edits.by_key[key], edits)))
    placed.sort(key=lambda item: item[0])
    return [*(piece for _, piece in placed), *_waiting_pins(edits)]


def _places(branch: Sequence[Entry], window: Window, edits: Edits) -> dict[int, int]:
    """Where each entry stands, counted over everything that would be there without drops."""
    full = Window([e for e in branch if not isinstance(e.payload, Drop)]) if edits.dropped else window
    return {key: place for place, key in enumerate(key for keys in full.keys for key in keys)}


def _standing(share: Share, edits: Edits) -> Piece:
    if share.key is None:
        detail, origin = _of_prefix(share, edits.window)
        return Piece(share.kind, share.name, detail, share.tokens, origin=origin)
    entry = edits.by_key[share.key]
    is_pin = isinstance(entry.payload, Pin)
    return Piece(
        share.kind,
        share.name,
        _detail(entry),
        share.tokens,
        (entry.key,),
        entry.time_ms,
        _origin(entry, share.kind, edits),
        "shortened" if entry.key in edits.cleared else "whole",
        is_pin or entry.key in edits.pinned,
        tuple(_actions(share, entry, edits)),
    )


def _actions(share: Share, entry: Entry, edits: Edits) -> Iterator[Action]:
    key = entry.key
    if isinstance(entry.payload, Pin):
        yield "unpin"
    if not edits.is_message(key):
        return
    is_free = key not in edits.in_progress
    if key in edits.pinned:
        yield "unpin"
    else:
        yield "pin"
        # A result takes its call along, which a pinned reply must not lose; so it is the other way round.
        together = {edits.reply_of.get(key), *edits.results_of.get(key, ())}
        if is_free and key != edits.opener and not together & edits.pinned:
            yield "drop"
    if key in edits.cleared:
        yield "restore"
    elif (
        is_free
        and key not in edits.pinned
        and share.kind in ("user", "tool_results")
        and share.tokens >= WORTH_SHORTENING_TOKENS
    ):
        yield "shorten"


def _dropped(entry: Entry, edits: Edits) -> Piece:
    kind: PartKind = "reminders"
    match entry.payload:
        case User():
            kind = "user"
        case Assistant():
            kind = "assistant"
        case Result():
            kind = "tool_results"
    name = entry.payload.tool if isinstance(entry.payload, Result) else ""
    return Piece(
        kind,
        name,
        _detail(entry),
        0,
        (entry.key,),
        entry.time_ms,
        _origin(entry, kind, edits),
        "dropped",
        actions=("restore",),
    )


def _waiting_pins(edits: Edits) -> Iterator[Piece]:
    """Pins of which nothing is in the window yet."""
    for entry in edits.pins:
        assert isinstance(entry.payload, Pin)
        if entry.key in edits.standing or edits.standing.intersection(entry.payload.keys):
            continue
        origin = _origin(entry, "pins", edits)
        origin += "; comes with the next compaction" if entry.payload.keys else "; goes with your next message"
        yield Piece("pins", "", _detail(entry), 0, (entry.key,), entry.time_ms, origin, "whole", True, ("unpin",))


# --------------------------------------------------------------------------- in words


def _of_prefix(share: Share, window: Window) -> tuple[str, str]:
    """Detail and origin of what stands before the messages, or in place of a missing result."""
    prefix = window.prefix
    match share.kind:
        case "tools" | "mcp":
            text = next((tool.description for tool in prefix.tools if tool.name == share.name), "")
            return _one_line(text), "tool" if share.kind == "tools" else "tool of an MCP server"
        case "instructions":
            file = next((file for file in prefix.instruction_files if file.path == share.name), None)
            return share.name, "instructions" if file is None else f"instruction file ({file.reason})"
        case "system":
            text = next((section.text for section in prefix.sections if section.name == share.name), "")
            return _one_line(text), "system prompt"
    return "", "in place of a result that never came"


def _detail(entry: Entry) -> str:
    match entry.payload:
        case User() as user:
            return _one_line(" ".join(b.text for b in user_blocks(entry.key, user, {}) if isinstance(b, TextBlock)))
        case Assistant(blocks=blocks):
            said = [b.text for b in blocks if isinstance(b, TextBlock)]
            calls = [f"→ {b.name} {b.arguments[:_DETAIL_CHARS]}" for b in blocks if isinstance(b, ToolCall)]
            return _one_line(" ".join((*said, *calls)))
        case Result(title=title, blocks=result_blocks):
            return _one_line(title or " ".join(b.text for b in result_blocks if isinstance(b, TextBlock)))
        case Reminder(text=text) | Compaction(summary=text):
            return _one_line(text)
        case Pin(path=path, text=text, lines=lines) if not path:
            return _one_line(text)
        case Pin(path=path, lines=lines):
            return path if lines is None else f"{path}:{lines[0]}-{lines[1]}"
    return ""


def _origin(entry: Entry, kind: PartKind, edits: Edits) -> str:
    match entry.payload:
        case User(synthetic=synthetic):
            return "written by claw" if synthetic else "typed by you"
        case Assistant(model=model, interrupted=interrupted):
            what = f"thought by {model}" if kind == "thinking" else f"reply of {model}"
            return f"{what}, interrupted" if interrupted else what
        case Result(tool=tool, title=title, is_error=is_error):
            return _one_line(f"{tool} {title}".strip() + (", failed" if is_error else ""))
        case Reminder(kind=told, of=of):
            return f"told by claw: {told}" if of is None else f"attached again by compaction {of}: {told}"
        case Compaction() as compaction:
            return f"summary of {_replaced(entry.key, compaction, edits.branch):,} entries"
        case Pin(keys=keys, path=path):
            named = ", ".join(map(str, keys))
            return f"pinned entry {named}" if keys else f"pinned from {path}" if path else "pinned by you"
    return ""


def _replaced(key: int, payload: Compaction, branch: Sequence[Entry]) -> int:
    """How many messages and results stand behind a summary."""
    first, end = payload.first_replaced, key if payload.first_replaced else payload.first_kept
    return sum(isinstance(e.payload, User | Assistant | Result) for e in branch if first <= e.key < end)


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * _DETAIL_CHARS].split())
    return line if len(line) <= _DETAIL_CHARS else line[: _DETAIL_CHARS - 1] + "…"

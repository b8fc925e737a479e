"""The commands that look at the window and edit it: what a line of words asks for, and which call or screen answers it.

Decisions: words behind `/compact` that name no form of it are its focus; a single number behind `/pin`, `from` and `up to`
is the key of an entry; `@` begins a path only in front of everything else.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from tui.bridge import SessionControls
from tui.current import said

if TYPE_CHECKING:
    from agent.context.compaction_values import Span
    from agent.context.pieces import Edit, Refused
    from tui.commands import Desk
    from tui.context_source import Editor

COMPACT_WORDS = ("preview", "edit", "from", "up to")
UNDO_WORDS = ("compact", "pin", "drop", "edit")
_EDITS = {
    "pin": ("pin", "unpinning"),
    "drop": ("drop",),
    "edit": ("pin", "drop", "shortening", "restoring", "unpinning"),
}
"""Which of an editor's edits a word of `/undo` means."""
_FROM = re.compile(r"(from|up\s+to)(?:\s+#?(\d+))?(?:\s+|\Z)", re.IGNORECASE)
_HOW = re.compile(r"(preview|edit)(?:\s+|\Z)", re.IGNORECASE)
_LINES = re.compile(r"@(?P<path>.+?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")
_KEY = re.compile(r"#?(\d{1,12})")


# --------------------------------------------------------------------------- /compact


class CompactWish(Struct, frozen=True):
    """What `/compact …` asks for."""

    how: Literal["now", "preview", "edit"] = "now"
    where: Literal["", "from", "up to"] = ""
    """One side of a message: it and all behind it, or all before it."""
    key: int | None = None
    """Entry of that message; None: it is still to be chosen."""
    focus: str = ""


def compact_wish(argument: str) -> CompactWish:
    """`[preview|edit] [from|up to [KEY]] [focus]`. "from" and "up to" in front of other words begin a focus."""
    wish = CompactWish()
    rest = argument.strip()
    if match := _HOW.match(rest):
        wish = replace(wish, how="preview" if match[1].lower() == "preview" else "edit")
        rest = rest[match.end() :]
    match = _FROM.match(rest)
    if match and (match[2] is not None or match.end() == len(rest)):
        key = None if match[2] is None else int(match[2])
        wish = replace(wish, where="from" if match[1].lower() == "from" else "up to", key=key)
        rest = rest[match.end() :]
    return replace(wish, focus=rest.strip())


def compact(desk: "Desk", argument: str) -> None:
    wish = compact_wish(argument)
    session = desk.current.idle()
    if session is None:
        return None
    if wish.how == "now" and not wish.where and (meant := _misspelt(wish.focus)) is not None:
        remedy = f"Did you mean /compact {meant}? More words make it a focus."
        return desk.current.notice("warning", f"There is no /compact {wish.focus}.", remedy)
    if wish.where and wish.key is None:
        return desk.overlays.pick_message(wish.where, lambda key: _compact(desk, replace(wish, key=key)))
    return _compact(desk, wish)


def _misspelt(focus: str) -> str | None:
    """The form that a single word nearly is: a slip must not start a compaction."""
    if not focus or " " in focus:
        return None
    import difflib

    return next(iter(difflib.get_close_matches(focus.lower(), ("preview", "edit"), 1, 0.75)), None)


def _compact(desk: "Desk", wish: CompactWish) -> None:
    span = _span(wish)
    if wish.how != "now":
        return desk.overlays.preview_compaction(wish.focus, span, editing=wish.how == "edit")

    async def run(session: SessionControls) -> None:
        await session.compact(wish.focus, span)

    return _attend(desk, run, "The compaction failed and changed nothing")


def _span(wish: CompactWish) -> "Span | None":
    if not wish.where or wish.key is None:
        return None
    from agent.context.compaction_values import Span

    return Span(first_replaced=wish.key) if wish.where == "from" else Span(first_kept=wish.key)


# --------------------------------------------------------------------------- /undo


def undo(desk: "Desk", argument: str) -> None:
    kind = argument.lower()
    if kind == "compaction":
        kind = "compact"
    if kind and kind not in UNDO_WORDS:
        remedy = f"What can be undone: {', '.join(f'/undo {word}' for word in UNDO_WORDS)}."
        return desk.current.notice("warning", f"There is no /undo {argument}.", remedy)
    if desk.current.idle() is None:
        return None
    if not kind:
        return desk.overlays.pick_undo(lambda word: _undo(desk, word))
    return _undo(desk, kind)


def _undo(desk: "Desk", kind: str) -> None:
    async def run(session: SessionControls) -> None:
        if kind == "compact":
            return desk.current.notice("info", await session.undo_compaction())
        newest = session.editor.newest()
        if newest and newest not in _EDITS[kind]:
            return desk.current.notice(
                "info", f"Nothing was undone: the newest edit is a {newest}.", "/undo edit takes it back."
            )
        return desk.current.notice("info", session.editor.undo())

    _attend(desk, run, "Nothing was undone")


# --------------------------------------------------------------------------- /pin


class PinWish(Struct, frozen=True):
    """What `/pin …` asks for; exactly one of the fields is set, none for the newest message."""

    key: int | None = None
    path: str = ""
    lines: tuple[int, int] | None = None
    text: str = ""


def pin_wish(argument: str) -> PinWish:
    """`TEXT | @PATH[:FIRST[-LAST]] | KEY`, or nothing. A path may stand in double quotes."""
    if match := _KEY.fullmatch(argument):
        return PinWish(key=int(match[1]))
    if argument.startswith("@") and len(argument) > 1:
        quoted = argument.startswith('@"')
        match = _LINES.fullmatch("@" + argument[2:].replace('"', "", 1) if quoted else argument)
        if match is not None and "\n" not in argument:
            first, last = match["first"], match["last"]
            lines = None if first is None else (int(first), int(last or first))
            return PinWish(path=match["path"].strip(), lines=lines)
    return PinWish(text=argument)


def pin(desk: "Desk", argument: str) -> None:
    session = desk.current.needed()
    if session is None:
        return None
    try:
        return _pin(desk, session, pin_wish(argument))
    except Exception as error:
        return desk.current.notice("error", f"Nothing was pinned: {said(error)}")


def _pin(desk: "Desk", session: SessionControls, wish: PinWish) -> None:
    from agent.context.pieces import Refused

    planned = _planned(session.editor, wish)
    if isinstance(planned, Refused):
        return desk.current.notice("warning", f"Nothing was pinned: {planned.reason}")
    size = _pinned_tokens(session.editor, planned)
    told = session.editor.apply(planned)
    return desk.current.notice("info", told, f"It takes about {size:,} tokens. /undo pin takes it back.")


def _planned(editor: "Editor", wish: PinWish) -> "Edit | Refused":
    if wish.path:
        first, last = wish.lines or (None, None)
        return editor.plan_pin_file(Path(wish.path), first, last)
    if wish.text:
        return editor.plan_pin_text(wish.text)
    return editor.plan("pin", () if wish.key is None else (wish.key,))


def _pinned_tokens(editor: "Editor", edit: "Edit") -> int:
    """What the pinned text takes behind a summary: a snapshot makes the window grow, entries stand in it already."""
    if not edit.keys:
        return max(0, -edit.freed_tokens)
    return sum(piece.tokens for piece in editor.pieces() if not set(edit.keys).isdisjoint(piece.keys[:1]))


# --------------------------------------------------------------------------- what is only shown


def instructions(desk: "Desk", argument: str) -> None:
    if not argument:
        desk.overlays.instructions(lambda: _reload(desk))
    elif argument.lower() == "reload":
        _reload(desk)
    else:
        remedy = "/instructions shows the files, /instructions reload reads them again."
        desk.current.notice("warning", f"There is no /instructions {argument}.", remedy)


def _reload(desk: "Desk") -> None:
    async def run(session: SessionControls) -> None:
        desk.current.notice("info", session.reload_instructions())

    _attend(desk, run, "The instructions stay as they are")


def history(desk: "Desk", words: str) -> None:
    if words:
        desk.overlays.history(words)
    else:
        desk.current.notice("info", "What shall be looked for? /history WORDS")


def _attend(desk: "Desk", work: Callable[[SessionControls], Awaitable[None]], failed: str) -> None:
    """Do the work between turns; an error is told behind `failed`."""
    session = desk.current.idle()
    if session is None:
        return

    async def run() -> None:
        try:
            await work(session)
        except Exception as error:
            desk.current.notice("error", f"{failed}: {said(error)}")

    desk.current.attend(run)

"""The handlers of the commands around a session: configuration, theme, clipboard, export, diff, side questions, effort, fork.

They decide what an argument means and say so where it means nothing; the rest is done by the screens and the session.
"""

from typing import TYPE_CHECKING

import msgspec

from providers.types import Effort
from tui.bridge import Target
from tui.launch.arguments import EFFORTS
from tui.launch.listed_models import short_name

if TYPE_CHECKING:
    from tui.commands import Desk

COPY_WORDS = ("code",)


def theme(desk: "Desk", argument: str) -> None:
    if argument:
        desk.overlays.use_theme(argument)
    else:
        desk.overlays.pick_theme()


def effort(desk: "Desk", argument: str) -> None:
    session = desk.current.needed()
    if session is None:
        return None
    offered = [level for level in EFFORTS if level in session.efforts]
    if not offered:
        return desk.current.notice("info", f"{short_name(session.model)} cannot be told how much to think.")
    if not argument:
        now = session.effort or "as the provider decides"
        return desk.current.notice("info", f"Effort: {now}.", f"/effort {'|'.join(offered)} changes it.")
    if argument.lower() not in offered:
        remedy = f"{session.model} knows {', '.join(offered)}."
        return desk.current.notice("warning", f"There is no effort {argument} here.", remedy)
    return desk.current.set_effort(msgspec.convert(argument.lower(), Effort))


def copy(desk: "Desk", argument: str) -> None:
    from tui.answers import answers, code_blocks

    session = desk.current.needed()
    if session is None:
        return None
    found = answers(session.replay())
    if not found:
        return desk.current.notice("info", "There is no answer to copy yet.")
    word, _, number = argument.lower().partition(" ")
    if word == "code":
        return _copy_code(desk, code_blocks(found[0]), number.strip())
    if not argument:
        return _copied(desk, found[0], "The last answer")
    if not argument.isdecimal() or not 1 <= int(argument) <= len(found):
        remedy = "/copy takes the last answer, /copy 2 the one before, /copy code a code block of the last."
        most = f" There are {len(found)}." if argument.isdecimal() else ""
        return desk.current.notice("warning", f"There is no answer {argument}.{most}", remedy)
    return _copied(desk, found[int(argument) - 1], f"Answer {argument} from the end")


def _copy_code(desk: "Desk", blocks: "list[CodeBlock]", number: str) -> None:
    if not blocks:
        return desk.current.notice("info", "The last answer holds no code block.")
    if number:
        if number.isdecimal() and 1 <= int(number) <= len(blocks):
            return _copied(desk, blocks[int(number) - 1].text, f"Code block {number}")
        return desk.current.notice("warning", f"There is no code block {number}.", f"There are {len(blocks)}.")
    if len(blocks) == 1:
        return _copied(desk, blocks[0].text, "The code block")
    return desk.overlays.pick_code(blocks, lambda block: _copied(desk, block.text, "The code block"))


def _copied(desk: "Desk", text: str, what: str) -> None:
    desk.overlays.copy(text)
    lines = text.count("\n") + 1
    size = "1 line" if lines == 1 else f"{lines:,} lines"
    desk.current.notice("info", f"{what} is on the clipboard ({size}), if the terminal allows it.")


def export(desk: "Desk", argument: str) -> None:
    session = desk.current.needed()
    if session is None:
        return
    desk.overlays.export(session.id, argument)


def diff(desk: "Desk", argument: str) -> None:
    if (session := desk.current.needed()) is not None:
        desk.overlays.diff(session)


def side_question(desk: "Desk", question: str) -> None:
    if not question:
        return desk.current.notice("info", "What would you like to know? /btw QUESTION")
    if (session := desk.current.needed()) is not None:
        desk.overlays.ask_aside(session, question)
    return None


def fork(desk: "Desk", argument: str) -> None:
    if (session := desk.current.idle()) is not None:
        desk.current.open(Target("fork", session.id))


if TYPE_CHECKING:
    from tui.answers import CodeBlock

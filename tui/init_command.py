"""`/init`: asks the model for an AGENTS.md of the project, in the user's name. The model writes it with its tools, so that
every change of the file passes the gate and an existing one is never replaced behind the user's back.

The transcript keeps the whole request, as it was sent; where the user looks at the message, the command stands for it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.commands import Desk

_WISHES = "\n\nBesides, I wish: "


def init(desk: "Desk", wishes: str) -> None:
    """Send the request, with what the user wishes of the file behind it."""
    from agent.prompt import load_prompt

    text = load_prompt("init")
    desk.current.send(f"{text}{_WISHES}{wishes}" if wishes else text)


def typed_for(text: str) -> str:
    """What the user typed for a message: `/init`, or the text itself."""
    from agent.prompt import load_prompt

    if not text.startswith(request := load_prompt("init")):
        return text
    rest = text[len(request) :]
    if rest and not rest.startswith(_WISHES):
        return text
    return f"/init {rest.removeprefix(_WISHES)}".rstrip()

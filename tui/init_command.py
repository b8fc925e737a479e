"""`/init`: asks the model for an AGENTS.md of the project, in the user's name. The model writes it with its tools, so that
every change of the file passes the gate and an existing one is never replaced behind the user's back.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.commands import Desk


def init(desk: "Desk", wishes: str) -> None:
    """Send the request, with what the user wishes of the file behind it."""
    from agent.prompt import load_prompt

    text = load_prompt("init")
    desk.current.send(f"{text}\n\nBesides, I wish: {wishes}" if wishes else text)

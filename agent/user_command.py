"""How a message asks for a command of the user's own: `!command`, or `!!command` if the model is not to see it."""

from msgspec import Struct


class UserCommand(Struct, frozen=True):
    """What was typed behind `!`."""

    command: str
    in_window: bool
    """False for `!!`: the model never sees it."""

    @property
    def typed(self) -> str:
        """The message that asks for it."""
        return f"{'!' if self.in_window else '!!'}{self.command}"


def user_command(text: str) -> UserCommand | None:
    """The command of a message that begins with `!` or `!!`; None for any other message, and for one without a command."""
    if not text.startswith("!"):
        return None
    quiet = text.startswith("!!")
    command = text[2 if quiet else 1 :].strip()
    return UserCommand(command, not quiet) if command else None

"""What the screen does about a session that cannot be written, here or at all: offers another way to open it, gives back what
was typed into one that is only read, and warns who would leave before the disk took everything."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from textual.message import Message

from tui.bridge import SessionControls, StrayKeys, Target
from tui.composing.outgoing import Outgoing, joined
from tui.questions import ask_taken
from tui.session_seam import READ_ONLY_REMEDY, SessionTakenError

if TYPE_CHECKING:
    from agent.user_command import UserCommand

LOSS_REMEDY = "It is written as soon as there is room. Leave again to go without it; /export FILE writes it elsewhere."

Post = Callable[[Message], object]


class TellNotice(Protocol):
    def __call__(self, level: Literal["info", "warning", "error"], text: str, remedy: str = "") -> None: ...


async def another_way(post: Post, taken: SessionTakenError) -> Target | None:
    """How the user wants to open it instead; None: not at all."""
    match await ask_taken(post, taken):
        case "fork":
            return Target("fork", taken.session_id)
        case "read":
            return Target("read", taken.session_id, taken.reason)
    return None


def give_back(session: SessionControls | None, text: str, post: Post, notice: TellNotice) -> bool:
    """If the session can only be read, put the text back into the composer, and say why."""
    if session is None or not (reason := session.read_only):
        return False
    post(StrayKeys(text))
    notice("warning", f"Nothing was sent: this session is only read. {reason}", READ_ONLY_REMEDY)
    return True


def tell_none_open(waiting: list[Outgoing], commands: "list[UserCommand]", post: Post, notice: TellNotice) -> None:
    """Say that the session stays closed, and put what waits for it back into the composer: it was meant for no other."""
    remedy = "/new begins one, /resume shows all; a message or a command tries this one again."
    notice("info", "No session is open.", remedy)
    texts = [joined(waiting).text] if waiting else []
    texts += [command.typed for command in commands]
    if texts:
        post(StrayKeys("\n\n".join(texts)))
    waiting.clear()
    commands.clear()


class Leaving:
    """Holds the user back, once for each time that the disk takes nothing."""

    def __init__(self) -> None:
        self._told = False

    def is_free(self, session: SessionControls | None, notice: TellNotice) -> bool:
        """Whether nothing is lost if claw ends now, or the user knows of it."""
        unwritten = session.unwritten if session is not None else 0
        if not unwritten or self._told:
            self._told = self._told and unwritten > 0
            return True
        self._told = True
        what = "1 entry of this session is" if unwritten == 1 else f"{unwritten:,} entries of this session are"
        notice("warning", f"{what} not on the disk yet and would be lost.", LOSS_REMEDY)
        return False

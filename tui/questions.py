"""Questions for a person: each becomes a future that a dialog resolves. What asks waits; cancelling it takes the question
back, which closes the dialog.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from textual.message import Message

from agent.permissions.approval import Answer, ApprovalRequest, Approver, Deny
from tui.bridge import IncludeQuestion

if TYPE_CHECKING:
    from agent.fitting import CompactionCost, Confirm
    from tui.screens.busy_session import Choice
    from tui.session_seam import SessionTakenError

Reply = asyncio.Future[Any]
"""What the dialog of a question was closed with; None without an answer."""


class SecretsSeen(Struct, frozen=True):
    """A message that is about to be sent looks as if it held secrets."""

    what: tuple[str, ...]
    """In words."""


class QuestionAsked(Message, bubble=False):
    """Something waits for a person. Cancelling `future` takes the question back."""

    def __init__(
        self,
        request: "ApprovalRequest | CompactionCost | IncludeQuestion | SecretsSeen | SessionTakenError",
        future: Reply,
    ) -> None:
        super().__init__()
        self.request = request
        self.future = future


def make_approver(post: Callable[[Message], object]) -> Approver:
    """An approver that posts the question and waits. A cancelled turn cancels the future, which closes the dialog."""

    async def ask(request: ApprovalRequest) -> Answer:
        answer: Answer | None = await _answer(post, request)
        return answer if answer is not None else Deny()

    return ask


def make_confirm(post: Callable[[Message], object]) -> "Confirm":
    """Asks whether a costly compaction may begin. A dialog that is closed says no."""

    async def ask(cost: "CompactionCost") -> bool:
        return await _answer(post, cost) is True

    return ask


async def ask_include(post: Callable[[Message], object], question: IncludeQuestion) -> bool | None:
    """Whether the file may be included; None where the user did not decide."""
    decided: bool | None = await _answer(post, question)
    return decided


async def ask_taken(post: Callable[[Message], object], taken: "SessionTakenError") -> "Choice | None":
    """What to do about a session that cannot be written; None: nothing."""
    chosen: Choice | None = await _answer(post, taken)
    return chosen


async def ask_secrets(post: Callable[[Message], object], what: tuple[str, ...]) -> bool:
    """Whether the message is to be sent as it stands. A dialog that is closed says no."""
    return await _answer(post, SecretsSeen(what)) is True


async def _answer(
    post: Callable[[Message], object],
    request: "ApprovalRequest | CompactionCost | IncludeQuestion | SecretsSeen | SessionTakenError",
) -> Any:
    future: Reply = asyncio.get_running_loop().create_future()
    post(QuestionAsked(request, future))
    return await future

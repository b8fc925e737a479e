"""A fault of a model's server: what it answers in one turn, and what has to come of that.

It is everything that the server answers, its recovery included, so that the number of requests is fixed: one more would be
a retry that must not be. How often the tool ran is counted by the file that it edits.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agent.events import TurnEndReason
from tests.fakes.model_server import Chunk, Reply
from tests.fakes.pens import Pen, Pens

Api = str
ALL: tuple[Api, ...] = ("anthropic", "responses", "chat")
COUNT_FILE, NEVER_RUN = "count.txt", "0\n"
EDIT = {"path": COUNT_FILE, "edits": [{"old": "0", "new": "0+1"}]}
"""Each run of it leaves a mark of its own."""
HALF = '{"path": "count.txt", "edits": [{"old": "0", "ne'
PRIMED_ID = "call-of-an-earlier-turn"
ANSWER = "Recovered."
SUMMARY = "\n\n".join(
    f"## {name}\n{name} of the work: the count."
    for name in ("Goal", "Constraints and preferences", "Progress", "Key decisions", "Next steps", "Critical context")
)


class Fault(NamedTuple):
    name: str
    rows: str
    """Rows of the catalogue of faults that it belongs to."""
    play: Callable[[Pens], Sequence[Reply]]
    """What answers the requests of the turn, in order."""
    ends: TurnEndReason = "done"
    ran: int = 0
    """How often the tool runs."""
    says: str = ""
    """What the user is told, a part of it."""
    stalls: bool = False
    """Whether it takes a watchdog to end it."""
    long: bool = False
    """Whether there must be a history that can be compacted."""
    apis: tuple[Api, ...] = ALL


def ok(pens: Pens) -> Reply:
    return pens.new().text(ANSWER).stop().reply()


def calls(pens: Pens) -> Reply:
    return pens.new().text("I edit.").call("edit", EDIT).stop("calls").reply()


def page(text: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return Reply((Chunk(text),) if text else (), status, {"content-type": "text/html"} if headers is None else headers)


def summary(pens: Pens) -> Reply:
    return pens.new().text(SUMMARY).stop().reply()


BEGUN: dict[str, Callable[[Pen], Pen]] = {
    "nothing": lambda pen: pen,
    "text": lambda pen: pen.text("I begin to"),
    "thinking": lambda pen: pen.thinking("Let me see"),
    "arguments": lambda pen: pen.text("I edit.").half("edit", HALF),
    "a closed call": lambda pen: pen.text("I edit.").call("edit", EDIT),
    "a closed call and half of one": lambda pen: pen.call("edit", EDIT).half("edit", HALF),
    "an event": lambda pen: pen.text("I begin").raw(b'event: x\ndata: {"type": "content'),
    "a character": lambda pen: pen.text("I begin").raw("data: ü".encode()[:-1]),
}
"""What a reply has said when something happens to it."""

"""A message on its way to the session."""

from collections.abc import Sequence

from msgspec import Struct


class Outgoing(Struct, frozen=True):
    text: str
    mentions: tuple[str, ...] = ()
    """The files that go along, as they are written in the text."""
    after_turn: bool = False
    """Whether it waits for the end of the turn that runs, instead of that of the step."""


def joined(messages: Sequence[Outgoing]) -> Outgoing:
    """Several messages that waited, as one."""
    mentions = dict.fromkeys(mention for message in messages for mention in message.mentions)
    return Outgoing("\n\n".join(message.text for message in messages), tuple(mentions))

"""What can be read of an open session: what it is, what fills its window, what was said. It changes nothing and calls nobody."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent.context.breakdown import Part, breakdown
from agent.conversation import Conversation
from agent.events import Event, GaugeChanged
from agent.permissions.gate import Gate
from agent.recall import Hit, Recall
from agent.replay import replay
from agent.store.titles import title_of
from agent.transcript import Entry

if TYPE_CHECKING:
    from agent.context.cache_watch import CacheBreak
    from agent.costs import CostReport
    from agent.instructions.item import InstructionItem
    from agent.instructions.report import InstructionsReport
    from agent.job import JobView
    from providers.models import Price


class SessionView:
    """The reading side of a `Session`."""

    def __init__(self, conversation: Conversation, gate: Gate, recall: Recall) -> None:
        self._talk = conversation
        self._gate = gate
        self._recall = recall

    @property
    def id(self) -> str:
        return self._talk.session_id

    def secrets_in(self, text: str) -> tuple[str, ...]:
        """What looks like a secret in a text that the user is about to send, in words; what was accepted before does not."""
        return self._talk.secrets.seen_in(text)

    def accept_secrets(self, text: str) -> None:
        """The user wants to send this text with its secrets."""
        self._talk.secrets.accept(text)

    @property
    def read_only(self) -> str:
        """Why nothing can be added to it; empty: it can."""
        return self._talk.recorder.store.read_only

    @property
    def unwritten(self) -> int:
        """How many entries stand in memory alone, because the disk did not take them."""
        return self._talk.recorder.store.unwritten

    @property
    def branch(self) -> Sequence[Entry]:
        """What was said and done, root first; it grows."""
        return self._talk.recorder.transcript.branch

    @property
    def provider_name(self) -> str:
        return self._talk.facts.provider

    @property
    def model(self) -> str:
        return self._talk.facts.id

    @property
    def mode(self) -> str:
        return self._gate.mode

    @property
    def effort(self) -> str | None:
        return self._talk.effort

    @property
    def efforts(self) -> tuple[str, ...]:
        """How much the model in force can be told to think; empty: it does not."""
        return self._talk.facts.efforts

    @property
    def title(self) -> str:
        return title_of(self._talk.recorder.transcript.branch)

    @property
    def queued(self) -> tuple[str, ...]:
        return tuple(message.text for message in self._talk.queue if message.delivery != "quiet")

    def gauge(self) -> GaugeChanged:
        return self._talk.gauge()

    def parts(self) -> list[Part]:
        """What fills the window, largest kinds as they stand; sums to the gauge."""
        return breakdown(*self._talk.reading())

    def breakdown(self) -> list[tuple[str, str, int]]:
        """(kind, name, tokens) of what fills the window."""
        return [(part.kind, part.name, part.tokens) for part in self.parts()]

    def instruction_items(self) -> "Sequence[InstructionItem]":
        """The instruction files as they are now, without a look at what is wrong with them."""
        return self._talk.instructions.disk.items()

    def instructions(self) -> "InstructionsReport":
        """The instruction files as they are now, what is in force of them, and what is wrong with them."""
        return self._talk.instructions.report()

    def costs(self) -> "CostReport":
        """What the branch has used and cost, per model."""
        from agent.costs import cost_report

        return cost_report(self._talk.recorder.transcript.branch, self._price_of)

    def cache_breaks(self) -> "tuple[CacheBreak, ...]":
        """Where this process found less in the provider's cache than the unchanged prefix should have given, oldest first."""
        return tuple(self._talk.cache_watch.breaks)

    def _price_of(self, provider: str, model: str) -> "Price | None":
        facts = self._talk.facts
        return facts.price if (provider, model) == (facts.provider, facts.id) else None

    def jobs(self) -> "Sequence[JobView]":
        """The commands in the background, those that run and those that ended lately, the newest first."""
        return self._talk.jobs.views()

    def search(self, words: str) -> list[Hit]:
        """Entries that hold the words, best first."""
        return self._recall.search(words)

    def entry(self, key: int) -> str:
        """All the text of one entry; empty if it has none."""
        return self._recall.entry(key) or ""

    def replay(self) -> Iterator[Event]:
        """The events that draw the transcript so far."""
        return replay(self._talk.recorder.transcript.branch)

"""Judges a list of events by the grammar that `agent/events.py` promises."""

from collections.abc import Iterable

from agent.events import (
    CompactionFinished,
    CompactionProgress,
    CompactionStarted,
    Event,
    GaugeChanged,
    MessageCompleted,
    Notice,
    QueueChanged,
    RecordingChanged,
    RetryScheduled,
    SettingChanged,
    StepStarted,
    TextStreamed,
    ThinkingStreamed,
    ToolCallStreamed,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from providers.types import ToolCall

_ANYWHERE = (
    RetryScheduled, CompactionStarted, CompactionProgress, CompactionFinished, GaugeChanged, UserMessageAdded, QueueChanged,
    SettingChanged, Notice, RecordingChanged,
)  # fmt: skip


def check_grammar(events: Iterable[Event]) -> int:
    """How many whole turns there are. Raises AssertionError where the events break the grammar."""
    reader = _Reader()
    for event in events:
        reader.take(event)
    assert reader.place == "outside", f"the events end {reader.place}"
    return reader.turns


class _Reader:
    def __init__(self) -> None:
        self.place = "outside"
        self.turns = 0
        self._step = 0
        self._running: set[str] = set()
        self._unanswered: list[str] = []
        self._compacting = False
        self._own_commands: set[str] = set()

    def take(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._move(event, {"outside"}, "between steps")
                self._step = 0
            case StepStarted(step=step):
                self._all_answered(event)
                self._move(event, {"between steps", "after a message"}, "in a step")
                assert step == self._step + 1, f"step {step} follows step {self._step}"
                self._step = step
            case TextStreamed() | ThinkingStreamed() | ToolCallStreamed():
                self._move(event, {"in a step"}, "in a step")
            case MessageCompleted():
                self._move(event, {"in a step"}, "after a message")
                self._unanswered = [b.id for b in event.blocks if isinstance(b, ToolCall) and b.finished]
            case ToolStarted(tool="!" | "!!") | ToolFinished(tool="!" | "!!"):
                self._own_commands ^= {event.call_id}
            case ToolProgress(call_id=call_id) if call_id in self._own_commands:
                pass
            case ToolStarted() | ToolProgress() | ToolFinished():
                self._move(event, {"after a message"}, "after a message")
                self._take_tool(event)
            case TurnEnded():
                self._all_answered(event)
                self._move(event, {"between steps", "after a message"}, "outside")
                self.turns += 1
            case CompactionStarted() | CompactionFinished():
                assert self._compacting == isinstance(event, CompactionFinished), f"{event} without its other half"
                self._compacting = not self._compacting
            case _:
                assert isinstance(event, _ANYWHERE), f"{event} has no place in the grammar"

    def _move(self, event: Event, allowed: set[str], then: str) -> None:
        assert self.place in allowed, f"{event} {self.place}"
        self.place = then

    def _take_tool(self, event: ToolStarted | ToolProgress | ToolFinished) -> None:
        if isinstance(event, ToolStarted):
            assert event.call_id in self._unanswered, f"{event} without a call"
            self._running.add(event.call_id)
            return
        assert event.call_id in self._running, f"{event} of a tool that does not run"
        if isinstance(event, ToolFinished):
            self._running.remove(event.call_id)
            assert self._unanswered[0] == event.call_id, f"{event} is not in call order"
            del self._unanswered[0]

    def _all_answered(self, event: Event) -> None:
        assert not self._running, f"{event} while {self._running} run"
        assert not self._unanswered, f"{event} while {self._unanswered} have no result"

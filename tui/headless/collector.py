"""What the events of one run add up to: the answer, what it cost, what was refused."""

from collections.abc import Callable

from agent.events import (
    CompactionFinished,
    Event,
    MessageCompleted,
    Notice,
    RecordingChanged,
    RetryScheduled,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from agent.tools.details import RefusedDetails
from providers.types import TextBlock, ToolCall, Usage
from tui.headless.stream_json import Refusal

_GOES_ON = ("max_tokens", "pause_turn")
"""After these the model is asked to go on exactly where it stopped."""


class Collector:
    """Gathers what the result needs from the events of one run; complaints go to standard error as they come."""

    def __init__(self, complain: Callable[[str], None], *, has_cost_limit: bool = False) -> None:
        self._complain = complain
        self._needs_price = has_cost_limit
        self._titles: dict[str, str] = {}
        self.text = ""
        """The answer so far: the last message with words in it, and those that it went on from."""
        self._goes_on = False
        """Whether the next message goes on in the middle of the last one."""
        self.steps = 0
        self.usage = Usage()
        self.cost_usd: float | None = None
        self.stop_reason = ""
        self.refusals: list[Refusal] = []

    def emit(self, event: Event) -> None:
        match event:
            case StepStarted():
                self.steps += 1
            case MessageCompleted():
                self._take_message(event)
            case ToolStarted():
                self._titles[event.call_id] = event.title
            case ToolFinished(details=RefusedDetails(reason=reason)):
                title = self._titles.get(event.call_id, "")
                self.refusals.append(Refusal(event.tool, title, reason))
            case RetryScheduled():
                attempt = f"try {event.attempt} of {event.max_attempts}"
                self._complain(f"claw: {event.reason}; {attempt} in {event.delay_s:.0f} s")
            case CompactionFinished(key=key, message=message):
                self._spent(event.usage, event.cost_usd)
                if key is None and message:
                    self._complain(f"claw: not compacted: {message}")
            case RecordingChanged(fault=fault, remedy=remedy):
                self._complain(f"claw: {fault} {remedy}" if fault else "claw: The session is written again.")
            case Notice(level=level) if level != "info":
                self._complain(f"claw: {event.text}" + (f"\n      {event.remedy}" if event.remedy else ""))

    def _take_message(self, event: MessageCompleted) -> None:
        text = "".join(block.text for block in event.blocks if isinstance(block, TextBlock))
        if text.strip():
            self.text = self.text + text if self._goes_on else text
        has_call = any(isinstance(block, ToolCall) for block in event.blocks)
        self._goes_on = bool(text.strip()) and not has_call and event.stop_reason in _GOES_ON
        self._spent(event.usage, event.cost_usd)
        self.stop_reason = event.stop_reason

    def _spent(self, usage: Usage, cost_usd: float | None) -> None:
        self.usage += usage
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd
        elif self._needs_price and usage.reported:
            self._needs_price = False
            remedy = 'Set [models."ID"] price in config.toml.'
            self._complain(f"claw: no price of this model is known, so no cost limit can stop it.\n      {remedy}")

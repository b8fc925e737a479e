"""The one gauge: how many tokens the next request will have, from the newest report and a calibrated estimate of the rest.

`used` = what the newest report of the same model in this generation measured + factor × the estimate of what came after it.
The factor is reported growth / estimated growth over the model's last 8 steps, where a step's growth is the difference of
two consecutive reports of one generation. Decisions: thinking counts as sent back if the reply's message in the window
holds any (signed, or an opaque reasoning item), else it is taken off the reply's output; a reply whose output was not
reported, was interrupted, or whose unsent thinking has no known size counts by estimate. Reports without any prompt
tokens are no reports.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agent.context import tokens
from agent.context.calibration import Calibration, ModelName, past_steps
from agent.context.reports import changed_keys, first_sent, place_behind, sent_output
from agent.context.tokens import Counter
from agent.transcript import Assistant, Compaction, Entry, Pin, Prefix, Reminder
from agent.window import Window
from providers.types import AssistantBlock, Message, UserBlock

_Blocks = tuple[UserBlock | AssistantBlock, ...]


class Used(Struct, frozen=True):
    """Tokens of the next request."""

    tokens: int
    is_estimate: bool
    """Whether any of them is estimated."""
    measured_tokens: int
    estimated_tokens: int


class _Report(Struct, frozen=True):
    prompt_tokens: int
    prompt_estimate: int
    """Of the messages in that request."""
    output_tokens: int
    """0 where the reply counts by estimate."""
    covered_estimate: int
    """Of the messages that the report measures."""


class Meter:
    """Follows one window; every method but `recount` and `rebuild` costs what is new."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._estimates: list[int] = []  # of window.messages, uncalibrated
        self._seen: list[Message] = []
        self._sum = 0
        self._stable = 0
        self._prefix: Prefix | None = None
        self._prefix_estimate = 0
        self._prefix_ready = False
        self._model: ModelName = ("", "")
        self._image: tokens.ImageTokens = tokens.UNKNOWN_IMAGE_TOKENS
        self._base: _Report | None = None
        self._calibration = Calibration()
        self._parts: dict[int, tuple[_Blocks, int]] = {}  # entry key → its blocks as counted last
        self._counts: dict[int, int] = {}  # entry key → its tokens as it was first sent
        self._new: list[int] = []
        self._unsure: set[int] = set()  # keys counted without the tokenizer
        self._trusted: dict[int, int] = {}  # loaded counts whose entries stand unchanged in the window

    # ------------------------------------------------------------------ reading

    def used(self, streamed_bytes: int = 0) -> Used:
        """Tokens of the next request, with `streamed_bytes` (UTF-8) of a running reply."""
        running = (max(0, streamed_bytes) + 3) // 4
        base = self._base
        if base is None:
            return self._sum_up(0, self._prefix_estimate + self._sum + running)
        measured = base.prompt_tokens + base.output_tokens
        return self._sum_up(measured, self._sum - base.covered_estimate + running)

    @property
    def factor(self) -> float:
        """What the provider counts for one token of ours, for the window's model."""
        return self._calibration.factor(self._model)

    @property
    def floor_tokens(self) -> int:
        """Calibrated tokens of what no compaction removes: system sections and tools."""
        return self.calibrated(self._prefix_estimate)

    def message_tokens(self, index: int) -> int:
        """Calibrated tokens of one of the window's messages."""
        return self.calibrated(self._estimates[index])

    def all_message_tokens(self) -> list[int]:
        """Calibrated tokens of each of the window's messages."""
        factor = self.factor
        return [round(estimate * factor) for estimate in self._estimates]

    def calibrated(self, estimate: int) -> int:
        return round(estimate * self.factor)

    def count(self, text: str) -> int:
        """Calibrated tokens of a text."""
        return self.calibrated(self.counter.count(text))

    def preview(self, window: Window) -> int:
        """Calibrated estimate of another window, for instance as it would be after a compaction; changes nothing."""
        messages = sum(self._measure(m, keys, keep=False) for m, keys in zip(window.messages, window.keys, strict=True))
        prefix = tokens.prefix_tokens(self.counter, window.prefix.sections, window.prefix.tools)
        return self.calibrated(prefix + messages)

    def _sum_up(self, measured: int, estimate: int) -> Used:
        estimated = max(0, self.calibrated(estimate))
        return Used(measured + estimated, estimated > 0, measured, estimated)

    # ------------------------------------------------------------------ folding

    def apply(self, entry: Entry, window: Window, broke: bool) -> None:
        """Follow `window` after it folded in `entry`; `broke` is what `Window.apply` returned."""
        self._model = (window.provider, window.model)
        self._take_prefix(window)
        if broke:
            self._base = None
            self._measure_from(window, 0)
        else:
            self._measure_from(window, self._stable)
        self._stable = window.stable
        if not broke or isinstance(entry.payload, Compaction):
            self._keep_count(entry.key)
        if isinstance(entry.payload, Assistant):
            self._take_report(entry, entry.payload, window)

    def rebuild(self, branch: Sequence[Entry], window: Window) -> None:
        """Start anew from a branch and its window, as after a resume."""
        self._model = (window.provider, window.model)
        self._image = tokens.image_tokens(window.api)
        changed = changed_keys(branch, window)
        self._trusted = {key: count for key, count in self._counts.items() if key not in changed}
        self._seen, self._estimates, self._sum = [], [], 0
        self._take_prefix(window)
        self._measure_from(window, 0)
        self._trusted = {}
        for keys in window.keys:
            for key in keys:
                if key not in changed:
                    self._keep_count(key)
        self._stable = window.stable
        self._base = None
        self._calibration = Calibration()
        for model, reported, step in past_steps(branch):
            self._calibration.add(model, reported, sum(map(self._entry_estimate, step)))
        for entry in reversed(branch):
            if entry.key <= window.generation or self._base is not None:
                return
            if isinstance(entry.payload, Assistant):
                self._base = self._report(entry.key, entry.payload, window)

    def recount(self, branch: Sequence[Entry], window: Window) -> bool:
        """Once the tokenizer is there, count anew what was estimated before. False if nothing was to be done."""
        if not self.counter.ready or not (self._unsure or not self._prefix_ready):
            return False
        for key in self._unsure:
            self._counts.pop(key, None)
            self._parts.pop(key, None)
        self._unsure = set()
        self.rebuild(branch, window)
        return True

    def counts(self) -> dict[int, int]:
        """All counts made by the tokenizer, by entry key, to be stored under the name "o200k_base"."""
        return {key: count for key, count in self._counts.items() if key not in self._unsure}

    def new_counts(self) -> dict[int, int]:
        """Those of `counts` that came since the last call of this method."""
        new = {key: self._counts[key] for key in self._new if key in self._counts and key not in self._unsure}
        self._new = []
        return new

    def load_counts(self, counts: Mapping[int, int]) -> None:
        """Take over stored counts made by "o200k_base"; a `rebuild` has to follow."""
        self._counts.update({key: max(0, count) for key, count in sorted(counts.items())})

    # ------------------------------------------------------------------ measuring

    def _take_prefix(self, window: Window) -> None:
        self._image = tokens.image_tokens(window.api)
        if window.prefix is self._prefix and self._prefix_ready == self.counter.ready:
            return
        self._prefix = window.prefix
        self._prefix_ready = self.counter.ready
        self._prefix_estimate = tokens.prefix_tokens(self.counter, window.prefix.sections, window.prefix.tools)

    def _measure_from(self, window: Window, start: int) -> None:
        """Bring the estimates up to date; messages before `start` are known to be unchanged."""
        messages = window.messages
        for index in range(min(start, len(messages)), len(messages)):
            message = messages[index]
            if index < len(self._seen) and self._seen[index] is message:
                continue
            estimate = self._measure(message, window.keys[index])
            if index < len(self._seen):
                self._sum += estimate - self._estimates[index]
                self._seen[index], self._estimates[index] = message, estimate
            else:
                self._sum += estimate
                self._seen.append(message)
                self._estimates.append(estimate)
        self._sum -= sum(self._estimates[len(messages) :])
        del self._seen[len(messages) :], self._estimates[len(messages) :]

    def _measure(self, message: Message, keys: tuple[int, ...], keep: bool = True) -> int:
        """Uncalibrated tokens of a message: its own entry's blocks, then one block for each entry that rides on it."""
        own = message.blocks[: len(message.blocks) - max(0, len(keys) - 1)]
        total = tokens.message_overhead(message) + self._part(keys[0] if keys else None, own, keep)
        for key, block in zip(keys[1:], message.blocks[len(own) :], strict=True):
            total += self._part(key, (block,), keep)
        return total

    def _part(self, key: int | None, blocks: _Blocks, keep: bool) -> int:
        if key is None:
            return self._block_sum(blocks)
        known = self._parts.get(key)
        if known is not None and known[0] == blocks:
            return known[1]
        trusted = self._trusted.get(key) if known is None else None
        total = self._block_sum(blocks) if trusted is None else trusted
        if keep:
            self._parts[key] = (blocks, total)
            if trusted is None and not self.counter.ready:
                self._unsure.add(key)
        return total

    def _keep_count(self, key: int) -> None:
        """Remember for storage what was just counted, since it is what the entry had when it was sent first."""
        if key in self._parts and key not in self._counts:
            self._counts[key] = self._parts[key][1]
            self._new.append(key)

    def _block_sum(self, blocks: Iterable[UserBlock | AssistantBlock]) -> int:
        return sum(tokens.block_tokens(self.counter, block, self._image) for block in blocks)

    # ------------------------------------------------------------------ reports

    def _take_report(self, entry: Entry, payload: Assistant, window: Window) -> None:
        report = self._report(entry.key, payload, window)
        if report is None:
            return
        if (last := self._base) is not None:
            self._calibration.add(
                self._model,
                report.prompt_tokens - last.prompt_tokens,
                report.prompt_estimate - last.prompt_estimate,
            )
        self._base = report

    def _report(self, key: int, payload: Assistant, window: Window) -> _Report | None:
        """What the assistant entry `key` measured, or None if it says nothing about the window's model."""
        if not payload.usage.reported or (payload.provider, payload.model) != self._model:
            return None
        place = place_behind(window, key)
        reply = window.messages[place - 1] if place and window.keys[place - 1][:1] == (key,) else None
        output = None if reply is None else sent_output(payload, reply)
        request_end = place if reply is None else place - 1
        covered = request_end if output is None else place
        return _Report(
            payload.usage.prompt_tokens,
            self._sum - sum(self._estimates[request_end:]),
            output or 0,
            self._sum - sum(self._estimates[covered:]),
        )

    def _entry_estimate(self, entry: Entry) -> int:
        """Uncalibrated tokens of an entry as it was sent first."""
        message = first_sent(entry)
        if message is None:
            return 0
        if entry.key not in self._counts:
            self._counts[entry.key] = self._block_sum(message.blocks)
            self._new.append(entry.key)
            if not self.counter.ready:
                self._unsure.add(entry.key)
        overhead = 0 if isinstance(entry.payload, Reminder | Pin) else tokens.message_overhead(message)
        return self._counts[entry.key] + overhead

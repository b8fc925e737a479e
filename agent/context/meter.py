"""The one gauge: how many tokens the next request will have, from the newest report and a calibrated estimate of the rest.

`used` = what the newest report of the same model in this generation measured + factor × the estimate of what came after it.
The factor is reported growth / estimated growth over the model's last steps (calibration.py), where a step's growth is the
difference of two consecutive reports of one generation. An image counts by its provider's formula: it is neither multiplied
by the factor nor does it teach one. Where there is no report in this generation, what the provider adds to every request
(learnt from the smallest one it reported) is part of the estimate. Decisions: thinking counts as sent back if the reply's
message in the window holds any (signed, or an opaque reasoning item), else it is taken off the reply's output; a reply whose
output was not reported, was interrupted, or whose unsent thinking has no known size counts by estimate. Reports without any
prompt tokens are no reports.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent.context import tokens
from agent.context.calibration import Calibration, ModelName, Wrapping, first_report, past_steps
from agent.context.counts import Counts
from agent.context.reports import changed_keys, first_sent, place_behind, sent_output
from agent.context.sizes import Size, total
from agent.context.tokens import Counter
from agent.transcript import Assistant, Compaction, Entry, Pin, Prefix, Reminder
from agent.window import Window
from providers.types import AssistantBlock, ImageBlock, Message, UserBlock

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
    prompt: Size
    """Estimate of the messages in that request."""
    output_tokens: int
    """0 where the reply counts by estimate."""
    covered: Size
    """Estimate of the messages that the report measures."""


class Meter:
    """Follows one window; every method but `recount` and `rebuild` costs what is new."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._sizes: list[Size] = []  # of window.messages
        self._seen: list[Message] = []
        self._sum = Size()
        self._stable = 0
        self._prefix: Prefix | None = None
        self._prefix_estimate = 0
        self._prefix_ready = False
        self._model: ModelName = ("", "")
        self._image: tokens.ImageTokens = tokens.UNKNOWN_IMAGE_TOKENS
        self._base: _Report | None = None
        self._wrapping = Wrapping()
        self._calibration = Calibration()
        self._parts: dict[int, tuple[_Blocks, Size]] = {}  # entry key → its blocks as counted last
        self._counts = Counts()  # entry key → tokens of its text as it was first sent
        self._new: list[int] = []
        self._unsure: set[int] = set()  # keys counted without the tokenizer
        self._trusted: dict[int, int] = {}  # loaded counts whose entries stand unchanged in the window

    # ------------------------------------------------------------------ reading

    def used(self, streamed_bytes: int = 0) -> Used:
        """Tokens of the next request, with `streamed_bytes` (UTF-8) of a running reply."""
        running = (max(0, streamed_bytes) + 3) // 4
        base = self._base
        if base is None:
            return self._sum_up(0, self._sum.plus(Size(self._prefix_estimate + running)), self._around)
        measured = base.prompt_tokens + base.output_tokens
        return self._sum_up(measured, self._sum.minus(base.covered).plus(Size(running)))

    @property
    def factor(self) -> float:
        """What the provider counts for one token of ours, for the window's model."""
        return self._calibration.factor(self._model)

    @property
    def floor_tokens(self) -> int:
        """Calibrated tokens of what no compaction removes: system sections, tools, and what the provider adds to them."""
        return max(0, self.calibrated(self._prefix_estimate) + self._around)

    @property
    def _around(self) -> int:
        return self._wrapping.tokens(self._model, self.factor)

    def message_tokens(self, index: int) -> int:
        """Calibrated tokens of one of the window's messages."""
        return self._sizes[index].calibrated(self.factor)

    def own_tokens(self, key: int) -> int:
        """Calibrated tokens of what an entry's own blocks are in the window, without what rides on its message; 0 if it
        does not stand there."""
        known = self._parts.get(key)
        return 0 if known is None else known[1].calibrated(self.factor)

    def all_message_tokens(self) -> list[int]:
        """Calibrated tokens of each of the window's messages."""
        factor = self.factor
        return [size.calibrated(factor) for size in self._sizes]

    def calibrated(self, estimate: int) -> int:
        return round(estimate * self.factor)

    def count(self, text: str) -> int:
        """Calibrated tokens of a text."""
        return self.calibrated(self.counter.count(text))

    @property
    def image_bytes(self) -> int:
        """Bytes of all images in the window, before base64, as far as they are known."""
        return self._sum.image_bytes

    def image_tokens(self, image: ImageBlock) -> int:
        """What an image costs at the window's model."""
        return tokens.block_tokens(self.counter, image, self._image)

    def preview(self, window: Window) -> int:
        """Calibrated estimate of another window, for instance as it would be after a compaction; changes nothing."""
        prefix = Size(tokens.prefix_tokens(self.counter, window.prefix.sections, window.prefix.tools))
        messages = total(
            self._measure(m, keys, keep=False) for m, keys in zip(window.messages, window.keys, strict=True)
        )
        return max(0, prefix.plus(messages).calibrated(self.factor) + self._around)

    def _sum_up(self, measured: int, estimate: Size, around: int = 0) -> Used:
        estimated = max(0, estimate.calibrated(self.factor) + around)
        return Used(measured + estimated, estimated > 0, measured, estimated)

    # ------------------------------------------------------------------ folding

    def apply(self, entry: Entry, window: Window, broke: bool) -> None:
        """Follow `window` after it folded in `entry`; `broke` is what `Window.apply` returned."""
        self._model = (window.provider, window.model)
        self._take_prefix(window)
        if broke:
            self._base = None
            self._measure_from(window, 0)
            self._forget_parts(window)
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
        self._image = tokens.image_tokens(window.api, window.model)
        changed = changed_keys(branch, window)
        self._trusted = {key: count for key, count in self._counts.items() if key not in changed}
        self._seen, self._sizes, self._sum = [], [], Size()
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
            grown = total(map(self._entry_size, step))
            self._calibration.add(model, reported - grown.images, grown.text)
        self._wrapping = Wrapping()
        if (first := first_report(branch)) is not None:
            model, reported, prefix, before = first
            estimate = tokens.prefix_tokens(self.counter, prefix.sections, prefix.tools)
            self._wrapping.add(model, reported, total(map(self._entry_size, before)).plus(Size(estimate)))
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
            self._counts.discard(key)
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
        for key, count in sorted(counts.items()):
            self._counts[key] = max(0, count)

    # ------------------------------------------------------------------ measuring

    def _take_prefix(self, window: Window) -> None:
        self._image = tokens.image_tokens(window.api, window.model)
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
            size = self._measure(message, window.keys[index])
            if index < len(self._seen):
                self._sum = self._sum.plus(size).minus(self._sizes[index])
                self._seen[index], self._sizes[index] = message, size
            else:
                self._sum = self._sum.plus(size)
                self._seen.append(message)
                self._sizes.append(size)
        self._sum = self._sum.minus(total(self._sizes[len(messages) :]))
        del self._seen[len(messages) :], self._sizes[len(messages) :]

    def _measure(self, message: Message, keys: tuple[int, ...], keep: bool = True) -> Size:
        """A message's size: its own entry's blocks, then one block for each entry that rides on it."""
        own = message.blocks[: len(message.blocks) - max(0, len(keys) - 1)]
        size = Size(tokens.message_overhead(message)).plus(self._part(keys[0] if keys else None, own, keep))
        for key, block in zip(keys[1:], message.blocks[len(own) :], strict=True):
            size = size.plus(self._part(key, (block,), keep))
        return size

    def _part(self, key: int | None, blocks: _Blocks, keep: bool) -> Size:
        if key is None:
            return self._block_sizes(blocks)
        known = self._parts.get(key)
        if known is not None and known[0] == blocks:
            # What an image costs depends on the model in force.
            return known[1] if not known[1].images else self._with_images(known[1].text, blocks)
        trusted = self._trusted.get(key) if known is None else None
        size = self._block_sizes(blocks) if trusted is None else self._with_images(trusted, blocks)
        if keep:
            self._parts[key] = (blocks, size)
            if trusted is None and not self.counter.ready:
                self._unsure.add(key)
        return size

    def _forget_parts(self, window: Window) -> None:
        """Let go of the blocks that stand in the window no more: a long session has many times more of them."""
        standing = {key for keys in window.keys for key in keys}
        self._parts = {key: part for key, part in self._parts.items() if key in standing}

    def _keep_count(self, key: int) -> None:
        """Remember for storage what was just counted, since it is what the entry had when it was sent first."""
        if key in self._parts and key not in self._counts:
            self._counts[key] = self._parts[key][1].text
            self._new.append(key)

    def _block_sizes(self, blocks: _Blocks) -> Size:
        text = sum(tokens.block_tokens(self.counter, b) for b in blocks if not isinstance(b, ImageBlock))
        return self._with_images(text, blocks)

    def _with_images(self, text: int, blocks: _Blocks) -> Size:
        images = [block for block in blocks if isinstance(block, ImageBlock)]
        return Size(text, sum(map(self.image_tokens, images)), sum(image.size_bytes for image in images))

    # ------------------------------------------------------------------ reports

    def _take_report(self, entry: Entry, payload: Assistant, window: Window) -> None:
        report = self._report(entry.key, payload, window)
        if report is None:
            return
        self._wrapping.add(self._model, report.prompt_tokens, report.prompt.plus(Size(self._prefix_estimate)))
        if (last := self._base) is not None:
            grown = report.prompt.minus(last.prompt)
            self._calibration.add(self._model, report.prompt_tokens - last.prompt_tokens - grown.images, grown.text)
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
            self._sum.minus(total(self._sizes[request_end:])),
            output or 0,
            self._sum.minus(total(self._sizes[covered:])),
        )

    def _entry_size(self, entry: Entry) -> Size:
        """Size of an entry as it was sent first."""
        message = first_sent(entry)
        if message is None:
            return Size()
        if entry.key not in self._counts:
            self._counts[entry.key] = self._block_sizes(message.blocks).text
            self._new.append(entry.key)
            if not self.counter.ready:
                self._unsure.add(entry.key)
        overhead = 0 if isinstance(entry.payload, Reminder | Pin) else tokens.message_overhead(message)
        return self._with_images(self._counts[entry.key] + overhead, message.blocks)

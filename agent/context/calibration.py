"""How a provider's counts differ from ours, per model: a factor for what is said, and a sum for what it adds to each request.

The factor is reported growth / estimated growth of the last eight steps, and of as many before them as it takes to have
4,000 estimated tokens: eight tiny steps say how messages are wrapped, not how text is counted. The sum (hidden
instructions, its own rendering of the tools) is what the smallest reported request had above factor × estimate, where the
error of the factor weighs least.
"""

from collections import deque
from collections.abc import Iterator, Reversible, Sequence

from msgspec import Struct

from agent.context.reports import may_break
from agent.context.sizes import Size
from agent.transcript import Assistant, Entry, Prefix, Rewind, Setting

ModelName = tuple[str, str]
"""(provider, model id)"""
_STEPS = 8
_LEAST_TOKENS = 4_000
_STEPS_KEPT = 64
_IN_REQUESTS = ("provider", "model", "family", "api", "effort")
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.5


class _Growth(Struct, frozen=True):
    reported: int
    estimated: int


class Calibration:
    """The newest steps of each model. A step is what lies between two reports that follow each other."""

    def __init__(self) -> None:
        self._growths: dict[ModelName, deque[_Growth]] = {}
        self._factors: dict[ModelName, float] = {}

    def add(self, model: ModelName, reported: int, estimated: int) -> None:
        """Learn from one step by how many tokens the request grew; a step that did not grow teaches nothing."""
        if reported > 0 and estimated > 0:
            growths = self._growths.setdefault(model, deque(maxlen=_STEPS_KEPT))
            growths.append(_Growth(reported, estimated))
            self._factors[model] = _ratio(growths)

    def factor(self, model: ModelName) -> float:
        """1.0 for a model without steps; from 0.5 to 2.5."""
        return self._factors.get(model, 1.0)


def _ratio(growths: Reversible[_Growth]) -> float:
    reported = estimated = 0
    for place, growth in enumerate(reversed(growths)):
        if place >= _STEPS and estimated >= _LEAST_TOKENS:
            break
        reported += growth.reported
        estimated += growth.estimated
    return min(_MOST_FACTOR, max(_LEAST_FACTOR, reported / estimated))


class Wrapping:
    """What a provider adds to every request. At most as much as that request was estimated to be is believed."""

    def __init__(self) -> None:
        self._smallest: dict[ModelName, tuple[int, Size]] = {}

    def add(self, model: ModelName, reported: int, estimated: Size) -> None:
        """Learn from one request: its reported tokens, and the estimate of all of it."""
        known = self._smallest.get(model)
        if known is None or estimated.text + estimated.images < known[1].text + known[1].images:
            self._smallest[model] = (reported, estimated)

    def tokens(self, model: ModelName, factor: float) -> int:
        """To be added to factor × estimate of a request; may be negative, 0 for a model without reports."""
        if (known := self._smallest.get(model)) is None:
            return 0
        reported, estimated = known
        most = round(estimated.text * factor)
        return max(-most, min(most, reported - estimated.calibrated(factor)))


def first_report(branch: Sequence[Entry]) -> tuple[ModelName, int, Prefix, Sequence[Entry]] | None:
    """The first report of a branch: (model, its prompt tokens, the prefix then, the entries before it).

    None if something else than settings and prefixes shaped the window before it. A rewind shaped nothing: its branch is
    what it left.
    """
    prefix = Prefix((), ())
    for index, entry in enumerate(branch):
        payload = entry.payload
        if isinstance(payload, Prefix):
            prefix = payload
        elif isinstance(payload, Assistant) and payload.usage.reported:
            return (payload.provider, payload.model), payload.usage.prompt_tokens, prefix, branch[:index]
        elif may_break(payload) and not isinstance(payload, Setting | Rewind):
            return None
    return None


def past_steps(branch: Sequence[Entry]) -> Iterator[tuple[ModelName, int, Sequence[Entry]]]:
    """The newest steps of each model on a branch, oldest first: (model, reported growth, the entries that made it)."""
    steps: dict[ModelName, deque[tuple[int, int, int]]] = {}
    last: tuple[ModelName, int, int] | None = None
    in_force: dict[str, str] = {}
    for index, entry in enumerate(branch):
        payload = entry.payload
        if _changes(payload, in_force) if isinstance(payload, Setting) else may_break(payload):
            last = None
        elif isinstance(payload, Assistant) and payload.usage.reported:
            model, prompt = (payload.provider, payload.model), payload.usage.prompt_tokens
            if last is not None and last[0] == model and prompt > last[2]:
                steps.setdefault(model, deque(maxlen=_STEPS_KEPT)).append((prompt - last[2], last[1], index))
            last = (model, index, prompt)
    for model, found in steps.items():
        for reported, start, end in found:
            yield model, reported, branch[start:end]


def _changes(setting: Setting, in_force: dict[str, str]) -> bool:
    """Whether a setting broke the prefix; a resumed session says once more what is in force. Notes what it sets."""
    values = (setting.provider, setting.model, setting.family, setting.api, setting.effort)
    given = {name: value for name, value in zip(_IN_REQUESTS, values, strict=True) if value is not None}
    changes = any(in_force.get(name) != value for name, value in given.items())
    in_force.update(given)
    return changes

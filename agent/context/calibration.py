"""How many of the provider's tokens one token of ours is, per model: reported growth / estimated growth of the last steps."""

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent.context.reports import may_break
from agent.transcript import Assistant, Entry

ModelName = tuple[str, str]
"""(provider, model id)"""
_STEPS = 8
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.5


class _Growth(Struct, frozen=True):
    reported: int
    estimated: int


class Calibration:
    """The newest eight steps of each model. A step is what lies between two reports that follow each other."""

    def __init__(self) -> None:
        self._growths: dict[ModelName, deque[_Growth]] = {}

    def add(self, model: ModelName, reported: int, estimated: int) -> None:
        """Learn from one step by how many tokens the request grew; a step that did not grow teaches nothing."""
        if reported > 0 and estimated > 0:
            self._growths.setdefault(model, deque(maxlen=_STEPS)).append(_Growth(reported, estimated))

    def factor(self, model: ModelName) -> float:
        """1.0 for a model without steps; from 0.5 to 2.5."""
        growths = self._growths.get(model)
        if not growths:
            return 1.0
        ratio = sum(growth.reported for growth in growths) / sum(growth.estimated for growth in growths)
        return min(_MOST_FACTOR, max(_LEAST_FACTOR, ratio))


def past_steps(branch: Sequence[Entry]) -> Iterator[tuple[ModelName, int, Sequence[Entry]]]:
    """The newest steps of each model on a branch, oldest first: (model, reported growth, the entries that made it)."""
    steps: dict[ModelName, deque[tuple[int, int, int]]] = {}
    last: tuple[ModelName, int, int] | None = None
    for index, entry in enumerate(branch):
        payload = entry.payload
        if may_break(payload):
            last = None
        elif isinstance(payload, Assistant) and payload.usage.reported:
            model, prompt = (payload.provider, payload.model), payload.usage.prompt_tokens
            if last is not None and last[0] == model and prompt > last[2]:
                steps.setdefault(model, deque(maxlen=_STEPS)).append((prompt - last[2], last[1], index))
            last = (model, index, prompt)
    for model, found in steps.items():
        for reported, start, end in found:
            yield model, reported, branch[start:end]

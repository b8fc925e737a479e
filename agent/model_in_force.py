"""The model that a session uses now, how one is chosen, and what is learnt of its context window when that is exceeded."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from agent.events import Notice
from providers.base import Provider
from providers.models import ModelFacts
from providers.types import Effort


@dataclass
class Model:
    """The model in force."""

    provider: Provider
    facts: ModelFacts
    effort: Effort | None = None


ChooseModel = Callable[[str, Effort | None], Model]
"""(PROVIDER/MODEL, effort) → the model. What it raises says in its text what is wrong and what there is."""


class LearntWindows:
    """Context windows that providers named when they were exceeded, for this process."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], int] = {}

    def learn(self, facts: ModelFacts, window_tokens: int | None) -> Notice | None:
        """Believe a smaller limit always, a larger one where ours was a guess. None: nothing new."""
        believed = facts.context_window_tokens
        if not window_tokens or window_tokens == believed or (facts.known and window_tokens > believed):
            return None
        self._tokens[facts.provider, facts.id] = window_tokens
        return Notice(
            "info",
            f"The provider says that the context window of {facts.id} has {window_tokens:,} tokens, not {believed:,}.",
            f'Keep it with `context_window_tokens = {window_tokens}` under [models."{facts.id}"] in config.toml.',
        )

    def apply(self, facts: ModelFacts) -> ModelFacts:
        """The facts with what was learnt."""
        tokens = self._tokens.get((facts.provider, facts.id))
        if tokens is None:
            return facts
        cap = min(facts.max_output_tokens, tokens)
        return replace(facts, context_window_tokens=tokens, max_output_tokens=cap, known=True)

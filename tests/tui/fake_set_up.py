"""A set-up that answers from lists and remembers what was asked of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from providers.types import WireApi
from tui.launch.listed_models import ModelChoice
from tui.setup_seam import Candidate, FoundServer, Offer

LLAMA = Candidate("llama.cpp", "llama.cpp", "chat", "http://127.0.0.1:8080/v1")
MODELS = (ModelChoice("llama.cpp/smol", window_tokens=8_192), ModelChoice("llama.cpp/big", window_tokens=131_072))


@dataclass
class FakeSetUp:
    offers: tuple[Offer, ...] = (
        Offer("anthropic", "Anthropic", "ANTHROPIC_API_KEY"),
        Offer("openai", "OpenAI", "OPENAI_API_KEY", has_key=True, in_variable=True),
    )
    local_places: tuple[tuple[str, str], ...] = (("llama.cpp", "http://127.0.0.1:8080/v1"),)
    key_place: str = "~/.local/share/claw/auth.json, which only you can read"
    config_file: str = "~/.config/claw/config.toml"
    found: Sequence[FoundServer] = (FoundServer(LLAMA, MODELS),)
    listed: Sequence[ModelChoice] | Exception = (ModelChoice("anthropic/claude-test", window_tokens=200_000),)
    failure: Exception | None = None
    """Of `keep`."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """What answers waits for it."""
    asked: list[Candidate] = field(default_factory=list)
    looks: int = 0
    kept: list[tuple[Candidate, str]] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate.set()

    def offered(self, name: str) -> Candidate:
        from providers.types import Secret

        offer = next(offer for offer in self.offers if offer.name == name)
        key = Secret("known") if offer.has_key else None
        return Candidate(name, offer.title, "anthropic", key=key, variable=offer.variable)

    def own(self, address: str, api: WireApi) -> Candidate:
        return Candidate("own", address, api, address, is_written=True)

    async def look(self) -> Sequence[FoundServer]:
        self.looks += 1
        await self.gate.wait()
        return self.found

    async def models(self, candidate: Candidate) -> Sequence[ModelChoice]:
        self.asked.append(candidate)
        await self.gate.wait()
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    async def keep(self, candidate: Candidate, model_id: str) -> str:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.kept.append((candidate, model_id))
        return f"{candidate.name}/{model_id}"

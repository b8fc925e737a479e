"""The whole agent against a server that nobody here wrote, over all three wire APIs: llama.cpp with a small real model."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.transcript import Assistant, Compaction
from providers.base import ModelRequest
from providers.errors import ContextOverflowError
from providers.registry import create
from providers.types import (
    Completed,
    Message,
    PromptSection,
    ProviderConfig,
    Secret,
    StreamEvent,
    TextBlock,
    TextDelta,
    UserMessage,
    WireApi,
)
from tests.fakes.llama import A_FEW_WORDS, KEY, llama_server, model_file, needs_llama
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ChatSide

pytestmark = [needs_llama, pytest.mark.timeout(600)]
WINDOW = 4_096
APIS: tuple[WireApi, ...] = ("chat", "responses", "anthropic")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama_server(WINDOW) as address:
        yield address


def config(url: str, api: WireApi) -> ProviderConfig:
    return ProviderConfig("llama", api, url if api == "anthropic" else f"{url}/v1", Secret(KEY))


def asked(*messages: Message, most: int = 16) -> ModelRequest:
    system = (PromptSection("s", "You answer in a few words. " * 40, True),)
    return ModelRequest("any", system, (), messages, 0, 0, most)


def said(text: str) -> UserMessage:
    return UserMessage((TextBlock(text),))


async def collect(config: ProviderConfig, request: ModelRequest) -> list[StreamEvent]:
    provider = create(config)
    try:
        return [event async for event in provider.stream(request)]
    finally:
        await provider.aclose()


@pytest.mark.parametrize("api", APIS)
async def test_streaming_usage_and_cached_tokens(url: str, api: WireApi) -> None:
    request = asked(said("What is the capital of France?"))
    first = await collect(config(url, api), request)
    again = await collect(config(url, api), request)
    for events in (first, again):
        assert "".join(event.text for event in events if isinstance(event, TextDelta)).strip()
        assert len([event for event in events if isinstance(event, TextDelta)]) > 1
    done, cached = first[-1], again[-1]
    assert isinstance(done, Completed) and isinstance(cached, Completed)
    assert done.stop_reason in ("end_turn", "max_tokens")
    assert 200 < done.usage.prompt_tokens < 400 and 0 < done.usage.output_tokens <= 16
    # The same prompt again: counted once, and mostly read from the cache.
    assert cached.usage.prompt_tokens == done.usage.prompt_tokens
    assert cached.usage.cache_read_tokens > 200


@pytest.mark.parametrize("api", APIS)
async def test_the_real_overflow_error_is_recognised_and_names_the_window(url: str, api: WireApi) -> None:
    with pytest.raises(ContextOverflowError) as caught:
        await collect(config(url, api), asked(said("word " * 6_000)))
    assert caught.value.window_tokens in (WINDOW, None)
    assert caught.value.window_tokens == WINDOW or api == "anthropic"


@pytest.mark.parametrize("api", APIS)
async def test_a_cancelled_stream_frees_the_server_for_the_next_request(url: str, api: WireApi) -> None:
    provider = create(config(url, api))
    stream = provider.stream(asked(said("Tell a long story."), most=2_000))
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()  # type: ignore[attr-defined]  # an async generator, as every adapter's stream is
    async with asyncio.timeout(60):
        after = [event async for event in provider.stream(asked(said("Say hi.")))]
    await provider.aclose()
    assert isinstance(after[-1], Completed)


async def test_the_models_window_is_in_the_listing(url: str) -> None:
    provider = create(config(url, "chat"))
    (model,) = await provider.list_models()
    await provider.aclose()
    assert model.context_window_tokens == WINDOW


class Llama(ChatSide):
    """The desk's provider at the real server."""

    def __init__(self, server: ModelServer, url: str) -> None:
        super().__init__(server)
        self.url = url

    @property
    def env(self) -> dict[str, str]:
        return {"HERE_KEY": KEY}

    @property
    def config(self) -> str:
        return f'[providers.here]\napi = "chat"\nbase_url = "{self.url}/v1"\nkey_env = "HERE_KEY"\n'


@pytest.fixture
def brief_url() -> Iterator[str]:
    with llama_server(WINDOW, grammar=A_FEW_WORDS) as address:
        yield address


async def test_the_gauge_against_a_tokenizer_that_is_not_ours_and_a_compaction(
    brief_url: str, model_server: ModelServer, project: Path, tmp_path: Path
) -> None:
    desk = Desk(Llama(model_server, brief_url), project, tmp_path / "home", window_tokens=WINDOW)
    (project / "log.txt").write_text(
        "".join(f"{hour:02d}:15 the ship number {hour * 7} went by\n" for hour in range(24))
    )
    few = 'models."chat-test".max_output_tokens=100'
    async with desk.open(no_instructions=True, config=(few,)) as talk:
        await talk.session.prompt("How many ships pass at night?")
        await talk.session.run_shell("cat log.txt")
        await talk.session.prompt("Which ship went by first?")
        used = talk.session.gauge().used_tokens
        await talk.session.prompt("Answer with one word.")
        replies = [reply for reply in desk.payloads(Assistant) if reply.usage.reported]
        # What its template makes of the request and what its tokenizer counts is known from the reports alone.
        before, last = replies[-2].usage, replies[-1].usage
        assert abs(before.prompt_tokens + before.output_tokens - used) <= max(40, used // 20)
        assert last.cache_read_tokens > used // 2
        finished = await talk.session.compact()
        assert finished.key is not None and finished.tokens_after < finished.tokens_before, finished
        (compaction,) = desk.payloads(Compaction)
        assert compaction.summary.strip()
    async with desk.open(talk.path, no_instructions=True, config=(few,)) as later:
        assert (await later.session.prompt("Say hi.")).reason == "done"
        shown = desk.payloads(Assistant)[-1].usage.prompt_tokens
        assert shown < last.prompt_tokens


def test_the_package_brings_a_model() -> None:
    assert model_file().stat().st_size > 50_000_000

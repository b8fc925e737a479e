import pytest

from providers.base import ModelRequest
from providers.openai_chat import OpenAIChat
from providers.openai_responses import OpenAIResponses
from providers.registry import create
from providers.scripted import ScriptedProvider, count_request
from providers.types import Completed, ProviderConfig, TextBlock, UserMessage


def test_each_wire_api_has_its_adapter() -> None:
    responses = create(ProviderConfig("openai", "responses"))
    assert isinstance(responses, OpenAIResponses)
    assert responses.config.name == "openai"
    assert type(create(ProviderConfig("anthropic", "anthropic"))).__module__ == "providers.anthropic_messages"
    assert isinstance(create(ProviderConfig("groq", "chat")), OpenAIChat)
    assert isinstance(create(ProviderConfig("scripted", "scripted")), ScriptedProvider)


async def test_the_scripted_provider_counts_with_the_given_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAW_DEMO_CHARS_PER_S", "0")
    provider = create(ProviderConfig("scripted", "scripted"), counter=len)
    request = ModelRequest("demo", (), (), [UserMessage((TextBlock("go"),))], 0, 0, 100)
    last = [event async for event in provider.stream(request)][-1]
    assert isinstance(last, Completed)
    assert last.usage.input_tokens == count_request(request, len)

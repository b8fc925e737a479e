"""Requests to the Responses adapter and what becomes of them, for the tests of what works and of what fails."""

from typing import Any

from providers.assembler import Assembler
from providers.base import ModelRequest
from providers.errors import (
    ProviderError,
)
from providers.openai_responses import OpenAIResponses
from providers.types import (
    Message,
    PromptSection,
    StreamEvent,
    TextBlock,
    ToolSpec,
    UserMessage,
)

MODEL = "gpt-6.2-sol"
BASH = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


def request(*messages: Message, **fields: Any) -> ModelRequest:
    sent = messages or (UserMessage((TextBlock("go"),)),)
    return ModelRequest(
        model=MODEL,
        system=(PromptSection("base", "You are claw.", True),),
        tools=(BASH,),
        messages=sent,
        generation=1,
        stable=0,
        max_tokens=1000,
        **fields,
    )


async def collect(provider: OpenAIResponses, asked: ModelRequest | None = None) -> list[StreamEvent]:
    return [event async for event in provider.stream(asked or request())]


async def fold(provider: OpenAIResponses, asked: ModelRequest | None = None) -> Assembler:
    assembler = Assembler()
    async for event in provider.stream(asked or request()):
        assembler.feed(event)
    return assembler


async def failure(provider: OpenAIResponses) -> tuple[Assembler, ProviderError]:
    """What had arrived, and the error."""
    assembler = Assembler()
    try:
        async for event in provider.stream(request()):
            assembler.feed(event)
    except ProviderError as error:
        return assembler, error
    raise AssertionError("nothing was raised")

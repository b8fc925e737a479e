"""What the three wire APIs do alike when their servers fail: a test here runs over each of them."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from providers.base import Provider
from providers.errors import (
    AuthenticationError,
    BadRequestError,
    BillingError,
    ConnectionFailedError,
    ContextOverflowError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProtocolError,
    ProviderError,
    RateLimitedError,
    ServerError,
    StreamBrokenError,
)
from providers.http_errors import retry_after
from providers.types import AssistantMessage, Message, ToolCall, WireApi
from tests.fakes.model_server import Chunk, ModelServer, Reply
from tests.fakes.pens import Kind, Pens
from tests.fakes.reply_faults import ARGUMENTS
from tests.fakes.wires import ChatSide
from tests.providers.all_apis import APIS, MODEL, SERVER_KEY, SIDES, all_apis, ask, failure, provider
from tests.providers.conversations import calls, request, result, user


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest_asyncio.fixture(params=APIS)
async def told(request: pytest.FixtureRequest, server: ModelServer) -> AsyncIterator[tuple[Pens, Provider]]:
    """The pens of a server, and a provider that is connected to it."""
    pens = Pens(SIDES[request.param](server))
    asked = provider(request.param, server.url, SERVER_KEY)
    yield pens, asked
    await asked.aclose()


# --------------------------------------------------------------------------- T76, T77: the table of statuses

STATUSES: list[tuple[int, Kind, str, type[ProviderError], bool]] = [
    # status, kind, words, error, whether it is tried again
    (301, "odd", "", ProtocolError, False),
    (307, "odd", "", ProtocolError, False),
    (400, "invalid", "messages: odd", BadRequestError, False),
    (400, "invalid", "Your credit balance is too low", BillingError, False),
    (400, "invalid", "prompt is too long: 9 tokens > 8 maximum", ContextOverflowError, False),
    (401, "auth", "invalid key", AuthenticationError, False),
    (401, "auth", "too many tokens for this key", AuthenticationError, False),
    (402, "billing", "pay", BillingError, False),
    (403, "odd", "no", PermissionDeniedError, False),
    (403, "odd", "monthly token limit exceeded", PermissionDeniedError, False),
    (404, "odd", "no such model", NotFoundError, False),
    (407, "odd", "log in", BadRequestError, False),
    (408, "server", "slow", ServerError, True),
    (409, "odd", "again", ServerError, True),
    (413, "odd", "too large", ContextOverflowError, False),
    (422, "invalid", "unprocessable", BadRequestError, False),
    (425, "odd", "early", ServerError, True),
    (429, "rate", "slow down", RateLimitedError, True),
    (429, "odd", "You have reached your spend limit.", BillingError, False),
    (429, "billing", "You exceeded your current quota.", BillingError, False),
    (500, "server", "oops", ServerError, True),
    (500, "invalid", "context window exceeds limit", ContextOverflowError, False),
    (502, "odd", "bad gateway", ServerError, True),
    (503, "odd", "unavailable", OverloadedError, True),
    (504, "odd", "late", ServerError, True),
    (520, "odd", "unknown", ServerError, True),
    (529, "overloaded", "Overloaded", OverloadedError, True),
]


async def test_T76_T77_R44_every_status_has_its_error_its_retry_and_its_remedy(told: tuple[Pens, Provider]) -> None:
    pens, asked = told
    for status, kind, words, error, retried in STATUSES:
        pens.script(pens.refuse(status, kind, words))
        found = await failure(asked, close=False)
        assert (type(found), found.retryable) == (error, retried), (status, words)
        assert found.status == status and found.message and found.remedy
        assert words in found.message


async def test_T77_a_server_that_says_not_to_try_again_is_believed(told: tuple[Pens, Provider]) -> None:
    pens, asked = told
    for status, kind in ((500, "server"), (429, "rate"), (529, "overloaded")):
        pens.script(pens.refuse(status, kind, "no", {"x-should-retry": "false"}))  # type: ignore[arg-type]  # a kind
        assert not (await failure(asked, close=False)).retryable


async def test_T77_a_refusal_that_never_ends_is_read_to_what_can_be_shown(told: tuple[Pens, Provider]) -> None:
    pens, asked = told
    pens.script(Reply((Chunk(b"no " * 100_000),), 400, {"content-type": "text/plain"}, end="stall"))
    found = await asyncio.wait_for(failure(asked, close=False), 30)
    assert found.message.startswith("no no no") and len(found.message) <= 1_000


async def test_T82_a_listing_that_never_ends_is_given_up(told: tuple[Pens, Provider]) -> None:
    pens, asked = told
    pens.wire.server.always("/v1/models", Reply((Chunk(b" " * 17_000_000),), end="stall"))
    with pytest.raises(ProtocolError, match=r"127\.0\.0\.1 sent more than 16 MiB"):
        await asyncio.wait_for(asked.list_models(), 30)


def test_T76_T90_a_date_to_wait_for_is_compared_with_the_servers_own_clock() -> None:
    late = {"retry-after": "Wed, 21 Oct 2099 07:28:30 GMT", "date": "Wed, 21 Oct 2099 07:28:00 GMT"}
    assert retry_after(late) == 30.0
    assert retry_after({**late, "date": "yesterday"}) is None


# --------------------------------------------------------------------------- T78: what stands between


async def test_T78_a_page_instead_of_a_stream_names_the_host(told: tuple[Pens, Provider]) -> None:
    pens, asked = told
    pens.script(
        Reply((Chunk(b"<html>Log in to the network</html>"),), headers={"content-type": "text/html"}),
        Reply((Chunk(b"<html>Bad gateway</html>"),), 502, {"content-type": "text/html"}),
        Reply((Chunk(b"data: x"),), headers={}),
    )
    page, gateway, untyped = [await failure(asked, close=False) for _ in range(3)]
    assert isinstance(page, ProtocolError) and "127.0.0.1 answered with something" in page.message
    assert "proxy" in page.remedy and "Log in" in page.message
    assert isinstance(gateway, ServerError) and "127.0.0.1 sent an HTML page" in gateway.message
    assert not isinstance(untyped, ConnectionFailedError)


async def test_T78_an_answer_without_a_type_is_read(told: tuple[Pens, Provider]) -> None:
    pens, asked = told
    pens.script(Reply(pens.new().text("hi").stop().reply().chunks, headers={}))
    await ask(asked)


# --------------------------------------------------------------------------- T79: breaks at every byte


async def test_T79_a_stream_that_is_cut_at_any_byte_is_broken_or_whole_and_closes_no_call(
    told: tuple[Pens, Provider],
) -> None:
    pens, asked = told
    data = pens.new().text("I edit.").call("read", {"path": "a"}).stop("calls").data
    for at in range(0, len(data), max(1, len(data) // 25)):
        pens.script(Reply((Chunk(data[:at]),), framing="close"))
        try:
            await ask(asked)
        except ProviderError as error:
            assert isinstance(error, StreamBrokenError) and error.retryable, (at, error.message)
        else:
            # Without a length the end of the connection may be the end of the reply, once that said why it stopped.
            assert b"tool_calls" in data[:at], at


# --------------------------------------------------------------------------- T83: arguments on their way back


@all_apis
async def test_T83_whatever_a_model_wrote_as_arguments_its_server_takes_them_back(
    server: ModelServer, api: WireApi
) -> None:
    pens = Pens(SIDES[api](server))
    written = [ToolCall(f"call_{n}", "read", text) for n, text in enumerate(ARGUMENTS.values())]
    history: list[Message] = [user("hi"), AssistantMessage(tuple(written)), *(result(call.id) for call in written)]
    pens.script(pens.new().text("hi").stop().reply())
    asked = provider(api, server.url, SERVER_KEY)
    async for _ in asked.stream(request(history, model=MODEL[api])):
        pass
    await asked.aclose()
    assert pens.wire.refusals == []
    sent = server.requests[0].body
    assert len(sent) > 2_000_000 and b"[" * 5_000 in sent, "the model's words are all there"


# --------------------------------------------------------------------------- T85, T86: ids of other servers


@all_apis
async def test_T85_T86_ids_of_other_servers_are_made_to_fit_and_stay_paired(server: ModelServer, api: WireApi) -> None:
    pens = Pens(SIDES[api](server))
    ids = ["x" * 300, "x" * 299 + "y", "a b/ü:😀", "call_1"]
    asked = provider(api, server.url, SERVER_KEY)
    history: list[Message] = [user("hi"), calls(*ids), *(result(id_, f"of {number}") for number, id_ in enumerate(ids))]
    pens.script(pens.new().text("hi").stop().reply())
    async for _ in asked.stream(request(history, model=MODEL[api])):
        pass
    await asked.aclose()
    assert pens.wire.refusals == []
    assert b"call_1" in server.requests[0].body


async def test_T86_a_server_that_wants_nine_letters_gets_them(server: ModelServer) -> None:
    from providers.presets import PRESETS

    pens = Pens(ChatSide(server))
    asked = provider("chat", server.url, SERVER_KEY, quirks=PRESETS["mistral"].quirks)
    ids = ["call_0001", "AbCdEf123", "toolu_01" + "A" * 22]
    pens.script(pens.new().text("hi").stop().reply())
    async for _ in asked.stream(request([user("hi"), calls(*ids), *map(result, ids)])):
        pass
    await asked.aclose()
    sent = [call["id"] for call in server.requests[0].json["messages"][1]["tool_calls"]]
    assert sent[1] == "AbCdEf123" and len(set(sent)) == 3
    assert all(len(id_) == 9 and id_.isalnum() for id_ in sent)
    assert [m["tool_call_id"] for m in server.requests[0].json["messages"] if m["role"] == "tool"] == sent

"""What the three wire APIs do alike when their servers, proxies and networks fail: a test here runs over each of them."""

import asyncio
import ssl
import subprocess
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from socket import create_server

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
from providers.registry import create
from providers.types import AssistantMessage, Message, ProviderConfig, Secret, ToolCall, WireApi
from tests.fakes.model_server import Chunk, ModelServer, Reply
from tests.fakes.pens import Kind, Pens
from tests.fakes.reply_faults import ARGUMENTS
from tests.fakes.wires import AnthropicSide, ChatSide, ResponsesSide, Wire
from tests.providers.conversations import calls, request, result, user

KEY = "a-key-that-nobody-may-see-0123456789"
APIS: tuple[WireApi, ...] = ("anthropic", "responses", "chat")
SIDES: dict[str, Callable[[ModelServer], Wire]] = {
    "anthropic": AnthropicSide,
    "responses": ResponsesSide,
    "chat": ChatSide,
}
MODEL = {"anthropic": "claude-sonnet-5-5", "responses": "gpt-5.5", "chat": "some-model"}
all_apis = pytest.mark.parametrize("api", APIS)
both_sdks = pytest.mark.parametrize("api", ["anthropic", "chat"])


def provider(api: WireApi, url: str | None, key: str = KEY, **config: object) -> Provider:
    suffix = "" if api == "anthropic" or url is None else "/v1"
    return create(ProviderConfig("mine", api, url and url + suffix, Secret(key) if key else None, **config))  # type: ignore[arg-type]  # of a keyword


async def ask(asked: Provider) -> None:
    async for _ in asked.stream(request([user("hi")], model=MODEL[asked.config.api])):
        pass


async def failure(asked: Provider, close: bool = True) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(asked)
    if close:
        await asked.aclose()
    return caught.value


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest_asyncio.fixture(params=APIS)
async def told(request: pytest.FixtureRequest, server: ModelServer) -> AsyncIterator[tuple[Pens, Provider]]:
    """The pens of a server, and a provider that is connected to it."""
    pens = Pens(SIDES[request.param](server))
    asked = provider(request.param, server.url, "test-key-0123456789")
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
        assert found.status == status and words in found.message and found.remedy


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


@all_apis
async def test_T78_a_name_that_nobody_knows_is_named(api: WireApi) -> None:
    found = await failure(provider(api, "https://no-such-host.invalid"))
    assert isinstance(found, ConnectionFailedError) and found.retryable
    assert "no-such-host.invalid" in found.message


@all_apis
async def test_T78_a_proxy_that_refuses_is_named_without_its_log_in(
    api: WireApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    _behind(monkeypatch, HTTPS_PROXY=f"http://me:hidden-word@127.0.0.1:{port}")
    found = await failure(provider(api, "https://models.example.com"))
    assert f"through the proxy 127.0.0.1:{port}" in found.message
    assert "models.example.com" in found.message and "hidden-word" not in _shown(found)


@all_apis
async def test_T78_a_proxy_that_wants_a_log_in_is_asked_once(
    server: ModelServer, api: WireApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    _behind(monkeypatch, HTTPS_PROXY=server.url)
    server.always("models.example.com:443", Reply(status=407))
    found = await failure(provider(api, "https://models.example.com"))
    assert isinstance(found, ConnectionFailedError) and not found.retryable
    assert server.url.removeprefix("http://") in found.message and "HTTPS_PROXY" in found.remedy
    assert len(server.requests) == 1 and KEY not in str(server.requests[0].headers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "foo://proxy.example:1"),
        ("ALL_PROXY", "socks5://me:hidden-word@proxy.example:1080"),
        ("SSL_CERT_FILE", "/does/not/exist.pem"),
    ],
)
@both_sdks
async def test_T78_what_the_environment_names_and_nothing_can_use_is_told(
    api: WireApi, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _behind(monkeypatch, **{name: value})
    found = await failure(provider(api, "https://models.example.com"))
    assert isinstance(found, ConnectionFailedError) and not found.retryable
    assert "models.example.com" in found.message and name in found.remedy
    assert "hidden-word" not in _shown(found)


def _behind(monkeypatch: pytest.MonkeyPatch, **env: str) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)


@both_sdks
async def test_T78_a_certificate_that_nobody_trusts_is_told_and_not_tried_again(api: WireApi, tmp_path: Path) -> None:
    with tls_server(tmp_path) as (port, connections):
        found = await failure(provider(api, f"https://localhost:{port}"))
    assert isinstance(found, ConnectionFailedError) and not found.retryable
    assert f"https://localhost:{port}" in found.message and "certificate" in found.message.lower()
    assert "SSL_CERT_FILE" in found.remedy
    assert connections == [1]


class tls_server:  # noqa: N801 - used like a function
    """A server whose certificate it signed itself; what it gives counts the connections."""

    def __init__(self, folder: Path) -> None:
        key, certificate = folder / "key.pem", folder / "cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = create_server(("127.0.0.1", 0))
        self._count = [0]
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._stopping:
                connection.close()
                return
            self._count[0] += 1
            with connection:
                try:
                    with self._context.wrap_socket(connection, server_side=True) as secure:
                        secure.recv(1)
                except OSError:
                    pass

    def __enter__(self) -> tuple[int, list[int]]:
        self._stopping = False
        self._thread.start()
        return self._listener.getsockname()[1], self._count

    def __exit__(self, *exc: object) -> None:
        self._stopping = True
        from socket import create_connection

        create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()


# --------------------------------------------------------------------------- R47: keys


@all_apis
async def test_R47_B20_no_call_follows_a_redirect(server: ModelServer, api: WireApi) -> None:
    paths = ("messages", "responses", "chat/completions", "models", "messages/count_tokens", "responses/input_tokens")
    asked = provider(api, server.url)
    ways: list[Callable[[], Awaitable[object]]] = [lambda: ask(asked), asked.list_models]
    if api != "chat":
        ways.append(lambda: asked.count_tokens(request([user("hi")], model=MODEL[api])))
    with ModelServer() as elsewhere:
        for status in (301, 302, 303, 307, 308):
            for path in paths:
                server.always(f"/v1/{path}", Reply(status=status, headers={"location": f"{elsewhere.url}/v1/{path}"}))
            for way in ways:
                with pytest.raises(ProtocolError):
                    await way()
        await asked.aclose()
        assert len(server.requests) == 5 * len(ways)
        assert elsewhere.requests == []


@all_apis
async def test_R47_headers_of_the_environment_go_to_the_vendor_alone(
    server: ModelServer, api: WireApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Gateway: hidden-word\nX-Api-Key: hidden-word")
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "hidden-word")
    pens = Pens(SIDES[api](server))
    pens.script(pens.new().text("hi").stop().reply())
    asked = provider(api, server.url, "test-key-0123456789")
    await ask(asked)
    await asked.aclose()
    assert "hidden-word" not in str(server.requests[0].headers)


@all_apis
async def test_R47_T102_no_key_is_in_an_error_its_causes_or_a_traceback(server: ModelServer, api: WireApi) -> None:
    headers = {"x-team": "a-header-that-nobody-may-see"}
    echo = f"you sent {KEY} and {headers['x-team']}"
    pens = Pens(SIDES[api](server))
    pens.wire._wire.key = KEY  # type: ignore[attr-defined]  # the key that this server takes
    pens.script(pens.refuse(400, "invalid", echo), pens.new().text("I").error("auth", echo).reply())
    pens.script(Reply((Chunk(echo.encode()),)), Reply(head=f"HTTP/1.1 {KEY}\r\n\r\n".encode(), end="fin"))
    asked = provider(api, server.url, headers=headers)
    for _ in range(4):
        found = await failure(asked, close=False)
        assert KEY not in _shown(found) and "nobody-may-see" not in _shown(found), _shown(found)
    await asked.aclose()
    assert KEY not in repr(asked.config) and "nobody-may-see" not in repr(asked.config)


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


@pytest.mark.parametrize("value", ["line\nbreak-hidden-word", "Zoë-hidden-word", "nul\0-hidden-word"])
@all_apis
async def test_R47_a_header_that_cannot_be_sent_is_named_and_not_shown(api: WireApi, value: str) -> None:
    found = await failure(provider(api, "http://127.0.0.1:9", headers={"x-team": value}))
    assert "x-team" in found.message and "config.toml" in found.remedy and not found.retryable
    assert "hidden-word" not in _shown(found)


@pytest.mark.parametrize(
    "host", ["127.0.0.1.example.com", "localhost.example.com", "example.com", "10.0.0.1", "[2001:db8::1]", "0.0.0.0"]
)
@all_apis
async def test_R47_neither_key_nor_headers_leave_this_machine_unencrypted(api: WireApi, host: str) -> None:
    for given in (provider(api, f"http://{host}"), provider(api, f"http://{host}", "", headers={"x-token": "secret"})):
        found = await failure(given)
        assert "unencrypted" in found.message and "https://" in found.remedy


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
    asked = provider(api, server.url, "test-key-0123456789")
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
    asked = provider(api, server.url, "test-key-0123456789")
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
    asked = provider("chat", server.url, "test-key-0123456789", quirks=PRESETS["mistral"].quirks)
    ids = ["call_0001", "AbCdEf123", "toolu_01" + "A" * 22]
    pens.script(pens.new().text("hi").stop().reply())
    async for _ in asked.stream(request([user("hi"), calls(*ids), *map(result, ids)])):
        pass
    await asked.aclose()
    sent = [call["id"] for call in server.requests[0].json["messages"][1]["tool_calls"]]
    assert sent[1] == "AbCdEf123" and len(set(sent)) == 3
    assert all(len(id_) == 9 and id_.isalnum() for id_ in sent)
    assert [m["tool_call_id"] for m in server.requests[0].json["messages"] if m["role"] == "tool"] == sent

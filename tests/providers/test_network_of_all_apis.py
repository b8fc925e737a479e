"""What stands between claw and a model's server, and where keys go: names, proxies, certificates, redirects, headers."""

import shutil
import ssl
import subprocess
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from socket import create_connection, create_server

import pytest

from providers.errors import (
    ConnectionFailedError,
    ProtocolError,
)
from providers.types import WireApi
from tests.fakes.model_server import Chunk, ModelServer, Reply
from tests.fakes.pens import Pens
from tests.providers.all_apis import KEY, MODEL, SERVER_KEY, SIDES, all_apis, ask, both_sdks, failure, provider
from tests.providers.conversations import request, user


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


# --------------------------------------------------------------------------- T78: what stands between


@both_sdks
async def test_T78_a_name_that_nobody_knows_is_named(api: WireApi, monkeypatch: pytest.MonkeyPatch) -> None:
    _behind(monkeypatch)
    found = await failure(provider(api, "https://no-such-host.invalid"))
    assert isinstance(found, ConnectionFailedError) and found.retryable
    assert "no-such-host.invalid" in found.message and "Errno" not in found.message


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


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
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
                with pytest.raises(ProtocolError, match="redirect") as caught:
                    await way()
                assert elsewhere.url in caught.value.message and "base_url" in caught.value.remedy
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
    asked = provider(api, server.url, SERVER_KEY)
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

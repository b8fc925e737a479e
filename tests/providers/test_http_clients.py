import subprocess
import sys
from collections.abc import Iterator
from typing import Literal

import pytest

from providers.base import Provider
from providers.errors import ConnectionFailedError
from providers.registry import create
from providers.types import ProviderConfig, Secret
from tests.fakes.model_server import ModelServer, Reply
from tests.providers.conversations import request, user

KEY = "key-of-the-configuration"
Api = Literal["anthropic", "responses"]
both = pytest.mark.parametrize("api", ["anthropic", "responses"])


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def provider(api: Api, url: str | None) -> Provider:
    suffix = "/v1" if api == "responses" and url else ""
    return create(ProviderConfig("mine", api, url and url + suffix, Secret(KEY)))


async def ask(asked: Provider) -> None:
    try:
        async for _ in asked.stream(request([user("hi")])):
            pass
    finally:
        await asked.aclose()


def answer(server: ModelServer, api: Api) -> None:
    (server.anthropic if api == "anthropic" else server.responses).reply("hi")


@both
async def test_T78_this_machine_is_reached_without_a_proxy(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    answer(server, api)
    await ask(provider(api, server.url))
    assert len(server.requests) == 1


@both
async def test_T78_a_proxy_that_wants_a_log_in_is_named_and_not_tried_again(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", server.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.always("models.example.com:443", Reply(status=407))
    with pytest.raises(ConnectionFailedError, match=r"https://models\.example\.com") as caught:
        await ask(provider(api, "https://models.example.com"))
    assert "HTTPS_PROXY" in caught.value.remedy
    assert not caught.value.retryable
    assert KEY not in str(server.requests[0].headers)


@both
async def test_R47_the_environment_of_an_sdk_sends_no_key_elsewhere(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, api: Api
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, server.url)
    # Without an address of its own the vendor's is meant; the proxy ends the attempt before anything leaves.
    with ModelServer() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        vendor = "api.anthropic.com:443" if api == "anthropic" else "api.openai.com:443"
        proxy.always(vendor, Reply(status=502))
        with pytest.raises(ConnectionFailedError):
            await ask(provider(api, None))
        assert [asked.path for asked in proxy.requests] == [vendor]
    assert server.requests == []


async def test_R47_the_environments_organisation_goes_to_the_vendor_alone(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    server.responses.reply("hi")
    await ask(provider("responses", server.url))
    assert "-secret" not in str(server.requests[0].headers)


_IMPORTING_THREADS = """
import asyncio, sys, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("anthropic._client", "openai._client"):
            print(name, threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())
from providers.base import ModelRequest
from providers.errors import ProviderError
from providers.registry import create
from providers.types import ProviderConfig

async def ask(api):
    made = create(ProviderConfig("mine", api, "http://127.0.0.1:9/v1"))
    try:
        async for _ in made.stream(ModelRequest("m", (), (), [], 0, 0, 1)):
            pass
    except ProviderError:
        pass
    await made.aclose()

asyncio.run(ask(sys.argv[1]))
"""


@pytest.mark.parametrize(("api", "sdk"), [("anthropic", "anthropic"), ("responses", "openai")])
def test_the_first_request_imports_the_sdk_beside_the_event_loop(api: str, sdk: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _IMPORTING_THREADS, api], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.split("\n")[0] == f"{sdk}._client False"

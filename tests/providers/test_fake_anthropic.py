"""The strict server is only worth something if it refuses what the real one refuses."""

import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.anthropic_rules import refusal
from tests.fakes.model_server import Chunk, ModelServer, Reply

Body = dict[str, Any]


def text(value: str = "hi", **fields: Any) -> Body:
    return {"type": "text", "text": value, **fields}


def call(call_id: str, **fields: Any) -> Body:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {}, **fields}


def answer(call_id: str, **fields: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": call_id, "content": [text()], **fields}


def body(*contents: list[Body], **fields: Any) -> Body:
    """User and assistant in turn."""
    roles = ("user", "assistant") * len(contents)
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
    return {"model": "m", "max_tokens": 100, "messages": messages, **fields}


def without(name: str) -> Body:
    made = body([text()])
    del made[name]
    return made


MARK: Body = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
VALID = body(
    [text(**MARK)],
    [{"type": "thinking", "thinking": "", "signature": "s"}, text(), call("a"), call("b", input={"type": "ephemeral"})],
    [answer("a"), answer("b", content=[]), text(**MARK)],
    system=[text(**MARK), text(**MARK)],
    tools=[{"name": "read", "description": "", "input_schema": SCHEMA}],
    thinking={"type": "adaptive", "display": "summarized"},
    output_config={"effort": "high"},
    stream=True,
)

INVALID: list[tuple[str, Body]] = [
    ("max_tokens: Field required", without("max_tokens")),
    ("model: Field required", without("model")),
    ("messages: Field required", without("messages")),
    ("temperature: ", body([text()], temperature=0.5)),
    ("frobnicate: Extra inputs", body([text()], frobnicate=1)),
    ("budget_tokens: Input should be greater", body([text()], thinking={"type": "enabled", "budget_tokens": 5})),
    ("must be greater than", body([text()], thinking={"type": "enabled", "budget_tokens": 2_000})),
    ("thinking.type", body([text()], thinking={"type": "always"})),
    ("effort", body([text()], output_config={"effort": "off"})),
    ("at least one message", body()),
    ('must use the "user" role', {**body(), "messages": [{"role": "assistant", "content": [text()]}]}),
    ("prefill", body([text()], [text()])),
    ("must be non-empty", body([text("")])),
    ("non-whitespace", body([text(" \n")])),
    ("non-whitespace", body([text()], [text(), call("a")], [answer("a", content=[text(" ")])])),
    ("non-empty content", body([text()], [], [text()])),
    ("system: text content blocks", body([text()], system=[text("")])),
    ("A maximum of 4 blocks with cache_control may be provided. Found 5", body([text(**MARK)] * 5)),
    ("without `tool_result` blocks immediately after: a", body([text()], [call("a")], [text()])),
    ("without `tool_result` blocks immediately after: b", body([text()], [call("a"), call("b")], [answer("a")])),
    ("without `tool_result` blocks immediately after: a", body([text()], [call("a")], [text(), answer("a")])),
    ("without `tool_result` blocks immediately after: a", body([text()], [call("a")])),
    ("unexpected `tool_use_id`", body([answer("a")])),
    ("unexpected `tool_use_id`", body([text()], [call("a")], [answer("a"), answer("z")])),
    ("multiple `tool_result` blocks", body([text()], [call("a")], [answer("a"), answer("a")])),
    ("not in the order", body([text()], [call("a"), call("b")], [answer("b"), answer("a")])),
    ("ids must be unique", body([text()], [call("a"), call("a")], [answer("a")])),
    ("tool_use.id: String should match", body([text()], [call("a.b")], [answer("a.b")])),
    ("tool_use.name: String should match", body([text()], [call("a", name="x y")], [answer("a")])),
    ("valid dictionary", body([text()], [call("a", input=[])], [answer("a")])),
    ("cannot be `thinking`", body([text()], [{"type": "thinking", "thinking": "x", "signature": "s"}], [text()])),
    ("signature: Field required", body([text()], [{"type": "thinking", "thinking": "x"}, text()], [text()])),
    (
        "thinking.cache_control",
        body([text()], [{"type": "thinking", "thinking": "x", "signature": "s", **MARK}, text()], [text()]),
    ),
    ("found using 'type'", body([{"type": "hologram"}])),
    ("Invalid base64", body([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}])),
    ("tools.0.custom.name", body([text()], tools=[{"name": "a b", "input_schema": SCHEMA}])),
    ("input_schema.type", body([text()], tools=[{"name": "a", "input_schema": {}}])),
    ("names must be unique", body([text()], tools=[{"name": "a", "input_schema": SCHEMA}] * 2)),
]


def test_a_valid_request_is_accepted() -> None:
    assert refusal(json.dumps(VALID).encode()) is None


@pytest.mark.parametrize(("words", "bad"), INVALID)
def test_what_the_service_refuses_is_refused_in_its_words(words: str, bad: Body) -> None:
    found = refusal(json.dumps(bad).encode())
    assert found is not None
    assert words in found


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a": "\xff"}', b"[]", json.dumps(body([text("\ud800")])).encode()])
def test_a_body_that_is_no_clean_json_is_refused(raw: bytes) -> None:
    assert refusal(raw) is not None


def post(server: ModelServer, value: Body, key: str = "k") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=40)
    try:
        headers = {"authorization": f"Bearer {key}", "anthropic-version": "2026-10-21"}
        connection.request("POST", "/v1/messages?beta=true", json.dumps(value), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_a_refused_request_is_recorded_and_uses_up_no_reply() -> None:
    with ModelServer() as server:
        server.anthropic.reply("hello")
        status, raw = post(server, body([text("")]))
        assert status == 400
        assert json.loads(raw)["error"]["type"] == "invalid_request_error"
        status, raw = post(server, body([text()]))
        assert (status, b"hello" in raw) == (200, True)
        assert [request.query for request in server.anthropic.requests] == ["beta=true"] * 2
        assert len(server.anthropic.refusals) == 1


def test_wrong_keys_and_long_prompts_are_refused() -> None:
    with ModelServer() as server:
        server.anthropic.key = "right"
        assert post(server, body([text()]), "wrong")[0] == 401
        server.anthropic.window_tokens = 100
        status, raw = post(server, body([text("x" * 1_000)]), "right")
        assert (status, b"prompt is too long" in raw) == (400, True)


@pytest.mark.parametrize("script", [None, lambda request: 1 / 0])
def test_a_missing_or_broken_script_fails_the_test(script: Callable[[Any], Reply] | None) -> None:
    with pytest.raises(AssertionError, match="script"), ModelServer() as server:
        if script is not None:
            server.queue("/v1/messages", script)
        assert post(server, body([text()]))[0] == 400


def test_leaving_ends_replies_that_stand_still() -> None:
    with ModelServer() as server:
        server.queue("/v1/messages", Reply((Chunk(b"data: 1\n\n"),), end="stall"))
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=40)
        connection.request("POST", "/v1/messages", "{}")
        assert connection.getresponse().status == 200
    connection.close()

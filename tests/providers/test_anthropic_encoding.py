import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.anthropic_encoding import AnthropicEncoder
from providers.base import ModelRequest
from providers.types import (
    AssistantMessage,
    Effort,
    ImageBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from tests.fakes.anthropic_rules import refusal
from tests.providers.conversations import READ, SYSTEM, calls, request, result, user

MARK = {"cache_control": {"type": "ephemeral"}}
REDACTED = OpaqueBlock("anthropic", "claude-x", {"type": "redacted_thinking", "data": "abc"})
PNG = ImageBlock("image/png", "sha", 1, 1)


def body(asked: ModelRequest, encoder: AnthropicEncoder | None = None) -> dict[str, Any]:
    raw = (encoder or AnthropicEncoder()).body(asked)
    assert refusal(raw) is None
    parsed: dict[str, Any] = json.loads(raw)
    return parsed


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def one_call(arguments: str) -> list[Message]:
    return [user("go"), AssistantMessage((ToolCall("t1", "read", arguments),)), result("t1")]


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def flat(parsed: dict[str, Any]) -> list[tuple[str, Any]]:
    """The (role, block) pairs of a body without its cache marks."""
    return [(m["role"], unmarked(block)) for m in parsed["messages"] for block in m["content"]]


def marked(parsed: dict[str, Any]) -> list[Any]:
    """The marked blocks of the messages, in order, without their marks."""
    return [unmarked(b) for m in parsed["messages"] for b in m["content"] if "cache_control" in b]


def test_I1_C1_system_messages_and_tools_stand_apart_in_the_body() -> None:
    messages: list[Message] = [
        user("fix it", "<reminder>today</reminder>"),
        AssistantMessage(
            (
                ThinkingBlock("hm", "sig"),
                REDACTED,
                TextBlock("I read."),
                ToolCall("t1", "read", '{"path": "a"}'),
                ToolCall("t2", "read", '{"path":"b"}'),
            )
        ),
        result("t1", "one"),
        result("t2", "no such file", is_error=True),
        user("and be quick"),
    ]
    parsed = body(request(messages, system=SYSTEM, tools=(READ,), effort="high", sent_before=1, stable=2))
    assert parsed == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1_000,
        "stream": True,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
        "tools": [{"name": "read", "description": "Read a file.", "input_schema": READ.parameters}],
        "system": [text("You are claw."), text("Use tools.", **MARK), text("Use tabs.", **MARK)],
        "messages": [
            {"role": "user", "content": [text("fix it"), text("<reminder>today</reminder>", **MARK)]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "abc"},
                    text("I read."),
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [text("one")]},
                    {"type": "tool_result", "tool_use_id": "t2", "content": [text("no such file")], "is_error": True},
                    text("and be quick", **MARK),
                ],
            },
        ],
    }
    schema = READ.parameters
    assert list(parsed["tools"][0]["input_schema"]) == list(schema)


def test_the_shortest_request_gives_this_body() -> None:
    assert body(request([user("hi")])) == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1_000,
        "stream": True,
        "messages": [{"role": "user", "content": [text("hi", **MARK)]}],
    }


def test_a_server_without_cache_marks_gets_none() -> None:
    raw = AnthropicEncoder(cache_marks=False).body(request([user("hi")], system=SYSTEM, tools=(READ,)))
    assert b"cache_control" not in raw


def test_without_a_system_prompt_the_last_tool_bears_the_mark() -> None:
    assert body(request([user("hi")], tools=(READ,)))["tools"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"path": "a"}', {"path": "a"}),
        ("{}", {}),
        ("", {}),
        ("  ", {}),
        ("null", {"invalid_json": "null"}),
        ("[]", {"invalid_json": "[]"}),
        ('"x"', {"invalid_json": '"x"'}),
        ('{"path": "a', {"invalid_json": '{"path": "a'}),
        ("{'path': 1}", {"invalid_json": "{'path': 1}"}),
        ('{"a": NaN}', {"invalid_json": '{"a": NaN}'}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"a": "\ud800"}', {"a": "\ufffd"}),
        ('{"a": 1} trailing', {"invalid_json": '{"a": 1} trailing'}),
    ],
)
def test_T83_T89_a_calls_input_is_always_an_object(arguments: str, expected: Any) -> None:
    assert body(request(one_call(arguments)))["messages"][1]["content"][0]["input"] == expected


def test_T83_arguments_of_two_megabytes_and_500_levels_pass() -> None:
    for arguments in (json.dumps({"text": "ü" * 1_000_000}), '{"a":' * 500 + "1" + "}" * 500):
        assert body(request(one_call(arguments)))["messages"][1]["content"][0]["input"] == json.loads(arguments)


def test_T83_arguments_too_deep_to_parse_are_wrapped() -> None:
    arguments = '{"a":' * 100_000 + "1" + "}" * 100_000
    assert body(request(one_call(arguments)))["messages"][1]["content"][0]["input"] == {"invalid_json": arguments}


def test_what_cannot_be_sent_back_is_left_out() -> None:
    messages: list[Message] = [
        user("  \n", "go", ""),
        AssistantMessage(
            (
                TextBlock(" "),
                ThinkingBlock("unsigned"),
                OpaqueBlock("responses", "gpt", {"type": "reasoning", "id": "r"}),
                ToolCall("t0", "read", '{"pa', finished=False),
                TextBlock("well"),
            )
        ),
        AssistantMessage((TextBlock(""),)),
        user("\t"),
        user("on"),
    ]
    assert flat(body(request(messages))) == [("user", text("go")), ("assistant", text("well")), ("user", text("on"))]


def test_T85_ids_and_names_of_other_apis_are_made_to_fit_and_stay_paired() -> None:
    ids = ["functions.read:0", "functions.read:1", "functions_read_0", "call|x", "ü" * 80]
    messages: list[Message] = [
        user("go"),
        AssistantMessage(tuple(ToolCall(i, "no tool!" + "x" * 200, "{}") for i in ids)),
        *(result(i) for i in ids),
    ]
    parsed = body(request(messages))
    used = [block["id"] for block in parsed["messages"][1]["content"]]
    assert len(set(used)) == len(ids)
    assert [block["tool_use_id"] for block in parsed["messages"][2]["content"]] == used


def test_T89_any_text_gives_valid_utf8_json() -> None:
    odd = "lone \ud800 half, NUL \x00, cut \ud83d"
    section = SYSTEM[0]
    messages: list[Message] = [
        user(odd),
        AssistantMessage((ThinkingBlock(odd, "sig"), TextBlock(odd), ToolCall(odd, odd, json.dumps({odd: odd})))),
        result(odd, odd),
    ]
    parsed = body(request(messages, system=(type(section)(section.name, odd, True),)))
    assert parsed["messages"][0]["content"][0]["text"] == "lone \ufffd half, NUL \x00, cut \ufffd"


def test_images_go_as_base64_and_a_missing_one_as_a_sentence() -> None:
    odd = ImageBlock("image/tiff", "sha")
    messages: list[Message] = [UserMessage((PNG, odd)), calls("t1"), ToolResultMessage("t1", (PNG,))]
    parsed = body(request(messages, load_blob={"sha": b"\x89PNG"}.__getitem__))
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()},
    }
    assert parsed["messages"][0]["content"] == [image, text("[An image of type image/tiff (sha) that cannot be sent.]")]
    assert parsed["messages"][2]["content"][0]["content"] == [image]
    nothing: dict[str, bytes] = {}
    for load_blob in (None, nothing.__getitem__):
        without = body(request(messages, load_blob=load_blob))
        assert without["messages"][0]["content"][0] == text("[An image of type image/png (sha) that cannot be sent.]")


def test_a_result_without_content_is_still_a_result() -> None:
    parsed = body(request([user("go"), calls("t1"), ToolResultMessage("t1", ())]))
    assert parsed["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "t1", **MARK}]


# --------------------------------------------------------------------------- thinking


LEAST = {"thinking": {"type": "adaptive", "display": "summarized"}, "effort": "low"}
NEVER_OFF = ("opus-5-5", "sonnet-5-5", "fable-5", "fable-5-2", "mythos-5-2", "opus-5-5-20261101")


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-sonnet-5-5", None, {}),
        ("claude-opus-4-6", "low", {"thinking": {"type": "adaptive", "display": "summarized"}, "effort": "low"}),
        ("claude-sonnet-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 2_048}}),
        ("claude-haiku-4-5-20251001", "medium", {"thinking": {"type": "enabled", "budget_tokens": 8_192}}),
        ("claude-sonnet-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-haiku-5-5", "off", {"thinking": {"type": "disabled"}}),
        *((f"claude-{name}", "off", LEAST) for name in NEVER_OFF),
        ("claude-sonnet-7", "off", LEAST),
        ("claude-opus-4-6", "off", {}),
        ("claude-sonnet-4-5", "off", {}),
        ("glm-5", "high", {}),
    ],
)
def test_effort_becomes_what_the_model_takes(model: str, effort: Effort | None, expected: dict[str, Any]) -> None:
    parsed = body(request([user("hi")], model=model, effort=effort, max_tokens=32_000))
    found = {"thinking": parsed["thinking"]} if "thinking" in parsed else {}
    if "output_config" in parsed:
        found["effort"] = parsed["output_config"]["effort"]
    assert found == expected


@pytest.mark.parametrize(
    ("max_tokens", "budget"), [(64_000, 16_384), (32_000, 16_000), (4_000, 2_000), (2_048, 1_024), (2_047, None)]
)
def test_a_thinking_budget_leaves_room_for_the_answer(max_tokens: int, budget: int | None) -> None:
    parsed = body(request([user("hi")], model="claude-sonnet-4-5", effort="high", max_tokens=max_tokens))
    assert parsed.get("thinking", {}).get("budget_tokens") == budget


# --------------------------------------------------------------------------- cache marks


def test_marks_move_with_the_conversation_and_the_old_place_keeps_its_own() -> None:
    encoder = AnthropicEncoder()
    messages: list[Message] = [user("go")]
    assert marked(body(request(messages), encoder)) == [text("go")]
    messages += [calls("t1"), result("t1", "one")]
    one = {"type": "tool_result", "tool_use_id": "t1", "content": [text("one")]}
    assert marked(body(request(messages, sent_before=1, stable=2), encoder)) == [text("go"), one]
    messages += [calls("t2"), result("t2", "two"), user("steer")]
    assert marked(body(request(messages, sent_before=3, stable=4), encoder)) == [one, text("steer")]


def test_a_call_of_its_own_gets_no_mark_behind_what_is_shared() -> None:
    encoder = AnthropicEncoder()
    messages: list[Message] = [user("go"), calls("t1"), result("t1", "one")]
    parsed = body(request(messages, sent_before=1, stable=2, extra=(user("summarise"),)), encoder)
    assert marked(parsed) == [text("go")]
    assert flat(parsed)[-1] == ("user", text("summarise"))
    assert marked(body(request(messages, extra=(user("summarise"),), cache_key="x"), encoder)) == []


def test_a_mark_never_stands_on_thinking() -> None:
    paused = AssistantMessage((OpaqueBlock("anthropic", "c", {"type": "server_tool_use", "id": "s1"}), REDACTED))
    raw = AnthropicEncoder().body(request([user("go"), paused], sent_before=1))
    assert [unmarked(b) for m in json.loads(raw)["messages"] for b in m["content"] if "cache_control" in b] == [
        text("go")
    ]


def test_never_more_than_four_marks() -> None:
    messages: list[Message] = [user("go"), calls("t1"), result("t1"), user("x")]
    raw = AnthropicEncoder().body(request(messages, system=SYSTEM, tools=(READ,), sent_before=1))
    assert raw.count(b"cache_control") == 4


# --------------------------------------------------------------------------- the prefix, and the cost


STEP = st.lists(st.sampled_from(["one", "two", "blank", "steer", "thinking"]), max_size=12)


def grow(messages: list[Message], kind: str) -> int:
    """Add a step as the window would; returns how many leading messages are stable from then on."""
    number = len(messages)
    if kind == "steer":
        messages.append(user(f"steer {number}"))
        return 0
    ids = [f"t{number}a", f"t{number}b"] if kind == "two" else [f"t{number}"]
    blocks = (ThinkingBlock("hm", "sig"), TextBlock("so")) if kind == "thinking" else (TextBlock(" "),)
    messages.append(AssistantMessage((*blocks, *(ToolCall(i, "read", "{}") for i in ids))))
    stable = len(messages)
    messages.extend(result(i, "" if kind == "blank" else f"result {i}") for i in ids)
    return stable


@given(STEP)
def test_K15_an_earlier_request_is_a_prefix_of_every_later_one(kinds: list[str]) -> None:
    encoder = AnthropicEncoder()
    messages: list[Message] = [user("go")]
    stable, sent = 0, 0
    bodies = []
    for kind in [*kinds, ""]:
        asked = request(messages, system=SYSTEM, tools=(READ,), stable=stable, sent_before=sent, effort="high")
        bodies.append(body(asked, encoder))
        assert encoder.body(asked) == AnthropicEncoder().body(asked)
        sent = len(messages)
        stable = max(stable, grow(messages, kind)) if kind else stable
    for earlier, later in pairwise(bodies):
        for field in ("tools", "system", "thinking", "output_config", "model"):
            assert unmarked(earlier[field]) == unmarked(later[field])
        assert flat(later)[: len(flat(earlier))] == flat(earlier)


@pytest.mark.parametrize("steps", [5, 5_000])
def test_a_body_encodes_only_what_is_new(steps: int) -> None:
    encoder = AnthropicEncoder()
    messages: list[Message] = [user("go")]
    for number in range(steps):
        messages += [calls(f"t{number}"), result(f"t{number}")]
    encoder.body(request(messages))
    assert encoder.encoded_messages == len(messages)
    for number in range(steps, steps + 20):
        before = encoder.encoded_messages
        sent = len(messages)
        messages += [calls(f"t{number}"), result(f"t{number}")]
        encoder.body(request(messages, sent_before=sent))
        assert encoder.encoded_messages - before == 2


def test_an_unstable_message_that_changed_is_encoded_again() -> None:
    encoder = AnthropicEncoder()
    messages: list[Message] = [user("go"), calls("t1"), result("t1", "one")]
    encoder.body(request(messages, stable=2))
    messages[2] = ToolResultMessage("t1", (TextBlock("one"), TextBlock("<reminder>")))
    parsed = body(request(messages, stable=2), encoder)
    assert flat(parsed)[-1][1]["content"] == [text("one"), text("<reminder>")]
    assert encoder.encoded_messages == 4


def test_results_that_come_out_of_order_are_put_in_order() -> None:
    encoder = AnthropicEncoder()
    messages: list[Message] = [user("go"), calls("t1", "t2"), result("t2", "two")]
    encoder.body(request(messages, stable=2))
    messages.insert(2, result("t1", "one"))
    assert [b["tool_use_id"] for _, b in flat(body(request(messages, stable=2), encoder))[-2:]] == ["t1", "t2"]


def test_another_generation_and_another_conversation_share_nothing() -> None:
    encoder = AnthropicEncoder()
    first: list[Message] = [user("one"), calls("t1"), result("t1")]
    other: list[Message] = [user("two"), calls("t2"), result("t2")]
    for asked in (
        request(first, cache_key="a"),
        request(other, cache_key="b"),
        request(other, cache_key="a", generation=9),
        request(other, cache_key="a", generation=9),
        # A conversation that another one replaced under the same names must not show through.
        request(first, cache_key="a", generation=9),
        request(first[:1], cache_key="a", generation=9),
    ):
        assert encoder.body(asked) == AnthropicEncoder().body(asked)


def test_the_body_that_counts_holds_what_is_counted() -> None:
    asked = request([user("hi")], system=SYSTEM, tools=(READ,), effort="high")
    counted = json.loads(AnthropicEncoder().count_body(asked))
    sent = unmarked(json.loads(AnthropicEncoder().body(asked)))
    assert counted == {key: value for key, value in sent.items() if key not in ("max_tokens", "stream")}

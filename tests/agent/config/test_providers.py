import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.config.addresses import address_fault, normalised
from agent.config.auth import key_problems, read_auth
from agent.config.merge import BUILT_IN
from agent.config.providers import key_sources, provider_configs
from providers.chat_quirks import ChatQuirks
from providers.models import is_this_machine
from providers.presets import PRESETS
from providers.types import ProviderConfig, Secret, WireApi
from tests.agent.config.conftest import Bench, texts


def test_anthropic_and_openai_always_exist_and_take_their_variables(bench: Bench) -> None:
    env = {"ANTHROPIC_API_KEY": " sk-a\n", "OPENAI_API_KEY": ""}
    configs = provider_configs(bench.load(env=env), env, bench.paths)
    assert list(configs)[:2] == ["anthropic", "openai"]
    assert configs["anthropic"] == ProviderConfig("anthropic", "anthropic", key=Secret("sk-a"))
    assert (configs["openai"].api, configs["openai"].base_url, configs["openai"].key) == ("responses", None, None)


def test_a_known_provider_needs_its_key_and_nothing_else(bench: Bench) -> None:
    env = {"GROQ_API_KEY": "gsk-0123456789"}
    groq = provider_configs(bench.load(env=env), env, bench.paths)["groq"]
    assert (groq.api, groq.base_url, groq.key) == ("chat", PRESETS["groq"].base_url, Secret("gsk-0123456789"))
    assert groq.quirks == PRESETS["groq"].quirks


def test_what_is_written_goes_over_what_is_known(bench: Bench) -> None:
    bench.write(user='[providers.deepseek]\nkey_env = "MINE"\n[providers.deepseek.quirks]\ncalls_as_text = true\n')
    env = {"MINE": "sk-0123456789", "DEEPSEEK_API_KEY": "other-key"}
    found = provider_configs(bench.load(env=env), env, bench.paths)["deepseek"]
    assert found.key == Secret("sk-0123456789")
    assert found.quirks == replace(PRESETS["deepseek"].quirks, calls_as_text=True)
    # What is known of a vendor's own server says nothing about another one.
    bench.write(user='[providers.deepseek]\nbase_url = "https://proxy.example/v1"\n')
    assert provider_configs(bench.load(env=env), env, bench.paths)["deepseek"].quirks == ChatQuirks()


def test_a_server_of_this_machine_is_there_once_it_is_named(bench: Bench) -> None:
    assert not {"ollama", "llama.cpp", "vllm", "lmstudio"} & provider_configs(bench.load(), {}, bench.paths).keys()
    bench.write(user='model = "ollama/qwen3"\n[providers."llama.cpp"]\nbase_url = "http://127.0.0.1:9999"\n')
    configs = provider_configs(bench.load(), {}, bench.paths)
    assert configs["ollama"].base_url == "http://127.0.0.1:11434/v1"
    assert configs["llama.cpp"].base_url == "http://127.0.0.1:9999/v1"


def test_a_quirk_that_does_not_exist_names_the_nearest_one(bench: Bench) -> None:
    (line,) = texts(bench.write(user='[providers.groq.quirks]\noutput_kap = "max_tokens"\n').load())
    assert "output_cap" in line


def test_a_configured_provider_with_everything(bench: Bench) -> None:
    bench.write(
        user="""
[providers.router]
api = "chat"
base_url = "https://router.example/api/v1/"
key_env = "ROUTER_KEY"
headers = { "X-Title" = "claw" }
connect_timeout_s = 3
cache_marks = false
"""
    )
    env = {"ROUTER_KEY": "sk-r"}
    loaded = bench.load(env=env)
    assert loaded.problems == ()
    assert provider_configs(loaded, env, bench.paths)["router"] == ProviderConfig(
        "router", "chat", "https://router.example/api/v1", Secret("sk-r"), {"X-Title": "claw"}, 3.0, False
    )


@pytest.mark.parametrize(
    ("url", "api", "expected"),
    [
        ("https://h", "anthropic", "https://h"),
        ("https://h/", "anthropic", "https://h"),
        ("https://h/v1/", "anthropic", "https://h"),
        ("https://h/v1/messages", "anthropic", "https://h"),
        ("https://h/proxy/anthropic/v1", "anthropic", "https://h/proxy/anthropic"),
        ("https://h", "responses", "https://h/v1"),
        ("https://h/v1", "responses", "https://h/v1"),
        ("https://h/v1/responses", "responses", "https://h/v1"),
        ("http://127.0.0.1:8080/", "chat", "http://127.0.0.1:8080/v1"),
        ("https://h/api/paas/v4", "chat", "https://h/api/paas/v4"),
        ("https://h/v1beta/openai/", "chat", "https://h/v1beta/openai"),
        ("https://h/openai", "chat", "https://h/openai/v1"),
        ("https://v1.example", "chat", "https://v1.example/v1"),
    ],
)
def test_addresses_are_written_as_each_api_wants_them(url: str, api: WireApi, expected: str) -> None:
    assert address_fault(url) == ""
    assert normalised(url, api) == expected


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://example.com",
            "http://10.0.0.1",
            "http://127.evil.com",
            "http://localhost.evil.com",
            "http://0.0.0.0",
        ),
        *("ftp://h", "h/v1", "https://", "https://u:p@h", "https://h/?a=b", "https://h/#x", "https://h:99999"),
        *(
            "https://h\n/x",
            "https://[::1",
            "",
            "   ",
            "https://a b",
            "javascript:alert(1)",
            "http:\\\\h",
            "http://127.1",
        ),
        *("http://[::ffff:8.8.8.8]", "http://2130706433"),
    ],
)
def test_R47_bad_addresses_are_refused(url: str) -> None:
    assert address_fault(url)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_R47_http_is_fine_for_this_machine(host: str) -> None:
    assert is_this_machine(host)
    assert address_fault(f"http://{f'[{host}]' if ':' in host else host}:1234") == ""


def test_R47_a_provider_with_a_wrong_address_is_not_sent_to_its_default_one(bench: Bench) -> None:
    env = {"ANTHROPIC_BASE_URL": "http://proxy.example", "ANTHROPIC_API_KEY": "sk-a"}
    loaded = bench.load(env=env)
    configs = provider_configs(loaded, env, bench.paths)
    assert "anthropic" not in configs and "openai" in configs
    (line,) = texts(loaded)
    assert line.startswith("environment ANTHROPIC_BASE_URL: providers.anthropic.base_url: http:// would send the key")


def test_a_wrong_address_in_a_profile_that_is_not_used_does_no_harm(bench: Bench) -> None:
    bench.write(user='[profiles.x.providers.openai]\nbase_url = "nonsense"\n')
    assert "openai" in provider_configs(bench.load(), {}, bench.paths)
    assert "openai" not in provider_configs(bench.load(profile="x"), {}, bench.paths)


def test_R10_the_project_sets_no_address_even_beside_the_users_key(bench: Bench) -> None:
    bench.write(project='[providers.anthropic]\nbase_url = "https://evil.example"\n')
    env = {"ANTHROPIC_API_KEY": "sk-a"}
    configs = provider_configs(bench.load(env=env), env, bench.paths)
    assert configs["anthropic"].base_url is None


def test_an_incomplete_provider_says_what_is_missing(bench: Bench) -> None:
    loaded = bench.write(user='\n[providers.mine]\nkey_env = "K"\n').load()
    assert "mine" not in provider_configs(loaded, {}, bench.paths)
    (line,) = texts(loaded)
    assert line.startswith(f"{bench.user_file}:3: providers.mine: api and base_url must be set")


@pytest.mark.parametrize("name", ["scripted", "Big", '"a/b"'])
def test_names_that_cannot_be_providers(bench: Bench, name: str) -> None:
    loaded = bench.write(user=f'[providers.{name}]\napi = "chat"\nbase_url = "https://h"\n').load()
    assert "not a name for a provider" in texts(loaded)[0]
    assert tuple(loaded.config.providers) == BUILT_IN


def _auth(bench: Bench, content: bytes, mode: int = 0o600) -> Path:
    bench.paths.auth_file.write_bytes(content)
    bench.paths.auth_file.chmod(mode)
    return bench.paths.auth_file


def test_keys_of_auth_json_count_where_no_variable_is_set(bench: Bench) -> None:
    _auth(bench, json.dumps({"anthropic": {"key": "file-a"}, "openai": {"key": "file-o"}}).encode())
    env = {"OPENAI_API_KEY": "env-o"}
    loaded = bench.load(env=env)
    configs = provider_configs(loaded, env, bench.paths)
    assert (configs["anthropic"].key, configs["openai"].key) == (Secret("file-a"), Secret("env-o"))
    kinds = {source.provider: source.kind for source in key_sources(loaded, env, bench.paths)}
    assert (kinds["anthropic"], kinds["openai"], kinds["groq"]) == ("auth.json", "environment", "none")
    assert loaded.problems == ()


def test_T103_auth_json_readable_by_others_is_made_private_and_told(bench: Bench) -> None:
    path = _auth(bench, b'{"anthropic": {"key": "k"}}', 0o644)
    loaded = bench.load()
    (line,) = texts(loaded, ["warning"])
    assert "mode 0644" in line and "replace the keys" in line and not loaded.has_errors
    assert path.stat().st_mode & 0o777 == 0o600 and texts(bench.load(), ["warning"]) == []
    assert provider_configs(loaded, {}, bench.paths)["anthropic"].key == Secret("k")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'"sk-secret"',
        b"\xff\xfe",
        b"[" * 5000,
        b'{"anthropic": "sk-secret"}',
        b'{"anthropic": {"key": 1}}',
        b'{"anthropic": {"key": ""}}',
        b'{"anthropic": {"key": "sk-secret\\nx"}}',
        b'{"anthropic": {"token": "sk-secret"}}',
    ],
)
def test_a_wrong_auth_json_is_named_and_its_content_never_shown(bench: Bench, content: bytes) -> None:
    path = _auth(bench, content)
    keys, problems = read_auth(path)
    assert keys == {}
    (problem,) = problems
    assert str(problem).startswith(str(path)) and "sk-secret" not in str(problem)
    assert bench.load().has_errors
    assert path.read_bytes() == content


def test_auth_json_that_is_a_fifo_never_blocks(bench: Bench) -> None:
    os.mkfifo(bench.paths.auth_file)
    assert "it is a FIFO" in texts(bench.load())[0]


def test_a_key_that_was_not_copied_whole_is_named_by_its_variable(bench: Bench) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-a\nsk-b", "OPENAI_API_KEY": "sk-ü"}
    loaded = bench.load(env=env)
    configs = provider_configs(loaded, env, bench.paths)
    assert configs["anthropic"].key is None and configs["openai"].key is None
    found = [str(problem) for problem in loaded.problems]
    assert found == [str(problem) for problem in key_problems(loaded.config, env)]
    assert found[0].startswith("environment ANTHROPIC_API_KEY: ") and "sk-" not in "".join(found)

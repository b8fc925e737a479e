"""What the set-up screen asks and writes: real servers on loopback, real files."""

import json
import stat
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.config.auth import AuthError
from agent.config.editing import EditError
from agent.config.paths import Paths
from providers.errors import ProviderError
from providers.types import Secret
from tests.fakes.keyring import Keyring
from tests.fakes.model_server import Chunk, ModelServer, Reply, json_reply
from tests.fakes.responses_wire import error_reply
from tui.launch.arguments import Arguments
from tui.launch.setting_up import SettingUp
from tui.launch.startup import Startup, starting
from tui.setup_seam import Candidate


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def started(home: Path, **env: str) -> Startup:
    with starting(Arguments(), {"CLAW_HOME": str(home), "HOME": str(home), **env}, "test") as startup:
        return startup


def paths(home: Path) -> Paths:
    return Paths.from_env({"CLAW_HOME": str(home), "HOME": str(home)})


def place(url: str, name: str = "llama.cpp") -> Candidate:
    return Candidate(name, name, "chat", f"{url}/v1")


def setting_up(home: Path, *places: Candidate, **env: str) -> tuple[SettingUp, list[Startup]]:
    adopted: list[Startup] = []
    return SettingUp(started(home, **env), adopted.append, places, look_s=20.0), adopted


# --------------------------------------------------------------------------- looking


async def test_a_server_that_answers_is_found_with_its_models(home: Path, model_server: ModelServer) -> None:
    listed = [{"id": "smol", "meta": {"n_ctx": 8_192}}, {"id": "big"}]
    model_server.always("/v1/models", json_reply({"data": listed}))
    set_up, _ = setting_up(home, place(model_server.url), place("http://127.0.0.1:1", "vllm"))
    (found,) = await set_up.look()
    assert [(model.name, model.window_tokens) for model in found.models] == [
        ("llama.cpp/smol", 8_192),
        ("llama.cpp/big", 0),
    ]
    assert not found.wants_key and not list((home / "data").glob("*")) and not (home / "config").exists()


@pytest.mark.parametrize(
    ("reply", "wants_key", "is_found"),
    [
        (error_reply(401, ("no key", None, "invalid_api_key")), True, True),
        (error_reply(403, ("no", None, "x")), True, True),
        (error_reply(503, ("Loading model", None, "unavailable")), False, True),
        (error_reply(404, ("no such page", None, "x")), False, False),
        (error_reply(400, ("what?", None, "x")), False, False),
        (json_reply({"data": []}), False, False),
        (json_reply({"hello": "I am something else"}), False, False),
        (json_reply([1, 2]), False, False),
        (Reply((Chunk(b"<html>a web page</html>"),), headers={"content-type": "text/html"}), False, False),
    ],
)  # fmt: skip
async def test_only_what_speaks_like_a_model_server_is_found(
    home: Path, model_server: ModelServer, reply: Reply, wants_key: bool, is_found: bool
) -> None:
    model_server.always("/v1/models", reply)
    set_up, _ = setting_up(home, place(model_server.url))
    found = await set_up.look()
    assert [server.wants_key for server in found] == ([wants_key] if is_found else [])


async def test_a_server_that_accepts_and_never_answers_holds_nobody_up(home: Path, model_server: ModelServer) -> None:
    model_server.always("/v1/models", Reply(never_answer=True))
    both = (place(model_server.url), place(model_server.url, "vllm"))
    set_up = SettingUp(started(home), lambda startup: None, both, look_s=0.3)
    assert await set_up.look() == []


async def test_the_known_places_are_this_machines_alone(home: Path) -> None:
    set_up = SettingUp(started(home), lambda startup: None)
    assert set_up.local_places and all(address.startswith("http://127.0.0.1:") for _, address in set_up.local_places)
    assert {offer.name for offer in set_up.offers} >= {"anthropic", "openai", "openrouter", "gemini", "groq"}


# --------------------------------------------------------------------------- asking


async def test_a_wrong_key_is_the_servers_word_and_nothing_is_kept(home: Path, model_server: ModelServer) -> None:
    model_server.always("/v1/models", error_reply(401, ("Incorrect API key", None, "invalid_api_key")))
    set_up, _ = setting_up(home)
    candidate = replace(set_up.own(model_server.url, "chat"), key=Secret("wrong-key-0123456789"))
    with pytest.raises(ProviderError, match="Incorrect API key") as caught:
        await set_up.models(candidate)
    assert "wrong-key" not in str(caught.value) and not (home / "data").exists()


async def test_a_key_goes_only_to_the_server_it_was_typed_for(home: Path, model_server: ModelServer) -> None:
    model_server.always("/v1/models", json_reply({"data": [{"id": "m"}]}))
    set_up, _ = setting_up(home, OPENAI_API_KEY="sk-of-openai", ANTHROPIC_API_KEY="sk-of-anthropic")
    await set_up.models(set_up.own(model_server.url, "chat"))
    await set_up.models(replace(set_up.own(model_server.url, "chat"), key=Secret("sk-own")))
    sent = [str(sorted(request.headers.items())) for request in model_server.requests]
    assert all("sk-of-" not in headers for headers in sent) and ["sk-own" in headers for headers in sent] == [
        False,
        True,
    ]


def test_a_vendors_key_is_found_where_it_is(home: Path) -> None:
    set_up, _ = setting_up(home, GROQ_API_KEY="gsk-1")
    offers = {offer.name: offer for offer in set_up.offers}
    assert offers["groq"].has_key == offers["groq"].in_variable
    assert not offers["anthropic"].has_key and set_up.offered("anthropic").key is None


# --------------------------------------------------------------------------- keeping


async def test_key_address_and_model_are_written_and_in_force(home: Path) -> None:
    set_up, adopted = setting_up(home)
    candidate = replace(set_up.own("http://127.0.0.1:9999/v1/messages", "anthropic"), key=Secret("sk-1"))
    assert await set_up.keep(candidate, "org/model:7b") == "own/org/model:7b"
    (startup,) = adopted
    assert startup.default_name() == "own/org/model:7b" and startup.providers["own"].key == Secret("sk-1")
    again = started(home)
    assert again.default_name() == "own/org/model:7b" and again.loaded.problems == ()
    assert again.providers["own"].base_url == "http://127.0.0.1:9999"
    kept = paths(home).auth_file
    assert json.loads(kept.read_text()) == {"own": {"key": "sk-1"}} and stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths(home).config_file.stat().st_mode) == 0o600


@pytest.mark.parametrize("priority", [0.0, 5.0])
async def test_a_key_goes_into_the_systems_keyring_where_there_is_one(
    home: Path, monkeypatch: pytest.MonkeyPatch, priority: float
) -> None:
    keyring = Keyring("sk-1", priority)
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    set_up, adopted = setting_up(home)
    assert ("keyring" in set_up.key_place) == (priority > 0) == ("auth.json" not in set_up.key_place)
    await set_up.keep(replace(set_up.own("http://127.0.0.1:9999/v1", "chat"), key=Secret("sk-1")), "m")
    kept = json.loads(paths(home).auth_file.read_text())
    assert kept == {"own": {"keyring": True} if priority else {"key": "sk-1"}}
    assert adopted[0].providers["own"].key == started(home).providers["own"].key == Secret("sk-1")


async def test_a_known_server_of_this_machine_needs_no_table(home: Path) -> None:
    set_up, adopted = setting_up(home)
    known = Candidate("llama.cpp", "llama.cpp", "chat", "http://127.0.0.1:8080/v1")
    await set_up.keep(known, "smol.gguf")
    assert tomllib.loads(paths(home).config_file.read_text()) == {"model": "llama.cpp/smol.gguf"}
    assert adopted[0].default_name() == started(home).default_name() == "llama.cpp/smol.gguf"


async def test_a_hand_written_file_keeps_everything_else(home: Path) -> None:
    config = paths(home).config_file
    config.parent.mkdir(parents=True)
    config.write_text('# mine\nmodel = "openai/gpt-x" # for now\n\n[tui]\ntheme = "nord" # blue\n')
    set_up, _ = setting_up(home)
    await set_up.keep(set_up.own("http://127.0.0.1:9999", "chat"), "m")
    text = config.read_text()
    assert "# mine" in text and "# blue" in text and tomllib.loads(text)["model"] == "own/m"
    assert tomllib.loads(text)["providers"]["own"] == {"api": "chat", "base_url": "http://127.0.0.1:9999/v1"}


async def test_another_own_server_gets_a_name_of_its_own_and_the_same_one_keeps_its(home: Path) -> None:
    set_up, _ = setting_up(home)
    await set_up.keep(replace(set_up.own("http://127.0.0.1:9999", "chat"), key=Secret("k1")), "m")
    assert set_up.own("http://127.0.0.1:9999/v1/", "chat").name == "own"
    other = set_up.own("http://127.0.0.1:9998", "chat")
    assert (other.name, other.key) == ("own2", None)
    await set_up.keep(other, "m")
    assert set_up.own("http://127.0.0.1:9999", "anthropic").name == "own3"


async def test_a_damaged_configuration_is_left_alone_and_no_key_is_kept(home: Path) -> None:
    config = paths(home).config_file
    config.parent.mkdir(parents=True)
    config.write_text("model = \n")
    set_up, adopted = setting_up(home)
    with pytest.raises(EditError, match=r"config\.toml"):
        await set_up.keep(replace(set_up.own("http://127.0.0.1:9999", "chat"), key=Secret("k")), "m")
    assert config.read_text() == "model = \n" and not paths(home).auth_file.exists() and adopted == []


async def test_a_damaged_key_file_is_left_alone_and_nothing_else_is_written(home: Path) -> None:
    auth = paths(home).auth_file
    auth.parent.mkdir(parents=True, mode=0o700)
    auth.write_text("{ broken")
    set_up, adopted = setting_up(home)
    with pytest.raises(AuthError, match=r"auth\.json"):
        await set_up.keep(replace(set_up.own("http://127.0.0.1:9999", "chat"), key=Secret("k")), "m")
    assert auth.read_text() == "{ broken" and not paths(home).config_file.exists() and adopted == []

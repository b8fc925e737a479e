"""The list of models: facts in columns, the one in force marked, silent providers named, all asked side by side."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from agent.context.tokens import Counter
from tests.fakes.model_server import ModelServer, json_reply
from tests.fakes.session_kit import Desk
from tests.fakes.wires import ChatSide
from tests.tui.harness import press, resize, running, screen_text, type_in, until
from tui.launch.listed_models import ModelChoice, SilentProvider, price_text, short_name, window_text
from tui.launch.model_choice import Models
from tui.screens.model_lines import filtered, model_line, name_cells

BIG = ModelChoice("anthropic/claude-big", window_tokens=1_000_000, price=(3.0, 15.0), thinking=True, images=True)
SMALL = ModelChoice("scripted/demo", window_tokens=8_192)
FREE = ModelChoice("here/gratis", window_tokens=131_072, price=(0.0, 0.0), images=True)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("llama.cpp//home/me/models/Small-1B.gguf", "llama.cpp/Small-1B"),
        ("/home/me/models/Small-1B.gguf", "Small-1B"),
        ("openrouter/vendor/model", "openrouter/vendor/model"),
        ("vendor/model:free", "vendor/model:free"),
        ("own//", "own//"),
        ("", ""),
    ],
)
def test_a_model_named_by_its_file_is_shown_by_the_end_of_the_path(name: str, shown: str) -> None:
    assert short_name(name) == shown


def test_a_path_stands_whole_in_the_list_where_it_has_room() -> None:
    model = ModelChoice("llama.cpp//home/me/models/Small-1B.gguf")
    assert "me/models" in model_line(model, 60, 50).plain
    assert "llama.cpp/Small-1B" in model_line(model, 40, 30).plain


async def test_the_list_shows_facts_the_one_in_force_and_who_was_silent() -> None:
    async def models() -> list[ModelChoice | SilentProvider]:
        return [BIG, SMALL, SilentProvider("groq", "no answer within 5 s"), FREE]

    async with running(list_models=models) as (app, opener):
        await type_in(app, "/model")
        await until(lambda: "claude-big" in screen_text(app))
        rows = {name: row for row in screen_text(app).split("\n") for name in ("claude-big", "gratis") if name in row}
        assert "1M" in rows["claude-big"] and "$3/$15" in rows["claude-big"] and "thinks images" in rows["claude-big"]
        assert "131k" in rows["gratis"] and "free" in rows["gratis"] and "thinks" not in rows["gratis"]
        assert "▸ scripted/demo" in screen_text(app) and "8k" in screen_text(app) and "· now" in screen_text(app)
        assert "groq: no answer within 5 s" in screen_text(app)
        await resize(app, 60, 20)
        await until(lambda: "claude-big" in screen_text(app))
        await press(app, *"thinks")
        await until(lambda: "gratis" not in screen_text(app))
        await press(app, "enter")
        await until(lambda: opener.session.calls == [("model", "anthropic/claude-big")])


async def test_enter_alone_keeps_the_model_in_force() -> None:
    async def models() -> list[ModelChoice | SilentProvider]:
        return [BIG, SMALL, FREE]

    async with running(list_models=models) as (app, opener):
        await type_in(app, "/model")
        await until(lambda: "claude-big" in screen_text(app))
        await press(app, "enter")
        await until(lambda: opener.session.calls == [("model", "scripted/demo")])


@pytest.mark.parametrize(
    ("keys", "expected"), [(["up", "up", "down", "down", "down"], FREE), (["down", *"claude"], BIG)]
)
async def test_keys_count_that_come_before_the_list(keys: list[str], expected: ModelChoice) -> None:
    gate = asyncio.Event()

    async def models() -> list[ModelChoice | SilentProvider]:
        await gate.wait()
        return [BIG, SMALL, FREE]

    async with running(list_models=models) as (app, opener):
        await type_in(app, "/model")
        await until(lambda: "asking the providers" in screen_text(app))
        await press(app, *keys)
        gate.set()
        await until(lambda: expected.name in screen_text(app) and "asking the providers" not in screen_text(app))
        await press(app, "enter")
        await until(lambda: opener.session.calls == [("model", expected.name)])


@pytest.mark.parametrize("width", [20, 30, 40, 60, 76, 102])
def test_a_line_never_leaves_its_width_and_facts_give_way_to_the_name(width: int) -> None:
    models = [BIG, SMALL, FREE, ModelChoice("x/" + "long-" * 20, "detail " * 20, 1, (0.123456, 1234.5), True, True)]
    cells = name_cells(models, width)
    for model in models:
        for is_current in (False, True):
            line = model_line(model, width, cells, is_current=is_current)
            assert line.cell_length <= width, line.plain
            assert model.name[:10] in line.plain


def test_words_find_names_and_abilities() -> None:
    models = [BIG, SMALL, FREE]
    assert filtered(models, "") == models and filtered(models, "images") == [BIG, FREE]
    assert filtered(models, "CLAUDE images") == [BIG] and filtered(models, "claude demo") == []


def test_figures_are_short() -> None:
    assert [window_text(n) for n in (0, 900, 8_192, 200_000, 1_048_576, 1_500_000)] == [
        "",
        "900",
        "8k",
        "200k",
        "1M",
        "1.5M",
    ]
    assert [price_text(p) for p in (None, (0.0, 0.0), (0.25, 1.25), (15.0, 75.0))] == [
        "",
        "free",
        "$0.25/$1.25",
        "$15/$75",
    ]


def chat_desk(server: ModelServer, tmp_path: Path, config: str = "") -> Desk:
    (tmp_path / "project").mkdir()
    desk = Desk(ChatSide(server), tmp_path / "project", tmp_path / "home")
    with (desk.home / "config" / "config.toml").open("a") as file:
        file.write(config)
    return desk


async def test_the_servers_list_corrects_what_is_known_and_is_remembered(
    model_server: ModelServer, tmp_path: Path
) -> None:
    listed = {"id": "other", "meta": {"n_ctx": 4_096}}
    desk = chat_desk(model_server, tmp_path)
    models = Models(desk.startup(), Counter())
    model_server.always("/v1/models", json_reply({"data": [listed]}))
    (choice,) = await models.choices(5.0)
    assert isinstance(choice, ModelChoice) and (choice.name, choice.window_tokens) == ("here/other", 4_096)
    await models.client("here").aclose()
    again = Models(desk.startup(), Counter())
    assert again.choose("here/other").facts.context_window_tokens == 4_096


async def test_a_provider_that_does_not_answer_says_so_and_holds_up_nobody(
    model_server: ModelServer, tmp_path: Path
) -> None:
    silent = model_server.url.replace("127.0.0.1", "localhost")
    table = f'\n[providers.mute]\napi = "responses"\nbase_url = "{silent}/mute/v1"\n'
    models = Models(chat_desk(model_server, tmp_path, table).startup(), Counter())
    model_server.always("/v1/models", json_reply({"data": [{"id": "chat-test"}]}))
    gate = threading.Event()

    def never(request: object) -> object:
        gate.wait(40)
        return json_reply({"data": []})

    model_server.always("/mute/v1/models", never)  # type: ignore[arg-type] # a script that waits
    began = time.monotonic()
    found = await models.choices(0.6)
    assert time.monotonic() - began < 20
    gate.set()
    assert any(isinstance(item, ModelChoice) and item.name == "here/chat-test" for item in found)
    assert SilentProvider("mute", "no answer within 0.6 s") in found
    for name in ("here", "mute"):
        await models.client(name).aclose()

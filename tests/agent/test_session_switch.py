"""A session that goes from one wire API to another and back: what the other server cannot read stays at home."""

import itertools
from pathlib import Path

import pytest

from providers.types import Usage
from tests.fakes.model_server import ModelServer
from tests.fakes.pens import Pens
from tests.fakes.session_kit import Desk
from tests.fakes.wires import KEY, AnthropicSide, ChatSide, ResponsesSide, Wire

SECRETS = ("c2lnbmVk", "ZW5jcnlwdGVk", "gAAAAencrypted", "search_", "A private thought.")
"""What the servers below put into signatures, reasoning items and tools of their own."""
DIRECTIONS = list(itertools.permutations(("anthropic", "openai", "here"), 2))


@pytest.fixture
def wires(model_server: ModelServer) -> dict[str, Wire]:
    sides: list[Wire] = [AnthropicSide(model_server), ResponsesSide(model_server), ChatSide(model_server)]
    return {side.provider: side for side in sides}


@pytest.fixture
def desk(wires: dict[str, Wire], project: Path, tmp_path: Path) -> Desk:
    """Where all three are configured, the third with reasoning that is sent back."""
    desk = Desk(wires["here"], project, tmp_path / "home")
    config = desk.home / "config" / "config.toml"
    config.write_text(
        config.read_text().replace(
            'key_env = "HERE_KEY"\n', 'key_env = "HERE_KEY"\nquirks.reasoning_back = "reasoning"\n'
        )
    )
    for wire in wires.values():
        desk.env.update(wire.env)
    (project / "a.txt").write_text("one line\n")
    return desk


def rich(wire: Wire) -> None:
    """A step with everything that only its own server understands, and ids that no other API would give."""
    pens = Pens(wire)
    pen = pens.new().thinking("A private thought.").text("I search and read.").served()
    pen.call("read", {"path": "a.txt"}, f"call|{wire.provider}:{'x' * 60}" if wire.provider == "here" else None)
    pen.call("teleport to!" + "x" * 100, "{")
    pens.script(pen.stop("calls").reply())
    wire.reply(f"Done by {wire.provider}.", thinking="A private thought.", usage=Usage(6_000, 0, 0, 20))


def sent(wire: Wire) -> str:
    return wire.requests[-1].body.decode()


@pytest.mark.parametrize(("first", "second"), DIRECTIONS)
async def test_T86_a_switch_takes_along_what_was_said_and_leaves_what_only_one_server_reads(
    desk: Desk, wires: dict[str, Wire], first: str, second: str
) -> None:
    here, there = wires[first], wires[second]
    async with desk.open(model=f"{first}/{here.model}") as talk:
        rich(here)
        assert (await talk.session.prompt("one")).reason == "done"
        own = sent(here)
        talk.session.set_model(f"{second}/{there.model}")
        rich(there)
        assert (await talk.session.prompt("two")).reason == "done"
        foreign = next(request.body.decode() for request in there.requests)
        talk.session.set_model(f"{first}/{here.model}")
        here.reply("Back again.")
        assert (await talk.session.prompt("three")).reason == "done"
    assert any(secret in own for secret in SECRETS), "the first server's own blocks go back to it"
    assert [secret for secret in SECRETS if secret in foreign] == []
    for words in ("one", "two", "I search and read.", f"Done by {first}.", "one line"):
        assert words in foreign
    assert f"Done by {second}." in sent(here)
    # And from the file, with the other model.
    async with desk.open(talk.path, model=f"{second}/{there.model}") as later:
        there.reply("Here I am.")
        assert (await later.session.prompt("four")).reason == "done"
    assert {name: wire.refusals for name, wire in wires.items()} == {name: [] for name in wires}
    assert all(KEY in str(request.headers) for request in desk.wire.server.requests if request.method == "POST")


async def test_T86_the_same_model_at_another_server_gets_no_signatures_of_the_first(
    desk: Desk, wires: dict[str, Wire]
) -> None:
    wire = wires["anthropic"]
    config = desk.home / "config" / "config.toml"
    url = wire.server.url
    config.write_text(
        f'[providers.gateway]\napi = "anthropic"\nbase_url = "{url}"\nkey_env = "GATEWAY_KEY"\n{config.read_text()}'
    )
    desk.env["GATEWAY_KEY"] = KEY
    async with desk.open(model=f"anthropic/{wire.model}") as talk:
        rich(wire)
        await talk.session.prompt("one")
        talk.session.set_model(f"gateway/{wire.model}")
        wire.reply("Here too.")
        assert (await talk.session.prompt("two")).reason == "done"
    assert [secret for secret in SECRETS if secret in sent(wire)] == []
    assert "I search and read." in sent(wire)
    assert wire.refusals == []

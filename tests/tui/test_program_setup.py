"""From an empty home to a first answer in the real program, by keys alone."""

import json
import shutil
import socket
import stat
import threading
from pathlib import Path

import pytest

from tests.fakes.anthropic_wire import error_reply
from tests.fakes.llama import llama_server, needs_llama
from tests.fakes.model_server import Chunk, ModelServer, Reply, json_reply
from tests.fakes.session_kit import Desk
from tests.fakes.wires import KEY, AnthropicSide, ChatSide, Wire
from tests.tui.program import Program

REFUSED = error_reply(401, "authentication_error", "invalid x-api-key")
FIRST = "claw needs a model to talk to"


def empty(wire: Wire, tmp_path: Path) -> Desk:
    """A desk whose home holds nothing, and an environment without a key."""
    (tmp_path / "project").mkdir()
    home = tmp_path / "home"
    desk = Desk(wire, tmp_path / "project", home)
    (home / "config" / "config.toml").unlink()
    (home / "config").rmdir()
    desk.env = {"CLAW_HOME": str(home), "HOME": str(home)}
    return desk


def own_server(claw: Program, address: str, downs: int, key: str) -> None:
    """Another server, by its address; its API is so many lines below the first."""
    claw.answer("o", FIRST)
    claw.wait_for("The server's address")
    claw.type(address + "\r")
    claw.wait_for("Which API does")
    claw.type("\x1b[B" * downs)
    claw.answer("\r", "Which API does")
    claw.wait_for("paste it here")
    claw.type(f"\x1b[200~{key}\x1b[201~" if key else "")
    claw.type("\r")


def test_from_an_empty_home_to_an_answer_of_a_chat_server_without_a_key(
    model_server: ModelServer, tmp_path: Path
) -> None:
    desk = empty(ChatSide(model_server), tmp_path)
    model_server.chat.key = None
    model_server.always("/v1/models", json_reply({"data": [{"id": "chat-test", "meta": {"n_ctx": 32_768}}]}))
    model_server.chat.reply("The first answer.")
    with Program(desk, columns=100, rows=34) as claw:
        own_server(claw, model_server.url, 0, "")
        claw.wait_for("chat-test")
        assert "32k" in claw.text() and model_server.chat.requests == []
        claw.type("\r")
        claw.wait_for_status("(own/chat-test)")
        claw.say("hello")
        claw.wait_for("The first answer.")
        claw.idle()
        claw.quit()
    assert "hello" in (desk.home / "state" / "history").read_text()
    model_server.chat.reply("The second start answers.")
    with Program(desk, columns=100, rows=34) as claw:  # nothing is asked again
        claw.ready()
        claw.wait_for_status("(own/chat-test)")
        claw.say("again")
        claw.wait_for("The second start answers.")
        claw.idle()
        claw.quit()
    assert model_server.chat.refusals == []


def test_from_an_empty_home_to_an_answer_with_a_pasted_key_over_anthropics_api(
    model_server: ModelServer, tmp_path: Path
) -> None:
    desk = empty(AnthropicSide(model_server), tmp_path)
    model_server.anthropic.models({"id": "claude-test", "display_name": "Claude Test"})
    model_server.judge("/v1/models", lambda request: None if request.headers.get("x-api-key") == KEY else REFUSED)
    model_server.anthropic.reply("Answered with your key.")
    with Program(desk, columns=100, rows=34) as claw:
        own_server(claw, model_server.url, 1, "wrong-key-0123")
        claw.wait_for(lambda text: "401" in text or "invalid" in text.lower())
        assert "wrong-key" not in claw.raw.decode()
        claw.type(f"\x1b[200~{KEY}\n\x1b[201~\r")
        claw.wait_for("claude-test")
        claw.type("\r")
        claw.wait_for_status("(own/claude-test)")
        claw.say("hello")
        claw.wait_for("Answered with your key.")
        claw.idle()
        claw.quit()
        assert KEY.encode() not in claw.raw
    kept = desk.home / "data" / "auth.json"
    assert json.loads(kept.read_text()) == {"own": {"key": KEY}} and stat.S_IMODE(kept.stat().st_mode) == 0o600
    written = (desk.home / "config" / "config.toml").read_text()
    assert KEY not in written and "wrong-key" not in kept.read_text() and 'model = "own/claude-test"' in written


@needs_llama
@pytest.mark.parametrize("ask", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(400)])])
def test_from_an_empty_home_to_an_answer_of_llama_cpp_on_its_usual_port(
    model_server: ModelServer, tmp_path: Path, ask: bool
) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 8080)) == 0:
            pytest.skip("something else has llama.cpp's port")
    desk = empty(ChatSide(model_server), tmp_path)
    with llama_server(16_384, port=8080, key=""), Program(desk, columns=100, rows=34) as claw:
        claw.answer("l", FIRST)
        shown = claw.wait_for(lambda text: "These answered" in text or "No model server" in text)
        assert "http://127.0.0.1:8080/v1" in shown
        claw.answer("\r", "These answered")
        claw.wait_for("Which model of llama.cpp?")
        claw.type("\r")
        claw.wait_for_status("(llama.cpp/)")
        if ask:  # the model reads two thousand tokens first
            claw.say("Say hello.")
            claw.wait_for("writing", 300)
            claw.type("\x1b")  # so small a model may go on for ever
            claw.idle()
            assert "▌ Say hello." in claw.text()
        assert "could not be reached" not in claw.text()
        claw.quit()
    assert 'model = "llama.cpp/' in (desk.home / "config" / "config.toml").read_text()
    assert not (desk.home / "data" / "auth.json").exists()


def test_a_default_that_the_server_lacks_is_corrected_before_the_first_prompt_or_when_its_turn_has_ended(
    anthropic_desk: Desk,
) -> None:
    desk, offered = anthropic_desk, "claude-sonnet-4-5-20250929"
    listed = json_reply({"data": [{"id": "claude-haiku-9"}, {"id": offered}], "has_more": False})
    (desk.home / "config" / "config.toml").unlink()
    desk.wire.server.always("/v1/models", listed)
    desk.wire.otherwise(lambda body: f"I am {body['model']}.")
    with Program(desk, "at once", columns=100) as claw:
        claw.wait_for(f"I am {offered}.")
        claw.idle()
        claw.quit()
    assert [request.path for request in desk.wire.server.requests] == ["/v1/models", "/v1/messages"]

    shutil.rmtree(desk.home / "cache" / "models")
    gate, answer = threading.Event(), threading.Event()
    desk.wire.server.always("/v1/models", Reply((Chunk(listed.chunks[0].data, after=gate),), headers=listed.headers))
    desk.wire.reply("Not yet.", after=answer)
    with Program(desk, columns=100) as claw:
        claw.ready()
        claw.say("quickly")
        desk.wire.server.wait_for_requests(4)
        gate.set()
        claw.wait_for(lambda _: any((desk.home / "cache" / "models").glob("*.json")))
        answer.set()
        claw.wait_for("Not yet.")
        claw.wait_for_status(f"(anthropic/{offered})")
        claw.quit()

"""`claw doctor`: a line for each thing, a remedy for what is wrong, and never a secret."""

import json
import os
from typing import Any

import pytest

from tests.fakes.model_server import ModelServer, json_reply
from tests.tui.in_process import Place

SECRET = "sk-test-0123456789abcdef"
NAMES = {
    "claw", "packages", "terminal", "colours", "encoding", "config folder", "data folder", "state folder", "cache folder",
    "sessions", "configuration", "keys", "tokenizer", "ripgrep", "git", "editor",
}  # fmt: skip


def checks(place: Place, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = place.claw("doctor", "--json", *arguments)
    report = json.loads(done.out)
    assert (done.code, report["ok"]) == (code, code == 0), done.out
    assert SECRET not in done.out + done.err
    for check in report["checks"]:
        assert check["status"] == "ok" or check["remedy"], check
    return {check["name"]: check for check in report["checks"]}


def test_an_empty_home_is_fine_and_nothing_is_made_there(place: Place) -> None:
    found = checks(place)
    assert set(found) == NAMES
    assert found["keys"]["status"] == "warn" and "claw login" in found["keys"]["remedy"]
    assert "textual" in found["packages"]["detail"] and "ms" in found["tokenizer"]["detail"]
    assert not place.home.exists()


def test_keys_are_named_and_never_shown(place: Place) -> None:
    place.set("OPENAI_API_KEY", SECRET)
    place.write(place.auth_file, json.dumps({"anthropic": {"key": SECRET}})).chmod(0o600)
    place.auth_file.parent.chmod(0o700)
    found = checks(place)
    assert found["keys"]["detail"] == "anthropic (auth.json), openai (OPENAI_API_KEY)"
    assert found["data folder"]["status"] == "ok"
    assert found["SDK"]["detail"].startswith("of anthropic, imported in ")


def test_what_is_wrong_fails_with_1_and_a_remedy(place: Place) -> None:
    place.write(place.user_file, "context.triger = 1\n")
    place.write(place.auth_file, "no json").chmod(0o644)
    place.write(place.home / "state", "a file")
    place.set("EDITOR", f"no-such-editor --token {SECRET}")
    place.set("VISUAL", "")
    found = checks(place, code=1)
    assert found["configuration"]["status"] == "fail"
    assert found["state folder"]["status"] == "fail" and found["data folder"]["status"] == "warn"
    assert found["editor"]["status"] == "warn" and "no-such-editor" in found["editor"]["detail"]
    place.set("EDITOR", "no-such-\x1b[31m\u202e")
    text = place.claw("doctor").out
    assert "\x1b" not in text and "\u202e" not in text
    assert all(line.startswith(("ok ", "warn ", "fail ", "    ")) for line in text.splitlines()), text
    assert 'did you mean "context.trigger"?' in text and "is not valid JSON" in text
    assert place.auth_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_folder_that_cannot_be_written_fails(place: Place) -> None:
    folder = place.home / "cache"
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    assert checks(place, code=1)["cache folder"]["status"] == "fail"


def test_no_program_of_the_project_is_run_and_sessions_are_weighed(place: Place) -> None:
    for name in ("git", "rg", "nano"):
        place.write(place.project / name, "#!/bin/sh\ntouch ran\n").chmod(0o755)
    place.set("PATH", ".:")
    place.set("VISUAL", "nano")
    place.write(place.home / "data" / "sessions" / "a.db", b"x" * 3_000_000)
    place.write(place.home / "data" / "sessions" / "a.db-wal", b"x" * 1_000_000)
    found = checks(place)
    assert found["git"]["status"] == "warn" and found["editor"]["status"] == "warn"
    assert found["sessions"]["detail"].startswith("1 sessions, 4.0 MB")
    assert not (place.project / "ran").exists()


def test_servers_are_asked_only_when_it_is_wished(place: Place, model_server: ModelServer) -> None:
    listed = {"id": "m", "object": "model", "created": 1, "owned_by": "x"}
    model_server.always("/v1/models", json_reply({"data": [listed]}))
    place.set("OPENAI_API_KEY", SECRET)
    place.set("OPENAI_BASE_URL", model_server.url)
    place.write(place.user_file, '[providers.dead]\napi = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n')
    assert checks(place)["keys"]["status"] == "ok" and model_server.requests == []
    found = checks(place, "--online", code=1)
    assert found["server openai"]["status"] == "ok" and "1 model," in found["server openai"]["detail"]
    assert found["server dead"]["status"] == "fail" and "dead" in found["server dead"]["name"]

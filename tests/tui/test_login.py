"""`claw login` and `claw logout`: where keys go, what is never shown, and that the file is the old one or the new one."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.config.auth import AuthError, read_auth, remove_key, save_key
from providers.types import Secret
from tests.fakes.claw_process import run
from tests.fakes.keyring import Keyring
from tests.fakes.session_kit import Desk
from tests.fakes.terminal import Terminal
from tests.tui.in_process import Place

KEY = "sk-test-0123456789abcdef"
OTHER = "sk-other-0123456789abcdef"


def keys(path: Path) -> dict[str, str]:
    found, problems = read_auth(path)
    assert problems == ()
    return {name: key.reveal() for name, key in found.items()}


async def test_a_piped_key_is_kept_used_and_forgotten(desk: Desk) -> None:
    desk.wire.reply("Yes.")
    auth = desk.home / "data" / "auth.json"
    done = await run(desk, "login", desk.wire.provider, stdin=f"  {desk.env['OPENAI_API_KEY']}\n".encode())
    assert done.code == 0 and str(auth) in done.out and "OPENAI_API_KEY is set and goes before it" in done.err
    assert stat.S_IMODE(auth.stat().st_mode) == 0o600
    assert desk.env["OPENAI_API_KEY"] not in done.out + done.err
    assert (await run(desk, "-p", "hi", "-m", desk.model, env={"OPENAI_API_KEY": ""})).out == "Yes.\n"
    assert (await run(desk, "login", "groq", stdin=b"x" * 70_000)).code == 2


def test_a_person_is_asked_and_sees_nothing_of_the_key(place: Place, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "CLAW_HOME": str(place.home), "HOME": str(place.home)}
    with Terminal([sys.executable, "-m", "claw", "login"], cwd=place.project, env=env) as terminal:
        assert "anthropic, openai" in terminal.wait_for("Whose key?")
        terminal.type("anthropic\n")
        terminal.wait_for("it is not shown")
        terminal.type(f"{KEY}\n")
        assert terminal.wait_end() == 0
        assert "is kept in" in terminal.text() and KEY.encode() not in terminal.raw
    assert keys(place.auth_file) == {"anthropic": KEY}


def test_what_may_be_a_key_is_never_repeated(place: Place) -> None:
    for arguments in (("login", KEY), ("login", "anthropic", KEY), ("login", "anthropic", f"--key={KEY}"), ("logout", KEY),
                      ("login", f"--keyring={KEY}"), ("logout", "anthropic", KEY)):  # fmt: skip
        done = place.claw(*arguments)
        assert done.code == 2 and KEY not in done.out + done.err, arguments
    assert not place.auth_file.exists()


def test_a_name_that_is_nearly_one_is_told_the_right_one(place: Place) -> None:
    assert "Did you mean anthropic?" in place.claw("login", "antropic").err
    place.write(place.user_file, '[providers.mine]\napi = "chat"\nbase_url = "http://localhost:1"\n')
    assert "mine" in place.claw("login", "zzz").err


@pytest.mark.parametrize(
    "text", ["", " \n", "two words", "größe", "sk-a\nsk-b", "a\x00b", "x" * 70_000, "\N{BULLET}" * 20]
)
async def test_B20_what_cannot_be_a_key_is_not_kept(place: Place, text: str) -> None:
    with pytest.raises(AuthError) as caught:
        save_key(place.auth_file, "openai", Secret(text[:60_000] if len(text) < 70_000 else "x y"))
    assert text.strip() == "" or text not in str(caught.value)
    assert not place.auth_file.exists()


def test_T103_other_entries_stay_and_a_file_that_others_could_read_becomes_private(place: Place) -> None:
    place.write(place.auth_file, '{"mine": {"key": "k-12345678", "note": "x"}, "openai": {"key": "old-key"}}').chmod(
        0o644
    )
    place.auth_file.parent.chmod(0o755)
    save_key(place.auth_file, "openai", Secret(KEY))
    content = json.loads(place.auth_file.read_text())
    assert content == {"mine": {"key": "k-12345678", "note": "x"}, "openai": {"key": KEY}}
    assert stat.S_IMODE(place.auth_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.auth_file.parent.stat().st_mode) == 0o700
    assert remove_key(place.auth_file, "openai") and not remove_key(place.auth_file, "openai")
    assert list(json.loads(place.auth_file.read_text())) == ["mine"]


def test_T103_a_link_is_refused_and_what_it_names_stays(place: Place) -> None:
    real = place.write(place.home / "elsewhere.json", '{"openai": {"key": "old-key"}}')
    place.auth_file.parent.mkdir(parents=True)
    for target in (real, Path("/dev/null"), place.home / "nowhere"):
        place.auth_file.symlink_to(target)
        with pytest.raises(AuthError, match="is a link"):
            save_key(place.auth_file, "openai", Secret(KEY))
        assert place.auth_file.is_symlink()
        place.auth_file.unlink()
    assert real.read_text() == '{"openai": {"key": "old-key"}}' and not (place.home / "nowhere").exists()


@pytest.mark.parametrize("content", ["no json", "[]", '{"openai": ', "x" * (1 << 20) + "xx", "\xff"], ids=range(5))
def test_T103_a_damaged_file_is_left_as_it_is(place: Place, content: str) -> None:
    place.write(place.auth_file, content.encode("latin-1"))
    done = place.claw("logout", "openai")
    with pytest.raises(AuthError, match="left as it is"):
        save_key(place.auth_file, "openai", Secret(KEY))
    assert done.code == 2 and "left as it is" in done.err
    assert place.auth_file.read_bytes() == content.encode("latin-1")


def test_T103_a_disk_that_is_full_leaves_the_old_file_and_no_other(place: Place) -> None:
    save_key(place.auth_file, "openai", Secret(KEY))
    script = (
        "import resource, signal\nfrom pathlib import Path\n"
        "from agent.config.auth import AuthError, save_key\nfrom providers.types import Secret\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))\n"
        f"try: save_key(Path({str(place.auth_file)!r}), 'openai', Secret({OTHER!r}))\nexcept AuthError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert "cannot be written" in done.stdout and OTHER not in done.stdout + done.stderr, done
    assert keys(place.auth_file) == {"openai": KEY}
    assert sorted(path.name for path in place.auth_file.parent.iterdir()) == ["auth.json", "auth.json.lock"]


def test_T103_a_crash_during_a_save_leaves_the_old_file_or_the_new_one(place: Place) -> None:
    """A process saves one key, then the other, for ever; it is killed at twelve moments."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom agent.config.auth import save_key\nfrom providers.types import Secret\n"
        f"path = Path({str(place.auth_file)!r})\nprint('ready', flush=True)\n"
        f"while True:\n    for key in ({KEY!r}, {OTHER!r} * 50):\n        save_key(path, 'openai', Secret(key))\n"
        "        sys.stdout.write('.')\n        sys.stdout.flush()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    seen = set()
    for number in range(12):  # stopped anywhere, looked at as after a crash, and let go
        process.stdout.read(1 + number % 3)
        os.kill(process.pid, signal.SIGSTOP)
        seen.add(keys(place.auth_file)["openai"])
        assert stat.S_IMODE(place.auth_file.stat().st_mode) == 0o600
        os.kill(process.pid, signal.SIGCONT)
    process.kill()
    process.communicate()
    assert keys(place.auth_file)["openai"] in (KEY, OTHER * 50) and seen <= {KEY, OTHER * 50}
    save_key(place.auth_file, "openai", Secret(KEY))  # the lock died with its holder
    assert keys(place.auth_file) == {"openai": KEY}


def test_logout_says_whose_where_there_are_several(place: Place) -> None:
    assert place.claw("logout").out == "No key is kept\n"
    save_key(place.auth_file, "openai", Secret(KEY))
    save_key(place.auth_file, "groq", Secret(OTHER))
    done = place.claw("logout")
    assert done.code == 2 and "openai, groq" in done.err
    place.set("GROQ_API_KEY", OTHER)
    done = place.claw("logout", "groq")
    assert (
        done.code == 0 and "GROQ_API_KEY is set and still holds a key" in done.err and OTHER not in done.out + done.err
    )
    assert place.claw("logout", "groq").out == "No key of groq is kept\n"
    assert keys(place.auth_file) == {"openai": KEY}


def test_a_keyring_keeps_the_key_and_the_file_only_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    keyring: Any = Keyring(KEY)
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    save_key(place.auth_file, "openai", Secret(KEY), in_keyring=True)
    assert json.loads(place.auth_file.read_text()) == {"openai": {"keyring": True}}
    assert keyring.kept == {("claw", "openai"): KEY} and keys(place.auth_file) == {"openai": KEY}
    keyring.locked = True
    found, problems = read_auth(place.auth_file)
    assert found == {} and [p.severity for p in problems] == ["warning"] and KEY not in str(problems[0])
    with pytest.raises(AuthError):
        remove_key(place.auth_file, "openai")
    keyring.locked = False
    keyring.kept.clear()  # by another program
    assert remove_key(place.auth_file, "openai") and json.loads(place.auth_file.read_text()) == {}


def test_without_a_keyring_it_says_what_to_install(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(AuthError, match="not installed\\.\\nInstall"):
        save_key(place.auth_file, "openai", Secret(KEY), in_keyring=True)
    assert not place.auth_file.exists()


async def test_a_config_file_that_is_wrong_does_not_stop_a_login(desk: Desk) -> None:
    (desk.home / "config" / "config.toml").write_text("[tui]\n[tui]\n")
    assert (await run(desk, "login", "groq", stdin=OTHER.encode())).code == 0
    assert keys(desk.home / "data" / "auth.json") == {"groq": OTHER}

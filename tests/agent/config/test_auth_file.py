"""The file of keys against what may happen to it: a kill while it is written, a mode that is too wide, a link in its place."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config.auth import AuthError, plain_keys, read_auth, save_key
from providers.types import Secret

KILLED = """
import json, os, random, signal, stat, sys, time
from pathlib import Path
from agent.config.auth import save_key
from providers.types import Secret

path, trials = Path(sys.argv[1]), int(sys.argv[2])
os.umask(0)
rng, seen = random.Random(3), set()
save_key(path, "a", Secret("old-" + "o" * 60_000))
for trial in range(trials):
    if (pid := os.fork()) == 0:
        n = 0
        while True:
            save_key(path, "a", Secret(f"{('new', 'old')[n % 2]}-" + "x" * 60_000))
            n += 1
    time.sleep(rng.uniform(0.0005, 0.02))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    key = json.loads(path.read_bytes())["a"]["key"]
    assert len(key) == 60_004 and key[:4] in ("old-", "new-")
    seen.add(key[:4])
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
save_key(path, "b", Secret("last"))
names = sorted(file.name for file in path.parent.iterdir())
assert names == ["auth.json", "auth.json.lock"], names
print(len(seen))
"""


def test_T103_killed_while_it_is_saved_it_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "data" / "auth.json"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), "40"], cwd=Path(__file__).parents[3], capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.strip() == "2", done.stderr


def test_T103_a_link_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "auth.json"
    real.write_text(json.dumps({"a": {"key": "somebody-elses"}}))
    real.chmod(0o644)
    link.symlink_to(real)
    keys, (problem,) = read_auth(link)
    assert keys == {} and problem.severity == "error" and "is a link" in str(problem) and plain_keys(link) == ()
    with pytest.raises(AuthError, match="is a link"):
        save_key(link, "a", Secret("mine-mine"))
    assert "mine" not in real.read_text() and real.stat().st_mode & 0o777 == 0o644


def test_T103_a_mode_that_is_too_wide_is_mended_and_told_once(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"a": {"key": "key-of-a"}}))
    for mode in (0o644, 0o666, 0o640, 0o604):
        path.chmod(mode)
        keys, (problem,) = read_auth(path)
        assert keys == {"a": Secret("key-of-a")} and f"{mode:04o}" in str(problem) and "key-of-a" not in str(problem)
        assert path.stat().st_mode & 0o777 == 0o600 and read_auth(path)[1] == ()


def test_the_keys_of_all_providers_are_known_configured_or_not(tmp_path: Path) -> None:
    path = tmp_path / "auth.json"
    path.write_text(
        json.dumps({"a": {"key": " k1 "}, "b": {"keyring": True}, "c": 5, "d": {"key": 7}, "e": {"key": "k2"}})
    )
    path.chmod(0o600)
    assert plain_keys(path) == ("k1", "k2")
    path.write_text("no json")
    assert plain_keys(path) == () and plain_keys(tmp_path / "none") == ()

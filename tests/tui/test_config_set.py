"""`claw config set`: one key changes, and nothing else; wrong keys, values and files change nothing."""

import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.editing import EditError, set_key, unset_key
from agent.config.files import ConfigFile
from agent.config.key_paths import format_key
from tests.tui.in_process import Place

FILE = """\
# my settings
model = "anthropic/claude"   # the good one

# when to compact
[context]
trigger = 0.5  # half
# more to come

[providers.mine]
api = "chat"
base_url = "http://localhost:1"
# trailing words
[tui]
theme = "x"
"""


def test_a_value_is_replaced_in_place_and_everything_else_stays(place: Place) -> None:
    place.write(place.user_file, FILE)
    done = place.claw("config", "set", "context.trigger", "auto")
    assert (done.code, done.out, done.err) == (0, f'context.trigger = "auto" in {place.user_file}\n', "")
    assert place.user_file.read_text() == FILE.replace("trigger = 0.5  # half", 'trigger = "auto"  # half')


@pytest.fixture
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_usual_umask")
def test_new_keys_go_where_they_belong_and_a_new_file_is_private(place: Place) -> None:
    for key, value in {"tui.theme": "claw-light", "model": "openai/gpt-6", "profiles.work.effort": "high",
                       'models."a.b".max_output_tokens': "9000", "permissions.deny": '["bash(rm)"]',
                       "context.trigger": "0.5", "instructions.text": "-- be brief"}.items():  # fmt: skip
        assert place.claw("config", "set", key, value).code == 0, key
    assert tomllib.loads(place.user_file.read_text()) == {
        "model": "openai/gpt-6",
        "tui": {"theme": "claw-light"},
        "profiles": {"work": {"effort": "high"}},
        "models": {"a.b": {"max_output_tokens": 9000}},
        "permissions": {"deny": ["bash(rm)"]},
        "context": {"trigger": 0.5},
        "instructions": {"text": "-- be brief"},
    }
    assert stat.S_IMODE(place.user_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.user_file.parent.stat().st_mode) == 0o700
    assert place.claw("config", "check").code == 0


def test_unset_takes_out_keys_known_or_not_and_says_where_there_is_none(place: Place) -> None:
    place.write(place.user_file, FILE.replace("theme =", "teme ="))
    for key in ("context.trigger", "tui.teme", "model"):
        assert place.claw("config", "set", "--unset", key).code == 0
    text = place.user_file.read_text()
    assert tomllib.loads(text) == {
        "context": {}, "tui": {}, "providers": {"mine": {"api": "chat", "base_url": "http://localhost:1"}}
    }  # fmt: skip
    assert "# my settings" in text and "# more to come" in text and "# trailing words" in text
    done = place.claw("config", "set", "model", "--unset")
    assert (done.code, done.out) == (0, f"model is not set in {place.user_file}\n")
    assert place.user_file.read_text() == text


def test_what_would_take_comments_along_is_left_to_the_user(place: Place) -> None:
    place.write(place.user_file, FILE)
    done = place.claw("config", "set", "--unset", "providers.mine")
    assert done.code == 2 and "by hand" in done.err
    assert place.user_file.read_text() == FILE


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("context.triger", "auto"), 'did you mean "context.trigger"?'),
        (("contxt.trigger", "auto"), 'did you mean "context"?'),
        (("context.trigger", "sometimes"), '"buffer"'),
        (("context.preserve_recent", "-1"), "at least 1"),
        (("effort", "huge"), '"high"'),
        (("tui", '{theme = "y"}'), "is a table"),
        (("tui.theme.name", "y"), "tui.theme"),
        (("a b", "1"), "dotted key"),
        (("", "1"), "dotted key"),
        (("managed.locked", '["model"]'), "managed policy"),
        (("sandbox.x", "1"), "not in force"),
        (("permissions.allow", '["bash(git log)", "bash(git"]'), "item 2"),
        (("model.x", "1"), "model"),
        (("model",), "needs a value"),
        (("--unset", "model", "x"), "takes no value"),
        (("--project", "--local", "model", "a/b"), "not allowed"),
        (("--project", "permissions.mode", "auto"), "a project may not set this"),
        (("--local", "providers.x.base_url", "http://localhost"), "a project may not set this"),
        (("--project", "permissions.allow", '["bash"]'), "a project may not set this"),
    ],
)
def test_wrong_keys_values_and_places_write_nothing_and_end_with_2(
    place: Place, arguments: tuple[str, ...], told: str
) -> None:
    place.write(place.user_file, FILE)
    done = place.claw("config", "set", *arguments)
    assert (done.code, done.out) == (2, "") and told in done.err, done.err
    assert done.err.startswith("claw: ") and len(done.err.splitlines()) == 2
    assert place.user_file.read_text() == FILE
    assert not place.project_file.parent.exists()


def test_B20_a_key_that_was_pasted_in_the_wrong_place_is_not_repeated(place: Place) -> None:
    for arguments in (("providers.x.key_env", "sk-secret-1"), ("providers.x.base_url", "https://u:sk-secret-1@host"),
                      ("providers.x.api_key", "sk-secret-1")):  # fmt: skip
        done = place.claw("config", "set", *arguments)
        assert done.code == 2 and "sk-secret-1" not in done.out + done.err
    assert "http://localhost:1" in place.claw("config", "set", "providers.x.base_url", "http://localhost:1").out
    done = place.claw("config", "set", "providers.x.headers.X-Token", "sk-secret-1")
    assert done.code == 0 and "sk-secret-1" not in done.out + done.err and "(hidden)" in done.out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xef\xbb\xbf[tui]\n", "byte order mark"),
        (b"[tui]\n[tui]\n", "declared twice"),
        (b"model = \n", "not valid TOML"),
        (b"model = 'caf\xe9'\n", "UTF-8"),
        (b"#" * (1 << 20) + b"\n", "larger than 1 MiB"),
        (b"a = " + b"[" * 5000, "config.toml"),
    ],
    ids=range(6),
)
def test_T107_a_damaged_file_is_never_rewritten(place: Place, content: bytes, told: str) -> None:
    place.write(place.user_file, content)
    done = place.claw("config", "set", "effort", "low")
    assert done.code == 2 and told in done.err and "left as it is" in done.err, done.err
    assert place.user_file.read_bytes() == content


def test_T107_what_is_no_file_is_never_replaced(place: Place) -> None:
    place.user_file.parent.mkdir(parents=True)
    made: list[Callable[[], None]] = [
        lambda: os.mkfifo(place.user_file),
        lambda: place.user_file.symlink_to("/dev/zero"),
        lambda: place.user_file.symlink_to("nowhere"),
        place.user_file.mkdir,
    ]
    for make in made:
        make()
        before = place.user_file.lstat()
        assert place.claw("config", "set", "effort", "low").code == 2
        assert place.user_file.lstat().st_ino == before.st_ino
        place.user_file.rmdir() if place.user_file.is_dir() else place.user_file.unlink()


def test_a_link_to_the_users_file_stays_one(place: Place) -> None:
    real = place.write(place.home / "dotfiles" / "claw.toml", FILE)
    place.user_file.parent.mkdir(parents=True)
    place.user_file.symlink_to(real)
    assert place.claw("config", "set", "effort", "low").code == 0
    assert place.user_file.is_symlink() and 'effort = "low"' in real.read_text()


@pytest.mark.usefixtures("_usual_umask")
def test_the_projects_files_keep_their_mode_and_never_lie_elsewhere(place: Place) -> None:
    assert place.claw("config", "set", "--project", "context.trigger", "0.4").code == 0
    assert place.project_file.read_text() == "[context]\ntrigger = 0.4\n"
    assert stat.S_IMODE(place.project_file.stat().st_mode) == 0o644
    done = place.claw("config", "set", "effort", "low", "--local")
    assert done.code == 0 and ".gitignore" in done.err
    assert sorted(path.name for path in place.project_file.parent.iterdir()) == ["config.local.toml", "config.toml"]
    assert not place.user_file.exists()
    elsewhere = place.home / "elsewhere"
    place.project_file.parent.rename(elsewhere)
    place.project_file.parent.symlink_to(elsewhere)
    before = {path.name: path.read_text() for path in elsewhere.iterdir()}
    for scope in ("--project", "--local"):
        assert place.claw("config", "set", scope, "effort", "high").code == 2
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == before


def test_it_says_what_is_wrong_now_and_who_has_the_last_word(place: Place) -> None:
    done = place.claw("config", "set", "providers.mine.api", "chat")
    assert done.code == 0 and "base_url must be set" in done.err
    assert place.claw("config", "set", "providers.mine.base_url", "http://localhost:1").err == ""
    place.write(place.project_file, 'effort = "high"\n')
    done = place.claw("config", "set", "effort", "low")
    assert done.code == 0 and f"{place.project_file}:1" in done.err
    assert place.claw("config", "set", "effort", "low").out.endswith(f"stands already in {place.user_file}\n")


def test_line_ends_of_windows_stay(place: Place) -> None:
    place.write(place.user_file, b'[tui]\r\ntheme = "x"\r\n')
    assert place.claw("config", "set", "tui.theme", "y").code == 0
    assert place.user_file.read_bytes() == b'[tui]\r\ntheme = "y"\r\n'


# --------------------------------------------------------------------------- any file, any key

_names = st.sampled_from(["model", "a-b", "x.y", "größe", "", 'q"q'])
_values = st.one_of(
    st.booleans(), st.integers(-9, 9), st.just(0.5), st.text(max_size=6), st.lists(st.integers(0, 3), max_size=3)
)  # fmt: skip
_comments = st.sampled_from(["", "# words", "  # [not] a table = 1"])


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    """Files with comments, dotted keys, tables in any order, inline tables and arrays over several lines."""
    lines: list[str] = []
    for table in draw(
        st.lists(st.sampled_from(["", "tui", "context", "providers.mine", "providers.x", "p"]), max_size=5, unique=True)
    ):
        if table:
            lines.append(f"[{table}] {draw(_comments)}")
        elif lines:
            continue
        for name in draw(st.lists(_names, max_size=3, unique=True)):
            value = draw(_values)
            written = format_value(value)
            shape = draw(st.sampled_from(["plain", "dotted", "inline", "lines"]))
            key = format_key((name,))
            line = {
                "plain": f"{key} = {written}",
                "dotted": f"{key}.sub = {written}",
                "inline": f"{key} = {{ sub = {written}, b = 1 }}",
                "lines": f"{key} = [ # first\n  {written}, # second\n]",
            }[shape]
            lines += [draw(_comments), f"{line} {draw(_comments)}"]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n# the end\n"]))


def format_value(value: Any) -> str:
    import tomlkit

    return str(tomlkit.item(value).as_string())


@given(
    toml_files(), st.sampled_from(["model", "tui.theme", "context.trigger", "providers.mine.api", "providers.new.api"])
)
def test_any_file_has_the_one_change_and_its_comments_or_stays_as_it_was(
    tmp_path_factory: Any, text: str, key: str
) -> None:
    folder: Path = tmp_path_factory.mktemp("edit")
    file = ConfigFile("user", folder / "config.toml")
    file.path.write_text(text, newline="")
    value = {"model": "a/b", "tui.theme": "t", "context.trigger": "auto"}.get(key, "chat")
    before = tomllib.loads(text)
    try:
        set_key(file, key, value, folder / "lock")
    except EditError:
        assert file.path.read_text() == text
        return
    after = tomllib.loads(file.path.read_text())
    node = after
    *tables, last = key.split(".")
    for part in tables:
        node = node[part]
    assert node[last] == value
    comments = [line.strip() for line in text.split("\n") if line.lstrip().startswith("#")]
    assert set(comments) <= {line.strip() for line in file.path.read_text().split("\n")}
    unset_key(file, key, folder / "lock")
    assert without(tomllib.loads(file.path.read_text()), key) == without(before, key)


def without(data: Any, key: str = "") -> Any:
    """Plain data without a dotted key and without empty tables."""
    if not isinstance(data, dict):
        return data
    first, _, rest = key.partition(".")
    kept = {name: without(item, rest if name == first else "") for name, item in data.items() if name != key}
    return {name: item for name, item in kept.items() if item != {}}

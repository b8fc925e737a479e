import os
import time
from pathlib import Path

import pytest

from tests.agent.config.conftest import Bench, texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("context.trigger = 0\n", "found 0: a whole number counts tokens"),
        ("context.trigger = -1\n", "found -1"),
        ("context.trigger = 2.0\n", "found 2.0: a number with a point is a fraction"),
        ("context.trigger = true\n", "found true"),
        ('context.trigger = "often"\n', 'found "often"'),
    ],
)
def test_B30_thresholds_out_of_range_name_the_allowed_values(bench: Bench, text: str, expected: str) -> None:
    loaded = bench.write(user='effort = "low"\n' + text).load()
    (line,) = texts(loaded)
    assert line.startswith(f"{bench.user_file}:2: context.trigger: ")
    assert expected in line
    assert 'expected "auto", "buffer", "ratio", a number of tokens (at least 1000), or a fraction above 0.0' in line
    assert loaded.config.context.trigger == "auto"
    assert loaded.config.effort == "low" and loaded.has_errors


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ('[context]\nmodel = "a/b"\n', "context.model", 'did you mean the top-level key "model"? Move it above'),
        ("[context]\ntriger = 1\n", "context.triger", 'did you mean "context.trigger"?'),
        ("contxt.trigger = 1\n\n", "contxt", 'did you mean "context"?'),
        ("\nmax_turns = 3\n", "max_turns", 'did you mean "limits.max_turns"?'),
        ("\nMODEL = 3\n", "MODEL", 'did you mean "model"?'),
        ("[context]\nmode = 3\n", "context.mode", 'did you mean "permissions.mode"?'),
        ("[context]\n__init__ = 3\n", "context.__init__", "known here: trigger, "),
    ],
)
def test_B30_unknown_keys_name_the_nearest(bench: Bench, text: str, key: str, hint: str) -> None:
    (line,) = texts(bench.write(user=text).load())
    assert f"{key}: unknown key; " in line
    assert hint in line


def test_B30_one_wrong_value_leaves_the_rest_of_the_file(bench: Bench) -> None:
    bench.write(user='model = 7\neffort = "high"\ncontext = 3\nlimits = { max_turns = 2, max_cost = "much" }\n')
    loaded = bench.load()
    assert (loaded.config.model, loaded.config.effort, loaded.config.limits.max_turns) == (None, "high", 2)
    assert [line.split(": ")[0].rsplit(":", 1)[1] for line in texts(loaded)] == ["1", "3", "4"]
    assert 'found 7; expected text of the form "PROVIDER/MODEL"' in texts(loaded)[0]
    assert "expected a table: [context]" in texts(loaded)[1]
    assert not loaded.damaged


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('a = 1\nmodel = "x\n', ":2:11", "not valid TOML"),
        ("model =", ":1", "not valid TOML: Invalid value"),
        ("[context]\n[tui]\n[context]\n", ":3:", "table [context] is declared twice; it stands first on line 1"),
        ("effort = 'low'\neffort = 'high'\n", ":2:", "the key is set twice"),
        ("a." * 20_000 + "b = 1", ":1", "a key has more than 32 parts"),
        ("a = " + "[" * 20_000, "", "nested too deeply"),
        ("a = " + "9" * 5_000, ":1", "not valid TOML"),
    ],
)
def test_T107_syntax_errors_name_file_line_and_column(bench: Bench, text: str, place: str, message: str) -> None:
    loaded = bench.write(user=text, project='effort = "low"\n').load()
    (line,) = texts(loaded)
    assert line.startswith(f"{bench.user_file}{place}")
    assert message in line
    assert loaded.damaged and loaded.config.effort == "low"
    assert bench.user_file.read_text() == text


def test_R12_T25_a_damaged_layer_never_loosens(bench: Bench) -> None:
    bench.write(user='permissions.deny = ["bash(rm)"]\n', project="[broken\n", managed='permissions.deny = ["write"]\n')
    loaded = bench.load()
    assert set(loaded.config.permissions.deny) == {"bash(rm)", "write"}
    assert loaded.damaged


@pytest.mark.parametrize(
    "text",
    [
        'permissions.deny = ["bash(rm)", 7]\n',
        'permissions.deny = ["bash(rm)", "rm -rf"]\n',
        'permissions.deny = ["bash(rm)", "__init__"]\n',
        'permissions.deny = ["bash(rm)", "basch(x)"]\n',
        'permissions.deny = ["bash(rm)", "bash(git *)"]\n',
        'permissions.deny = ["bash(rm)", "read(../x)"]\n',
        'permissions.deny = ["bash(rm)"]\npermissions.blocked_commands = ["git *"]\n',
        'permissions.deny = ["bash(rm)"]\npermissions.protected_patterns = ["../x"]\n',
        'permissions.deny = ["bash(rm)"]\npermissions.denny = ["write"]\n',
        'permissions.deny = ["bash(rm)"]\npermissions.ask = "write"\n',
    ],
)
def test_T25_one_bad_rule_leaves_the_others_in_force_and_is_known(bench: Bench, text: str) -> None:
    loaded = bench.write(user=text).load()
    assert loaded.config.permissions.deny == ("bash(rm)",)
    assert loaded.damaged and loaded.has_errors


def test_T25_a_bad_allow_rule_only_allows_less(bench: Bench) -> None:
    loaded = bench.write(user='permissions.allow = ["read", "rm -rf"]\npermissions.mode = "yolo"\n').load()
    assert loaded.config.permissions.allow == ("read",)
    assert loaded.has_errors and not loaded.damaged
    assert 'item 2: found "rm -rf": it has not the form `tool` or `tool(argument)`' in texts(loaded)[0]


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _large(path: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, 10 << 20)


def _utf16(path: Path) -> None:
    path.write_text("model = 'a/b'", encoding="utf-16")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_fifo, "it is a FIFO"),
        (_device, "it is a character device"),
        (_folder, "it is a directory"),
        (_loop, "cannot be read"),
        (_dangling, "link to a file that does not exist"),
        (_large, "larger than 1 MiB"),
        (_utf16, "is not UTF-8"),
    ],
)
def test_T107_what_is_no_config_file_is_a_clear_error_and_never_a_wait(
    bench: Bench, make: object, message: str
) -> None:
    assert callable(make)
    make(bench.user_file)
    bench.write(project='effort = "low"\n')
    began = time.perf_counter()
    loaded = bench.load()
    assert time.perf_counter() - began < 10
    (line,) = texts(loaded)
    assert line.startswith(str(bench.user_file)) and message in line
    assert loaded.damaged and loaded.config.effort == "low"


def test_T107_unreadable_file(bench: Bench) -> None:
    bench.write(user='effort = "low"\n')
    bench.user_file.chmod(0)
    loaded = bench.load()
    if os.geteuid() == 0:
        assert loaded.config.effort == "low"  # nothing is unreadable to root
    else:
        assert "cannot be read: permission denied" in texts(loaded)[0] and loaded.damaged


def test_T107_a_byte_order_mark_is_named_and_the_rest_applies(bench: Bench) -> None:
    bench.user_file.write_bytes(b"\xef\xbb\xbfeffort = 'low'\r\nmodel = 3\r\n")
    loaded = bench.load()
    assert loaded.config.effort == "low"
    first, second = texts(loaded)
    assert first.startswith(f"{bench.user_file}:1:1: begins with a byte order mark") and loaded.has_errors
    assert f"{bench.user_file}:2: model" in second


def test_the_users_file_may_be_a_link_and_a_projects_may_not_leave_it(bench: Bench, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles.toml"
    elsewhere.write_text('effort = "low"\n')
    bench.user_file.symlink_to(elsewhere)
    bench.project_file.symlink_to(elsewhere)
    loaded = bench.load()
    assert loaded.origins["effort"][0].layer == "user"
    (line,) = texts(loaded)
    assert line.startswith(str(bench.project_file)) and "leads out of" in line


def test_a_config_that_anyone_may_write_is_not_applied(bench: Bench) -> None:
    bench.write(user='providers.anthropic.base_url = "https://evil.example"\n')
    bench.user_file.chmod(0o666)
    loaded = bench.load()
    assert loaded.config.providers["anthropic"].base_url is None
    assert f"run: chmod o-w {bench.user_file}" in texts(loaded)[0] and loaded.damaged


def test_a_flood_of_wrong_keys_is_capped_and_counted(bench: Bench) -> None:
    bench.write(user="".join(f"{'k' * 50}{n} = {n}\n" for n in range(10_000)))
    began = time.process_time()
    loaded = bench.load()
    assert time.process_time() - began < 3
    assert len(loaded.problems) == 51
    assert "9950 more problems are not shown" in texts(loaded)[-1]


def test_control_characters_of_a_file_never_reach_the_terminal(bench: Bench) -> None:
    bench.write(project='"\\u001b]0;x\\u0007" = 1\nmodel = "\\u001b[31m/\\u202e"\n')
    for line in texts(bench.load()):
        assert line.isprintable()


def test_a_key_pasted_into_the_wrong_place_is_not_repeated(bench: Bench) -> None:
    secret = "sk-ant-0123456789"
    bench.write(
        user=f'[providers.anthropic]\nkey = "{secret}"\nkey_env = "{secret}"\n'
        f'base_url = "https://u:{secret}@h"\nheaders = "{secret}"\n'
    )
    found = texts(bench.load())
    assert len(found) == 4
    assert not any(secret in line for line in found)
    assert "use auth.json" in found[0]


def test_sections_of_later_versions_are_noticed_and_no_error(bench: Bench) -> None:
    loaded = bench.write(user='[mcp.servers.x]\ncommand = "y"\n[checks]\nafter_edit = []\n[sandbox]\n').load()
    assert not loaded.has_errors
    assert [line.rsplit(": ", 1)[1] for line in texts(loaded)] == [
        "[mcp.servers] is not in force in this version",
        "[checks] is not in force in this version",
        "[sandbox] is not in force in this version",
    ]

import os
from pathlib import Path

import pytest

from agent.command_environment import command_environment, variable_fault
from agent.config.layers import load_config
from agent.config.paths import Paths
from agent.transcript import Result
from providers.types import TextBlock
from tests.fakes.session_kit import Desk


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "PGPASSWD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "LC_API_KEY",
        "MyToken",
        "SSH_AUTH_SOCK",
        "CLAW_HOME",
        "BASH_ENV",
        "ENV",
        "LD_PRELOAD",
        "BASH_FUNC_ls%%",
        "PROMPT_COMMAND",
        "GIT_SSH_COMMAND",
        "DISPLAY",
        "ANYTHING",
    ],
)
def test_R24_what_is_not_listed_or_sounds_secret_stays_out(name: str) -> None:
    assert name not in command_environment({name: "x", "PATH": "/bin"})


def test_R24_a_secret_stays_out_even_if_it_is_asked_for() -> None:
    environment = command_environment({"MY_KEY": "x", "MY_SETTING": "y"}, extra=["MY_KEY", "MY_SETTING"])
    assert environment.get("MY_SETTING") == "y" and "MY_KEY" not in environment


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV", "GOPATH", "HTTPS_PROXY"]
)
def test_R24_what_builds_need_is_kept(name: str) -> None:
    assert command_environment({name: "/value"})[name] == "/value"


def test_T109_of_the_path_only_absolute_folders_stay() -> None:
    path = "/usr/bin::.:node_modules/.bin:/opt/x/bin:./bin:"
    assert command_environment({"PATH": path})["PATH"] == "/usr/bin:/opt/x/bin"


def test_a_proxy_with_a_password_stays_out() -> None:
    assert "HTTPS_PROXY" not in command_environment({"HTTPS_PROXY": "http://me:secret@proxy:3128"})


def test_programs_are_kept_from_asking() -> None:
    environment = command_environment({"TERM": "xterm-256color", "GIT_EDITOR": "vim", "PAGER": "less", **os.environ})
    expected = {"TERM": "dumb", "GIT_EDITOR": "true", "GIT_PAGER": "cat", "PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
    assert environment.items() >= (expected | {"SSH_ASKPASS": "", "DEBIAN_FRONTEND": "noninteractive"}).items()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("SSH_AUTH_SOCK", ""),
        ("my_setting", ""),
        ("NPM_TOKEN", "sounds like a secret"),
        ("db_password", "sounds like a secret"),
        ("PAGER", "a value of its own"),
        ("A=B", "no name"),
        ("", "no name"),
        ("BASH_FUNC_x%%", "no name"),
    ],
)
def test_R24_what_a_user_may_name(name: str, says: str) -> None:
    assert says in variable_fault(name) and bool(says) == bool(variable_fault(name))
    assert says == "" or command_environment({name: "x"}, [name]).get(name) != "x"


async def test_R24_a_variable_that_the_configuration_names_reaches_commands(
    one_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SETTING", "seen")
    monkeypatch.setenv("MY_OTHER", "hidden")
    with (one_desk.home / "config" / "config.toml").open("a") as file:
        file.write('\n[commands]\nenvironment = ["MY_SETTING"]\n')
    one_desk.wire.reply("I look.", tools=[("bash", {"command": "echo ${MY_SETTING-no} ${MY_OTHER-no}"})])
    one_desk.wire.reply("Done.")
    async with one_desk.open() as talk:
        await talk.session.prompt("look")
    (block,) = one_desk.payloads(Result)[0].blocks
    assert isinstance(block, TextBlock) and block.text.startswith("seen no\n")


def test_R24_a_project_names_none_and_a_secret_is_refused_with_the_reason(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    for folder, names in ((project / ".claw", '["SSH_AUTH_SOCK"]'), (home / "config", '["MY_TOKEN", "MY_SETTING"]')):
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(f"[commands]\nenvironment = {names}\n")
    loaded = load_config(Paths.from_env({"CLAW_HOME": str(home), "HOME": str(home)}), project, {})
    assert loaded.config.commands.environment == ("MY_SETTING",)
    told = " ".join(map(str, loaded.problems))
    assert "sounds like a secret" in told and "commands.environment" in told

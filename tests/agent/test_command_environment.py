import os

import pytest

from agent.command_environment import command_environment


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
    assert command_environment({name: "value"})[name] == "value"


def test_a_proxy_with_a_password_stays_out() -> None:
    assert "HTTPS_PROXY" not in command_environment({"HTTPS_PROXY": "http://me:secret@proxy:3128"})


def test_programs_are_kept_from_asking() -> None:
    environment = command_environment({"TERM": "xterm-256color", "GIT_EDITOR": "vim", "PAGER": "less", **os.environ})
    expected = {"TERM": "dumb", "GIT_EDITOR": "true", "GIT_PAGER": "cat", "PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
    assert environment.items() >= (expected | {"SSH_ASKPASS": "", "DEBIAN_FRONTEND": "noninteractive"}).items()

"""`claw completion`: each shell itself is asked what it would offer."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fakes.terminal import Terminal
from tests.tui.in_process import Place
from tui.launch.arguments import SHELLS, SUBCOMMANDS
from tui.launch.options import run_parser
from tui.subcommands.shell_completion import commands, key_values

TRY = """\
source "$1"; shift
declare -a COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_claw
printf '%s\\n' "${COMPREPLY[@]}"
"""
LINES: list[tuple[tuple[str, ...], set[str], set[str]]] = [
    (("",), {"sessions", "config", "login", "doctor", "completion"}, {"set", "bash"}),
    (("-",), {"--mode", "-p", "--output-schema", "--tools", "--max-cost", "--version"}, {"--unset"}),
    (("--max",), {"--max-turns", "--max-cost"}, {"--mode"}),
    (("--mode", ""), {"plan", "ask", "edits", "auto"}, {"sessions"}),
    (("-p", "do it", "--output-format", "s"), {"stream-json"}, {"text"}),
    (("-m", "x/y", ""), set(), {"sessions"}),
    (("config", ""), {"show", "path", "check", "set"}, {"bash"}),
    (("config", "set", ""), {"model", "context.trigger", "permissions.mode"}, {"show"}),
    (("config", "set", "--project", "context.tr"), {"context.trigger"}, {"model"}),
    (("config", "set", "effort", ""), {"off", "low", "medium", "high"}, {"model"}),
    (("config", "set", "--"), {"--user", "--project", "--local", "--unset"}, {"--mode"}),
    (("login", "op"), {"openai", "openrouter"}, {"anthropic"}),
    (("doctor", "-"), {"--json", "--online"}, {"--mode"}),
    (("completion", ""), set(SHELLS), {"show"}),
    (("--output-schema", "sch"), {"schema.json"}, set()),
    (("--output-format", "json", "--output-schema", "sch"), {"schema.json"}, set()),
    (("sessions", "export", "x", "--output", "sch"), {"schema.json"}, set()),
    (("--add-dir", "fol"), {"folder"}, {"schema.json"}),
]


@pytest.fixture
def scripts(place: Place) -> dict[str, Path]:
    """The scripts as files, and something to complete in the current folder."""
    place.write(place.project / "schema.json", "{}")
    (place.project / "folder").mkdir()
    return {shell: place.write(place.home / shell, place.claw("completion", shell).out) for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one(scripts: dict[str, Path], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", scripts[shell]], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_offers_what_fits_the_place(scripts: dict[str, Path]) -> None:
    for words, wanted, unwanted in LINES:
        done = subprocess.run(
            ["bash", "-c", TRY, "bash", scripts["bash"], "claw", *words], capture_output=True, text=True, check=True
        )
        offered = {word.rstrip("/") for word in done.stdout.split()}
        assert wanted <= offered and not unwanted & offered, (words, done.stdout)
        assert done.stderr == "", (words, done.stderr)


def test_bash_understands_values_behind_an_equals_sign(scripts: dict[str, Path]) -> None:
    for words in (("--mode", "=", "pl"), ("--mode", "=")):
        argv = ["bash", "-c", TRY, "bash", scripts["bash"], "claw", *words]
        assert "plan" in subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_offers_what_fits_the_place(scripts: dict[str, Path], place: Place) -> None:
    lines = [" ".join(["claw", *(f"'{word}'" if " " in word else word for word in words)]) for words, _, _ in LINES]
    script = f"source {scripts['fish']}\n" + "".join(f"echo @@@; complete -C {json.dumps(line)}\n" for line in lines)
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
    blocks = done.stdout.split("@@@\n")[1:]
    for (words, wanted, unwanted), block in zip(LINES, blocks, strict=True):
        offered = {line.partition("\t")[0].rstrip("/") for line in block.splitlines()}
        assert {word for word in wanted if len(word) > 2} <= offered and not unwanted & offered, (words, block)


def test_ids_of_sessions_come_from_claw_itself(scripts: dict[str, Path], place: Place) -> None:
    listing = "20261130-120000-abcd   now   3 entries  fix it\nThere are no sessions yet.\n"
    place.write(place.home / "bin" / "claw", f"#!/bin/sh\nprintf '{listing}'\n").chmod(0o755)
    for words in (("-r", ""), ("sessions", "show", "2026"), ("context", "")):
        argv = ["bash", "-c", TRY, "bash", scripts["bash"], "claw", *words]
        env = {"PATH": f"{place.home / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
        assert done.stdout == "20261130-120000-abcd\n", words


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_what_is_typed(scripts: dict[str, Path], place: Place) -> None:
    place.write(place.home / "bin" / "claw", "#!/bin/sh\necho '20261130-120000-abcd   now   fix it'\n").chmod(0o755)
    env = {"PATH": f"{place.home / 'bin'}:{os.environ['PATH']}", "HOME": str(place.home), "LANG": "C.UTF-8"}
    lines = {
        "-r ": "-r 20261130-120000-abcd",
        "sessions show ": "sessions show 20261130-120000-abcd",
        "doc": "doctor",
        "--mode p": "--mode plan",
        "config set context.tri": "config set context.trigger",
        "sessions export --output sch": "sessions export --output schema.json",
    }
    with Terminal(["zsh", "-f"], cwd=place.project, env=env) as zsh:
        zsh.type(f"PS1='> '; autoload -U compinit; compinit -D -u; source {scripts['zsh']}; clear; echo ready\r")
        zsh.wait_for(lambda text: text.startswith("ready"))
        for typed, wanted in lines.items():
            zsh.type(f"claw {typed}\t")
            zsh.wait_for(f"> claw {wanted}")
            zsh.type("\x15")


def test_nothing_is_forgotten() -> None:
    known = {command.name: command for command in commands()}
    assert set(known) == {"", *SUBCOMMANDS, "config set"}
    given = {name for action in run_parser()._actions for name in action.option_strings}
    assert {name for option in known[""].options for name in option.names} == given
    assert key_values()["context.auto_compact"] == ("true", "false")


def test_another_shell_is_told_which_there_are(place: Place) -> None:
    done = place.claw("completion", "tcsh")
    assert done.code == 2 and "bash" in done.err

import re

import pytest

from tests.tui.in_process import Place
from tui.launch.arguments import Arguments, UsageError, parse, split_rules


def test_nothing_said_is_the_screen_with_every_default() -> None:
    assert parse([]) == Arguments()
    assert parse(["fix it"]) == Arguments(prompt="fix it")


def test_print_mode_takes_its_prompt_whatever_it_looks_like() -> None:
    for prompt in ("fix it", "--config=/tmp/e.toml", "-c", "--", "[/x] 你好"):
        for option in ("-p", "--print", "--prompt"):
            assert parse([option, prompt]) == Arguments(prompt=prompt, print_mode=True)
            assert parse([f"--print={prompt}"]) == Arguments(prompt=prompt, print_mode=True)
    assert parse(["-p", "-", "--mode", "auto"]) == Arguments(print_mode=True, mode="auto")
    assert parse(["--", "-p"]) == Arguments(prompt="-p")


def test_every_option_is_taken() -> None:
    given = parse(
        ["-p", "x", "--output-format", "json", "-m", "openai/gpt-6", "--effort", "high", "--mode", "edits", "--fork",
         "-r", "2026", "--max-turns", "3", "--max-cost", "0.5", "--add-dir", "/a", "--add-dir", "/b", "--config",
         "context.trigger=0.5", "--profile", "work", "--no-instructions", "--trust", "--tools", "read, grep",
         "--append-system-prompt", "Be brief.", "--output-schema", "s.json"]
    )  # fmt: skip
    assert given == Arguments(
        prompt="x",
        print_mode=True,
        output_format="json",
        model="openai/gpt-6",
        effort="high",
        mode="edits",
        fork=True,
        resume="2026",
        max_turns=3,
        max_cost=0.5,
        add_dirs=("/a", "/b"),
        config=("context.trigger=0.5",),
        profile="work",
        no_instructions=True,
        trust=True,
        tools=("read", "grep"),
        append_system_prompt="Be brief.",
        output_schema="s.json",
    )


def test_resume_without_an_id_is_another_thing_than_no_resume() -> None:
    assert parse(["-r"]).resume == ""
    assert parse([]).resume is None


@pytest.mark.parametrize(
    ("values", "rules"),
    [
        ([], ()),
        (["edit"], ("edit",)),
        (["edit,write", "bash(git log)"], ("edit", "write", "bash(git log)")),
        (
            ["edit bash(git log --oneline, -n 3) read(src/a b)"],
            ("edit", "bash(git log --oneline, -n 3)", "read(src/a b)"),
        ),
        (["bash(echo (x))", " , "], ("bash(echo (x))",)),
        (["bash(unclosed, edit"], ("bash(unclosed, edit",)),
    ],
)
def test_rules_are_split_outside_parentheses(values: list[str], rules: tuple[str, ...]) -> None:
    assert split_rules(values) == rules


@pytest.mark.parametrize(
    "argv",
    [
        ["--bogus"], ["-p"], ["-p", "a", "b"], ["-c", "-r", "x"], ["--no-session", "-c"], ["--mode", "yolo"],
        ["--max-turns", "0"],        ["--max-turns", "x"], ["--max-cost", "-1"], ["--max-cost", "inf"], ["--max-cost", "nan"],
        ["--eff", "low"], ["a", "b"],
        ["sessions"], ["sessions", "show"], ["sessions", "burn"], ["config", "edit"], ["context", "a", "b"],
    ],
)  # fmt: skip
def test_wrong_usage_is_an_error_that_says_what(argv: list[str]) -> None:
    with pytest.raises(UsageError, match=r"\w"):
        parse(argv)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["sessions"], "needs one of: list, show,"),
        (["completion"], "needs one of: bash, zsh, fish"),
        (["sesions", "list"], "no subcommand 'sesions'. Did you mean sessions?"),
        (["sesions"], "no subcommand 'sesions'. Did you mean `claw sessions`?"),
        (["Dcotor"], "no subcommand 'Dcotor'. Did you mean `claw doctor`?"),
        (["--profil", "x"], "no option --profil. Did you mean --profile?"),
        (["fix", "the", "bug"], "several words needs quotes"),
        (["--profile", "x", "config", "show"], "A subcommand stands before all options: claw config"),
        (["-p", "--output-format", "json", "do it"], "the next word as the prompt, here --output-format."),
        (["-p", "--input-format", "stream-json"], "the next word as the prompt, here --input-format."),
    ],
)
def test_what_was_meant_is_guessed(argv: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        parse(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["--", "sesions"],
        ["-p", "sesions"],
        ["sesions", "-c"],
        ["sesions please"],
        ["help"],
        ["memo"],
        ["session."],
        ["configuring"],
    ],
)
def test_any_word_can_be_a_prompt(argv: list[str]) -> None:
    assert parse(argv).prompt == next(word for word in argv if not word.startswith("-"))


def test_a_misspelt_subcommand_is_told_with_how_to_send_it(place: Place) -> None:
    done = place.claw("sesions")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "claw: There is no subcommand 'sesions'. Did you mean `claw sessions`?\n"
        "      To send it as a prompt: claw -- sesions, or claw -p sesions without a screen.\n"
    )


def test_subcommands() -> None:
    assert parse(["demo", "--mode", "auto"]) == Arguments(command="demo", mode="auto")
    assert parse(["sessions", "list", "--json"]) == Arguments(command="sessions", action="list", as_json=True)
    assert parse(["sessions", "show", "2026"]) == Arguments(command="sessions", action="show", session="2026")
    assert parse(["config", "show", "--config", "a=1"]) == Arguments(command="config", action="show", config=("a=1",))
    assert parse(["context", "--json"]) == Arguments(command="context", as_json=True)
    assert parse(["instructions"]) == Arguments(command="instructions")


@pytest.mark.parametrize("argv", [["--version"], ["--mode", "ask", "--version"], ["--help"], ["sessions", "--help"]])
def test_help_and_version_end_well(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(argv)
    assert ended.value.code == 0
    assert "claw" in capsys.readouterr().out


VALUED = {
    "--model": "model", "-m": "model", "--append-system-prompt": "append_system_prompt", "--output-schema": "output_schema",
    "--profile": "profile",
}  # fmt: skip
LISTED = {"--config": "config", "--add-dir": "add_dirs", "--allowed-tools": "allowed_tools", "--tools": "tools"}


@pytest.mark.parametrize("value", ["--config=/tmp/e.toml", "-p", "-1", "--mode", "--version", "-h", "-c", "a=b", ""])
def test_T108_a_value_stays_a_value_whatever_it_looks_like(value: str) -> None:
    for option, field in VALUED.items():
        given = parse(["-p", "x", option, value, "--mode", "plan"])
        assert (getattr(given, field), given.mode, given.prompt) == (value, "plan", "x"), option
    for option, field in LISTED.items():
        assert value == "" or getattr(parse([option, value, "hi"]), field) == (value,), option
    assert parse(["-p", value, "-m", value]) == Arguments(prompt=value, print_mode=True, model=value)
    assert parse(["--", value]) == Arguments(prompt=value)


def test_T108_behind_two_dashes_nothing_is_an_option() -> None:
    with pytest.raises(UsageError):
        parse(["--", "--model", "x"])
    assert parse(["--mode", "plan", "--", "--mode=auto"]) == Arguments(mode="plan", prompt="--mode=auto")


def test_no_tools_is_another_thing_than_all() -> None:
    assert parse(["--tools", ""]).tools == ()
    assert parse(["x"]).tools is None


def test_messages_as_lines_are_print_mode_by_themselves() -> None:
    both = ["--input-format", "stream-json", "--output-format", "stream-json"]
    assert parse(both) == Arguments(print_mode=True, input_format="stream-json", output_format="stream-json")
    assert parse([*both, "-p", "first"]).prompt == "first"


@pytest.mark.parametrize(
    "argv",
    [
        ["--input-format", "stream-json"],
        ["--input-format", "stream-json", "--output-format", "json", "-p", "x"],
        ["--output-format", "json", "x"],
        ["--output-schema", "s.json"],
        ["-m"],
        ["-m", "--"],
        ["--append-system-prompt=--"],
        ["--tools"],
        ["--max-cost", "-1"],
        ["--max-cost", "nan"],
        ["--max-turns", "1.5"],
        ["config", "set"],
        ["config", "set", "a"],
        ["config", "set", "--unset"],
        ["config", "set", "a", "b", "c"],
        ["doctor", "now"],
        ["completion"],
    ],
)
def test_what_does_not_go_together_is_told(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(argv)


def test_config_set_takes_keys_and_values_with_dashes() -> None:
    given = Arguments(command="config", action="set", key="a.b", value="-1")
    assert parse(["config", "set", "a.b", "-1"]) == given
    assert parse(["config", "set", "--", "a.b", "-1"]) == given
    assert parse(["config", "set", "--", "--unset", "--local"]) == Arguments(
        command="config", action="set", key="--unset", value="--local"
    )
    assert parse(["config", "set", "a.b", "-1", "--project"]) == Arguments(
        command="config", action="set", key="a.b", value="-1", scope="project"
    )
    assert parse(["config", "set", "--unset", "a.b"]).unset

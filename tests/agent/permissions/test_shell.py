import random

import pytest

from agent.permissions.shell import scan, simple_command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git log", ("git", "log")),
        ("  git log -1  ", ("git", "log", "-1")),
        ("git commit -m 'two words'", ("git", "commit", "-m", "two words")),
        ('grep -n "a b" x.py', ("grep", "-n", "a b", "x.py")),
        ("pytest --tb=short -q", ("pytest", "--tb=short", "-q")),
    ],
)
def test_R14_a_plain_command_is_its_words(text: str, words: tuple[str, ...]) -> None:
    assert simple_command(text) == words


@pytest.mark.parametrize("char", list(";&|\n<>$`(){}*?[]~\\!#\r\t\0\x1b\x7f\xa0\x85é‮​"))
@pytest.mark.parametrize("place", ["git log {}x", "git log{} x", "git '{}' log", "git log x{}"])
def test_R17_any_character_that_a_shell_acts_on_makes_it_no_plain_command(char: str, place: str) -> None:
    assert simple_command(place.replace("{}", char)) is None


@pytest.mark.parametrize(
    "text",
    ["", "   ", "X=1 git log", "X=1", "git 'log", '"git" log', "'git' log", "g'i't log", "=id", "git " + "x" * 10_000],
)
def test_R17_no_plain_program_name_or_unfinished(text: str) -> None:
    assert simple_command(text) is None


def commands(text: str) -> set[tuple[str, ...]]:
    return {tuple(word.text for word in argv.words[argv.start :]) for argv in scan(text).argvs}


HIDDEN = [
    "rm x",
    "ls; rm x",
    "ls&&rm x",
    "ls || rm x",
    "ls & rm x",
    "ls |& rm x",
    "ls\nrm x",
    "ls ;; rm x",
    "(rm x)",
    "{ rm x; }",
    "if true; then rm x; fi",
    "while rm x; do :; done",
    "for i in a b; do rm x; done",
    "case a in a) rm x;; esac",
    "f() { rm x; }; f",
    "! rm x",
    "A=1 B=2 rm x",
    ">out rm x",
    "2>&1 rm x",
    "echo $(rm x)",
    'echo "a $(rm x) b"',
    "echo `rm x`",
    'echo "`rm x`"',
    "A=$(rm x)",
    "echo ${B:-$(rm x)}",
    "cat <(rm x)",
    "tee >(rm x)",
    "echo $((1 + $(rm x)))",
    "'rm' x",
    '"r"m x',
    r"r\m x",
    "r\\\nm x",
    "ls 'quoted; text'; rm x",
    'ls "it\'s"; rm x',
    "ls # a comment; it's\nrm x",
    "cat <<E\ntext\nE\nrm x",
    "env rm x",
    "env -i -u A B=1 rm x",
    "sudo -u nobody rm x",
    "command rm x",
    "exec -a ls rm x",
    "timeout -k 1 5 rm x",
    "nice -n 5 rm x",
    "nohup setsid rm x",
    "stdbuf -o0 rm x",
    "time rm x",
    "xargs -n 1 rm x",
    "find . -name a -exec rm x ;",
    "find . -ok rm x ;",
    "bash -c 'rm x'",
    "bash -lc 'ls; rm x'",
    "sh -c \"bash -c 'rm x'\"",
    "eval 'rm x'",
    "eval ls\\; 'rm x'",
    "trap 'rm x' EXIT",
    "ssh host 'ls; rm x'",
    "sudo bash -c \"env A=1 sh -c 'ls && rm x'\"",
    "coproc rm x",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_R20_every_place_where_a_command_may_start_is_found(text: str) -> None:
    assert ("rm", "x") in {found[:2] for found in commands(text)}


@pytest.mark.parametrize("length", [50, 51, 60, 2_000])
def test_T16_a_long_chain_is_followed_to_its_end(length: int) -> None:
    assert ("rm", "x") in commands("ls; " * length + "rm x")


@pytest.mark.parametrize(
    "text",
    [
        "$x y",
        "a=rm; $a x",
        "$(echo rm) x",
        "`echo rm` x",
        "/bin/r? x",
        "{rm,x}",
        "$'\\x72m' x",
        "echo rm x | sh",
        "bash script",
        "source file",
        ". file",
        "sh < file",
        'bash -c "$code"',
        "env $x y",
        "echo 'unfinished",
        "echo $(unfinished",
        "echo `unfinished",
    ],
)
def test_R20_what_cannot_be_followed_is_said(text: str) -> None:
    assert scan(text).uncertain


@pytest.mark.parametrize(
    "text", ["ls -la", "[ -f x ] && echo $HOME", "[[ -d $x ]]", "for f in *; do echo $f; done", "make -j2"]
)
def test_ordinary_commands_are_not_uncertain(text: str) -> None:
    assert not scan(text).uncertain


def test_scan_is_linear_and_survives_anything() -> None:
    generator = random.Random(7)
    alphabet = "ab rm;&|<>$`(){}'\"\\\n*?[]~#!=/-"
    for _ in range(300):
        scan("".join(generator.choices(alphabet, k=200)))
    for text in ("$(" * 20_000, "(" * 50_000, "`" * 50_001, "bash -c '" * 5_000, "env " * 20_000, "a|" * 50_000):
        scan(text)

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
        ("git " + "x" * 9_996, ("git", "x" * 9_996)),
    ],
)
def test_R14_a_plain_command_is_its_words(text: str, words: tuple[str, ...]) -> None:
    assert simple_command(text) == words


@pytest.mark.parametrize("place", ["git log {}x", "git log{} x", "git '{}' log", "git log x{}"])
def test_R17_any_character_that_a_shell_acts_on_makes_it_no_plain_command(place: str) -> None:
    chars = ";&|\n<>$`(){}*?[]~\\!#\r\t\0\x1b\x7f\xa0\x85é‮​"
    assert [char for char in chars if simple_command(place.replace("{}", char)) is not None] == []


@pytest.mark.parametrize(
    "text",
    ["", "   ", "X=1 git log", "X=1", "git 'log", '"git" log', "'git' log", "g'i't log", "=id", "git " + "x" * 9_997],
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
    "if true; then rm x; elif rm x; then :; else :; fi",
    "if rm x; then :; fi",
    "if a; then :; elif rm x; then :; fi",
    "if a; then :; else rm x; fi",
    "while rm x; do :; done",
    "until rm x; do :; done",
    "until ! rm x; do :; done",
    "for i in a b; do rm x; done",
    "case a in a) rm x;; esac",
    "f() { rm x; }; f",
    "! rm x",
    "A=1 B=2 rm x",
    "A+=1 B[0]=2 _c=3 rm x",
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
    '"r\\\nm" x',
    "ls 'quoted; text'; rm x",
    'ls "it\'s"; rm x',
    "ls # a comment; it's\nrm x",
    "cat <<E\ntext\nE\nrm x",
    "{rm,x}",
    "{env,rm} x",
    "env -i -u A B=1 rm x",
    "sudo -u nobody rm x",
    "exec -a ls rm x",
    "timeout -k 1 5 rm x",
    "nohup setsid rm x",
    "stdbuf -o0 rm x",
    "xargs -n 1 rm x",
    "find . -name a -exec rm x ;",
    "find . -execdir rm x ;",
    "find . -ok rm x ;",
    "find . -okdir env rm x ;",
    "fd a -x rm x",
    "fdfind a --exec-batch rm x",
    "git submodule foreach rm x",
    "git bisect run rm x",
    "uv run rm x",
    "poetry run rm x",
    "npm exec rm x",
    "git -c alias.a='!rm x' a",
    "PAGER='rm x' ls",
    "{a,{rm,}} x; {rm,{x}}; rm {x,{y}}",
    "bash -lc 'ls; rm x'",
    "sh -c \"bash -c 'rm x'\"",
    "env -S'rm x'",
    "env --split-string='rm x'",
    "su me '-crm x'",
    "bash '-cls; rm x'",
    "eval 'rm x'",
    "eval ls\\; 'rm x'",
    "trap 'rm x' EXIT",
    "ssh host 'ls; rm x'",
    "sudo bash -c \"env A=1 sh -c 'ls && rm x'\"",
]
SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "rbash", "BASH", "/bin/sh")
WRAPPERS = """
env sudo doas su runuser pkexec command builtin exec nohup nice ionice chrt taskset setsid stdbuf unbuffer timeout time
xargs parallel watch entr flock script strace ltrace valgrind perf gdb chroot unshare nsenter bwrap firejail fakeroot
systemd-run systemd-inhibit caffeinate xvfb-run dbus-run-session start-stop-daemon busybox toybox trap coproc function ssh
rlwrap torsocks proxychains proxychains4 catchsegv eatmydata setarch linux32 linux64 /usr/bin/env SUDO
gosu run0 numactl proot fakechroot hyperfine tmux screen
"""


def test_R20_every_place_where_a_command_may_start_is_found() -> None:
    texts = [*HIDDEN, *(f"{name} -o 1 rm x" for name in WRAPPERS.split()), *(f"{name} -c 'rm x'" for name in SHELLS)]
    assert [text for text in texts if ("rm", "x") not in {found[:2] for found in commands(text)}] == []


@pytest.mark.parametrize(
    "text",
    [
        "ls rm x", "echo 'rm x'", "echo -exec rm x", "find -name rm x", "git log -- rm x", "echo \"$x rm\" x", "A=rm x",
        "# rm x", "env -rm x",
    ],
)  # fmt: skip
def test_no_command_starts_where_a_shell_starts_none(text: str) -> None:
    assert "rm" not in {found[0] for found in commands(text)}


@pytest.mark.parametrize(
    ("text", "targets"),
    [("ls >a 2>b", {"a", "b"}), ("ls", set()), ("bash -c 'ls > c'", {"c"}), ("echo $(ls >d)", {"d"})],
)
def test_what_is_redirected_to_is_found(text: str, targets: set[str]) -> None:
    assert {word.text for word in scan(text).targets} == targets


@pytest.mark.parametrize("length", [50, 51, 60, 2_000])
def test_T16_a_long_chain_is_followed_to_its_end(length: int) -> None:
    assert ("rm", "x") in commands("ls; " * length + "rm x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("$x y", "which program"),
        ("a=rm; $a x", "which program"),
        ("$(echo rm) x", "which program"),
        ("`echo rm` x", "which program"),
        ("/bin/r? x", "which program"),
        ("{rm,x}", "which program"),
        ("$'\\x72m' x", "which program"),
        ("env $x y", "which program"),
        ("env r* y", "which program"),
        ("echo rm x | sh", "what sh runs"),
        ("bash script", "what bash runs"),
        ("bash --norc script", "what bash runs"),
        ("source file", "what source runs"),
        (". file", "what . runs"),
        ("sh < file", "what sh runs"),
        ("eval", "what eval runs"),
        ('eval "$code"', "what eval runs"),
        ('bash -c "$code"', "what bash runs"),
        ("echo 'unfinished", "do not match"),
        ("echo $(unfinished", "do not match"),
        ("echo `unfinished", "do not match"),
        ("$x y; echo 'unfinished", ""),
        ("bash -c 'bash -c \"$code\"'", "what bash runs"),
    ],
)
def test_R20_what_cannot_be_followed_is_said(text: str, why: str) -> None:
    assert scan(text).uncertain and why in scan(text).uncertain


def nested(depth: int) -> str:
    text = "ls x"
    for _ in range(depth):
        text = "eval " + "".join(f"\\{char}" if char in " \\" else char for char in text)
    return text


def test_T28_what_is_nested_too_deeply_is_said() -> None:
    assert not scan(nested(8)).uncertain and ("ls", "x") in commands(nested(8))
    assert scan(nested(9)).uncertain == "it is nested too deeply"


@pytest.mark.parametrize(
    "text",
    [
        "ls -la", "[ -f x ] && echo $HOME", "[[ -d $x ]]", "for f in *; do echo $f; done", "make -j2", "bash -ec 'ls'",
        "sh -c ls $", "eval ls", "git add {a,b}", "git log $x", "ls | xargs cat",
    ],
)  # fmt: skip
def test_ordinary_commands_are_not_uncertain(text: str) -> None:
    assert not scan(text).uncertain


@pytest.mark.parametrize(
    "text", ["echo rm", "echo 'rm'", "r'm' x", 'r""m x', "r\\m x", "'/bin/rm'", "a|rm", "r\\\nm", "RM"]
)
def test_R20_every_word_is_mentioned_with_and_without_its_quotes(text: str) -> None:
    assert "rm" in scan(text).mentioned


def test_scan_is_linear_and_survives_anything() -> None:
    generator = random.Random(7)
    alphabet = "ab rm;&|<>$`(){}'\"\\\n*?[]~#!=/-,."
    for _ in range(300):
        scan("".join(generator.choices(alphabet, k=200)))
    many_braces = "{a,b}" * 5_000
    for text in (
        "$(" * 20_000,
        "(" * 50_000,
        "`" * 50_001,
        "bash -c '" * 5_000,
        "env " * 20_000,
        "a|" * 50_000,
        many_braces,
        "env " + "{a,b}{a,b}{a,b}{a,b}{a,b} " * 5_000,
        "echo " + "{" * 30_000 + "a,b" + "}" * 30_000,
    ):
        scan(text)

from pathlib import Path

import pytest

from agent.permissions.path_pattern import PathPattern, PathScope
from agent.permissions.rules import Match, Rule, RuleError, allows_command, forbids, parse_rule
from agent.permissions.shell import scan
from agent.tools.base import Access


@pytest.fixture
def scope(tmp_path: Path) -> PathScope:
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    return PathScope(root, home, folds_case=False)


def denies(rule: Rule, command: str) -> Match:
    return forbids(rule, "bash", Access("command", command, command=command), scan(command))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has not the form"),
        ("bash(", "has not the form"),
        ("bash)", "has not the form"),
        ("(rm)", "has not the form"),
        ("bash(rm) x", "has not the form"),
        ("bahs(rm)", "there is no tool 'bahs'"),
        ("Bash(rm)", "did you mean `bash`"),
        ("bash()", "empty argument"),
        ("bash( )", "empty argument"),
        ("bash('rm)", "shell words"),
        ("bash('')", "names no program"),
        ("bash(git log:*)", "leave out `*`"),
        ("bash(git *)", "leave out `*`"),
        ("edit(../x)", "`..` is not allowed"),
        ("edit(a/../../x)", "`..` is not allowed"),
        ("web_fetch(https://x.org/)", "one exact host"),
        ("web_fetch(*.org)", "one exact host"),
        ("todo(x)", "take no argument"),
    ],
)
def test_a_bad_rule_is_named_with_what_is_wrong(text: str, complaint: str, scope: PathScope) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(text, scope)
    assert repr(text) in str(caught.value) and complaint in str(caught.value)


@pytest.mark.parametrize(
    "text", ["read", "bash", "bash(git log)", "edit(src/**)", "edit(a (b)/c)", "web_fetch(docs.python.org)"]
)
def test_good_rules(text: str, scope: PathScope) -> None:
    assert parse_rule(text, scope).text == text


@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("bash(git log)", "git log --output=/tmp/x", False),
        ("bash(git diff)", "git diff --outp /tmp/x", False),
        ("bash(git fetch)", "git fetch --upload-pack=/tmp/x .", False),
        ("bash(git log)", "git log --oneline --exclude=x", True),
        ("bash(git log --output=x)", "git log --output=x", True),
        ("bash(git log --output=x $)", "git log --output=x", True),
        ("bash(mytool)", "mytool --output=x", True),
    ],
)
def test_T15_a_prefix_of_git_lets_no_file_be_written_and_no_program_be_run(
    rule: str, command: str, allowed: bool, scope: PathScope
) -> None:
    assert allows_command(parse_rule(rule, scope), command) is allowed


@pytest.mark.parametrize("command", ["git log", "git log -1", "git log --oneline x.py", "git   log", "git log 'a b'"])
def test_R14_an_allow_rule_is_an_argv_prefix(command: str, scope: PathScope) -> None:
    assert allows_command(parse_rule("bash(git log)", scope), command)


SEPARATORS = [";", "&&", "||", "|", "&", "\n", "\r\n", "&&&", "|&", ";;", "\r", " ; ", "\n\n"]
SUBSTITUTIONS = [
    "$(rm x)",
    "`rm x`",
    "<(rm x)",
    ">(rm x)",
    "${x:-$(rm x)}",
    "$((1))",
    "> out",
    ">> out",
    "< in",
    "2>&1",
    "$HOME",
    "~/x",
]


@pytest.mark.parametrize(
    "command",
    [
        "git logout",
        "git",
        "gitlog",
        "git -C x log",
        "git 'log -1'",
        "git-log",
        "/usr/bin/git log",
        "X=1 git log",
        "env git log",
        "sudo git log",
        "git log\0",
        "git log\x1b[2J",
        "git l\u043eg",
        "git\u00a0log",
        "git log *",
        "git log {a,b}",
        "git l\\og",
        "! git log",
        *(f"git log{separator}rm x" for separator in SEPARATORS),
        *(f"rm x{separator}git log" for separator in SEPARATORS),
        *(f"git log {part}" for part in SUBSTITUTIONS),
    ],
)
def test_T15_B18_anything_else_is_not_allowed_by_it(command: str, scope: PathScope) -> None:
    assert not allows_command(parse_rule("bash(git log)", scope), command)


def test_an_exact_rule_allows_nothing_more(scope: PathScope) -> None:
    rule = parse_rule("bash(make test $)", scope)
    assert allows_command(rule, "make test")
    assert not allows_command(rule, "make test SHELL=x")
    assert not allows_command(rule, "make")


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "RM x",
        "/bin/rm x",
        "./rm x",
        "env rm x",
        "command rm x",
        "timeout 5 rm x",
        "sudo rm x",
        "bash -c 'rm x'",
        "ls | xargs rm",
        "find . -exec rm {} +",
        "git log && rm x",
        "echo $(rm x)",
        "ls; " * 50 + "rm x",
        "ls; " * 59 + "rm x",
    ],
)
def test_T16_B19_a_deny_rule_cannot_be_avoided(command: str, scope: PathScope) -> None:
    assert denies(parse_rule("bash(rm)", scope), command) is Match.CERTAIN


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"import os; os.system('rm x')\"",
        "a=rm; $a x",
        "curl x | sh",
        "echo rm x",
        "perl -e 'exec qw(rm x)'",
    ],
)
def test_R20_what_only_mentions_it_or_cannot_be_followed_is_possible(command: str, scope: PathScope) -> None:
    assert denies(parse_rule("bash(rm)", scope), command) is Match.POSSIBLE


@pytest.mark.parametrize("command", ["ls", "git status", "python3 -m pytest -q", "echo farm", "echo $HOME"])
def test_a_deny_rule_leaves_other_commands_alone(command: str, scope: PathScope) -> None:
    assert denies(parse_rule("bash(rm)", scope), command) is Match.NO


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("bash(git push)", "git -C x push"),
        ("bash(git push)", "git --git-dir=x -c a=b push origin"),
        ("bash(git push --force)", "git push origin --force"),
        ("bash(git push --force)", "git push -f"),
        ("bash(git push --force)", "git push --force-with-lease"),
        ("bash(rm -rf)", "rm -r -f x"),
        ("bash(rm -rf)", "rm -fr x"),
        ("bash(rm -rf)", "rm x --recursive --force"),
        ("bash(rm -rf)", "rm --recursive -f x"),
    ],
)
def test_B19_order_and_spelling_of_options_do_not_matter(rule: str, command: str, scope: PathScope) -> None:
    assert denies(parse_rule(rule, scope), command) is Match.CERTAIN


def test_a_denied_sub_command_leaves_its_neighbours_alone(scope: PathScope) -> None:
    rule = parse_rule("bash(git push)", scope)
    assert denies(rule, "git status") is Match.NO
    assert denies(rule, "git $x") is Match.POSSIBLE


# ------------------------------------------------------------------ paths


def pattern(text: str, scope: PathScope) -> PathPattern:
    return PathPattern(text, scope)


@pytest.mark.parametrize(
    ("text", "path", "allowed", "covered"),
    [
        ("src", "src", True, True),
        ("src", "src/a/b.py", True, True),
        ("src", "src2/a.py", False, False),
        ("src/", "src/a.py", True, True),
        ("src/*", "src/a.py", True, True),
        ("src/*", "src/a/b.py", False, True),
        ("src/**", "src/a/b.py", True, True),
        ("**/*.py", "a.py", True, True),
        ("**/*.py", "a/b/c.py", True, True),
        ("**/.env", "x/.env", True, True),
        ("*.py", "a/b.py", False, False),
        ("a/**/z", "a/z", True, True),
        ("a/**/z", "a/b/c/z", True, True),
        ("a[*]b", "a*b", True, True),
        ("a[*]b", "axb", False, False),
        ("?.py", "ab.py", False, False),
        ("SRC", "src", False, False),
        ("./src", "src", True, True),
    ],
)
def test_path_patterns(text: str, path: str, allowed: bool, covered: bool, scope: PathScope) -> None:
    full = scope.root / path
    assert pattern(text, scope).allows(full) is allowed
    assert pattern(text, scope).covers(full) is covered


def test_R14_the_root_ends_at_a_separator(scope: PathScope) -> None:
    assert not pattern("**", scope).allows(Path(f"{scope.root}-other/x"))
    assert not pattern("/etc", scope).covers(Path("/etcetera"))


def test_R14_folding_where_the_file_system_folds(scope: PathScope) -> None:
    folding = PathScope(scope.root, scope.home, folds_case=True)
    decomposed, composed = "cafe\u0301", "caf\u00e9"
    assert pattern(f"{composed}/*.TXT", folding).covers(scope.root / decomposed / "a.txt")
    assert pattern("SRC", folding).allows(scope.root / "src" / "a")


def test_home_and_absolute_patterns(scope: PathScope) -> None:
    assert pattern("~/notes", scope).allows(scope.home / "notes" / "a")
    assert pattern("/usr/include", scope).allows(Path("/usr/include/stdio.h"))
    assert not pattern("/usr/include", scope).allows(scope.root / "usr/include")


def test_B20_a_link_in_the_project_carries_no_allow_rule_out_of_it(scope: PathScope, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (scope.root / "box").symlink_to(tmp_path / "outside")
    outside = tmp_path / "outside" / "x"
    assert not pattern("box/*", scope).allows(outside)
    assert pattern("box/*", scope).covers(outside)


def test_a_read_rule_means_every_reading_tool_and_an_edit_rule_every_editing_one(scope: PathScope) -> None:
    assert [tool for tool in ("read", "grep", "glob", "edit", "write") if parse_rule("read", scope).is_for(tool)] == [
        "read",
        "grep",
        "glob",
    ]
    assert parse_rule("edit(x)", scope).is_for("write") and not parse_rule("write(x)", scope).is_for("edit")

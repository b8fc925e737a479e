import sys
from pathlib import Path

import pytest

from agent.permissions.command_paths import CommandPaths
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
        ("bash(*)", "leave out `*`"),
        ("bash(git:*)", "leave out `*`"),
        ("bash($)", "names no program"),
        ("xyzzy", "the tools are read, grep"),
        ("web_fetch(Docs.python.org)", "one exact host"),
        ("web_fetch(x@evil.org)", "one exact host"),
        ("web_fetch(-x.org)", "one exact host"),
        ("web_fetch(x.org.)", "one exact host"),
        ("web_fetch(x.org%2e)", "one exact host"),
        ("web_fetch([::1])", "one exact host"),
        ("read(a\0b)", "names no path"),
    ],
)
def test_a_bad_rule_is_named_with_what_is_wrong(text: str, complaint: str, scope: PathScope) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(text, scope)
    assert str(caught.value).startswith(f"The permission rule {text!r} cannot be used: ")
    assert complaint in caught.value.fault and str(caught.value).endswith(f"{caught.value.fault}.")


FILE_TOOLS = ("read", "grep", "glob", "edit", "write")
OTHER_TOOLS = (
    "bash", "bash_output", "bash_kill", "todo", "ask_user", "present_plan", "recall", "remember", "skill", "task",
    "web_fetch", "mcp__server__tool",
)  # fmt: skip


def test_good_rules(scope: PathScope) -> None:
    texts = [*FILE_TOOLS, *OTHER_TOOLS, *(f"{tool}(src/**)" for tool in FILE_TOOLS)]
    for text in (
        *texts,
        "bash(git log)",
        "bash(ls a*)",
        "bash(git log $)",
        "edit(a (b)/c)",
        "web_fetch(docs.python.org)",
    ):
        assert parse_rule(text, scope).text == text
    assert [tool for tool in FILE_TOOLS if parse_rule(f"{tool}(x)", scope).pattern is None] == []


def test_T15_a_prefix_of_git_lets_no_file_be_written_and_no_program_be_run(scope: PathScope) -> None:
    escapes = ["--output", "--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--open-files-in-pager"]
    for name in ("git", "/usr/bin/git"):
        prefix = parse_rule(f"bash({name} log)", scope)
        spelled = [
            text for option in escapes for text in (option, f"{option}=/tmp/x", option[:6], option[:3], f"x {option}")
        ]
        for option in (*spelled, "-O", "-nO/tmp/x"):
            assert not allows_command(prefix, f"{name} log {option} x"), option
        for option in ("--oneline", "--exclude=x", "--", "-- x", "-o", "--no-ext-diff", "x--output"):
            assert allows_command(prefix, f"{name} log {option}"), option
    for rule in ("bash(git log --output=x)", "bash(git log --output=x $)"):
        assert allows_command(parse_rule(rule, scope), "git log --output=x")
    assert allows_command(parse_rule("bash(mytool)", scope), "mytool --output=x -O")


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


OTHER_COMMANDS = [
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
]


def test_T15_B18_anything_else_is_not_allowed_by_it(scope: PathScope) -> None:
    rule = parse_rule("bash(git log)", scope)
    assert [command for command in OTHER_COMMANDS if allows_command(rule, command)] == []


def test_a_rule_for_the_whole_shell_allows_any_command(scope: PathScope) -> None:
    for command in ("ls", "a; b > c", "echo 'unfinished"):
        assert allows_command(parse_rule("bash", scope), command)


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


DENIED = [
    # words: options, and a value each, may stand between
    ("git push", "git -C x push", Match.CERTAIN),
    ("git push", "git --git-dir=x -c a=b push origin", Match.CERTAIN),
    ("git push", "git -a -b push", Match.CERTAIN),
    ("git push", "GIT PUSH", Match.CERTAIN),
    ("git push", "git status push", Match.POSSIBLE),
    ("git push", "git -C x status push", Match.POSSIBLE),
    ("git push", "git x -C push", Match.POSSIBLE),
    ("git push", "git status", Match.NO),
    ("git push", "git", Match.NO),
    ("git push", "push git", Match.POSSIBLE),
    ("a b c", "a -x b y c", Match.POSSIBLE),
    ("a b c", "a -x y b -z c", Match.CERTAIN),
    ("a b c", "a c b", Match.POSSIBLE),
    ("a b b", "a b", Match.POSSIBLE),
    ("a b", "a c; a b", Match.CERTAIN),
    ("a b", "a b; a c", Match.CERTAIN),
    ("a b", "a $x; a c", Match.POSSIBLE),
    # what may be any word
    ("git push", "git $x", Match.POSSIBLE),
    ("git push", 'git "$x"', Match.POSSIBLE),
    ("git push", "git p*", Match.POSSIBLE),
    ("git push", "git {push,}", Match.CERTAIN),
    ("git push", "git $'pu\\x73h'", Match.POSSIBLE),
    ("git push --force", "git $x", Match.POSSIBLE),
    ("git push --force", 'git "$x"', Match.NO),
    # options: in any order and spelling
    ("git push --force", "git push origin --force", Match.CERTAIN),
    ("git push --force", "git push -f", Match.CERTAIN),
    ("git push --force", "git push -qf", Match.CERTAIN),
    ("git push --force", "git push --force-with-lease", Match.CERTAIN),
    ("git push --force", "git push --fo", Match.CERTAIN),
    ("git push --force", "git push --f", Match.CERTAIN),
    ("git push --force", "git push --follow-tags -- -q", Match.POSSIBLE),
    ("git push --force", "git push f", Match.POSSIBLE),
    ("git push --force origin", "git push -f origin", Match.CERTAIN),
    ("git push --force origin", "git push origin", Match.POSSIBLE),
    ("x --recursive", "x -aR", Match.CERTAIN),
    ("x --recursive", "x -r", Match.CERTAIN),
    ("x --delete", "x -d", Match.CERTAIN),
    ("x --delete", "x -D", Match.CERTAIN),
    ("x --all", "x -a", Match.CERTAIN),
    ("x --yes", "x -y", Match.CERTAIN),
    ("x --other", "x -o", Match.POSSIBLE),
    ("x --other", "x --", Match.POSSIBLE),
    ("rm -rf", "rm -r -f x", Match.CERTAIN),
    ("rm -rf", "rm -fr x", Match.CERTAIN),
    ("rm -rf", "rm x --recursive --force", Match.CERTAIN),
    ("rm -rf", "rm --recursive -f x", Match.CERTAIN),
    ("rm -rf", "rm --forc -r x", Match.CERTAIN),
    ("rm -rf", "rm {-r,-f} x", Match.CERTAIN),
    ("rm -rf", "rm -r x", Match.POSSIBLE),
    ("rm -rf", "rm rf --preserve-root", Match.POSSIBLE),
    ("rm -rf", "ls -rf", Match.NO),
    ("find -exec", "find . -exec ls {} +", Match.CERTAIN),
    ("find -exec", "find . -name x", Match.POSSIBLE),
]


def test_B19_order_and_spelling_of_what_is_denied_do_not_matter(scope: PathScope) -> None:
    found = [(rule, command, denies(parse_rule(f"bash({rule})", scope), command)) for rule, command, _ in DENIED]
    assert found == DENIED


@pytest.mark.parametrize(
    ("rule", "tools"),
    [
        ("read", "read grep glob edit"),
        ("read(x)", "read grep glob edit"),
        ("grep", "grep"),
        ("glob(x)", "glob"),
        ("edit(x)", "edit write"),
        ("write(x)", "write"),
        ("write", "write"),
        ("bash", ""),
        ("todo", ""),
    ],
)
def test_B19_which_tools_a_rule_forbids(rule: str, tools: str, scope: PathScope) -> None:
    access = Access("edit", "x", paths=(scope.root / "y", scope.root / "x"))
    parsed = parse_rule(rule, scope)
    found = [tool for tool in FILE_TOOLS if forbids(parsed, tool, access, None) is Match.CERTAIN]
    assert found == tools.split()
    assert {forbids(parsed, tool, access, None) for tool in FILE_TOOLS if tool not in found} <= {Match.NO}
    elsewhere = Access("edit", "z", paths=(scope.root / "z",))
    assert "(" not in rule or all(forbids(parsed, tool, elsewhere, None) is Match.NO for tool in FILE_TOOLS)


def test_a_rule_for_files_forbids_a_command_by_what_it_names(scope: PathScope) -> None:
    a, b = scope.root / "a", scope.root / "b"
    access = Access("command", "x", command="x")
    paths = CommandPaths(frozenset((a, b)), frozenset((b,)))
    for rule, match in (
        ("read(a)", Match.POSSIBLE), ("grep(a)", Match.POSSIBLE), ("edit(a)", Match.NO), ("edit(b)", Match.POSSIBLE),
        ("write(b)", Match.POSSIBLE), ("read(c)", Match.NO), ("read", Match.NO), ("bash", Match.CERTAIN),
    ):  # fmt: skip
        assert forbids(parse_rule(rule, scope), "bash", access, scan("x"), paths) is match, rule
    assert forbids(parse_rule("read(a)", scope), "bash", access, scan("x")) is Match.NO


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
        ("src//./a", "src/a", True, True),
        ("src/a", "src", False, False),
        ("**", "x", True, True),
        ("*/.//x", "a/x", True, True),
        ("*", "a", True, True),
        ("*", "a/b", False, True),
        ("a/**", "a", True, True),
        ("a/**", "b", False, False),
        ("a/*/c", "a/b/c", True, True),
        ("a/*/c", "a/b/c/d", False, True),
        ("a/*/c", "a/b/x", False, False),
        ("a/*/c", "a/b", False, False),
        ("**/a/**/b", "x/a/y/z/b", True, True),
        ("**/a/**/b", "x/y/z/b", False, False),
        ("a/**/**/z", "a/z", True, True),
        ("[ab].py", "b.py", True, True),
        ("a[?][[]", "a?[", True, True),
        ("~x", "~x", True, True),
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
    assert PathScope(scope.root, scope.home).folds_case is (sys.platform == "darwin")
    folding = PathScope(scope.root, scope.home, folds_case=True)
    decomposed, composed = "cafe\u0301", "caf\u00e9"
    assert pattern(f"{composed}/*.TXT", folding).covers(scope.root / decomposed / "a.txt")
    assert pattern("SRC", folding).allows(scope.root / "src" / "a")


def test_home_and_absolute_patterns(scope: PathScope) -> None:
    assert pattern("~/notes", scope).allows(scope.home / "notes" / "a")
    assert pattern("~", scope).covers(scope.home / "notes") and not pattern("~", scope).covers(scope.root / "~")
    assert pattern("~/*", scope).allows(scope.home / "a") and pattern("/usr/*", scope).allows(Path("/usr/lib"))
    assert pattern("/usr/include", scope).allows(Path("/usr/include/stdio.h"))
    assert not pattern("/usr/include", scope).allows(scope.root / "usr/include")


@pytest.mark.parametrize("text", ["", "a\0b", "a/../b", "..", "/.."])
def test_what_names_no_path_is_no_pattern(text: str, scope: PathScope) -> None:
    with pytest.raises(ValueError, match=r"names no path|not allowed"):
        pattern(text, scope)


def test_B20_a_link_in_the_project_carries_no_allow_rule_out_of_it(scope: PathScope, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (scope.root / "box").symlink_to(tmp_path / "outside")
    outside = tmp_path / "outside" / "x"
    assert not pattern("box/*", scope).allows(outside)
    assert pattern("box/*", scope).covers(outside)
    (scope.root / "inner").mkdir()
    (scope.root / "way").symlink_to(scope.root / "inner")
    for found in (pattern("way", scope), pattern(f"{scope.root}/way", scope)):
        assert found.allows(scope.root / "inner" / "x") and found.covers(scope.root / "way" / "x")
    assert pattern(f"{scope.root}/box", scope).allows(outside)


def test_a_read_rule_means_every_reading_tool_and_an_edit_rule_every_editing_one(scope: PathScope) -> None:
    assert [tool for tool in ("read", "grep", "glob", "edit", "write") if parse_rule("read", scope).is_for(tool)] == [
        "read",
        "grep",
        "glob",
    ]
    assert parse_rule("edit(x)", scope).is_for("write") and not parse_rule("write(x)", scope).is_for("edit")

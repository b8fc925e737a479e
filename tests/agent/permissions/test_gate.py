import itertools
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.permissions.approval import Allow, Answer, ApprovalRequest
from agent.permissions.gate import Allowed, Gate, Mode, Refused
from agent.permissions.path_pattern import PathScope
from agent.permissions.rules import RuleError, RuleLayer, parse_rules
from agent.permissions.workspace import Workspace
from agent.tools.base import Access
from providers.types import ToolCall

MODES: tuple[Mode, ...] = ("plan", "ask", "edits", "auto")


class Person:
    """Answers every question the same way and remembers what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Answer:
        self.asked.append(request)
        return self.answer


def layer(workspace: Workspace, home: Path, name: str = "user", **rules: Sequence[str]) -> RuleLayer:
    scope = PathScope(workspace.root, home)
    return RuleLayer(name, **{kind: parse_rules(texts, scope) for kind, texts in rules.items()})


def command(text: str) -> Access:
    return Access("command", text.split("\n")[0], command=text)


def read(path: Path) -> Access:
    return Access("read", str(path), paths=(path,))


def edit(path: Path) -> Access:
    return Access("edit", str(path), paths=(path,), diff="@@ -1 +1 @@\n-a\n+b\n")


def call(tool: str) -> ToolCall:
    return ToolCall("c1", tool, "{}")


# ------------------------------------------------------------------ the table


@pytest.mark.parametrize(
    ("what", "plan", "ask", "edits", "auto"),
    [
        ("read inside", "allow", "allow", "allow", "allow"),
        ("read extra", "allow", "allow", "allow", "allow"),
        ("read spill", "allow", "allow", "allow", "allow"),
        ("read outside", "refuse", "ask", "ask", "ask"),
        ("read nowhere", "refuse", "ask", "ask", "ask"),
        ("edit inside", "refuse", "ask", "allow", "allow"),
        ("edit spill", "refuse", "ask", "ask", "ask"),
        ("edit outside", "refuse", "ask", "ask", "ask"),
        ("edit both", "refuse", "ask", "ask", "ask"),
        ("edit .git", "refuse", "ask", "ask", "ask"),
        ("edit .claw", "refuse", "ask", "ask", "ask"),
        ("edit nested .git", "refuse", "ask", "ask", "ask"),
        ("command", "refuse", "ask", "ask", "allow"),
        ("catastrophic", "refuse", "ask", "ask", "ask"),
        ("fork bomb", "refuse", "ask", "ask", "ask"),
        ("edit .git outside", "refuse", "ask", "ask", "ask"),
        ("record", "allow", "allow", "allow", "allow"),
    ],
)
def test_the_table_of_modes(
    workspace: Workspace, home: Path, what: str, plan: str, ask: str, edits: str, auto: str
) -> None:
    top = workspace.root.parent
    access = {
        "read inside": read(workspace.root / "a"),
        "read extra": read(top / "extra" / "a"),
        "read spill": read(top / "spills" / "a"),
        "read outside": read(Path("/etc/hosts")),
        "read nowhere": Access("read", "?"),
        "edit inside": edit(workspace.root / "src" / "a"),
        "edit spill": edit(top / "spills" / "a"),
        "edit outside": edit(top / "elsewhere"),
        "edit both": Access("edit", "x", paths=(workspace.root / "a", top / "elsewhere")),
        "edit .git": edit(workspace.root / ".git" / "hooks" / "pre-commit"),
        "edit .claw": edit(workspace.root / ".CLAW" / "config.toml"),
        "edit nested .git": edit(workspace.root / "vendor" / ".git" / "config"),
        "command": command("make"),
        "catastrophic": command("rm -rf ~"),
        "fork bomb": command(":(){ :|:& };:"),
        "edit .git outside": edit(top / "extra" / ".git" / "config"),
        "record": Access("record", "todo"),
    }[what]
    tool = {"read": "read", "edit": "edit", "command": "bash", "record": "todo"}[access.kind]
    assert [Gate(mode, workspace, home=home).decide(access, tool).kind for mode in MODES] == [plan, ask, edits, auto]


def test_the_mode_counts_from_the_next_decision_on(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, home=home)
    gate.mode = "auto"
    assert gate.decide(command("ls"), "bash").kind == "allow"
    gate.mode = "plan"
    assert gate.decide(command("ls"), "bash").kind == "refuse"


# ------------------------------------------------------------------ rules


@pytest.mark.parametrize("order", list(itertools.permutations(("allow", "ask", "deny"))))
@pytest.mark.parametrize("mode", MODES)
def test_T14_deny_beats_ask_beats_allow_in_every_order_of_layers(
    workspace: Workspace, home: Path, order: tuple[str, ...], mode: Mode
) -> None:
    rules = {"allow": ["bash(git push)", "bash"], "ask": ["bash(git)"], "deny": ["bash(git push)"]}
    layers = [layer(workspace, home, name, **{name: rules[name]}) for name in order]
    gate = Gate(mode, workspace, layers, allowed_tools=["bash(git push)"], session_rules=["bash"], home=home)
    refused = gate.decide(command("git push origin"), "bash")
    assert (refused.kind, refused.rule) == ("refuse", "bash(git push)")
    if mode != "plan":
        assert gate.decide(command("git log"), "bash").kind == "ask"
        assert gate.decide(command("ls"), "bash").kind == "allow"


@pytest.mark.parametrize("mode", ["ask", "edits", "auto"])
@pytest.mark.parametrize(
    "text", ["git log && rm x", "git log $(rm x)", "git log | xargs rm", "bash -c 'git log; rm x'"]
)
def test_B18_the_denied_part_of_an_allowed_command_decides(
    workspace: Workspace, home: Path, text: str, mode: Mode
) -> None:
    gate = Gate(mode, workspace, allowed_tools=["bash(git log)"], disallowed_tools=["bash(rm)"], home=home)
    assert gate.decide(command(text), "bash").kind == "refuse"


def test_R20_what_may_be_denied_is_asked_even_in_auto(workspace: Workspace, home: Path) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["bash(curl)"], allowed_tools=["bash"], home=home)
    for text in ("x=curl; $x y", "python3 -c 'run([\"curl\"])'", "echo Y3VybAo= | base64 -d | sh", "echo 'unfinished"):
        decision = gate.decide(command(text), "bash")
        assert (decision.kind, decision.only_once) == ("ask", True)
    assert gate.decide(command("ls"), "bash").kind == "allow"


def test_allow_rules_lift_the_question(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, allowed_tools=["bash(git log)", "edit(src/**)", "read(/etc/hosts)"], home=home)
    assert gate.decide(command("git log -1"), "bash").rule == "bash(git log)"
    assert gate.decide(edit(workspace.root / "src" / "a" / "b"), "write").kind == "allow"
    assert gate.decide(edit(workspace.root / "b"), "edit").kind == "ask"
    assert gate.decide(read(Path("/etc/hosts")), "grep").kind == "allow"
    assert gate.decide(read(Path("/etc/passwd")), "read").kind == "ask"


def test_a_rule_allows_a_call_only_if_all_its_paths_are_meant(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, allowed_tools=["edit(a)", "edit(b)"], home=home)
    for names, kind in (
        (("a",), "allow"),
        (("a", "b"), "allow"),
        (("a", "c"), "ask"),
        (("c", "a"), "ask"),
        ((), "ask"),
    ):
        paths = tuple(workspace.root / name for name in names)
        assert gate.decide(Access("edit", "x", paths=paths), "edit").kind == kind, names


def test_home_is_the_one_that_was_given(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, allowed_tools=["read(~/key)"], home=home)
    assert gate.decide(read(home / "key"), "read").kind == "allow"
    assert Gate("ask", workspace).decide(read(workspace.root / "a"), "read").kind == "allow"


def test_the_words_of_a_decision(workspace: Workspace, home: Path) -> None:
    outside = Path("/etc/hosts")
    table: list[tuple[Mode, Access, str]] = [
        ("plan", edit(workspace.root / "a"), "Plan mode edits nothing."),
        ("plan", command("ls"), "Plan mode runs no commands."),
        ("edits", command("ls"), "Commands are asked about in edits mode."),
        ("ask", edit(workspace.root / "a"), "Edits are asked about in ask mode."),
        ("auto", read(outside), "/etc/hosts is outside the workspace."),
        ("auto", Access("read", "?"), "An unknown path is outside the workspace."),
        ("auto", edit(workspace.root / ".git" / "x"), "It writes to .git."),
        ("auto", command("git push -f"), "Dangerous: git push overwrites or deletes what others may use."),
    ]
    for mode, access, reason in table:
        assert Gate(mode, workspace, home=home).decide(access, "x").reason == reason


def test_T56_a_folder_above_the_workspace_protects_nothing_in_it(tmp_path: Path) -> None:
    root = tmp_path / ".claw" / "project"
    root.mkdir(parents=True)
    gate = Gate("auto", Workspace(root, root), home=tmp_path)
    assert gate.decide(edit(root / "a"), "edit").kind == "allow"
    assert gate.decide(edit(root / ".git" / "a"), "edit").kind == "ask"


def test_T14_what_is_denied_is_refused_even_where_it_would_be_asked(workspace: Workspace, home: Path) -> None:
    for mode in MODES:
        gate = Gate(mode, workspace, disallowed_tools=["bash(rm)", "edit(.git)"], home=home)
        for access, rule in ((command("rm -rf /"), "bash(rm)"), (edit(workspace.root / ".git" / "x"), "edit(.git)")):
            decision = gate.decide(access, "bash" if access.command else "edit")
            assert (decision.kind, decision.rule) == ("refuse", rule)


def test_the_first_rule_that_asks_is_named(workspace: Workspace, home: Path) -> None:
    asking = [
        layer(workspace, home, "a", deny=["bash(curl)", "bash(wget)"], ask=["bash(git)", "bash(git log)"]),
        layer(workspace, home, "b", ask=["bash(make)", "bash(git log)"]),
    ]
    gate = Gate("auto", workspace, asking, allowed_tools=["bash"], home=home)
    for text, rule in (
        ("echo curl wget; git log", "bash(curl)"), ("echo wget; make", "bash(wget)"), ("git log", "bash(git)"),
        ("make", "bash(make)"), ("ls", "bash"),
    ):  # fmt: skip
        assert gate.decide(command(text), "bash").rule == rule, text


def test_a_whole_tool_is_allowed_inside_only(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, allowed_tools=["read", "edit", "bash"], home=home)
    assert gate.decide(edit(workspace.root / "a"), "write").kind == "allow"
    assert gate.decide(edit(Path("/etc/hosts")), "edit").kind == "ask"
    assert gate.decide(read(Path("/etc/hosts")), "read").kind == "ask"
    assert gate.decide(command("make; make install"), "bash").kind == "allow"


def test_R21_T56_no_rule_lifts_what_is_always_asked(workspace: Workspace, home: Path) -> None:
    gate = Gate("auto", workspace, allowed_tools=["bash", "bash(rm)", "edit", "edit(.git/**)"], home=home)
    for access, tool in (
        (command("rm -rf /"), "bash"),
        (command("git push --force"), "bash"),
        (edit(workspace.root / ".git" / "config"), "edit"),
        (edit(workspace.root / ".claw" / "config.toml"), "write"),
    ):
        decision = gate.decide(access, tool)
        assert (decision.kind, decision.only_once) == ("ask", True)


def test_written_rules_apply_over_plan_mode_and_answers_do_not(workspace: Workspace, home: Path) -> None:
    gate = Gate(
        "plan",
        workspace,
        [layer(workspace, home, allow=["edit(docs/**)"], ask=["bash(ls)"])],
        allowed_tools=["bash(git log)"],
        session_rules=["edit(*)", "bash(make)", "read(/etc/hosts)"],
        home=home,
    )
    for access, tool, kind in (
        (command("git log -1"), "bash", "allow"),
        (edit(workspace.root / "docs" / "plan.md"), "write", "allow"),
        (edit(workspace.root / "a"), "edit", "refuse"),
        (command("make"), "bash", "refuse"),
        (command("ls"), "bash", "refuse"),
        (read(Path("/etc/hosts")), "read", "allow"),
    ):
        assert gate.decide(access, tool).kind == kind


def test_R21_plan_mode_refuses_what_is_always_asked_elsewhere(workspace: Workspace, home: Path) -> None:
    gate = Gate("plan", workspace, allowed_tools=["bash", "edit", "edit(.git/**)"], home=home)
    assert gate.decide(command("rm -rf /"), "bash").kind == "refuse"
    assert gate.decide(edit(workspace.root / ".git" / "config"), "edit").kind == "refuse"


def test_a_bad_rule_from_the_command_line_is_an_error(workspace: Workspace, home: Path) -> None:
    with pytest.raises(RuleError, match="Bash"):
        Gate("ask", workspace, allowed_tools=["Bash(ls)"], home=home)


def test_T55_a_denied_file_is_left_out_of_searches_that_run(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, disallowed_tools=["read(secrets/**)", "grep(*.pem)"], home=home)
    assert gate.decide(read(workspace.root / "secrets" / "x"), "read").kind == "refuse"
    assert gate.decide(read(workspace.root / "secrets"), "glob").kind == "refuse"
    assert gate.decide(read(workspace.root), "grep").kind == "allow"
    assert workspace.is_closed is not None
    closed = [name for name in ("a", "secrets/x", "k.pem", "src/k.pem") if workspace.is_closed(workspace.root / name)]
    assert closed == ["secrets/x", "k.pem"]


def test_without_rules_about_reading_searches_test_nothing(workspace: Workspace, home: Path) -> None:
    Gate("ask", workspace, disallowed_tools=["edit(a)", "bash(rm)"], allowed_tools=["read(b)"], home=home)
    assert workspace.is_closed is None


def test_B19_who_may_not_read_a_file_may_not_edit_it(workspace: Workspace, home: Path) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["read(.env)"], home=home)
    assert gate.decide(edit(workspace.root / ".env"), "edit").kind == "refuse"
    assert gate.decide(edit(workspace.root / "b"), "edit").kind == "allow"


@pytest.mark.parametrize(
    "text",
    [
        "cat ../.env", "cat < ../.env", "cd .. && cat .env", "cp ../.env x", "base64 --wrap=0 ../.env", "dd if=../.env",
        "sh -c 'cat ../.env'", "cat ~/key", "cat ../secrets/*", "echo x > ../uv.lock", "sed -i s/a/b/ ../uv.lock",
        "tee ../uv.lock", "cat ../x.lock ../uv.lock | tee ../uv.lock", "cat ../{.env,x}", "cat ../keys/*", "pushd .. && cat .env",
        "cd && cat key", "cd ~ && cat key", "cd ../lib; cd ..; cat .env", "cp --from=../.env x",
    ],
)  # fmt: skip
def test_B19_a_command_that_names_a_forbidden_path_is_asked_about(workspace: Workspace, home: Path, text: str) -> None:
    denied = ["read(.env)", "read(secrets/**)", "read(keys/*)", "read(~/key)", "edit(uv.lock)"]
    gate = Gate("auto", workspace, disallowed_tools=denied, allowed_tools=["bash"], home=home)
    decision = gate.decide(command(text), "bash")
    assert (decision.kind, decision.only_once) == ("ask", True)


def test_B19_programs_that_change_nothing_may_name_what_may_not_be_edited(workspace: Workspace, home: Path) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["edit(uv.lock)", "read(secrets)", "edit(~)"], home=home)
    readers = "cat head tail wc nl ls stat file grep rg diff cmp cut echo printf test [ cd"
    others = "cp mv rm sed tee touch sort vim python3 git"
    assert [
        name for name in readers.split() if gate.decide(command(f"{name} ../uv.lock"), "bash").kind != "allow"
    ] == []
    assert [name for name in others.split() if gate.decide(command(f"{name} ../uv.lock"), "bash").kind != "ask"] == []
    assert [gate.decide(command(f"touch {path}"), "bash").kind for path in ("~", "~/x", "'~x'", "x~")] == [
        *("ask", "ask"),
        *("allow", "allow"),
    ]


def test_B19_what_names_no_path_is_no_path(workspace: Workspace, home: Path) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["read(src)"], home=home)
    for text in ("cat /etc/hosts", "cat /etc/*", "cat 'a\0b' /x", "echo /" + "x" * 5_000):
        assert gate.decide(command(text), "bash").kind == "allow", text


@pytest.mark.parametrize("text", ["cat ../uv.lock", "ls -a ..", "cat .env", "git add .", "make", "grep -rn env ../src"])
def test_B19_commands_that_name_no_forbidden_path_run(workspace: Workspace, home: Path, text: str) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["read(.env)", "edit(uv.lock)"], home=home)
    assert gate.decide(command(text), "bash").kind == "allow"


def test_B19_a_long_command_is_judged_in_time(workspace: Workspace, home: Path) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["read(.env)"], home=home)
    parts = ("x", "a(){", "a/b ", "cd x; ", "{a,b} ", "a* ", "rm x; ", "'", "`", "$(", "git -c a.cmd=b;")
    starts = ("env sh -c x ", "xargs env ", "xargs rm -rf b ", "xargs rm ", "rm -rf a ", "echo {,", "git -c alias.a=b ")

    def seconds(text: str) -> float:
        start = time.process_time()
        gate.decide(command(text), "bash")
        return time.process_time() - start

    # Sixteen times the text may cost about sixteen times the work; where it grows with the square it is 256 times.
    for first, part in [("", part) for part in parts] + [
        (f"{start.split()[0]} ", start.split(" ", 1)[1]) for start in starts
    ]:
        short, long = (first + part * (chars // len(part)) for chars in (2_000, 32_000))
        least = min(seconds(short) for _ in range(3))
        assert seconds(long) < 40 * least + 0.01, first + part


def test_B19_a_wildcard_is_what_it_matches(workspace: Workspace, home: Path) -> None:
    denied = ["read(.env)", "read(**/*.pem)", "read(secrets/**)", "edit(uv.lock)"]
    gate = Gate("auto", workspace, disallowed_tools=denied, home=home)
    (workspace.root / "keys").mkdir(exist_ok=True)
    (workspace.root / "secrets").mkdir(exist_ok=True)
    for name in (".env", "uv.lock", "keys/a.pem", "secrets/x", "plain.txt"):
        (workspace.root / name).write_text("x")
    (workspace.root / "link").symlink_to(workspace.root / ".env")
    asked = (
        "cat .e*;cat .[^x]nv;cat .[[:alpha:]]nv;cat [[:alpha:][.e.]]nv;cat ?eys/a*;cat k*/*;cat */a.pem;cat < .en?;"
        f"cat {{.e,x}}*;cat s*/*;cat l*;cat {'?' * 300}*"
    )
    free = "cat p*;cat .x*;cat [.]env;ls *.txt;cat k*/b*;cat u*;cat '.e*';cat *env"
    for texts, kind in ((asked, "ask"), (free, "allow"), ("rm u*", "ask")):
        for text in texts.split(";"):
            assert gate.decide(command(f"cd ..; {text}"), "bash").kind == kind, text


async def test_a_call_that_fails_anyway_is_asked_about_only_where_reading_is(workspace: Workspace, home: Path) -> None:
    person = Person(Allow())
    gate = Gate("ask", workspace, disallowed_tools=["edit(.env)"], home=home)

    def failing(path: Path) -> Access:
        return Access("edit", str(path), (path,), fails=True)

    assert await gate.authorize(call("edit"), failing(workspace.root / "a"), person) == Allowed()
    assert not person.asked
    assert isinstance(await gate.authorize(call("edit"), failing(workspace.root / ".env"), person), Refused)
    await gate.authorize(call("edit"), failing(Path("/etc/hosts")), person)
    assert [request.paths for request in person.asked] == [("/etc/hosts",)]

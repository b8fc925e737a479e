import itertools
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.permissions.approval import Allow, Answer, ApprovalRequest, Deny
from agent.permissions.gate import Allowed, Gate, Mode, Refused
from agent.permissions.grants import Grants
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


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for name in ("project/src", "project/.git", "extra", "spills", "home"):
        (tmp_path / name).mkdir(parents=True)
    project = tmp_path / "project"
    return Workspace(project, project / "src", extra=(tmp_path / "extra",), readable=(tmp_path / "spills",))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


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
    }[what]
    tool = {"read": "read", "edit": "edit", "command": "bash"}[access.kind]
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
        "tee ../uv.lock", "cat ../x.lock ../uv.lock | tee ../uv.lock",
    ],
)  # fmt: skip
def test_B19_a_command_that_names_a_forbidden_path_is_asked_about(workspace: Workspace, home: Path, text: str) -> None:
    denied = ["read(.env)", "read(secrets/**)", "read(~/key)", "edit(uv.lock)"]
    gate = Gate("auto", workspace, disallowed_tools=denied, allowed_tools=["bash"], home=home)
    decision = gate.decide(command(text), "bash")
    assert (decision.kind, decision.only_once) == ("ask", True)


@pytest.mark.parametrize("text", ["cat ../uv.lock", "ls -a ..", "cat .env", "git add .", "make", "grep -rn env ../src"])
def test_B19_commands_that_name_no_forbidden_path_run(workspace: Workspace, home: Path, text: str) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["read(.env)", "edit(uv.lock)"], home=home)
    assert gate.decide(command(text), "bash").kind == "allow"


def test_B19_a_long_command_is_judged_in_time(workspace: Workspace, home: Path) -> None:
    gate = Gate("auto", workspace, disallowed_tools=["read(.env)"], home=home)
    start = time.process_time()
    wrapped = ("xargs " + "env " * 20_000, "xargs rm -rf " + "b " * 40_000, "xargs " + "rm " * 20_000)
    for text in ("echo " + "a/b " * 20_000, "cd x; " * 10_000, "rm -rf " + "a " * 40_000, *wrapped):
        gate.decide(command(text), "bash")
    assert time.process_time() - start < 3


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


# ------------------------------------------------------------------ asking


async def test_the_question_shows_exactly_what_would_happen(workspace: Workspace, home: Path) -> None:
    person = Person(Allow())
    gate = Gate("ask", workspace, home=home)
    text = "git log \\\n  --oneline; echo '[/x]'"
    assert await gate.authorize(call("bash"), command(text), person) == Allowed()
    change = edit(workspace.root / "src" / "a")
    assert await gate.authorize(call("edit"), change, person) == Allowed()
    shell, file = person.asked
    assert (shell.command, shell.rule) == (text, None)
    assert (file.diff, file.paths, file.rule) == (change.diff, (str(change.paths[0]),), "edit(src/*)")


async def test_once_is_once(workspace: Workspace, home: Path) -> None:
    person = Person(Allow("once"))
    gate = Gate("ask", workspace, home=home)
    for _ in range(2):
        await gate.authorize(call("bash"), command("git log"), person)
    assert len(person.asked) == 2


async def test_this_session_covers_what_the_rule_says_and_no_more(workspace: Workspace, home: Path) -> None:
    person = Person(Allow("session"))
    gate = Gate("ask", workspace, home=home)
    for text in ("git log", "git log -1", "git log; ls"):
        await gate.authorize(call("bash"), command(text), person)
    assert [request.command for request in person.asked] == ["git log", "git log; ls"]
    assert gate.session_rules == ("bash(git log)",)


async def test_always_for_this_folder_is_kept_by_real_path(workspace: Workspace, home: Path, tmp_path: Path) -> None:
    person = Person(Allow("folder"))
    grants = Grants(tmp_path / "state" / "state.toml")
    gate = Gate("ask", workspace, grants=grants, home=home)
    assert await gate.authorize(call("bash"), command("pytest -q"), person) == Allowed()
    assert grants.rules(workspace.root) == ("bash(pytest)",)
    (tmp_path / "link").symlink_to(workspace.root)
    later = Gate("ask", Workspace(tmp_path / "link", tmp_path / "link"), grants=grants, home=home)
    assert later.decide(command("pytest tests"), "bash").kind == "allow"
    elsewhere = Gate("ask", Workspace(tmp_path / "extra", tmp_path / "extra"), grants=grants, home=home)
    assert elsewhere.decide(command("pytest tests"), "bash").kind == "ask"
    assert not list(workspace.root.rglob("*.toml"))


async def test_an_answer_for_longer_without_an_offered_rule_is_once(
    workspace: Workspace, home: Path, tmp_path: Path
) -> None:
    grants = Grants(tmp_path / "state.toml")
    for scope in ("session", "folder"):
        gate = Gate("ask", workspace, grants=grants, home=home)
        person = Person(Allow("session" if scope == "session" else "folder"))
        for text in ("python3 x.py", "rm -rf ~"):
            assert await gate.authorize(call("bash"), command(text), person) == Allowed()
        assert [request.rule for request in person.asked] == [None, None]
        assert gate.session_rules == () and grants.rules(workspace.root) == ()


async def test_a_grant_that_cannot_be_kept_still_holds_for_the_session(
    workspace: Workspace, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    gate = Gate("ask", workspace, grants=Grants(tmp_path / "file" / "state.toml"), home=home)
    assert gate.problems
    answer = await gate.authorize(call("bash"), command("git log"), Person(Allow("folder")))
    assert isinstance(answer, Allowed) and "this session only" in answer.note
    assert gate.decide(command("git log"), "bash").kind == "allow"


def test_T10_damaged_grants_grant_nothing(workspace: Workspace, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "state.toml"
    path.write_text("[grants")
    path.chmod(0o600)
    gate = Gate("ask", workspace, grants=Grants(path), home=home)
    assert "damaged" in gate.problems[0]
    assert gate.decide(command("ls"), "bash").kind == "ask"


def test_a_bad_granted_rule_is_ignored_and_said(workspace: Workspace, home: Path, tmp_path: Path) -> None:
    grants = Grants(tmp_path / "state.toml")
    for rule in ("nonsense(", "bash(ls)"):
        grants.add(workspace.root, rule)
    gate = Gate("ask", workspace, grants=grants, home=home)
    assert "nonsense(" in gate.problems[0]
    assert gate.decide(command("ls"), "bash").kind == "allow"


async def test_a_refusal_carries_the_users_words(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, home=home)
    answer = await gate.authorize(call("bash"), command("make"), Person(Deny("use ninja [b]instead")))
    assert isinstance(answer, Refused) and answer.by == "user" and "use ninja [b]instead" in answer.reason
    assert [(refusal.tool, refusal.title, refusal.by) for refusal in gate.refusals] == [("bash", "make", "user")]


@pytest.mark.parametrize(("mode", "by"), [("plan", "mode"), ("ask", "rule")])
async def test_what_is_refused_is_asked_of_nobody(workspace: Workspace, home: Path, mode: Mode, by: str) -> None:
    person = Person(Allow())
    gate = Gate(mode, workspace, disallowed_tools=["bash(rm)"] if by == "rule" else [], home=home)
    answer = await gate.authorize(call("bash"), command("rm x"), person)
    assert isinstance(answer, Refused) and answer.by == by and not person.asked


async def test_T08_without_a_person_what_would_ask_is_refused_and_listed(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, home=home)
    answer = await gate.authorize(call("bash"), command("make\nmake install"), None)
    assert isinstance(answer, Refused) and answer.by == "print"
    assert await gate.authorize(call("read"), read(workspace.root / "a"), None) == Allowed()
    assert [(refusal.call_id, refusal.title, refusal.by) for refusal in gate.refusals] == [("c1", "make", "print")]


async def test_T18_a_mode_that_changed_during_the_question_counts(workspace: Workspace, home: Path) -> None:
    gate = Gate("ask", workspace, home=home)

    async def switches_to_plan(request: ApprovalRequest) -> Answer:
        gate.mode = "plan"
        return Allow("session")

    answer = await gate.authorize(call("edit"), edit(workspace.root / "a"), switches_to_plan)
    assert isinstance(answer, Refused) and answer.by == "mode"
    assert gate.session_rules == ()

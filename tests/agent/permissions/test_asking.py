from pathlib import Path

import pytest

from agent.permissions.approval import Allow, Answer, ApprovalRequest, Deny, Scope
from agent.permissions.gate import Allowed, Gate, Mode, Refused
from agent.permissions.grants import Grants
from agent.permissions.workspace import Workspace
from agent.tools.base import Access
from tests.agent.permissions.test_gate import Person, call, command, edit, read


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


@pytest.mark.parametrize(
    ("scope", "text", "session", "kept", "note"),
    [
        ("once", "git log", (), (), ""),
        ("session", "git log", ("bash(git log)",), (), ""),
        ("folder", "git log", ("bash(git log)",), ("bash(git log)",), ""),
        ("folder", "git push -f", (), (), ""),
        ("folder", "rm -r build", ("bash(rm -r build $)",), ("bash(rm -r build $)",), ""),
    ],
)
async def test_how_long_an_answer_holds(
    workspace: Workspace, home: Path, tmp_path: Path, scope: Scope, text: str, session: tuple[str, ...],
    kept: tuple[str, ...], note: str,
) -> None:  # fmt: skip
    grants = Grants(tmp_path / "state.toml")
    gate = Gate("ask", workspace, grants=grants, home=home)
    assert await gate.authorize(call("bash"), command(text), Person(Allow(scope))) == Allowed(note)
    assert (gate.session_rules, grants.rules(workspace.root)) == (session, kept)
    alone = Gate("ask", workspace, home=home)
    answer = await alone.authorize(call("bash"), command(text), Person(Allow(scope)))
    no_place = "Allowed for this session only: there is no place to keep it."
    assert answer == Allowed(no_place if kept else "") and alone.session_rules == session


async def test_the_words_of_a_refusal(workspace: Workspace, home: Path) -> None:
    async def refused(gate: Gate, access: Access, person: Person | None = None) -> tuple[str, str, str]:
        answer = await gate.authorize(call("bash" if access.command else "edit"), access, person)
        assert isinstance(answer, Refused)
        assert [(each.reason, each.by) for each in gate.refusals] == [(answer.why, answer.by)]
        gate.refusals.clear()
        return answer.by, answer.why, answer.reason

    plan = Gate("plan", workspace, disallowed_tools=["bash(rm)"], home=home)
    ask = Gate("ask", workspace, disallowed_tools=["bash(rm)"], home=home)
    change, rule = edit(workspace.root / "a"), "The rule bash(rm) (command line) forbids it."
    tail = "Do not try the same in another way; say what you would need."
    assert await refused(ask, command("rm x")) == ("rule", rule, f"Not run. {rule} {tail}")
    why = "Plan mode edits nothing."
    assert await refused(plan, change) == (
        "mode", why, f"Not run. {why} Read what you need and describe what you would do.",
    )  # fmt: skip
    why = "/etc/hosts is outside the workspace."
    assert await refused(plan, read(Path("/etc/hosts"))) == ("mode", why, f"Not run. {why}")
    why = "Edits are asked about in ask mode."
    text = f"Not run: nobody can be asked for permission in this run. {why} Go on without it."
    assert await refused(ask, change) == ("print", why, text)
    told, more = "The user refused this call, so it did not run.", "Do not try the same in another way."
    assert await refused(ask, change, Person(Deny("no"))) == ("user", "no", f"{told} They said: no. {more}")
    assert await refused(ask, change, Person(Deny("Why?\n"))) == ("user", "Why?\n", f"{told} They said: Why? {more}")
    assert await refused(ask, change, Person(Deny(" "))) == ("user", " ", f"{told} {more}")


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

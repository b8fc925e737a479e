from fnmatch import fnmatch
from pathlib import Path

import pytest

from agent.permissions.approval import Allow
from agent.permissions.gate import Allowed, Gate, Mode, Refused
from agent.permissions.path_pattern import PathScope
from agent.permissions.path_text import is_protected
from agent.permissions.rules import RuleLayer, parse_rules
from agent.permissions.sensitive import NAME_GLOBS, is_sensitive, names_itself
from agent.permissions.workspace import Workspace
from agent.tools.base import Access
from agent.tools.grep import Grep
from agent.tools.read import Read
from providers.types import ToolCall
from tests.agent.permissions.test_gate import MODES, Person, call, edit, read
from tests.agent.tools.file_calls import Calls

SECRETS = """
.env .env.local .env.production .ENV prod.env .envrc id_rsa id_ed25519 id_rsa.bak id_ecdsa_sk server.pem CA.PEM tls.key a.p12
.netrc _netrc .pgpass .npmrc .pypirc .git-credentials credentials credentials.json secrets.yaml .aws/credentials .aws/config
.ssh/config .ssh/known_hosts .gnupg/x .config/gh/hosts.yml .docker/config.json .kube/config client_secret_1.json
service-account.json terraform.tfstate terraform.tfstate.backup sub/deep/.env id_dsa id_rsa-old a.pfx a.p8 a.jks a.keystore
a.kdbx a.ppk .my.cnf .htpasswd .vault-token application_default_credentials.json secret.yml secrets.toml credentials.ini
service_account-1.json .config/gcloud/x .password-store/x .SSH/x
"""
PLAIN = """
.env.example .env.sample env.py environment.ts .envoy id_rsa.pub id_ed25519.pub .ssh/id.pub keys.py key.txt keyboard.json
credentials.py test_credentials.json credential_store.rs secrets.py monkey.md .docker/Dockerfile config.json README.md
.env.default secrets.defaults.yaml pem.txt src/key/index.ts gh/x .config/x config .kube/x
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return Workspace(tmp_path / "project", tmp_path / "project")


def layer(workspace: Workspace, *allow: str) -> RuleLayer:
    return RuleLayer("user", allow=parse_rules(allow, PathScope(workspace.root, workspace.root.parent / "home")))


def test_T55_files_for_secrets_are_told_by_their_names() -> None:
    root = Path("/home/u/project")
    assert [name for name in SECRETS.split() if not is_sensitive(root / name)] == []
    assert [name for name in PLAIN.split() if is_sensitive(root / name)] == []


def test_T55_the_globs_that_narrow_a_listing_leave_none_out() -> None:
    folders = (
        ".aws/",
        ".ssh/",
        ".gnupg/",
        ".config/",
        ".docker/",
        ".kube/",
        ".password-store/",
        ".SSH/",
        ".ENV",
        "CA.PEM",
    )
    names = [name.rpartition("/")[2] for name in SECRETS.split() if not name.startswith(folders)]
    assert [name for name in names if not any(fnmatch(name, glob) for glob in NAME_GLOBS)] == []


@pytest.mark.parametrize(
    ("pattern", "path", "itself"),
    [
        (".env", "/p/.env", True),
        ("./.env", "/p/.env", True),
        ("**/.env", "/p/x/.env", True),
        (".env*", "/p/.env.x", True),
        ("*.pem", "/p/a.pem", True),
        ("a/*.pem/", "/p/a/b.pem", True),
        ("~/.ssh", "/h/.ssh/x", True),
        (".ssh/**", "/p/.ssh/x", True),
        ("~/.config/gh/*", "/h/.config/gh/hosts.yml", True),
        ("tls.key", "/p/tls.key/server.pem", False),
        ("*", "/p/.env", False),
        ("**", "/p/.env", False),
        ("?*", "/p/.env", False),
        ("src/**/*", "/p/src/.env", False),
        ("gh", "/p/gh/.env", False),
        ("config.json/x/.docker", "/p/config.json/x/.docker/.env", False),
        ("/", "/.env", False),
    ],
)
def test_T55_which_patterns_mean_just_such_files(pattern: str, path: str, itself: bool) -> None:
    assert names_itself(pattern, Path(path)) is itself


@pytest.mark.parametrize("mode", MODES)
def test_T55_reading_one_asks_in_every_mode(workspace: Workspace, mode: Mode) -> None:
    gate = Gate(mode, workspace, home=workspace.root.parent / "home")
    for tool in ("read", "grep", "glob"):
        decision = gate.decide(read(workspace.root / ".env"), tool)
        assert (decision.kind, decision.reason, decision.only_once) == ("ask", ".env may hold secrets.", False)
    assert gate.decide(read(workspace.root / ".env.example"), "read").kind == "allow"
    # Why an edit fails would quote what stands there.
    failing = Access("edit", ".env", (workspace.root / ".env",), fails=True)
    for access in (failing, edit(workspace.root / ".env")):
        assert gate.decide(access, "edit").kind == ("refuse" if mode == "plan" else "ask")
    if mode in ("edits", "auto"):
        assert gate.decide(edit(workspace.root / ".env"), "edit").only_once
    free = edit(workspace.root / ".env.example")
    assert gate.decide(free, "edit").kind == {"plan": "refuse", "ask": "ask"}.get(mode, "allow")


def test_T55_an_edit_of_one_is_allowed_by_a_rule_for_edits_of_such_files(workspace: Workspace) -> None:
    for rules, kind in ((["edit(.env)"], "allow"), (["edit"], "ask"), (["read(.env)"], "ask"), ([], "ask")):
        gate = Gate("auto", workspace, [layer(workspace, *rules)], home=workspace.root.parent / "home")
        assert gate.decide(edit(workspace.root / ".env"), "edit").kind == kind
    assert gate.decide(edit(workspace.root / ".env"), "write").kind == "allow"  # which shows nothing of it


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        ("read(.env)", True),
        ("read(**/.env)", True),
        ("read(.env*)", True),
        ("read(*.env)", True),
        ("read", False),
        ("read(**)", False),
        ("read(*)", False),
        ("read(.env.local)", False),
        ("edit(.env)", False),
    ],
)
def test_T55_only_a_rule_that_means_such_files_allows_it(workspace: Workspace, rule: str, allowed: bool) -> None:
    gate = Gate("ask", workspace, [layer(workspace, rule)], home=workspace.root.parent / "home")
    path = workspace.root / ".env"
    assert gate.decide(read(path), "read").kind == ("allow" if allowed else "ask")
    assert workspace.is_sensitive(path) is not allowed


async def test_T55_a_person_allows_one_file_for_the_session_and_nobody_means_no(workspace: Workspace) -> None:
    gate = Gate("auto", workspace, home=workspace.root.parent / "home")
    person = Person(Allow("session"))
    for _ in range(2):
        assert await gate.authorize(call("read"), read(workspace.root / ".env"), person) == Allowed()
    assert [request.rule for request in person.asked] == ["read(.env)"]
    refused = await gate.authorize(ToolCall("c2", "read", "{}"), read(workspace.root / "key.pem"), None)
    assert isinstance(refused, Refused) and refused.by == "print"


@pytest.mark.parametrize("without_rg", [False, True])
async def test_T55_a_search_leaves_them_out_whatever_matches_and_says_how_many(
    tmp_path: Path, without_rg: bool
) -> None:
    for name in ("server.pem", "sub/id_rsa", "prod.env", "a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("needle 123\n")
    calls, grep = Calls(tmp_path), Grep(without_rg=without_rg)
    note = "[3 files that may hold secrets are left out; to read one, name it, and the user is asked]"
    assert (await calls.run(grep, pattern="needle")).text == f"a.txt\n1:needle 123\n{note}"
    for output in ("files", "count"):
        text = (await calls.run(grep, pattern="needle", output=output)).text
        assert text.startswith("a.txt") and "3 files that may hold secrets" in text and ".pem" not in text
    # What a hidden file holds must not show in the number either.
    assert (await calls.run(grep, pattern="no such text")).text.endswith(note)
    assert "1 file that may hold secrets is left out" in (await calls.run(grep, pattern="x", glob="*.pem")).text
    assert (await calls.run(grep, pattern="needle", path="sub/id_rsa")).text == "sub/id_rsa\n1:needle 123"
    assert (await calls.run(Read(), path="server.pem")).text == "1\tneedle 123"  # the gate stands before it


@pytest.mark.parametrize(
    "name",
    [
        ".GIT/hooks/x",
        ".CLAW/Config.toml",
        ".g\u200cit/config",
        "GIT~1/config",
        ".git./config",
        ".git::$DATA",
        "．git/x",
        "claw~1/x",
        ".claw /x",
    ],
)
@pytest.mark.parametrize("mode", ["edits", "auto"])
def test_T56_a_protected_folder_asks_however_it_is_spelt(workspace: Workspace, mode: Mode, name: str) -> None:
    gate = Gate(mode, workspace, [layer(workspace, "edit", "edit(**)")], home=workspace.root.parent / "home")
    decision = gate.decide(edit(workspace.root / name), "write")
    assert (decision.kind, decision.only_once) == ("ask", True)


def test_T56_a_way_round_through_dots_is_seen_and_other_names_are_free(workspace: Workspace) -> None:
    (workspace.root / ".git").mkdir()
    gate = Gate("auto", workspace, home=workspace.root.parent / "home")
    for path in (".git/../.git/config", "x/../.git/hooks/y", "./.claw/config.toml"):
        assert gate.decide(edit(workspace.resolve(path)), "write").kind == "ask", path
    for name in (".gitignore", ".github", "git", ".git.bak", "x.git", "claw"):
        assert not is_protected(name)

"""What lint finds in the files of a place, and that it finds nothing in good ones."""

import os
import time
from pathlib import Path

import pytest

from agent.config.paths import Paths
from agent.config.schema import InstructionsConfig
from agent.instructions.discovery import Place, discover
from agent.instructions.item import Flaw, Include, InstructionItem
from agent.instructions.lint import lint
from agent.instructions.project_files import survey
from agent.instructions.report import Finding, has_errors
from tests.fakes.session_kit import make_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", {".git/HEAD": "ref: refs/heads/main\n"})


def place(project: Path) -> Place:
    home = project.parent / "home"
    return Place(Paths(home, home, home, home, home, managed=home / "none"), project, project)


def linted(project: Path, config: InstructionsConfig | None = None) -> list[Finding]:
    """What lint says of what discovery finds."""
    where, config = place(project), config or InstructionsConfig()
    return list(lint(discover(where, config), where, config))


def short(findings: list[Finding]) -> list[tuple[str, int, str]]:
    return [(Path(finding.path).name, finding.line, finding.kind) for finding in findings]


def test_M9_good_files_have_no_findings(project: Path) -> None:
    make_project(
        project,
        {
            "AGENTS.md": "# Rules\n\nUse tabs.\nIndent: tabs\nRun `make ${TARGET}`.\n\n```sh\necho ${HOME}\n```\n@docs/a.md\n",
            "docs/a.md": "- Never commit secrets.\n- In ${workspaceFolder} all is well; mail me@example.org.\n",
            ".claw/rules/py.md": "---\npaths: '*.py'\n---\nUse type hints.\n",
            "a.py": "",
        },
    )
    assert linted(project) == []


def test_dead_includes_cycles_and_bad_frontmatter_are_errors_with_their_lines(project: Path) -> None:
    make_project(
        project,
        {
            "AGENTS.md": "Hello.\n\n@docs/a.md and @missing.md\n",
            "docs/a.md": "Text.\n@../AGENTS.md\n",
            ".claw/rules/bad.md": "---\npaths: [\n---\nText.\n",
        },
    )
    findings = linted(project)
    assert {("AGENTS.md", 3, "dead_include"), ("a.md", 2, "cycle")} <= set(short(findings))
    (bad,) = (finding for finding in findings if finding.kind == "bad_frontmatter")
    assert bad.path.endswith("bad.md") and bad.line == 2
    assert {finding.severity for finding in findings} == {"error"} and has_errors(findings)


def test_every_state_of_an_include_has_its_kind(project: Path) -> None:
    make_project(project, {"there.md": "x", "AGENTS.md": "x"})
    there, main = str(project / "there.md"), str(project / "AGENTS.md")
    includes = (
        Include("@ok.md", 1, str(project / "ok.md")),
        Include("@gone.md", 2, str(project / "gone.md"), "refused", "it does not exist"),
        Include("@there.md", 3, there, "refused", "includes go 5 files deep"),
        Include("@/etc/x.md", 4, "/etc/x.md", "asks"),
        Include("@nowhere", 5, "", "refused", "it names no path"),
        Include("@there.md", 6, there, includes=(Include("@AGENTS.md", 1, main, reason="it stands here already"),)),
    )
    items = (InstructionItem(main, "project", "x", text="x", includes=includes),)
    assert short(list(lint(items, place(project)))) == [
        ("AGENTS.md", 2, "dead_include"),
        ("AGENTS.md", 3, "include_refused"),
        ("AGENTS.md", 4, "include_asks"),
        ("AGENTS.md", 5, "dead_include"),
        ("there.md", 1, "cycle"),
    ]


def test_unknown_variables_are_named_with_the_nearest_known_one(project: Path) -> None:
    make_project(project, {"AGENTS.md": "\n\nSee ${workspacefolder}/x, ${home} and ${NOPE}; `${code}` stays.\n"})
    findings = linted(project)
    assert short(findings) == [("AGENTS.md", 3, "unknown_variable")] * 2 and not has_errors(findings)
    assert "did you mean ${workspaceFolder}?" in findings[0].message and "${NOPE}" in findings[1].message


def test_rules_that_match_nothing_are_found_with_what_git_ignores(project: Path) -> None:
    make_project(
        project,
        {
            ".gitignore": "build/\n",
            "sub/.gitignore": "*.log\n!keep.log\n",
            "build/x.c": "",
            "sub/a.log": "",
            "sub/keep.log": "",
            ".github/ci.yml": "",
            ".claw/rules/c.md": "---\npaths: '*.c'\n---\nC.\n",
            ".claw/rules/log.md": "---\npaths: a.log\n---\nA.\n",
            ".claw/rules/kept.md": "---\npaths: '*.log'\n---\nKept.\n",
            ".claw/rules/ci.md": "---\npaths: .github/**\n---\nCI.\n",
        },
    )
    (project / "link").symlink_to("/")
    findings = linted(project)
    assert [(name, kind) for name, _, kind in short(findings)] == [
        ("c.md", "never_matches"),
        ("log.md", "never_matches"),
    ]
    assert not has_errors(findings)


def test_beyond_the_budget_it_is_not_claimed(project: Path) -> None:
    make_project(project, {f"f{n}.txt": "" for n in range(40)} | {".claw/rules/c.md": "---\npaths: '*.c'\n---\nC.\n"})
    where = place(project)
    seen = survey(project, most=20)
    assert not seen.complete and len(seen.files) <= 20
    findings = lint(discover(where, InstructionsConfig()), where, InstructionsConfig(), seen)
    assert [(finding.kind, finding.severity) for finding in findings] == [("cannot_tell", "info")]


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        ("Use tabs.", "Never use tabs.", True),
        ("- **Always** use tabs", "* Don't use tabs!", True),
        ("1. You must use `pip`.", "Do not use pip", True),
        ("Use tabs. Use blanks.", "So be it.\nYou should not use\nblanks.", True),
        ("- [ ] please use tabs", "- DON’T USE TABS", True),
        ("Use tabs.", "Never use tabs in Makefiles.", False),
        ("Use tabs.", "```\nNever use tabs.\n```", False),
        ("Use tabs.", "<!-- Never use tabs. -->", False),
        ("Use tabs.", "> Never use tabs.", False),
        ("## Go\nUse tabs.", "## Python\nNever use tabs.", False),
        ("# A\n## Style\nUse tabs.", "# B\n## Style\nNever use tabs.", True),
        ("Never mind.", "Mind.", False),
        ("Use tabs.", "---\npaths: '*.md'\n---\nNever use tabs.", False),
        ("Indent: 4 blanks", "- indent: tabs", True),
        ("**Indent**: `4`", "Indent: 4.", False),
        ("Indent: 4\nIndent: 8", "Indent: 2", False),
        ("Note: read this", "Note: read that", False),
        ("## Go\n- indent: tabs", "## Python\n- indent: blanks", False),
        ("See: https://a.example", "See: https://b.example", False),
    ],
)
def test_M9_layers_that_contradict_each_other_are_told(project: Path, one: str, other: str, contradict: bool) -> None:
    make_project(project, {"AGENTS.md": one, "CLAUDE.md": other})
    found = [finding for finding in linted(project) if finding.kind == "contradiction"]
    assert bool(found) is contradict
    if contradict:
        assert len(found) == 1 and Path(found[0].path).name == "CLAUDE.md"
        assert f"{project / 'AGENTS.md'}:" in found[0].message


def test_M9_within_one_file_and_behind_an_include_too(project: Path) -> None:
    make_project(project, {"AGENTS.md": "\n\nUse tabs.\n\n\nNever use tabs.\n@b.md\n", "b.md": "\nUse pip.\n"})
    (project / "CLAUDE.md").write_bytes(b"\xff\xfe" + "Don't use pip.".encode("utf-16-le"))
    findings = [f for f in linted(project) if f.kind == "contradiction"]
    assert short(findings) == [("AGENTS.md", 6, "contradiction"), ("CLAUDE.md", 1, "contradiction")]
    assert "AGENTS.md:3" in findings[0].message and "b.md:2" in findings[1].message
    assert all(finding.severity == "error" for finding in findings)


def test_files_that_are_cut_long_hidden_or_no_files_are_told(project: Path) -> None:
    make_project(project, {"AGENTS.md": "Hi\u200b there.\n", "CLAUDE.md": "x\n" * 400})
    os.mkfifo(project / "CLAUDE.local.md")
    findings = linted(project, InstructionsConfig(max_file_chars=300))
    kinds = {(Path(f.path).name, f.kind, f.severity) for f in findings}
    assert kinds == {
        ("AGENTS.md", "hidden", "warning"),
        ("CLAUDE.md", "too_long", "error"),
        ("CLAUDE.local.md", "unusable", "error"),
    }


def test_the_same_finding_comes_once_and_in_the_order_of_the_lines(project: Path) -> None:
    make_project(project, {"AGENTS.md": "x"})
    path = str(project / "AGENTS.md")
    flawed = [
        InstructionItem(path, "project", "x", text="x", line=n, flaws=(Flaw(9, "b"), Flaw(2, "a"))) for n in (1, 5)
    ]
    assert short(list(lint(flawed, place(project)))) == [("AGENTS.md", n, "bad_frontmatter") for n in (2, 9)]


@pytest.mark.parametrize(
    "text",
    [
        "Use tabs.\n\n" * 60_000,
        "Use tabs.\n" * 90_000,
        "`" * 900_000 + "${x}",
        "# " + "#" * 900_000,
        "".join(f"## {n}\nNever use tabs.\n" for n in range(30_000)),
        "${x} " * 150_000,
        "a: " * 300_000,
    ],
    ids=["same", "paragraph", "ticks", "heading", "headings", "variables", "keys"],
)
def test_no_text_makes_it_slow(project: Path, text: str) -> None:
    path = project / "AGENTS.md"
    path.write_text(text)
    items = (InstructionItem(str(path), "project", "x", text="x"), InstructionItem(str(path), "user", "x", text="y"))
    started = time.process_time()
    lint(items, place(project))
    assert time.process_time() - started < 6


def test_a_condition_is_compared_with_the_files_of_its_own_folder(project: Path) -> None:
    make_project(
        project,
        {
            "x.c": "",
            "in/y.h": "",
            "in/CLAUDE.md": "---\npaths: '*.h'\n---\nMatches.\n\n---\npaths: /x.c\n---\nNever, since it stands above.",
        },
    )
    (project.parent / "CLAUDE.md").write_text(
        f"---\npaths: {project.name}/x.c\n---\nMatches.\n\n---\npaths: /x.c\n---\nNo.\n"
    )
    where = Place(place(project).paths, project, project / "in")
    findings = lint(discover(where, InstructionsConfig()), where, InstructionsConfig())
    assert [(finding.path, finding.line, finding.kind) for finding in findings] == [
        (str(project / "in/CLAUDE.md"), 9, "never_matches"),
    ]


def test_a_screen_that_waits_is_not_kept_waiting(project: Path) -> None:
    rules = {f".claw/rules/{n}.md": f"---\npaths: '**/*.q{n}'\n---\nRule.\n" for n in range(100)}
    make_project(project, {f"d{n}/f.txt": "" for n in range(300)} | rules)
    where = place(project)
    findings = lint(discover(where, InstructionsConfig()), where, InstructionsConfig(), matching_s=0)
    assert {finding.kind for finding in findings} == {"cannot_tell"}

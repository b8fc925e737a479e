from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.instructions.item import InstructionItem
from agent.instructions.rules import (
    MOST_SECTIONS,
    Section,
    anchored,
    matches,
    replace_variables,
    split_sections,
    unknown_variables,
)

BASE = Path("/p")


def holds(patterns: tuple[str, ...], path: str) -> bool:
    return matches(InstructionItem("/p/x.md", "project", "", patterns=patterns, base=str(BASE)), Path(path))


@pytest.mark.parametrize(
    ("head", "patterns"),
    [
        ('when: "file:*.py"', ("*.py",)),
        ("when: file:*.py", ("*.py",)),
        ("when: 'file:a b/*.py'", ("a b/*.py",)),
        ('when: ["file:*.py", file:*.pyi]', ("*.py", "*.pyi")),
        ("when: file:*.{ts,tsx}", ("*.ts", "*.tsx")),
        ("paths: src/**", ("src/**",)),
        ("globs: *.ts, *.tsx", ("*.ts", "*.tsx")),
        ("globs: *.ts,*.tsx # both", ("*.ts", "*.tsx")),
        ('paths: ["src/**/*.{js,jsx}", "!src/gen/**"]', ("src/**/*.js", "src/**/*.jsx", "!src/gen/**")),
        ("paths: [\n  a/**,\n  'b, c/*', # two\n]", ("a/**", "b, c/*")),
        ("paths:\n  - \"src/**\"\n  - lib/** # more\n\n  # none\n  - '#odd'", ("src/**", "lib/**", "#odd")),
        ("paths:\n- src/**\n- lib/**\nglobs: x", ("src/**", "lib/**", "x")),
        ("description: >-\n  when: not a key\n  text\nmetadata:\n  a:\n    - b\npaths: x\ntags: [a, b", ("x",)),
        ("# a comment\nPaths-like: y\npaths : x", ("x",)),
        ("when: always", ()),
        ("title: words", ()),
    ],
)
def test_C3_frontmatter_conditions_in_every_spelling(head: str, patterns: tuple[str, ...]) -> None:
    text = f"---\n{head}\n---\n\n  The rule.\n"
    assert [(s.text, s.patterns, s.flaws) for s in split_sections(text)] == [("  The rule.", patterns, ())]
    assert split_sections(text)[0].line == text.count("\n", 0, text.index("  The")) + 1


@pytest.mark.parametrize(
    ("head", "line", "message"),
    [
        ("when: language:python", 2, "`when` must be `file:PATTERN`, not 'language:python'"),
        ("title: x\npaths:", 3, "`paths` names no pattern"),
        ("paths: []", 2, "`paths` names no pattern"),
        ("paths: [a, b", 2, "the list has no closing `]`"),
        ('paths: "a', 2, "cannot read the value"),
        ("paths:\n  - 'a", 3, "the quotes do not close"),
        ("paths:\n  a: b", 3, "expected `- PATTERN`, not 'a: b'"),
        ("paths:\n  - a\n  -", 4, "expected `- PATTERN`"),
        ("paths: a\n  b", 3, "a value goes on over several lines"),
        ("paths: a\npaths: b", 3, "`paths` is set twice"),
        ("paths: a\nnonsense", 3, "expected `key: value`, not 'nonsense'"),
        ("paths: " + "{a,b}" * 40, 2, "stands for more than 64 patterns"),
        ("paths: [" + ", ".join(map(str, range(65))) + "]", 1, "more than 64 patterns"),
    ],
)
def test_C3_bad_frontmatter_is_reported_with_its_line_and_the_text_is_not_lost(
    head: str, line: int, message: str
) -> None:
    (section,) = split_sections(f"---\n{head}\n---\nThe rule.")
    (flaw,) = section.flaws
    assert (section.text, section.patterns) == ("The rule.", ())
    assert flaw.line == line and message in flaw.message and "loaded without a condition" in flaw.message


def test_C3_frontmatter_that_never_ends_is_reported_and_stays_as_text() -> None:
    text = "---\npaths: a\n\nThe rule."
    (section,) = split_sections(text)
    assert section.text == text and section.flaws[0].line == 1 and "no closing" in section.flaws[0].message


def test_C3_several_sections_in_one_file_each_with_line_and_condition() -> None:
    text = (
        "for all\n\n---\nwhen: file:*.py\n---\npython\n\n---\npaths: [a, b]\n---\n\nweb\n\n---\nwhen: always\n---\nall"
    )
    assert split_sections(text) == (
        Section("for all", 1),
        Section("python", 6, "when: file:*.py", ("*.py",)),
        Section("web", 12, "paths: a, b", ("a", "b")),
        Section("all", 17),
    )


@pytest.mark.parametrize(
    "text",
    [
        "above\n\n---\n\nbelow",
        "Title\n---\nwhen: file:x\n---\nbelow",
        "above\n\n---\nnote: this is a rule\n---\nbelow",
        "```yaml\n---\nwhen: file:*.py\n---\n```",
        "text\n\n    ---\n    when: file:*.py\n    ---",
        "~~~\n\n---\npaths: x\n---\n~~~",
        "---\nno key here\n---\ntext",
        "---",
        "---\n\ntext",
        "----\nwhen: file:x\n----",
        " ---\nwhen: file:x\n---",
    ],
)
def test_C3_rules_headings_and_samples_are_no_frontmatter(text: str) -> None:
    assert split_sections(text) == (Section(text),)


def test_an_empty_text_and_empty_sections_give_nothing() -> None:
    assert split_sections("") == split_sections("---\npaths: a\n---\n") == ()


def test_T12_the_number_of_sections_is_bounded() -> None:
    assert len(split_sections("---\nwhen: file:x\n---\na\n\n" * 1_000)) == MOST_SECTIONS


@given(st.text(alphabet="-\n:ab whenpaths[]{}\"',#*!", max_size=120))
def test_C3_any_text_gives_sections_whose_lines_are_right(text: str) -> None:
    lines = text.split("\n")
    for section in split_sections(text):
        if section.text:
            first = section.text.split("\n")[0]
            assert lines[section.line - 1].startswith(first)


@pytest.mark.parametrize(
    ("patterns", "path", "expected"),
    [
        (("*.py",), "/p/a.py", True),
        (("*.py",), "/p/src/deep/a.py", True),
        (("*.py",), "/p/a.pyi", False),
        (("src/**",), "/p/src/a/b.c", True),
        (("src/**",), "/p/lib/src/a", False),
        (("src/",), "/p/src/a", True),
        (("/a.py",), "/p/a.py", True),
        (("/a.py",), "/p/x/a.py", False),
        (("**/test/*.ts",), "/p/x/test/a.ts", True),
        (("src/**", "!src/gen/**"), "/p/src/a", True),
        (("src/**", "!src/gen/**"), "/p/src/gen/a", False),
        (("!src/gen/**", "src/**"), "/p/src/gen/a", True),
        (("*.py",), "/q/a.py", False),
        (("*",), "/p", False),
        (("[",), "/p/[", False),
        ((), "/anything", True),
    ],
)
def test_C3_a_condition_holds_for_the_paths_that_its_gitignore_patterns_name(
    patterns: tuple[str, ...], path: str, expected: bool
) -> None:
    assert holds(patterns, path) is expected


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("./src/*.py", "/p/src/a.py"),
        ("${workspaceFolder}/src/*.py", "/p/src/a.py"),
        ("/p/src/*.py", "/p/src/a.py"),
        ("!!odd", "/p/!odd"),
        ("#odd", "/p/#odd"),
    ],
)
def test_C3_patterns_are_relative_to_their_base_however_they_are_written(written: str, path: str) -> None:
    patterns = anchored((written,), BASE, {"workspaceFolder": "/p"})
    if written.startswith("!!"):
        patterns = ("*", *patterns)
        assert not holds(patterns, path) and holds(patterns, "/p/odd")
    else:
        assert holds(patterns, path) and not holds(patterns, "/p/other/odd.txt")


def test_C3_variables_are_replaced_and_unknown_ones_stay() -> None:
    known = {"workspaceFolder": "/w", "home": "/h", "cwd": "/c"}
    text = r"`cd ${workspaceFolder}/${cwd}` ${home} ${nope} $home \${home} $${home} ${ home }"
    assert replace_variables(text, known) == r"`cd /w//c` /h ${nope} $home \${home} $${home} ${ home }"
    assert unknown_variables(text, tuple(known)) == ("nope",)

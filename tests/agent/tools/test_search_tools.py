import asyncio
import os
import stat
import time
from pathlib import Path

import pytest

from agent.tools.base import ToolError
from agent.tools.glob import Glob
from agent.tools.grep import Grep
from agent.tools.search import find_rg
from tests.agent.tools.file_calls import Calls

PROGRAMS = ["python", *(["rg"] if find_rg() else [])]


@pytest.fixture(params=PROGRAMS)
def without_rg(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "python")


@pytest.fixture
def glob(without_rg: bool) -> Glob:
    return Glob(without_rg=without_rg)


@pytest.fixture
def grep(without_rg: bool) -> Grep:
    return Grep(without_rg=without_rg)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    files = {
        ".git/config": "needle\n",
        ".gitignore": "*.log\n/build/\n!keep.log\n",
        ".github/ci.yml": "needle: 1\n",
        "a.py": "import os\nneedle = 1\nend\n",
        "a.log": "needle\n",
        "keep.log": "kept needle\n",
        "build/out.py": "needle\n",
        "src/b.py": "x\r\ny\r\nneedle needle\r\nz\r\n",
        "src/c.txt": "Needle\n",
        "src/.gitignore": "generated.*\n",
        "src/generated.py": "needle\n",
        "src/build/in.py": "pass\n",
        "bin": "needle\0\n",
    }
    for place, (name, text) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (1_000_000 + place, 1_000_000 + place))
    (root / "link.py").symlink_to(root / "a.py")
    return root


@pytest.fixture
def calls(root: Path) -> Calls:
    return Calls(root)


async def test_glob_lists_the_newest_first_and_leaves_ignored_hidden_and_links_out(glob: Glob, calls: Calls) -> None:
    output = await calls.run(glob, pattern="**/*.py")
    assert output.text == "src/build/in.py\nsrc/b.py\na.py"
    assert (await calls.run(glob, pattern="*.py", path="src")).text == "src/build/in.py\nsrc/b.py"
    assert (await calls.run(glob, pattern="src/*.py")).text == "src/b.py"
    assert (await calls.run(glob, pattern="*.log")).text == "keep.log"
    assert (await calls.run(glob, pattern=".git*/**")).text == ".github/ci.yml"
    assert (await calls.run(glob, pattern="*.{txt,log}")).text == "src/c.txt\nkeep.log"
    assert "No file matches *.rs." in (await calls.run(glob, pattern="*.rs")).text


async def test_glob_takes_a_folder_out_of_the_pattern(glob: Glob, calls: Calls, root: Path) -> None:
    access = calls.access(glob, pattern=f"{root}/src/*.txt")
    assert (access.kind, access.paths) == ("read", (root / "src",))
    assert (await calls.run(glob, pattern=f"{root}/src/*.txt")).text == "src/c.txt"
    assert calls.access(glob, pattern="../*.py").paths == (root.parent,)
    assert "not a folder" in await calls.refused(glob, pattern="*", path="a.py")
    assert "does not exist. Did you mean src?" in await calls.refused(glob, pattern="*", path="scr")


async def test_glob_goes_no_deeper_than_the_pattern(glob: Glob, calls: Calls) -> None:
    assert (await calls.run(glob, pattern="./*.py")).text == "a.py"
    assert (await calls.run(glob, pattern="./{a,src/b}.py")).text == "src/b.py\na.py"
    assert "No file" in (await calls.run(glob, pattern="/*.no-such-file")).text


async def test_glob_below_a_sub_folder_knows_the_ignore_files_above(glob: Glob, root: Path) -> None:
    calls = Calls(root, root / "src")
    (root / "src" / "x.log").touch()
    assert (await calls.run(glob, pattern="*", path=".")).text == "build/in.py\nc.txt\nb.py"
    assert (await calls.run(glob, pattern="*.py", path="..")).text == "build/in.py\nb.py\n../a.py"


async def test_grep_shows_lines_by_file(grep: Grep, calls: Calls) -> None:
    output = await calls.run(grep, pattern="needle")
    assert output.text == "a.py\n2:needle = 1\n\nkeep.log\n1:kept needle\n\nsrc/b.py\n3:needle needle"
    assert calls.access(grep, pattern="needle", path="src").title == "needle in src"
    output = await calls.run(grep, pattern="^NEEDLE$", ignore_case=True)
    assert output.text == "src/c.txt\n1:Needle"
    output = await calls.run(grep, pattern="needle|^x|z$", path="src/b.py", context=1)
    assert output.text == "src/b.py\n1:x\n2-y\n3:needle needle\n4:z"
    output = await calls.run(grep, pattern="x|z", path="src/b.py")
    assert output.text == "src/b.py\n1:x\n4:z"


async def test_grep_shows_gaps_between_contexts(grep: Grep, calls: Calls, root: Path) -> None:
    (root / "n").write_text("".join(f"{n}\n" for n in range(20)))
    output = await calls.run(grep, pattern="^(2|3|10)$", path="n", context=1)
    assert output.text == "n\n2-1\n3:2\n4:3\n5-4\n--\n10-9\n11:10\n12-11"


async def test_grep_lists_files_and_counts(grep: Grep, calls: Calls) -> None:
    assert (await calls.run(grep, pattern="needle", output="files")).text == "src/b.py\nkeep.log\na.py"
    output = await calls.run(grep, pattern="needle", output="count")
    assert output.text == "a.py:1\nkeep.log:1\nsrc/b.py:1\n[3 in all]"
    assert (
        await calls.run(grep, pattern="needle", output="files", limit=1)
    ).text == "src/b.py\n[the newest 1 of 3 files]"


async def test_grep_filters_by_glob_without_losing_ignore_files(grep: Grep, calls: Calls) -> None:
    for pattern, files in (
        ("*.py", "src/b.py\na.py"),
        ("src/**/*.py", "src/b.py"),
        ("*.{log,txt}", "keep.log"),
        ("!*.py", "keep.log"),
        (".github/*", ".github/ci.yml"),
        ("[ab].py", "src/b.py\na.py"),
    ):
        assert (await calls.run(grep, pattern="needle", glob=pattern, output="files")).text == files, pattern


async def test_grep_of_a_named_file_looks_whatever_ignores_it(grep: Grep, calls: Calls, root: Path) -> None:
    assert (await calls.run(grep, pattern="needle", path="a.log", glob="*.py")).text == "a.log\n1:needle"
    assert (await calls.run(grep, pattern="needle", path="link.py")).text == "a.py\n2:needle = 1"
    assert (await calls.run(grep, pattern="needle", path="a.log", output="count")).text == "a.log:1\n[1 in all]"
    assert (await calls.run(grep, pattern="needle", path="a.log", output="files")).text == "a.log"
    assert "binary file" in await calls.refused(grep, pattern="needle", path="bin")
    with (root / "huge").open("wb") as file:
        file.write(b"needle\n" * 2_000)
        file.truncate(1 << 30)
    assert "too large" in await calls.refused(grep, pattern="needle", path="huge")
    (root / "late").write_bytes(b"needle\n" * 2_000 + b"\0\n" + b"needle\n" * 10)
    text = (await calls.run(grep, pattern="needle", path="late", limit=5_000)).text
    assert "binary file matches" not in text


async def test_a_named_folder_is_searched_whatever_ignores_it(grep: Grep, glob: Glob, calls: Calls) -> None:
    assert (await calls.run(grep, pattern="needle", path="build")).text == "build/out.py\n1:needle"
    assert (await calls.run(glob, pattern="*.py", path="build")).text == "build/out.py"
    assert "`path` is their folder" in (await calls.run(glob, pattern="build/*.py")).text


async def test_T55_searches_leave_out_what_a_rule_closes(grep: Grep, glob: Glob, calls: Calls, root: Path) -> None:
    closed = {root / "a.py", root / "src/b.py"}
    calls.workspace.is_closed = closed.__contains__
    for output in ("content", "files", "count"):
        text = (await calls.run(grep, pattern="needle", ignore_case=True, output=output)).text
        assert "src/c.txt" in text and "keep.log" in text and ".py" not in text
    assert (await calls.run(glob, pattern="*.py")).text == "src/build/in.py"


async def test_what_is_no_pattern_for_files_is_told(glob: Glob, calls: Calls) -> None:
    for pattern in (".", "..", "~", "src/", "/"):
        assert f"{pattern} names a folder" in await calls.refused(glob, pattern=pattern)
    assert "src is a folder. For the files in it use src/*" in (await calls.run(glob, pattern="src")).text
    assert "1 to 1,000 characters" in await calls.refused(glob, pattern="")


async def test_grep_of_nothing(grep: Grep, calls: Calls) -> None:
    assert "No match for nowhere in src. Hidden, binary" in (await calls.run(grep, pattern="nowhere", path="src")).text
    assert (await calls.run(grep, pattern="nowhere", path="a.py")).text == "No match for nowhere in a.py."
    assert "one by one" in (await calls.run(grep, pattern=r"os\nneedle")).text
    assert "not exist" in await calls.refused(grep, pattern="x", path="none")
    assert "empty" in await calls.refused(grep, pattern="")


async def test_an_invalid_expression_is_told_with_the_literal_remedy(grep: Grep, calls: Calls) -> None:
    message = await calls.refused(grep, pattern="foo(")
    assert "regular expression" in message
    assert "unclosed group" in message or "unterminated" in message
    assert r"literally, use: foo\(" in message
    assert (await calls.run(grep, pattern=r"foo\(")).text.startswith("No match")


async def test_T54_patterns_and_names_are_never_options_or_commands(
    grep: Grep, glob: Glob, calls: Calls, root: Path
) -> None:
    for name in ("--files", "-e", "new\nline", "esc\x1b[2J", "[red]", "caf\udce9", "--"):
        (root / name).write_text("--pre=touch /tmp/x; $(id)\n")
    output = await calls.run(grep, pattern="--pre=touch")
    assert output.text.count("1:--pre=touch /tmp/x; $(id)") == 7
    for shown in ("--files", "-e", '"new\\nline"', '"esc\\u001b[2J"', "[red]", '"caf\\\\xe9"', "--"):
        assert f"{shown}\n1:" in output.text
    names = (await calls.run(glob, pattern="./*")).text
    assert '"new\\nline"' in names
    assert "\x1b" not in names
    for path in ("--files", "-e", "new\nline", "caf\\xe9"):
        assert "1:--pre" in (await calls.run(grep, pattern="--pre", path=path)).text
    (root / "-d").mkdir()
    assert "No match" in (await calls.run(grep, pattern="x", path="-d")).text


async def test_results_are_bounded_and_say_so(grep: Grep, glob: Glob, calls: Calls, root: Path) -> None:
    (root / "many").mkdir()
    for place in range(230):
        (root / "many" / f"f{place}").write_text("needle\n" * 3)
    names = (await calls.run(glob, pattern="many/*")).text.split("\n")
    assert len(names) == 201
    assert names[-1] == "[the newest 200 of 230 files; narrow the pattern for others]"
    output = await calls.run(grep, pattern="needle", path="many")
    assert output.text.count("needle") == 200
    assert "[there are more;" in output.text
    assert (await calls.run(grep, pattern="needle", path="many", limit=5)).text.count("needle") == 5
    counts = (await calls.run(grep, pattern="needle", path="many", output="count", limit=3)).text
    assert counts.endswith("[at least 9 in all; there are more; narrow path, glob or pattern, or raise limit]")
    (root / "wide").write_text("needle " + "x" * 3_000_000 + "\nshort needle\n")
    text = (await calls.run(grep, pattern="needle", path="wide")).text
    assert len(text) < 1_500
    assert "2:short needle" in text


async def test_T109_R8_nothing_of_the_project_chooses_the_program_or_its_settings(
    calls: Calls, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = root / "rg"
    evil.write_text(f"#!/bin/sh\ntouch {root}/run\n")
    evil.chmod(evil.stat().st_mode | stat.S_IXUSR)
    (root / "config").write_text("--pre=./rg\n")
    monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(root / "config"))
    monkeypatch.chdir(root)
    for tool in (Grep(), Grep(without_rg=True)):
        await calls.run(tool, pattern="needle")
    assert not (root / "run").exists()


async def test_an_unfit_rg_gives_way_to_the_fallback(calls: Calls, tmp_path: Path) -> None:
    old = tmp_path / "rg"
    old.write_text("#!/bin/sh\necho \"error: Found argument '--no-config' which wasn't expected\" >&2\nexit 2\n")
    old.chmod(0o755)
    assert (await calls.run(Grep(old), pattern="needle", path="a.py")).text == "a.py\n2:needle = 1"
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o755)
    for program in (broken, tmp_path / "none"):
        assert (await calls.run(Grep(program), pattern="needle", path="a.py")).text == "a.py\n2:needle = 1"


async def test_T58_a_catastrophic_expression_is_stopped(
    calls: Calls, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "aaa").write_text("a" * 40 + "!\n")
    (root / "0").write_text("aaa\n")
    grep = Grep(without_rg=True, time_limit_s=1.0)
    start = time.monotonic()
    output = await calls.run(grep, pattern="^(a+)+$")
    assert "0\n1:aaa" in output.text
    assert "stopped after 1 s; there may be more" in output.text
    assert time.monotonic() - start < 15
    if find_rg():
        assert (await calls.run(Grep(), pattern="^(a+)+$")).text == "0\n1:aaa"


async def test_a_cancelled_search_leaves_no_process(calls: Calls, root: Path) -> None:
    (root / "aaa").write_text("a" * 40 + "!\n")
    before = children()
    task = asyncio.ensure_future(calls.run(Grep(without_rg=True), pattern="^(a+)+$"))
    for _ in range(1_000):
        if children() - before:
            break
        await asyncio.sleep(0.01)
    assert children() - before
    start = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - start < 5
    assert not children() - before


def children() -> set[str]:
    place = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(place.read_text().split()) if place.exists() else set()


async def test_T58_unreadable_folders_and_loops(grep: Grep, glob: Glob, calls: Calls, root: Path) -> None:
    (root / "loop").symlink_to(root)
    (root / "locked").mkdir(mode=0o000)
    assert (await calls.run(glob, pattern="a.py")).text.startswith("a.py")
    assert (await calls.run(grep, pattern="needle = 1")).text.startswith("a.py\n2:needle = 1")
    (root / "locked").chmod(0o755)


async def test_T46_links_out_of_the_workspace_are_judged_and_not_walked(
    grep: Grep, glob: Glob, calls: Calls, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("needle-secret\n")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "outfile").symlink_to(tmp_path / "secret" / "key")
    for tool, params in ((glob, {"pattern": "*"}), (grep, {"pattern": "needle"})):
        access = calls.access(tool, path="out", **params)
        assert access.paths == (tmp_path / "secret",)
        assert not calls.workspace.contains(access.paths[0])
    assert calls.access(grep, pattern="x", path="outfile").paths == (tmp_path / "secret" / "key",)
    assert "secret" not in (await calls.run(grep, pattern="needle")).text
    assert "key" not in (await calls.run(glob, pattern="*")).text


async def test_a_place_that_vanishes_is_told(grep: Grep, calls: Calls, root: Path) -> None:
    with pytest.raises(ToolError, match="not exist"):
        await calls.finish(grep, grep.params(pattern="x", path="gone"), calls.context())


@pytest.mark.parametrize("configured", [False, True])
async def test_what_the_user_ignores_everywhere_is_ignored(
    calls: Calls, root: Path, monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    if find_rg() is None:
        pytest.skip("only ripgrep knows of it")
    home = root.parent / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ("mine" if configured else ".config/git/ignore")).write_text("src\n")
    if configured:
        (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert (await calls.run(Glob(), pattern="*.py")).text == "a.py"
    assert "src" not in (await calls.run(Grep(), pattern="needle", output="files")).text

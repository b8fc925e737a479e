import contextlib
import ctypes
import errno
import os
import platform
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.permissions.opening import has_openat2, make_folder, open_by_openat2, open_by_walk, open_real
from agent.permissions.path_text import (
    check_length,
    from_escaped,
    kind_of,
    os_error,
    path_key,
    printable,
    show_name,
)
from agent.permissions.workspace import Workspace
from agent.tools.base import ToolError
from tests.faults.faulty_writes import missing

Opener = Callable[[Path, int], int]
LINUX = sys.platform.startswith("linux") and platform.machine() in ("x86_64", "aarch64")


def kernel_has_openat2() -> bool:
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY | os.O_CLOEXEC, 0, 0)
    descriptor = int(ctypes.CDLL(None).syscall(437, -100, b"/", ctypes.byref(how), ctypes.sizeof(how)))
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


def open_descriptors() -> list[int]:
    found: list[int] = []
    for descriptor in range(256):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            found.append(descriptor)
    return found


@contextlib.contextmanager
def nothing_stays_open() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


OPENERS = [open_by_walk, *([open_by_openat2] if has_openat2() else [])]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print(1)\n")
    (tmp_path / "proj_evil").mkdir()
    (tmp_path / "proj_evil" / "f").write_text("secret\n")
    return folder


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root, root / "src")


def test_T45_a_folder_whose_name_only_begins_alike_is_outside(workspace: Workspace, tmp_path: Path) -> None:
    for path in (f"{tmp_path}/proj_evil/f", "../../proj_evil/f", f"{tmp_path}/proj/../proj_evil/f"):
        real = workspace.resolve(path)
        assert real == (tmp_path / "proj_evil" / "f").resolve()
        assert not workspace.contains(real)
    assert workspace.contains(workspace.root)
    assert workspace.contains(workspace.resolve("not/there/yet"))


def test_T46_links_are_followed_before_a_path_is_judged(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    evil = tmp_path / "proj_evil"
    (root / "file_link").symlink_to(evil / "f")
    (root / "folder_link").symlink_to(evil)
    (root / "dangling").symlink_to(evil / "missing")
    (root / "inner").symlink_to(root / "src")
    for path in ("../file_link", "../folder_link/f", "../dangling", "../folder_link/new/deep.txt"):
        assert not workspace.contains(workspace.resolve(path)), path
    assert workspace.resolve("../dangling") == evil.resolve() / "missing"
    assert workspace.resolve("../folder_link/new/deep.txt") == evil.resolve() / "new" / "deep.txt"
    assert workspace.contains(workspace.resolve("../inner/main.py"))


@pytest.mark.skipif(not Path("/proc/self/root").exists(), reason="no /proc")
def test_T46_magic_links_resolve_to_what_they_stand_for(workspace: Workspace, tmp_path: Path) -> None:
    evil = tmp_path / "proj_evil" / "f"
    assert workspace.resolve(f"/proc/self/root{evil}") == evil.resolve()
    with evil.open() as file:
        assert workspace.resolve(f"/proc/self/fd/{file.fileno()}") == evil.resolve()


def test_readable_folders_count_for_reading_alone(root: Path, tmp_path: Path) -> None:
    spills, more = tmp_path / "spills", tmp_path / "more"
    workspace = Workspace(root, root, extra=(more,), readable=(spills,))
    assert workspace.contains(spills / "a.txt", reading=True)
    assert not workspace.contains(spills / "a.txt")
    assert workspace.contains(more / "b.txt")


def test_names_that_differ_in_case_and_form_are_one_where_the_file_system_says_so(root: Path) -> None:
    folding = Workspace(root, root, folds_case=True)
    assert folding.contains(Path(str(root).upper()) / "X")
    assert Workspace(root / "e\u0301", root, folds_case=True).contains(root / "\u00c9" / "x")
    assert not Workspace(root, root, folds_case=False).contains(Path(str(root).upper()) / "X")
    assert Workspace(root, root).contains(Path(str(root).upper())) is (sys.platform == "darwin")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", r'The path "a\\u0000b" holds a NUL'),
        ("x" * 300, "300 bytes"),
        ("x" * 256, "256 bytes"),
        ("ü" * 150, "300 bytes"),
        ("a/" * 3000, "bytes long"),
        ("bad\ud800name", "surrogate"),
        ("loop1", "loop"),
        ("main.py/x", "not a folder"),
    ],
)
def test_T48_impossible_paths_get_a_clear_error(workspace: Workspace, root: Path, path: str, words: str) -> None:
    (root / "src" / "loop1").symlink_to("loop2")
    (root / "src" / "loop2").symlink_to("loop1")
    with pytest.raises(ToolError, match=words) as caught:
        workspace.resolve(path)
    caught.value.text.encode()


def test_home_is_expanded(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert workspace.resolve("~/proj_evil/f") == (tmp_path / "proj_evil" / "f").resolve()
    assert workspace.resolve("~no-such-user/x") == workspace.cwd / "~no-such-user" / "x"


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1b[31mb", "-rf", "caf\udce9", "ü" * 127, "👩‍💻 x", '"quoted"', " blank ", "a\\b"]
)
def test_T54_odd_names_are_shown_on_one_line_and_can_be_given_back(workspace: Workspace, root: Path, name: str) -> None:
    real = Path(os.fsdecode(os.fsencode(root / "src"))) / name
    real.write_text("x")
    shown = workspace.display(real)
    assert shown.isprintable()
    shown.encode()
    path_key(real).encode()
    import msgspec

    given = msgspec.json.decode(shown) if shown.startswith('"') else shown
    with workspace.open_file(workspace.resolve(given)) as opened:
        assert os.read(opened.fd, 10) == b"x"


def test_a_shown_path_is_relative_to_where_relative_paths_start(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    assert workspace.display(workspace.cwd) == "."
    assert workspace.display(workspace.cwd / "main.py") == "main.py"
    assert workspace.display(workspace.root / "README") == "../README"
    assert workspace.display(tmp_path / "other") == str(tmp_path / "other")
    assert Workspace(root, root, extra=(tmp_path / "more",)).display(tmp_path / "more") == str(tmp_path / "more")
    assert workspace.resolve(workspace.display(workspace.root / "README")) == workspace.root / "README"


def test_a_missing_file_names_what_could_be_meant_but_only_inside(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    (root / "setup.cfg").write_text("")
    with pytest.raises(ToolError, match=r"Did you mean main\.py\?"):
        workspace.open_file(workspace.resolve("mian.py"))
    with pytest.raises(ToolError, match=r"Did you mean \.\./setup\.cfg\?"):
        workspace.open_file(workspace.resolve("setup.cfg"))
    with pytest.raises(ToolError, match=r"deepest folder that exists is `.`"):
        workspace.open_file(workspace.resolve("lib/x/y.py"))
    with pytest.raises(ToolError) as caught:
        workspace.open_file(workspace.resolve(str(tmp_path / "proj_evil" / "ff")))
    assert "Did you mean" not in caught.value.text


def test_T47_special_files_are_refused_at_once_without_opening_them(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "fifo_link").symlink_to(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        short = os.open(root, os.O_RDONLY)
        try:
            # A socket's path is limited to about 100 bytes.
            server.bind(f"/proc/self/fd/{short}/sock" if len(str(root)) > 80 else str(root / "sock"))
        finally:
            os.close(short)
        cases = {
            "../fifo": "FIFO",
            "../fifo_link": "FIFO",
            "../sock": "socket",
            "..": "List it with glob",
            "/dev/zero": "character device",
            "/dev/tty": "character device",
            "/dev/stdin": "device|FIFO|folder|not exist|file",
        }
        if Path("/proc/kmsg").exists():  # a regular file by its mode, which waits for news
            cases["/proc/kmsg"] = "stream of the kernel"
        for path, words in cases.items():
            start = time.monotonic()
            with pytest.raises(ToolError, match=words):
                workspace.open_file(workspace.resolve(path))
            assert time.monotonic() - start < 5, path


def test_T47_only_the_kernels_own_streams_are_refused(workspace: Workspace, root: Path) -> None:
    (root / "kmsg").write_text("x")
    workspace.check_regular(root / "kmsg")
    if Path("/proc/version").exists():
        workspace.check_regular(Path("/proc/version"))
    if os.access("/sys/kernel/tracing/trace_pipe", os.F_OK):
        with pytest.raises(ToolError, match="stream of the kernel"):
            workspace.check_regular(Path("/sys/kernel/tracing/trace_pipe"))


def test_a_folder_is_open_as_long_as_it_is_used(workspace: Workspace, root: Path) -> None:
    with workspace.folder(workspace.root) as fd:
        assert os.fstat(fd).st_ino == workspace.root.stat().st_ino
    with pytest.raises(OSError):
        os.fstat(fd)
    (root / "link").symlink_to(root / "src")
    for name, words in (("src/main.py", r"^main\.py is not a folder"), ("link", "link is not a folder")):
        with pytest.raises(ToolError, match=words), workspace.folder(workspace.root / name):
            pass
    with pytest.raises(ToolError, match=r"The folder srd does not exist\."), workspace.folder(workspace.cwd / "srd"):
        pass


@pytest.mark.skipif(not LINUX, reason="no system where it may be called")
def test_R28_the_kernel_is_asked_where_it_can_be() -> None:
    has_openat2.cache_clear()
    with nothing_stays_open():
        assert has_openat2() is kernel_has_openat2()


@pytest.mark.parametrize("opener", OPENERS)
def test_R28_no_link_in_any_component_is_followed(opener: Opener, root: Path, tmp_path: Path) -> None:
    evil = (tmp_path / "proj_evil").resolve()
    real_root = root.resolve()
    (real_root / "file_link").symlink_to(evil / "f")
    (real_root / "folder_link").symlink_to(evil)
    with nothing_stays_open():
        os.close(opener(real_root / "src" / "main.py", os.O_RDONLY))
        os.close(opener(Path("/"), os.O_RDONLY | os.O_DIRECTORY))
    paths = [real_root / "file_link", real_root / "folder_link" / "f", Path(f"/proc/self/root{evil}/f")]
    for path in paths:
        with nothing_stays_open(), pytest.raises(OSError):
            opener(path, os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        opener(real_root / "none", os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        opener(real_root / "src" / "main.py" / "x", os.O_RDONLY)


@pytest.mark.parametrize("opener", OPENERS)
def test_G17_a_folder_swapped_for_a_link_never_leads_outside(opener: Opener, root: Path, tmp_path: Path) -> None:
    inside, evil = root.resolve() / "d", (tmp_path / "proj_evil").resolve()
    inside.mkdir()
    (inside / "f").write_text("inside\n")
    done = threading.Event()

    def swap() -> None:
        aside, link = root / "aside", root / "link"
        link.symlink_to(evil)
        while not done.is_set():
            inside.rename(aside)
            link.rename(inside)
            inside.rename(link)
            aside.rename(inside)

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes = {"inside\n": 0, "": 0}
    try:
        for _ in range(2_000):
            try:
                fd = opener(inside / "f", os.O_RDONLY)
            except OSError:
                outcomes[""] += 1
                continue
            text = os.read(fd, 100).decode()
            os.close(fd)
            outcomes[text] = outcomes.get(text, 0) + 1
    finally:
        done.set()
        swapper.join()
    assert set(outcomes) == {"inside\n", ""}, outcomes


def test_folders_are_made_beneath_and_removed_again_if_that_fails(root: Path) -> None:
    real_root = root.resolve()
    with nothing_stays_open():
        fd, made = make_folder(real_root / "a" / "b")
        os.close(fd)
    assert made == [real_root / "a", real_root / "a" / "b"]
    (real_root / "link").symlink_to("/")
    with pytest.raises(OSError):
        make_folder(real_root / "link" / "x")
    with nothing_stays_open(), pytest.raises(OSError):
        make_folder(real_root / "p" / "q" / ("n" * 300))
    assert not (real_root / "p").exists()


def test_an_opened_file_is_the_file_and_closes(workspace: Workspace) -> None:
    with workspace.open_file(workspace.resolve("main.py")) as opened:
        assert stat.S_ISREG(opened.stat.st_mode)
        assert not os.get_inheritable(opened.fd)
        fd = opened.fd
    with pytest.raises(OSError):
        os.fstat(fd)
    opened.close()
    os.close(open_real(workspace.cwd / "main.py", os.O_RDONLY))


def test_plain_names_stand_as_they_are() -> None:
    assert show_name("src/a b.py") == "src/a b.py"
    assert show_name("é.py") == path_key("é.py") == "é.py"
    assert [show_name(name) for name in ('"a"', " a", "a ", 'b"a')] == ['"\\"a\\""', '" a"', '"a "', 'b"a']
    assert show_name("a\uffff") == '"a\\uffff"'
    assert show_name("a\udce9") == '"a\\\\xe9"'
    assert show_name("a\x1b😀\U000e0041") == '"a\\u001b😀\\udb40\\udc41"'


def test_what_cannot_be_encoded_is_written_out_and_read_back() -> None:
    assert printable("aé\udc80\udcff\ud800\udc7f\udd00") == "aé\\x80\\xff\\ud800\\udc7f\\udd00"
    assert from_escaped("a\\x80é\\xff") == "a\udc80é\udcff"
    assert from_escaped("a\\x7f") is from_escaped("é") is None


def test_how_long_a_path_may_be() -> None:
    check_length("/" + "ab/" * 1_365, "p")
    check_length("x" * 255, "p")
    for path in ("/" + "ab/" * 1_365 + "c", "x" * 256, "ü" * 128):
        with pytest.raises(ToolError, match="bytes long"):
            check_length(path, "p")


def test_what_a_failed_call_says() -> None:
    for error, text in (
        (OSError(errno.ENOENT, "No such file"), "a does not exist."),
        (
            OSError(errno.EPERM, "Not permitted"),
            "No permission to read a. Ask the user to change its owner or mode, or use",
        ),
        (OSError(errno.EBUSY, "Device busy"), "Could not read a: Device busy."),
        (OSError("odd"), "Could not read a: odd."),
    ):
        assert os_error(error, "a", "read").text.startswith(text)


def test_what_a_file_is_called() -> None:
    kinds = {
        stat.S_IFDIR: "folder", stat.S_IFIFO: "FIFO (named pipe)", stat.S_IFSOCK: "socket", stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device", stat.S_IFLNK: "symbolic link", stat.S_IFREG: "file",
    }  # fmt: skip
    assert {mode: kind_of(mode | 0o644) for mode in kinds} == kinds


@pytest.mark.skipif(not LINUX or not has_openat2(), reason="there is no openat2 here")
@pytest.mark.parametrize(
    ("system", "machine", "asked"),
    [("linux", "x86_64", True), ("linux", "aarch64", True), ("linux", "mips", False), ("darwin", "x86_64", False)],
)
def test_R28_a_system_without_the_call_is_not_asked_for_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, asked: bool
) -> None:
    real_root = root.resolve()
    (real_root / "link").symlink_to(real_root / "src")
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "", "", "", machine)))
    has_openat2.cache_clear()
    try:
        assert has_openat2() is asked
        os.close(open_real(real_root / "src" / "main.py", os.O_RDONLY))
        with pytest.raises(OSError):
            open_real(real_root / "link" / "main.py", os.O_RDONLY)
    finally:
        has_openat2.cache_clear()


OPENED = """
import os, sys
from pathlib import Path
from agent.permissions import opening
assert opening.has_openat2()
print(os.read(getattr(opening, sys.argv[1])(Path(sys.argv[2]), os.O_RDONLY), 100).decode())
"""


@pytest.mark.skipif(bool(missing()), reason="strace does not work here")
@pytest.mark.skipif(not has_openat2(), reason="there is no openat2 here")
@pytest.mark.parametrize(("opener", "when"), [("open_real", "2+"), ("open_by_openat2", "2..4")])
def test_R28_where_the_kernel_asks_to_try_again_for_ever_the_walk_opens_it(root: Path, opener: str, when: str) -> None:
    fault = ["-e", "trace=openat2", "-e", f"inject=openat2:error=EAGAIN:when={when}"]
    argv = ["strace", "-qq", "-f", "-o", "/dev/null", *fault]
    argv += [sys.executable, "-c", OPENED, opener, str(root / "src" / "main.py")]
    done = subprocess.run(argv, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("print(1)\n\n", "")

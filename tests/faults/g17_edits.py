"""Gate G17: edits change what they name and nothing else, and no race leads a file tool out of its folder."""

import asyncio
import codecs
import contextlib
import os
import random
import shutil
import stat
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agent.tools.base import Tool, ToolError
from agent.tools.edit import Edit
from agent.tools.glob import Glob
from agent.tools.grep import Grep
from agent.tools.read import Read
from agent.tools.write import Write
from tests.agent.tools.file_calls import Calls
from tests.fakes import swapper
from tests.faults.gate import Gate, Reading

EDITS, RACES = 500, 10_000
_MANY = 100
_BOMS = {
    "utf-8-sig": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
_WORDS = {
    "utf": ("über", "naïve “quote”", "日本語", "👩‍💻", "e\u0301", "\u2028"),
    "latin-1": ("über", "naïve", "ÿ"),
    "cp1252": (
        "über",
        "“quote” – €",
    ),
    "shift-jis": ("日本語", "表示。", "ソ"),
    "gbk": ("中文", "编码"),
    "euc-kr": ("한국어",),
    "koi8-r": ("привет",),
    "damaged": ("über äöüß", "naïve"),
    "ascii": ("plain",),
}
ENCODINGS = (*_BOMS, "utf-8", *list(_WORDS)[1:])
LINE_ENDS = (("\n",), ("\r\n",), ("\r",), ("\n", "\r\n"), ("\n", "\r\n", "\r"))
MODES = (0o644, 0o600, 0o755, 0o640, 0o664, 0o400 | 0o200, 0o4755, 0o2755)
LINKS = ("none", "soft", "hard", "chain")
_NOBODY = 65534


class Case(NamedTuple):
    """One file as it is before an edit."""

    encoding: str
    before: bytes
    """What stands in front of the place that is edited."""
    after: bytes
    mode: int
    link: str
    owner: tuple[int, int]
    attributes: dict[str, bytes]


def make_case(chance: random.Random) -> Case:
    encoding = chance.choice(ENCODINGS)
    ends = chance.choice(LINE_ENDS)
    words = _WORDS.get(encoding) or _WORDS["utf"]

    def text() -> str:
        lines = []
        for _ in range(chance.randint(0, 12)):
            line = " ".join(chance.choice((*words, "x = 1", "\tend", "")) for _ in range(chance.randint(0, 5)))
            lines.append(line + chance.choice(ends))
        return "".join(lines) + chance.choice(("", chance.choice(words)))

    def encoded(part: str) -> bytes:
        if encoding == "damaged":
            data = part.encode()
            return data + b"\xff\xc3" + data if chance.random() < 0.5 else data
        return part.encode(encoding.removesuffix("-sig"))

    owner = (chance.choice((0, _NOBODY)), chance.choice((0, _NOBODY))) if os.geteuid() == 0 else (-1, -1)
    attributes = {"user.claw.test": b"kept \0 whole"} if chance.random() < 0.5 else {}
    if chance.random() < 0.3:
        attributes["system.posix_acl_access"] = _acl(chance.randint(1, 60_000))
    before = _BOMS.get(encoding, b"") + encoded(text())
    return Case(encoding, before, encoded(text()), chance.choice(MODES), chance.choice(LINKS), owner, attributes)


def edit_once(seed: int) -> str:
    """Edit a file of a random kind in a folder of its own: "" or what was not as it has to be."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_edit_in(Path(folder), make_case(chance), chance))


async def _edit_in(folder: Path, case: Case, chance: random.Random) -> str:
    codec = case.encoding.removesuffix("-sig") if case.encoding != "damaged" else "utf-8"
    file = folder / "file.txt"
    file.write_bytes(case.before + "<<here>>".encode(codec) + case.after)
    name = _place(folder, file, case)
    expected = _state(file)
    new = "".join(chance.choice(("a", "Z", " ", "\n", "\n\n", "x = 2")) for _ in range(chance.randint(1, 6)))
    first, second = {"old": "<<here>>", "new": "<<there>>"}, {"old": "<<there>>", "new": new}
    edits = [first, second] if chance.random() < 0.3 else [{"old": "<<here>>", "new": new}]
    try:
        await Calls(folder).run(Edit(), path=name, edits=edits)
    except ToolError as error:
        return f"refused: {error.text}"
    data = file.read_bytes()
    if not (data.startswith(case.before) and data.endswith(case.after)):
        return "bytes outside the edit changed"
    middle = data[len(case.before) : len(data) - len(case.after)].decode(codec)
    if middle.replace("\r\n", "\n").replace("\r", "\n") != new:
        return f"wrote {middle!r} for {new!r}"
    if (found := _state(file)) != expected:
        return f"{found} instead of {expected}"
    names = {"none": 1, "soft": 2, "hard": 2, "chain": 3}[case.link]
    return "" if len(list(folder.iterdir())) == names else "something stayed beside the file"


def _place(folder: Path, file: Path, case: Case) -> str:
    """Give the file all that it has besides its content; the name by which it is edited."""
    if case.owner != (-1, -1):
        os.chown(file, *case.owner)
    for name, value in case.attributes.items():
        with contextlib.suppress(OSError):  # a file system without them
            os.setxattr(file, name, value)
    file.chmod(case.mode)
    match case.link:
        case "soft":
            (folder / "soft").symlink_to("file.txt")
        case "hard":
            (folder / "hard").hardlink_to(file)
        case "chain":
            (folder / "one").symlink_to(file)
            (folder / "chain").symlink_to("one")
        case _:
            return file.name
    return case.link


def _state(file: Path) -> dict[str, Any]:
    """What has to stay, with the inode where further names hang on it."""
    status = file.lstat()
    inode = status.st_ino if status.st_nlink > 1 else None
    kept = {name: os.getxattr(file, name) for name in os.listxattr(file)}
    links = {entry.name: os.readlink(entry) for entry in file.parent.iterdir() if entry.is_symlink()}  # noqa: PTH115
    return {
        "mode": stat.filemode(status.st_mode),
        "owner": (status.st_uid, status.st_gid),
        "links": (status.st_nlink, inode, links),
        "attributes": kept,
    }


def _acl(user: int) -> bytes:
    """An access list that lets one more user read."""
    entries = (
        (0x01, 6, 0xFFFFFFFF),
        (0x02, 4, user),
        (0x04, 4, 0xFFFFFFFF),
        (0x10, 4, 0xFFFFFFFF),
        (0x20, 4, 0xFFFFFFFF),
    )
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


# --------------------------------------------------------------------------- races


class Attack(NamedTuple):
    """A call that is raced against; one in `every` iterations."""

    name: str
    tool: Callable[[], Tool]
    params: Callable[[int], dict[str, Any]]
    every: int = 1


ATTACKS = (
    Attack("read", Read, lambda _: {"path": "d/f"}),
    Attack("read a swapped file", Read, lambda _: {"path": "g"}),
    Attack("edit", Edit, lambda _: {"path": "d/f", "edits": [{"old": "one", "new": "one1"}]}),
    Attack("edit a swapped file", Edit, lambda _: {"path": "g", "edits": [{"old": "one", "new": "one1"}]}),
    Attack("write", Write, lambda number: {"path": f"d/w{number % 7}", "content": str(number)}),
    Attack("write with folders", Write, lambda number: {"path": f"d/n{number % 7}/w", "content": str(number)}),
    Attack("grep", Grep, lambda _: {"pattern": "^one"}, 20),
    Attack("grep the folder", Grep, lambda _: {"pattern": "^one", "path": "d"}, 20),
    Attack("grep the file", Grep, lambda _: {"pattern": "^one", "path": "d/f"}, 20),
    Attack("glob", Glob, lambda _: {"pattern": "**"}, 20),
    Attack("grep without rg", lambda: Grep(without_rg=True), lambda _: {"pattern": "^one"}, 100),
    Attack("glob without rg", lambda: Glob(without_rg=True), lambda _: {"pattern": "**", "path": "d"}, 100),
)


class Outcomes(NamedTuple):
    made: Counter[str]
    """Calls that ended well, by attack."""
    refused: Counter[str]
    escapes: Counter[str]


@contextlib.contextmanager
def battlefield() -> Iterator[tuple[Path, Path]]:
    """A project in which a folder and a file change places with links out of it all the time, and what lies outside."""
    with tempfile.TemporaryDirectory() as made:
        root, outside = Path(made) / "proj", Path(made) / "outside"
        for folder, word in ((root / "d", "inside"), (outside, "SECRET")):
            (folder / "sub").mkdir(parents=True)
            (folder / "f").write_text(f"one {word}\n")
            (folder / "sub" / "f").write_text(f"one {word}\n")
        (outside / "secret_name").write_text("one SECRET\n")
        (root / "g").write_text("one inside\n")
        (root / "link").symlink_to(outside)
        (root / "glink").symlink_to(outside / "f")
        with swapper.swapping(root, ("d", "link"), ("g", "glink")):
            yield root, outside


async def race(iterations: int) -> Outcomes:
    """Each iteration is one call of each kind whose turn it is, judged first and then run, as a session does."""
    outcomes = Outcomes(Counter(), Counter(), Counter())
    with battlefield() as (root, outside):
        before = _all_below(outside)
        for number in range(iterations):
            for attack in ATTACKS:
                if number % attack.every == 0:
                    await _attack(attack, number, root, outcomes)
            if _all_below(outside) != before:
                outcomes.escapes["changed outside"] += 1
                before = _all_below(outside)
    return outcomes


async def _attack(attack: Attack, number: int, root: Path, outcomes: Outcomes) -> None:
    calls, tool = Calls(root), attack.tool()
    values, context = msgspec.convert(attack.params(number), tool.params), calls.context()
    try:
        access = tool.access(values, context)
        if not all(calls.workspace.contains(path) for path in access.paths):
            outcomes.refused[attack.name] += 1  # the gate would ask
            return
        text = (await tool.run(values, context)).text
        outcomes.made[attack.name] += 1
    except ToolError as error:
        text = error.text
        outcomes.refused[attack.name] += 1
    if "SECRET" in text or "secret_name" in text:
        outcomes.escapes[attack.name] += 1


def _all_below(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def measure(share: float) -> Reading:
    wanted = max(len(ENCODINGS), round(EDITS * share))
    wrong = [fault for seed in range(wanted) if (fault := edit_once(seed))]
    iterations = max(20, round(RACES * share))
    outcomes = asyncio.run(race(iterations))
    escapes = sum(outcomes.escapes.values())
    # A race in which nobody ever gets through, or always, is none.
    met = all(outcomes.made[a.name] for a in ATTACKS if outcomes.made[a.name] + outcomes.refused[a.name] >= _MANY)
    reached = (
        f"{wanted - len(wrong):,} of {wanted:,} edits byte-identical outside, mode, owner, links and attributes kept; "
        f"{iterations:,} race iterations ({outcomes.made.total():,} calls ended, {outcomes.refused.total():,} refused), "
        f"{escapes} escapes"
    )
    if wrong:
        reached += f"; first fault: {wrong[0][:200]}"
    return Reading(reached, not wrong and not escapes and met and outcomes.refused.total() > 0)


def _needs() -> str:
    if shutil.disk_usage(tempfile.gettempdir()).free < 1 << 24:
        return "16 MiB of space for temporary files"
    return swapper.missing()


GATE = Gate(
    "G17",
    "Edits",
    "500 of 500 edits byte-identical outside the edit, mode, owner and links kept; 10,000 race iterations, 0 escapes",
    "writing a temporary file and renaming it alone loses mode, owner and hard links",
    measure,
    _needs,
)

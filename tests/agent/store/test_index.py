import asyncio
import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.store import sessions
from agent.store.base import SessionMeta
from agent.store.index import BATCH, SessionIndex
from agent.store.lock import SessionBusyError, SessionLock, is_locked
from agent.store.preview import last_messages
from agent.store.removal import Removal
from agent.store.schema import SchemaError
from agent.store.session_file import SessionFile
from agent.store.titles import MOST_CHARS, as_title, rename, title_of
from agent.transcript import Assistant, Compaction, Entry, Payload, Result, Rewind, Setting, Transcript, User
from providers.types import TextBlock, ToolCall, Usage

ROOT = Path(__file__).parents[3]


class Place:
    """A data folder with sessions that are written one after the other."""

    def __init__(self, root: Path, *, full_text: bool | None = None) -> None:
        self.folder = root / "sessions"
        self.file = root / "index.db"
        self.spills = root / "spills"
        self.index = SessionIndex(self.folder, self.file, full_text=full_text)
        self._number = 0

    def add(self, *payloads: Payload, project: str = "/p", name: str = "") -> Path:
        self._number += 1
        id_ = name or f"20260101-{self._number:06}-abcd"
        store = SessionFile(self.folder / f"{id_}.db", SessionMeta(id_, project, 1_000 * self._number))
        store.append([Entry(key, key - 1 or None, 10_000 * self._number + key, p) for key, p in enumerate(payloads, 1)])
        store.close()
        os.utime(store.path, (self._number, self._number))
        return store.path

    def go_on(self, path: Path, *payloads: Payload) -> None:
        store, loaded = sessions.open_session(path, ignore)
        head = loaded.entries[-1].key
        for key, payload in enumerate(payloads, head + 1):
            store.append([Entry(key, key - 1, 1_000_000 + key, payload)])
        store.close()

    def titles(self) -> list[str]:
        return [info.title for info in self.index.complete()[0]]

    def found(self, words: str) -> list[tuple[str, int]]:
        return [(hit.session, hit.key) for hit in self.index.search(words)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def ignore(text: str) -> None:
    raise AssertionError(text)


def user(text: str) -> User:
    return User((TextBlock(text),))


def reply(text: str, cost: float | None = 0.5, **usage: int) -> Assistant:
    call = ToolCall("c", "bash", '{"command": "make zebra"}')
    return Assistant(
        (TextBlock(text), call), "p", "m", "anthropic", "f", None, Usage(**usage), "end_turn", cost_usd=cost
    )


# --------------------------------------------------------------------------- listing


def test_a_listing_has_titles_sums_and_the_last_written_first(place: Place) -> None:
    place.add(
        user("first\nmore"), reply("a", 0.25, input_tokens=10, cache_read_tokens=5, output_tokens=3), project="/a"
    )
    paid = Compaction("record", "summary", 1, "manual", 9, 1, usage=Usage(7, output_tokens=1), cost_usd=0.25)
    place.add(user("second"), reply("b", None), paid, Setting(title="Named"), project="/b")
    infos, problems = place.index.complete()
    assert problems == []
    newest, oldest = infos
    assert (newest.title, newest.entries, newest.tokens, newest.cost_usd, newest.project) == ("Named", 4, 8, 0.25, "/b")
    assert (oldest.title, oldest.entries, oldest.tokens, oldest.cost_usd) == ("first", 2, 18, 0.25)
    assert (oldest.created_ms, oldest.updated_ms, oldest.is_known) == (1_000, 10_002, True)
    assert oldest.size_bytes == (place.folder / f"{oldest.id}.db").stat().st_size


def test_what_is_not_known_yet_is_listed_by_name_and_time_and_no_file_is_opened(place: Place) -> None:
    paths = [place.add(user(f"question {number}")) for number in range(BATCH + 3)]
    whole = {path: path.read_bytes() for path in paths}
    for number, path in enumerate(paths):
        path.write_bytes(b"cannot be read")
        os.utime(path, (number + 1, number + 1))
    listing = place.index.listing()
    assert [info.id for info in listing.sessions] == [path.stem for path in reversed(paths)]
    assert not any(info.is_known or info.title for info in listing.sessions) and listing.problems == ()
    assert listing.sessions[0].created_ms == int(time.mktime(time.strptime("20260101-000028", "%Y%m%d-%H%M%S")) * 1000)
    for number, path in enumerate(paths):
        path.write_bytes(whole[path])
        os.utime(path, (number + 1, number + 1))
    listing = place.index.listing()
    batches = list(place.index.refresh(listing))
    assert [len(batch.sessions) for batch in batches] == [BATCH, 3]
    assert batches[0].sessions[0].title == f"question {BATCH + 2}"
    assert place.index.listing().waiting == () and place.index.listing().sessions[0].is_known
    assert {file.suffix for file in place.folder.iterdir()} == {".db", ".lock"}, "nothing is left beside them"


def test_only_what_is_new_in_a_session_is_read_again(place: Place) -> None:
    path = place.add(user("the first question"), reply("an answer", 1.0))
    assert place.titles() == ["the first question"]
    # A row that was read before is not looked at again: it could not be read now.
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE entry SET payload = 'garbage' WHERE key = 1")
        connection.commit()
    place.go_on(path, reply("a rhinoceros", 0.5), Setting(title="Renamed"))
    ((info,), problems) = place.index.complete()
    assert (info.title, info.entries, info.cost_usd, problems) == ("Renamed", 4, 1.5, [])
    assert place.found("first question") == [(path.stem, 1)] and place.found("rhinoceros") == [(path.stem, 3)]


def test_another_session_under_the_same_name_is_read_anew(place: Place) -> None:
    path = place.add(user("an old walrus"), reply("x"), reply("y"))
    other = place.add(user("a new ocelot"), name="other")
    place.index.complete()
    path.write_bytes(other.read_bytes())
    assert sorted(place.titles()) == ["a new ocelot", "a new ocelot"]
    assert place.found("walrus") == [] and {id_ for id_, _ in place.found("ocelot")} == {path.stem, "other"}


def test_what_was_removed_by_hand_is_gone_from_listing_and_search(place: Place) -> None:
    path = place.add(user("a walrus"))
    place.add(user("an ocelot"))
    place.index.complete()
    path.unlink()
    assert place.found("walrus") == []
    assert place.titles() == ["an ocelot"]
    with contextlib.closing(sqlite3.connect(place.file)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM session").fetchone() == (1,)
        assert connection.execute("SELECT COUNT(*) FROM page").fetchone() == (1,)


def test_a_session_whose_place_is_taken_is_not_given_up(place: Place) -> None:
    path, _ = place.add(user("a walrus")), place.add(user("an ocelot"))
    place.index.complete()
    aside = path.rename(path.with_suffix(".aside"))
    assert place.index.listing().gone == (path.stem,)
    path.mkdir()
    assert place.index.listing().gone == () and place.titles() == ["an ocelot"]
    path.rmdir()
    aside.rename(path)
    assert place.index.listing().waiting == () and place.found("walrus") == [(path.stem, 1)]


def test_T92_each_kind_of_bad_file_is_told_and_hides_no_other(place: Place) -> None:
    good = place.add(user("good"))
    damaged, newer = place.add(user("x " * 20_000)), place.add(user("newer"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:8192] + b"A" * (len(whole) - 8192))
    with contextlib.closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    (place.folder / "empty.db").touch()
    (place.folder / "folder.db").mkdir()
    os.mkfifo(place.folder / "pipe.db")
    (place.folder / "link.db").symlink_to("/nowhere")
    for _ in range(2):
        infos, problems = place.index.complete()
        # What a newer claw wrote is read as far as it can be.
        assert {info.id for info in infos} == {good.stem, newer.stem}
        told = "\n".join(problems)
        for name in (damaged.name, "empty.db", "folder.db", "pipe.db", "link.db"):
            assert name in told, name
        assert len(problems) == 5 and "no regular file" in told
    with pytest.raises(SchemaError, match="no regular file"):
        sessions.load(place.folder / "pipe.db")
    with pytest.raises(sessions.SessionNotFoundError):
        sessions.find(place.folder, "pipe")


def test_no_sessions_no_index(place: Place) -> None:
    assert place.index.complete() == ([], []) and not place.file.exists() and place.index.search("anything") == []
    place.index.note(place.folder / "none.db")
    assert not place.folder.exists()


def test_T98_the_index_is_private_whatever_the_umask(place: Place) -> None:
    place.add(user("x"))
    old = os.umask(0)
    try:
        place.index.complete()
        with contextlib.closing(sqlite3.connect(place.file)) as connection:
            connection.execute("SELECT * FROM session").fetchall()
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in place.file.parent.glob("index.db*")}
    finally:
        os.umask(old)
    assert len(modes) > 1 and set(modes.values()) == {0o600}


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut", "pages", "other database", "another layout", "search"])
def test_a_damaged_index_is_made_anew_and_nobody_notices(place: Place, damage: str) -> None:
    paths = [place.add(user(f"question {number} " + "word " * 2_000)) for number in range(12)]
    titles = place.titles()
    whole = place.file.read_bytes()
    assert len(whole) > 8192
    match damage:
        case "garbage":
            place.file.write_bytes(b"no database at all" * 1_000)
        case "empty":
            place.file.write_bytes(b"")
        case "cut":
            place.file.write_bytes(whole[: len(whole) // 2])
        case "pages":
            place.file.write_bytes(whole[:4096] + b"A" * (len(whole) - 4096))
        case "other database" | "another layout" | "search":
            place.file.unlink(missing_ok=damage == "other database")
            with contextlib.closing(sqlite3.connect(place.file)) as connection:
                connection.execute("CREATE TABLE session (hello TEXT)")
                connection.execute(f"PRAGMA user_version = {99 if damage == 'another layout' else 1}")
    again = SessionIndex(place.folder, place.file)
    assert [info.title for info in again.complete()[0]] == titles
    assert again.search("question 7")[0].session == paths[7].stem
    assert SessionIndex(place.folder, place.file).listing().waiting == ()


@pytest.mark.parametrize("obstacle", ["folder", "pipe", "read-only"])
def test_where_no_index_can_be_written_everything_works_from_memory(place: Place, obstacle: str) -> None:
    place.add(user("a walrus"))
    if obstacle == "folder":
        place.file.mkdir()
    elif obstacle == "pipe":
        os.mkfifo(place.file)
    else:
        place.index.complete()
        place.add(user("an ocelot"))
        place.file.chmod(0o400)
        place.file.parent.chmod(0o500)
    try:
        assert place.titles()[-1] == "a walrus"
        assert len(place.found("walrus")) == 1
    finally:
        place.file.parent.chmod(0o700)
    place.index.close()


def test_the_newest_of_a_project_is_found_behind_many_others_without_opening_them(place: Place) -> None:
    mine = [place.add(user("mine"), project="/mine") for _ in range(2)][-1]
    others = [place.add(user("other"), project="/other") for _ in range(20)]
    place.index.complete()
    stats = {path: path.stat() for path in others}
    for path, status in stats.items():  # what is known by its stamp is not looked into
        path.write_bytes(b"x" * status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert sessions.newest(place.folder, Path("/mine"), place.index) == mine
    assert sessions.newest(place.folder, Path("/mine")) == mine
    assert sessions.newest(place.folder, Path("/nobody"), place.index) is None
    late = place.add(user("mine again"), project="/mine")
    assert sessions.newest(place.folder, Path("/mine"), place.index) == late


# --------------------------------------------------------------------------- several processes


WRITER = """
import sys
from pathlib import Path
from agent.store.index import SessionIndex
index = SessionIndex(Path(sys.argv[1]), Path(sys.argv[2]))
for _ in range(6):
    infos, problems = index.complete()
    assert not problems, problems
    index.forget([info.id for info in infos if info.id.endswith(sys.argv[3])])
print(len(index.complete()[0]))
"""


def test_several_processes_write_the_index_at_once_without_damage(place: Place) -> None:
    for number in range(40):
        place.add(user(f"question {number}"), reply("word " * 50), name=f"20260101-0000{number:02}-{number % 4}")
    argv = [sys.executable, "-c", WRITER, str(place.folder), str(place.file)]
    processes = [
        subprocess.Popen([*argv, f"-{n}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    for process in processes:
        out, err = process.communicate(timeout=50)
        assert (process.returncode, out.strip()) == (0, "40"), err
    assert len(place.titles()) == 40
    with contextlib.closing(sqlite3.connect(place.file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        assert connection.execute("SELECT COUNT(*) FROM page").fetchone() == (80,)


def test_a_session_that_is_written_meanwhile_is_listed_with_what_is_on_disk(place: Place) -> None:
    path = place.add(user("question"))
    store, _ = sessions.open_session(path, ignore)
    counts: list[int] = []
    for key in range(2, 8):
        store.append([Entry(key, key - 1, key, reply(f"walrus {key}"))])
        asyncio.run(store.durable(key))
        counts.append(place.index.complete()[0][0].entries)
    store.close()
    assert counts == [2, 3, 4, 5, 6, 7] and len(place.found("walrus")) == 6


def test_while_another_process_holds_the_index_it_is_read_and_closing_does_not_wait(place: Place) -> None:
    path = place.add(user("question"))
    place.index.complete()
    place.go_on(path, Setting(title="Renamed"))
    with contextlib.closing(sqlite3.connect(place.file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        place.index.note(path)
        assert time.monotonic() - started < 3
        assert place.index.listing().sessions[0].title == "question"
        holder.execute("ROLLBACK")
    assert place.titles() == ["Renamed"]


def test_a_session_enters_the_index_when_it_closes_unless_that_would_take_long(place: Place) -> None:
    store = sessions.new_session(place.folder, Path("/p"), ignore, place.index.note)
    store.append([Entry(1, None, 1, user("a walrus"))])
    store.close()
    assert place.index.listing().waiting == () and place.found("walrus") == [(store.path.stem, 1)]
    never = sessions.new_session(place.folder, Path("/p"), ignore, place.index.note)
    never.close()
    assert len(place.index.listing().sessions) == 1
    big, loaded = sessions.open_session(store.path, ignore, place.index.note)
    big.append([Entry(2, 1, 2, user("ocelot " * 1_000_000))])
    big.close()
    assert [file.id for file in place.index.listing().waiting] == [loaded.meta.id]


# --------------------------------------------------------------------------- search


@pytest.mark.parametrize("full_text", [None, False])
def test_search_finds_words_anywhere_in_any_case_and_script_with_and_without_fts5(
    tmp_path: Path, full_text: bool | None
) -> None:
    place = Place(tmp_path, full_text=full_text)
    result = Result("c", "read", (TextBlock('error: "a-b" * (c) OR NEAR'),), title="src/Parser.py")
    a = place.add(user("Repair the PARSER"), reply("Größe und 你好 世界"), result).stem
    b = place.add(user("the parser again"), reply("a tokenizer")).stem
    recalled = Result("c", "recall", (TextBlock("a parser that was recalled"),))
    place.go_on(place.folder / f"{b}.db", recalled)
    place.index.complete()
    assert place.found("parser") == [(b, 1), (a, 3), (a, 1)], "the newest first, earlier searches not at all"
    assert place.found("PARSER again") == [(b, 1)]
    assert place.found('"repair the parser"') == [(a, 1)]
    assert place.found("größe") == place.found("GRÖSSE".replace("SS", "ß")) == place.found("你好") == [(a, 2)]
    assert place.found("好 世") == [(a, 2)] and place.found("py") == [(a, 3)]
    assert place.found("zebra") == [(b, 2), (a, 2)], "what was called"
    assert place.found("repair tokenizer") == [] and place.found("parser tokenizer") == [(b, 2)]
    for odd in ('"a-b"', "a-b*", "(c)", '"', '""', "*", "OR", "NEAR", "a OR b", "' ; DROP", "\0", "%", "_x_", "\ud800"):
        assert isinstance(place.found(odd), list)
    assert (a, 3) in place.found("a-b") and (a, 3) in place.found("NEAR") and place.found("") == place.found("  ") == []


def test_a_hit_has_an_excerpt_around_it_and_numbers_are_limited(place: Place) -> None:
    place.add(*(user(f"{'before ' * 60}Walrus {n}{' behind' * 60}") for n in range(9)))
    place.add(user("walrus"))
    place.index.complete()
    hits = place.index.search("walrus 4")
    assert len(hits) == 1 and "Walrus 4 behind" in hits[0].excerpt and len(hits[0].excerpt) < 300
    assert hits[0].excerpt.startswith("…") and hits[0].excerpt.endswith("…") and "\n" not in hits[0].excerpt
    assert len(place.index.search("walrus")) == 10 and len(place.index.search("walrus", 3)) == 3
    assert len(place.index.search("walrus", each=1)) == 2
    assert place.index.search("walrus", within_s=60) == place.index.search("walrus")


def test_a_search_that_takes_too_long_finds_nothing_and_harms_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, full_text=False)
    place.add(*(user(f"walrus {number}") for number in range(6_000)))
    place.index.complete()
    assert place.index.search("walrus", within_s=-1) == []
    assert place.index.listing().waiting == () and len(place.index.search("walrus", 9, within_s=60)) == 9
    assert len(place.index.search("walrus", 1)) == 1 and place.index.search("walrus", -1) == []


def test_a_long_result_is_found_by_its_beginning_and_its_end(place: Place) -> None:
    text = "first_word\n" + "x = 1\n" * 50_000 + "last_word"
    place.add(user("go"), Result("c", "bash", (TextBlock(text),)))
    place.index.complete()
    assert place.found("first_word") and place.found("last_word")
    assert place.file.stat().st_size < 500_000


def test_T100_a_session_of_100_mb_is_listed_and_searched_in_bearable_time(place: Place) -> None:
    path = place.add(user("a walrus"))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        blob = (
            b'{"type":"result","call_id":"c","tool":"bash","blocks":[{"type":"text","text":"'
            + b"line\\n" * 90_000
            + b'"}]}'
        )
        for key in range(2, 180):
            connection.execute("INSERT INTO entry VALUES (?, ?, 'result', 5, ?)", (key, key - 1, blob))
        connection.execute(
            "INSERT INTO entry VALUES (180, 179, 'user', 6, ?)",
            (b'{"type":"user","blocks":[{"type":"text","text":"the ocelot"}]}',),
        )
        connection.commit()
    assert path.stat().st_size > 90_000_000
    started = time.process_time()
    ((info,), _) = place.index.complete()
    assert time.process_time() - started < 10 and info.entries == 180
    assert place.found("ocelot") == [(path.stem, 180)] and place.file.stat().st_size < 20_000_000
    started = time.process_time()
    assert len(place.index.complete()[0]) == 1 and [m.text for m in last_messages(path)] == ["a walrus", "the ocelot"]
    assert time.process_time() - started < 2


# --------------------------------------------------------------------------- titles


@pytest.mark.parametrize(
    ("payloads", "title"),
    [
        ([], ""),
        ([user("\n\n  hello \nworld")], "hello"),
        ([user(""), user("  "), user("third")], "third"),
        ([User((TextBlock("go on"),), synthetic=True), user("mine")], "mine"),
        ([user("x" * 300)], "x" * MOST_CHARS),
        ([user("first"), Setting(title="Given"), user("second"), Setting(model="m")], "Given"),
        ([user("first"), Setting(title="Given"), Setting(title="Later")], "Later"),
        ([user("first"), Setting(title="Given"), Setting(title="")], "first"),
    ],
)
def test_a_given_title_wins_and_the_first_line_stands_in_for_it(
    place: Place, payloads: Sequence[Payload], title: str
) -> None:
    entries = [Entry(key, key - 1 or None, 0, payload) for key, payload in enumerate(payloads, 1)]
    assert title_of(entries) == title
    if payloads:
        place.add(*payloads)
        assert place.titles() == [title]


def test_rename_appends_a_setting_and_refuses_a_session_that_is_open(place: Place) -> None:
    path = place.add(user("question"), reply("answer"))
    place.index.complete()
    rename(path, "  A\nnew \ud83d title ")
    assert place.titles() == ["A new ? title"]
    loaded = sessions.load(path)
    assert loaded.entries[-1].payload == Setting(title="A new ? title") and loaded.damaged == 0
    assert [entry.key for entry in Transcript(loaded.entries).branch] == [1, 2, 3]
    store, _ = sessions.open_session(path, ignore)
    assert is_locked(path.with_suffix(".lock"))
    with pytest.raises(SessionBusyError, match="open in another claw"):
        rename(path, "no")
    store.close()
    assert not is_locked(path.with_suffix(".lock")) and not is_locked(path.with_suffix(".none"))
    assert place.titles() == ["A new ? title"] and len(as_title("x" * 999)) == 200


# --------------------------------------------------------------------------- preview


def test_the_preview_is_the_end_of_the_branch_that_counts(place: Place) -> None:
    path = place.add(user("one"), reply("two"), user("abandoned"), reply("abandoned too"))
    store, _ = sessions.open_session(path, ignore)
    store.append([Entry(5, 2, 0, Rewind()), Entry(6, 5, 0, user("three")), Entry(7, 6, 0, reply(""))])
    store.append([Entry(8, 7, 0, Result("c", "bash", (TextBlock("output"),))), Entry(9, 8, 0, reply("four"))])
    store.close()
    assert [(m.kind, m.text) for m in last_messages(path)] == [
        ("user", "one"), ("assistant", "two"), ("user", "three"), ("assistant", "four"),
    ]  # fmt: skip
    assert [m.key for m in last_messages(path, 2)] == [6, 9]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE entry SET payload = 'garbage' WHERE key = 9")
        connection.commit()
    assert [m.text for m in last_messages(path, 1)] == ["three"]


# --------------------------------------------------------------------------- deleting


def test_removing_takes_everything_that_belongs_to_the_session(place: Place) -> None:
    path, other = place.add(user("a walrus")), place.add(user("an ocelot"))
    place.index.complete()
    spill = place.spills / path.stem / "entry-3.txt"
    spill.parent.mkdir(parents=True)
    spill.write_bytes(b"x" * 1_000)
    removal = Removal(place.folder, place.spills, place.index)
    assert removal.size_bytes(path) >= path.stat().st_size + 1_000
    removed = removal.remove([path])
    assert removed.sessions == 1 and removed.freed_bytes > 1_000
    assert sorted(file.name for file in place.folder.iterdir()) == [other.name, f"{other.stem}.lock"]
    assert not spill.parent.exists() and place.found("walrus") == [] and place.titles() == ["an ocelot"]
    raw = b"".join(file.read_bytes() for file in place.file.parent.glob("index.db*"))
    assert b"a walrus" not in raw and b"an ocelot" in raw


def test_an_open_session_is_not_removed(place: Place) -> None:
    path = place.add(user("x"))
    lock = SessionLock(path.with_suffix(".lock"))
    with pytest.raises(SessionBusyError):
        Removal(place.folder, place.spills, place.index).remove([path])
    lock.release()
    assert path.exists()


def test_T99_retention_deletes_what_is_old_and_never_what_is_open(place: Place) -> None:
    now_s = 1_000_000_000.0
    ages = {"open": 100, "old": 31, "young": 29, "future": -5}
    paths = {name: place.add(user(name), name=name) for name in ages}
    for name, days in ages.items():
        os.utime(paths[name], (now_s - days * 86_400,) * 2)
    removal = Removal(place.folder, place.spills, place.index)
    store, _ = sessions.open_session(paths["open"], ignore)
    try:
        assert removal.remove_older(30, now_s).sessions == 1
        assert {name for name, path in paths.items() if path.exists()} == {"open", "young", "future"}
        assert removal.remove_older(30, now_s).sessions == 0
    finally:
        store.close()
    assert removal.remove_older(30, now_s).sessions == 1 and not paths["open"].exists()


def test_a_name_of_dots_takes_no_other_folder_along(place: Place) -> None:
    place.add(user("x"))
    spill = place.spills / "20260101-000001-abcd" / "entry-1.txt"
    spill.parent.mkdir(parents=True)
    spill.touch()
    odd = place.folder / "..db"
    odd.write_bytes(b"x")
    Removal(place.folder, place.spills, place.index).remove([odd])
    assert spill.exists() and not odd.exists()


def test_what_the_disk_did_not_keep_of_a_session_s_facts_is_read_again(place: Place) -> None:
    path = place.add(user("hello there"))
    place.index.complete()
    for facts in ("'garbage'", "x'ff00'", "7", "'{\"meta\": 5}'"):
        with contextlib.closing(sqlite3.connect(place.file)) as connection, connection:
            connection.execute(f"UPDATE session SET facts = {facts}")
        assert not place.index.listing().sessions[0].is_known
        infos, problems = place.index.complete()
        assert [(info.id, info.title) for info in infos] == [(path.stem, "hello there")] and problems == []
        assert place.found("there") == [(path.stem, 1)]

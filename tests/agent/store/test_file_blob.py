"""Outputs too large for memory: from a file into the session, whole or not at all."""

import gc
import os
from pathlib import Path

import pytest

from agent.results import SpillFolder
from agent.store import sessions
from agent.store.base import Blob, NoStore
from agent.store.file_blob import FileBlob
from agent.store.session_file import SessionFile
from agent.transcript import Entry, User
from providers.types import TextBlock
from tests.agent.processes.running import linux_only

PROJECT = Path("/somewhere/project")
DATA = bytes(range(256)) * 20_000


def entry(key: int) -> Entry:
    return Entry(key, key - 1 or None, 1_000 + key, User((TextBlock("hello"),)))


def ignore(text: str) -> None:
    raise AssertionError(text)


def made(tmp_path: Path, data: bytes = DATA) -> FileBlob:
    path = tmp_path / "output"
    path.write_bytes(data)
    return FileBlob.of(path)


def opened(path: Path) -> SessionFile:
    store, _ = sessions.open_session(path, ignore)
    return store


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, len(DATA)])
async def test_G8_a_file_comes_back_as_it_was(tmp_path: Path, size: int) -> None:
    data = DATA[:size]
    blob = made(tmp_path, data)
    assert (blob.sha256, blob.size_bytes) == (Blob.of(data).sha256, len(data))
    store = sessions.new_session(tmp_path / "sessions", PROJECT, ignore)
    store.append([entry(1)], [blob])
    assert store.blob(blob.sha256) == data
    store.append([entry(2)], [blob, Blob.of(b"small")])
    await store.durable(2)
    blob.path.unlink()
    assert store.blob(blob.sha256) == data and store.blob(Blob.of(b"small").sha256) == b"small"
    store.close()
    later = opened(store.path)
    assert later.blob(blob.sha256) == data
    later.close()


@pytest.mark.parametrize("loss", ["removed", "shortened", "changed"])
async def test_a_file_that_was_lost_costs_the_blob_and_not_the_session(tmp_path: Path, loss: str) -> None:
    blob = made(tmp_path)
    match loss:
        case "removed":
            blob.path.unlink()
        case "shortened":
            os.truncate(blob.path, 1_000)
        case _:
            blob.path.write_bytes(b"x" * len(DATA))
    store = sessions.new_session(tmp_path / "sessions", PROJECT, ignore)
    store.append([entry(1)], [blob])
    await store.durable(1)
    assert store.unwritten == 0
    store.close()
    later = opened(store.path)
    with pytest.raises(KeyError):
        later.blob(blob.sha256)
    later.close()


def test_without_a_store_it_is_read_from_its_file(tmp_path: Path) -> None:
    store, blob = NoStore(), made(tmp_path)
    store.append([entry(1)], [blob])
    assert store.blob(blob.sha256) == DATA
    blob.path.unlink()
    with pytest.raises(KeyError):
        store.blob(blob.sha256)


# ------------------------------------------------------------------ the folder of spills


@pytest.mark.parametrize("place", ["here", "another file system"])
def test_a_spill_is_taken_over_private_and_whole(tmp_path: Path, place: str) -> None:
    source = tmp_path / "spilled"
    if place != "here":
        memory = Path("/dev/shm")
        if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("there is no other file system")
        source = memory / f"claw-test-{os.getpid()}"
    source.touch(0o600)
    source.write_bytes(DATA)
    spills = SpillFolder(tmp_path / "spills")
    blob = spills.take(7, source)
    assert isinstance(blob, FileBlob) and blob.path == spills.path(7) and blob.data == DATA
    assert not source.exists() and blob.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in spills.folder.iterdir()] == [blob.path.name]
    source.write_bytes(DATA)
    assert spills.take(7, source, blob.sha256) == blob  # which is not read for its hash again


def test_a_spill_that_finds_no_place_is_held_in_memory_and_one_that_is_gone_is_none(tmp_path: Path) -> None:
    (tmp_path / "spills").write_text("no folder")
    source = tmp_path / "spilled"
    source.write_bytes(DATA)
    spills = SpillFolder(tmp_path / "spills")
    assert spills.take(1, source) == Blob.of(DATA) and not source.exists()
    assert spills.take(1, source) is None


@linux_only
def test_G8_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        for _ in range(48):
            file.write(os.urandom(1 << 20))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before = peak_bytes()
    store = sessions.new_session(tmp_path / "sessions", PROJECT, ignore)
    store.append([entry(1)], [FileBlob.of(path)])
    store.close()
    assert peak_bytes() - before < 24_000_000


def peak_bytes() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


async def test_a_blob_that_was_lost_is_kept_when_it_comes_again(tmp_path: Path) -> None:
    blob = made(tmp_path)
    blob.path.write_bytes(b"x" * len(DATA))
    store = sessions.new_session(tmp_path / "sessions", PROJECT, ignore)
    store.append([entry(1)], [blob])
    await store.durable(1)
    blob.path.write_bytes(DATA)
    store.append([entry(2)], [blob])
    store.close()
    later = opened(store.path)
    assert later.blob(blob.sha256) == DATA
    later.close()

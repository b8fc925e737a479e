"""What is kept of a command's output: its head and tail in memory, the whole in a capped file, a sample of what is new, and
of a job head and tail of what nobody has looked at.

Memory is bounded whatever arrives. Nothing is decoded here.
"""

import contextlib
import os

from agent.spawner.wire import SAMPLE_BYTES

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
SPILL_BYTES = 64 * 1024 * 1024
JOB_FILE_BYTES = 16 * 1024 * 1024
"""Less, since many jobs may run, and their files stay."""
UNSEEN_HEAD_BYTES = 16 * 1024
UNSEEN_TAIL_BYTES = 48 * 1024
_MARKER_BYTES = 128
_MOST_WORD_BYTES = 4_096
_SPACES = (b" ", b"\n", b"\t", b"\r", b"\f", b"\v")


class SpillFile:
    """A private file with the first and the last half of everything written to it; the middle is lost beyond the cap.

    The last half is a ring in a second file, which `finish` appends in order. No half of a word stays beside what is lost,
    since it may be that of a secret; of longer words a part does.
    """

    def __init__(self, path: str, cap_bytes: int) -> None:
        """Raises: OSError."""
        self.path = path
        self._half = (cap_bytes - _MARKER_BYTES) // 2
        self._first_bytes = 0
        self._ring_bytes = 0
        self._first = _create(path)
        self._ring: int | None = None

    def write(self, data: bytes | bytearray) -> None:
        """Raises: OSError."""
        view = memoryview(data)
        if self._ring is None:
            room = min(self._half - self._first_bytes, len(view))
            self._first_bytes += _write_all(self._first, view[:room], self._first_bytes)
            view = view[room:]
        while view:
            ring = self._begin_ring() if self._ring is None else self._ring
            offset = self._ring_bytes % self._half
            piece = view[: self._half - offset]
            self._ring_bytes += _write_all(ring, piece, offset)
            view = view[len(piece) :]

    def _begin_ring(self) -> int:
        """The word that may go on in it goes there whole."""
        self._ring = ring = _create(self.path + ".ring")
        newest = os.pread(self._first, _MOST_WORD_BYTES, max(0, self._first_bytes - _MOST_WORD_BYTES))
        if word := newest[max(map(newest.rfind, _SPACES)) + 1 :]:
            self._first_bytes -= len(word)
            os.ftruncate(self._first, self._first_bytes)
            self._ring_bytes = _write_all(ring, word, 0)
        return ring

    def finish(self) -> int:
        """Put the halves together and close; how many bytes are missing between them. Raises: OSError."""
        missing = max(0, self._ring_bytes - self._half)
        if self._ring is not None:
            end = self._first_bytes
            if missing:
                missing += self._first_word_bytes(missing)
                end += _write_all(self._first, b"\n[... %d bytes are missing here ...]\n" % missing, end)
            self._copy(missing, end)
        self.close()
        return missing

    def _first_word_bytes(self, start: int) -> int:
        assert self._ring is not None
        start %= self._half
        oldest = os.pread(self._ring, _MOST_WORD_BYTES, start)
        oldest += os.pread(self._ring, _MOST_WORD_BYTES - len(oldest), 0)
        return min((place for place in map(oldest.find, _SPACES) if place >= 0), default=len(oldest))

    def _copy(self, start: int, target: int) -> None:
        """What was written to the ring from there on."""
        assert self._ring is not None
        while start < self._ring_bytes:
            offset = start % self._half
            data = os.pread(self._ring, min(1 << 20, self._half - offset, self._ring_bytes - start), offset)
            target += _write_all(self._first, data, target)
            start += len(data)

    def close(self) -> None:
        os.close(self._first)
        if self._ring is not None:
            os.close(self._ring)
            os.unlink(self.path + ".ring")

    def discard(self) -> None:
        self.close()
        os.unlink(self.path)


class Ends:
    """The first and the newest bytes of everything that is fed."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self.total_bytes = 0
        self.head = bytearray()
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._rest = bytearray()

    @property
    def tail(self) -> bytes:
        """What follows the head, or the end of it."""
        return bytes(self._rest[-self._tail_bytes :])

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        if room := self._head_bytes - len(self.head):
            self.head += data[:room]
            data = data[room:]
        self._rest += data
        if len(self._rest) > 2 * self._tail_bytes:
            del self._rest[: -self._tail_bytes]


class Capture:
    """Head, tail and spill of one output stream."""

    def __init__(self, spill_path: str, spill_bytes: int = SPILL_BYTES, *, at_once: bool = False) -> None:
        """`at_once`: the file is there from the beginning and holds everything so far, for whoever reads it meanwhile."""
        self.spill_path: str | None = None
        """Set by `finish`, if the disk took it and head and tail are not everything, or it was wanted at once."""
        self.missing_bytes = 0
        self._ends = Ends(HEAD_BYTES, TAIL_BYTES)
        self._path = spill_path
        self._cap = spill_bytes
        self._spill: SpillFile | None = None
        self._broken = False
        if at_once:
            try:
                self._spill = SpillFile(spill_path, spill_bytes)
            except OSError:
                self._give_up()

    @property
    def total_bytes(self) -> int:
        return self._ends.total_bytes

    @property
    def head(self) -> bytes:
        return bytes(self._ends.head)

    @property
    def tail(self) -> bytes:
        """What follows the head, or the end of it."""
        return self._ends.tail

    def feed(self, data: bytes) -> None:
        self._feed_spill(data)
        self._ends.feed(data)

    def _feed_spill(self, data: bytes) -> None:
        so_far = self.total_bytes
        if self._broken or (self._spill is None and so_far + len(data) <= HEAD_BYTES + TAIL_BYTES):
            return
        try:
            if self._spill is None:
                # Head and tail together are still everything that came before `data`.
                self._spill = SpillFile(self._path, self._cap)
                self._spill.write(self.head + self.tail)
            self._spill.write(data)
        except OSError:
            self._give_up()

    def finish(self) -> None:
        if self._spill is not None:
            try:
                self.missing_bytes = self._spill.finish()
                self.spill_path = self._path
            except OSError:
                self._give_up()
        if self._broken:
            self.missing_bytes = self.total_bytes - len(self.head) - len(self.tail)

    def discard(self) -> None:
        """Remove what was written: nobody will read it."""
        if self._spill is not None:
            self._give_up()

    def _give_up(self) -> None:
        """A full disk costs the spill, not the command."""
        self._broken = True
        if self._spill is not None:
            with contextlib.suppress(OSError):
                self._spill.discard()
            self._spill = None


class Unseen:
    """What came since the last look."""

    def __init__(self) -> None:
        self._ends = Ends(UNSEEN_HEAD_BYTES, UNSEEN_TAIL_BYTES)

    def feed(self, data: bytes) -> None:
        self._ends.feed(data)

    def take(self) -> tuple[int, bytes, bytes]:
        """How many bytes are left out between head and tail, and these; the next look begins behind them."""
        ends, self._ends = self._ends, Ends(UNSEEN_HEAD_BYTES, UNSEEN_TAIL_BYTES)
        head, tail = bytes(ends.head), ends.tail
        return ends.total_bytes - len(head) - len(tail), head, tail


class LiveSample:
    """The newest output that was not shown yet, at most `SAMPLE_BYTES` of it."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skipped = 0

    def __bool__(self) -> bool:
        return bool(self._pending)

    def feed(self, data: bytes) -> None:
        self._pending += data[-SAMPLE_BYTES:]
        self._skipped += max(0, len(data) - SAMPLE_BYTES)
        if (over := len(self._pending) - SAMPLE_BYTES) > 0:
            del self._pending[:over]
            self._skipped += over

    def take(self) -> tuple[int, bytes]:
        """How many bytes are left out in front, and the bytes."""
        skipped, data = self._skipped, bytes(self._pending)
        self._skipped = 0
        self._pending.clear()
        return skipped, data


def _create(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _write_all(fd: int, data: bytes | memoryview, offset: int) -> int:
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], offset + done)
    return done

"""What one session knows of secrets: takes them out of outputs before these become entries, and tells what it sees.

It happens once, when an entry is made, so that model, screen, disk and search see the same. Decisions: what a tool, a command
of the user's own or an attached file says is redacted; what the user types is kept, for it is theirs, and warned about.
After a resume a secret has the number it had where it is hard to guess, by the fingerprint in the entries, and a new one
otherwise. A marker is explained to the model where it sees one for the first time.
"""

import contextlib
import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agent.redaction import MARKER, KnownValues, Marked, Redactor
from agent.redaction_stream import RedactionStream
from agent.secret_places import Found
from agent.spill_pieces import CleanCopy, pieces
from agent.tools.base import ToolOutput
from agent.tools.blocking import in_thread
from agent.transcript import AttachmentBlock, Entry, Pin, Redaction, Reminder, Result, ShellBlock, User

QUICK_CHARS = 48 * 1024
"""What may be looked through while everything else waits: a few milliseconds."""
_SHOWN_CHARS = 4
S = TypeVar("S", bound=Struct)


class SessionSecrets:
    """One for each open session."""

    def __init__(self, known: KnownValues | None = None, entries: Iterable[Entry] = ()) -> None:
        """`entries`: all of a resumed session's."""
        before = tuple(marked_before(entries))
        self.redactor = Redactor(known or KnownValues(), before)
        self._explained = bool(before)
        self._accepted: set[str] = set()
        self._typed: tuple[str, list[tuple[Found, str]]] = ("", [])
        """The text that was looked at last, which may be long, and what was found."""

    # ------------------------------------------------------------------ outputs

    def text(self, text: str) -> str:
        return self.redactor.text(text)

    def stream(self) -> RedactionStream:
        return RedactionStream(self.redactor)

    async def output(self, output: ToolOutput) -> ToolOutput:
        """A tool's output without its secrets; what is long is looked through in a thread."""
        if output.redacted is not None:
            return output
        if output.spill_file is None and len(output.text) <= QUICK_CHARS:
            return self.output_now(output)
        return await in_thread(lambda stop: self._clean(output, stop))

    def output_now(self, output: ToolOutput) -> ToolOutput:
        """The same at once; what only a file holds is given up."""
        if output.redacted is not None:
            return output
        if output.spill_file is not None:
            with contextlib.suppress(OSError):
                output.spill_file.unlink()
        return self._clean(replace(output, spill_file=None), threading.Event())

    def _clean(self, output: ToolOutput, stop: threading.Event) -> ToolOutput:
        marked: dict[int, Marked] = {}
        spill, sha256 = None, ""
        if output.spill_file is not None:
            spill, sha256 = self._clean_file(output.spill_file, output.spill_missing_bytes, marked, stop)
        text = self._take(output.text, marked)
        details = output.details if output.details is None else self._clean_struct(output.details, marked)
        files = output.files
        if MARKER.search(text) and marked:  # and not only one that stood in the file
            # The model has not seen what is there, so that a later `write` must not pass for one that knows.
            files = tuple(replace(fact, whole=False) if fact.change == "read" else fact for fact in files)
        if not output.is_error:  # which may be claw's own words about a marker
            for mark in self.redactor.marked_in(text):
                marked.setdefault(mark.number, mark)
        if marked:
            text = self._explain(text, marked)
        output = replace(output, text=text, details=details, files=files, redacted=redactions(marked.values()))
        return replace(output, spill_file=spill, spill_sha256=sha256)

    def _take(self, text: str, marked: dict[int, Marked]) -> str:
        clean, found = self.redactor.take(text)
        for mark in found:
            marked.setdefault(mark.number, mark)
        return clean

    def _clean_struct(self, value: S, marked: dict[int, Marked]) -> S:
        """A copy with each text in it redacted."""
        texts = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {
            name: clean
            for name, text in texts.items()
            if isinstance(text, str) and len(text) > _SHOWN_CHARS and (clean := self._take(text, marked)) != text
        }
        return replace(value, **changed) if changed else value

    def _clean_file(
        self, path: Path, missing_bytes: int, marked: dict[int, Marked], stop: threading.Event
    ) -> tuple[Path | None, str]:
        """The file without secrets, and its SHA-256; None where that cannot be made: then nothing is left of it."""
        stream = self.stream()
        digest = hashlib.sha256()
        try:
            with path.open("rb") as source, CleanCopy(path) as copy:
                for data in pieces(source, missing_bytes):
                    if stop.is_set():
                        raise InterruptedError
                    given = (stream.feed(data.decode("latin-1")) if data else stream.finish()).encode("latin-1")
                    copy.write(given, is_changed=bool(stream.marked))
                    digest.update(given)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            return None, ""
        marked.update(stream.marked)
        return path, digest.hexdigest()

    def details(self, details: S) -> S:
        return self._clean_struct(details, {})

    def user(self, user: User) -> User:
        """A message whose command outputs and attached files are without their secrets; the user's own words stay."""
        marked: dict[int, Marked] = {}
        blocks = tuple(self._clean_block(block, marked) for block in user.blocks)
        return replace(user, blocks=blocks, redacted=redactions(marked.values())) if marked else user

    def _clean_block(self, block: S, marked: dict[int, Marked]) -> S:
        if not isinstance(block, ShellBlock | AttachmentBlock):
            return block
        own: dict[int, Marked] = {}
        clean = self._clean_struct(block, own)
        marked.update(own)
        if isinstance(clean, ShellBlock) and MARKER.search(clean.output) and own:
            return replace(clean, output=self._explain(clean.output, own))
        if isinstance(clean, AttachmentBlock) and clean.text and MARKER.search(clean.text) and own:
            return replace(clean, text=self._explain(clean.text, own))
        return clean

    def _explain(self, text: str, marked: Mapping[int, Marked]) -> str:
        if self._explained:
            return text
        self._explained = True
        first = f"[redacted {min(marked)}]"
        return (
            f"{text}\n[claw took what looks like a secret out of this: {first} stands for it here and wherever it comes again. "
            "You cannot see it. Never write such a marker into a file or a command: leave the line with the secret as it is, "
            "and let programs read it where it stands.]"
        )

    # ------------------------------------------------------------------ what the user types

    def seen_in(self, text: str) -> tuple[str, ...]:
        """What looks like a secret in what is about to be sent, in words, each kind once: "a GitHub token (ghp_…)". Empty
        where there is nothing, or it was accepted before."""
        return tuple(
            dict.fromkeys(
                f"{place.kind} ({text[place.start : place.start + _SHOWN_CHARS]}…)"
                for place, secret in self._found_in(text)
                if self._name(secret) not in self._accepted
            )
        )

    def accept(self, text: str) -> None:
        """The user knows that this text holds secrets; they are not warned about again."""
        self._accepted.update(self._name(secret) for _, secret in self._found_in(text))

    def _found_in(self, text: str) -> list[tuple[Found, str]]:
        if self._typed[0] != text:
            self._typed = (text, self.redactor.find(text))
        return self._typed[1]

    def _name(self, secret: str) -> str:
        return self.redactor.digest(secret).hex()


def redactions(marked: Iterable[Marked]) -> tuple[Redaction, ...]:
    """As they are kept in an entry, by number."""
    return tuple(Redaction(*mark) for mark in sorted(marked))


def marked_before(entries: Iterable[Entry]) -> Iterator[Marked]:
    """The secrets that were taken out of these entries when they were made."""
    for entry in entries:
        match entry.payload:
            case Result(redacted=redacted) | User(redacted=redacted):
                yield from (Marked(item.number, item.kind, item.fingerprint) for item in redacted)
            case Pin(text=text) | Reminder(text=text) if "[redacted " in text:  # files that were read for them
                yield from (Marked(int(match[1]), "", "") for match in MARKER.finditer(text))


def typed_notice(seen: Iterable[str]) -> tuple[str, str]:
    """What is told about secrets in a message, and what to do."""
    what = ", ".join(seen)
    return (
        f"The message holds what looks like a secret: {what}. It is sent as it stands, and kept in the session.",
        "If that was a mistake: stop it, and have the secret replaced where it was issued.",
    )

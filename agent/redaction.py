"""Takes secrets out of a text: keys by their forms (agent/secret_search.py), and values that are known whatever they look like.

Each secret gets a number, the same wherever it stands, so that a reader can still follow which key was meant. Secrets are
kept nowhere: what a redactor remembers of them is a hash under a key of this process. Decisions: values of variables count
from eight characters on, since shorter ones are words of their own; a marker that stands in a text already keeps its number
to itself, so that no secret is called by it later.
"""

import base64
import os
import re
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote

from agent.secret_places import PLAIN_VALUE, PRIVATE_KEY, SECRET_NAME, Found

LEAST_VALUE_CHARS = 8
MARKER = re.compile(r"\[redacted (\d{1,6})\]")
"""What stands for a secret. The number is at least 1."""
KNOWN = "known value"
_BASE64_FROM_CHARS = 12
_KEY_LINE = re.compile("[A-Za-z0-9+/=]{40,}")
_LINE_OF = "\0line of "
_HARD_TO_GUESS_CHARS = 20
_HARD_TO_GUESS_DIFFERENT = 10
_SALT_BYTES = 6
_LEAST_REPEATED_CHARS = 4_096
_MOST_CLEAN = 4_096
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|\r(?=\n)")


class Marked(NamedTuple):
    """A secret that was replaced."""

    number: int
    kind: str
    """In words, for instance "GitHub token"."""
    fingerprint: str
    """By which the same secret is known again, see `fingerprint`; empty if none was made."""


class KnownValues:
    """Secrets that are known, in each form in which they may stand in a text. More may be learnt at any time."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: dict[str, str] = {}
        self._phrases: tuple[str, ...] = ()
        self._any: re.Pattern[str] | None = None
        self.count = 0
        """In how many forms they are looked for."""
        self.learn(values)

    def learn(self, values: Iterable[str]) -> None:
        fresh = {form: value for value in values for form in _forms(value) if form not in self._values}
        if fresh:
            self._values = {**self._values, **fresh}
            self._phrases = tuple(form for form in self._values if any(c.isspace() for c in form))
            self._any = re.compile("|".join(map(re.escape, sorted(self._values, key=len, reverse=True))))
            self.count = len(self._values)  # last: whoever sees it finds them all

    def find(self, text: str) -> list[tuple[Found, str]]:
        """Where they stand, each with the value that it is a form of."""
        if self._any is None or not any(form in text for form in self._values):
            return []
        return [(Found(*match.span(), KNOWN), self._values[match[0]]) for match in self._any.finditer(text)]

    def before_phrase(self, text: str, cut: int) -> int:
        """Where to cut a text that goes on instead, so that a value with white space in it is not cut: further in front, or
        at `cut`. Others are within a word."""
        for form in self._phrases:
            place = text.rfind(form)
            if 0 <= place < cut < place + len(form):
                cut = place
            longest = min(len(form) - 1, len(text))
            begun = next((n for n in range(longest, 0, -1) if text.endswith(form[:n])), 0)
            cut = min(cut, len(text) - begun)
        return cut


class Redactor:
    """Replaces secrets by `[redacted N]`. One for each document or session, since its numbers belong together. It may be
    used in several threads."""

    def __init__(self, values: Iterable[str] | KnownValues = (), taken: Iterable[Marked] = ()) -> None:
        """`values`: secrets that are known whatever they look like, see `secret_values`. `taken`: numbers that are given
        already."""
        self._known = values if isinstance(values, KnownValues) else KnownValues(values)
        self._key = os.urandom(16)
        self._numbers: dict[bytes, int] = {}
        self._before: list[tuple[int, str]] = []
        self._next = 1
        self._marked: dict[int, Marked] = {}
        self._lines: dict[bytes, str] = {}
        """Lines of private keys that were seen whole, by what stands for them, with the digest of the key."""
        self._clean: set[int] = set()
        """Hashes of long texts without a secret, and of how much was known then: what repeats itself is looked at once."""
        self._numbering = threading.Lock()
        self.take_over(taken)

    def take_over(self, taken: Iterable[Marked]) -> None:
        """Go on with numbers that were given before: they mean what they meant."""
        for mark in taken:
            if mark.fingerprint:
                self._before.append((mark.number, mark.fingerprint))
            self._next = max(self._next, mark.number + 1)
            self._marked.setdefault(mark.number, mark)

    @property
    def known(self) -> KnownValues:
        return self._known

    @property
    def count(self) -> int:
        """How many different secrets were taken out so far."""
        return len(self._numbers)

    def text(self, text: str) -> str:
        return self.take(text)[0]

    def take(self, text: str) -> tuple[str, tuple[Marked, ...]]:
        """The text without its secrets, and which they were, each once."""
        found = self.find(text)
        return self.render(text, found)

    def find(self, text: str) -> list[tuple[Found, str]]:
        """The secrets in the order of the text, each with what is to be numbered; none overlaps another. Control sequences
        of a terminal inside of one do not hide it."""
        if "[redacted " in text:
            self._leave_out(text)
        if "\x1b" not in text:
            return self._find(text)
        from agent.secret_search import resolve

        plain, places = _without_escapes(text)
        secrets = {
            Found(_place(places, found.start), _place(places, found.end - 1) + 1, found.kind): secret
            for found, secret in self._find(plain)
        }
        # Also as it is: what looks like a control sequence may have swallowed a part of one.
        secrets.update((found, secret) for found, secret in self._find(text) if found not in secrets)
        return [(found, secrets[found]) for found in resolve(list(secrets))]

    def _find(self, text: str) -> list[tuple[Found, str]]:
        seen = hash((text, self._known.count, len(self._lines))) if len(text) >= _LEAST_REPEATED_CHARS else 0
        if seen in self._clean:
            return []
        from agent.secret_search import find_forms, resolve

        known = self._known.find(text)
        values = dict(known)
        if self._lines:
            values.update(self._key_lines(text))
        places = resolve([*values, *find_forms(text)])
        if seen and not places:
            if len(self._clean) >= _MOST_CLEAN:
                self._clean.clear()
            self._clean.add(seen)
        return [
            (found, values.get(found) or text[found.start : found.end])
            for found in places
            if not MARKER.fullmatch(text, found.start, found.end)
        ]

    def _key_lines(self, text: str) -> Iterator[tuple[Found, str]]:
        """Single lines of private keys that were seen whole before, as a search finds them."""
        for match in _KEY_LINE.finditer(text):
            if (key := self._lines.get(self.digest(match[0]))) is not None:
                yield Found(*match.span(), PRIVATE_KEY), key

    def render(self, text: str, found: Iterable[tuple[Found, str]], start: int = 0) -> tuple[str, tuple[Marked, ...]]:
        """The text from `start` on, with these places in it replaced. Of one that begins before `start` the rest goes."""
        pieces: list[str] = []
        marked: dict[int, Marked] = {}
        for place, secret in found:
            if place.end <= start:
                continue
            mark = self._mark(secret, place.kind)
            marked.setdefault(mark.number, mark)
            pieces += (text[start : max(start, place.start)], f"[redacted {mark.number}]")
            start = place.end
        return "".join((*pieces, text[start:])) if pieces else text[start:], tuple(marked.values())

    def value(self, value: Any) -> Any:
        """A copy of plain JSON values with every text in it redacted, keys of objects included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._named(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def _named(self, key: str, value: Any) -> Any:
        """A value whose key says that it is secret is one, though neither alone would tell."""
        if isinstance(value, str) and SECRET_NAME.search(key.upper()) and len(value) >= LEAST_VALUE_CHARS:
            shown = self.text(value)
            if shown != value or PLAIN_VALUE.fullmatch(value) or MARKER.search(value):
                return shown
            return f"[redacted {self._mark(value, 'named value').number}]"
        return self.value(value)

    def _mark(self, secret: str, kind: str) -> Marked:
        digest = bytes.fromhex(secret[len(_LINE_OF) :]) if secret.startswith(_LINE_OF) else self.digest(secret)
        with self._numbering:
            number = self._numbers.get(digest)
            if number is None:
                number = next((n for n, print_ in self._before if has_fingerprint(secret, print_)), self._next)
                self._numbers[digest] = number
                if kind == PRIVATE_KEY:
                    lines = _KEY_LINE.findall(secret)
                    self._lines.update((self.digest(line), f"{_LINE_OF}{digest.hex()}") for line in lines)
                self._next = max(self._next, number + 1)
            if number not in self._marked:
                self._marked[number] = Marked(number, kind, fingerprint(secret, kind))
            return self._marked[number]

    def marked_in(self, text: str) -> Iterator[Marked]:
        """The secrets for which a marker stands in a text, however it came there."""
        if "[redacted " in text:
            for match in MARKER.finditer(text):
                if (mark := self._marked.get(int(match[1]))) is not None:
                    yield mark

    def digest(self, secret: str) -> bytes:
        """What stands for the secret in this process, and tells nothing of it."""
        return blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()

    def _leave_out(self, text: str) -> None:
        """Numbers of markers that stand there already are not given to anything else."""
        highest = max((int(match[1]) for match in MARKER.finditer(text)), default=0)
        with self._numbering:
            self._next = max(self._next, highest + 1 if highest < 900_000 else 0)


def fingerprint(secret: str, kind: str = "") -> str:
    """By which a secret that comes again can be told, and not found out: a salted hash, cut to 64 bits. Empty for what could
    be guessed, such as a password: of that nothing is kept."""
    hard = (
        len(secret) >= _HARD_TO_GUESS_CHARS
        and len(set(secret)) >= _HARD_TO_GUESS_DIFFERENT
        and any(c.isdigit() for c in secret)
        and (kind == PRIVATE_KEY or not any(c.isspace() for c in secret))
    )
    return _fingerprint(secret, os.urandom(_SALT_BYTES)) if hard else ""


def has_fingerprint(secret: str, print_: str) -> bool:
    try:
        salt = bytes.fromhex(print_[: _SALT_BYTES * 2])
    except ValueError:
        return False
    return len(salt) == _SALT_BYTES and _fingerprint(secret, salt) == print_


def _fingerprint(secret: str, salt: bytes) -> str:
    return salt.hex() + blake2b(secret.encode("utf-8", "surrogatepass"), salt=salt, digest_size=8).hexdigest()


def without_secrets(text: str) -> str:
    """The text with everything that has the form of a secret replaced by `[redacted]`, without numbers."""
    return MARKER.sub("[redacted]", clean) if (clean := Redactor().text(text)) != text else text


def count_text(count: int) -> str:
    """In words for the screen; empty for none."""
    return "" if not count else "1 secret redacted" if count == 1 else f"{count:,} secrets redacted"


def secret_values(env: Mapping[str, str], names: Iterable[str] = ()) -> list[str]:
    """Values of the variables that hold keys: those named, and those whose names say so. Paths and plain words are left
    out."""
    given = set(names)
    wanted = [value for name, value in env.items() if name in given or SECRET_NAME.search(name.upper())]
    return [value for value in wanted if len(value) >= LEAST_VALUE_CHARS and not PLAIN_VALUE.fullmatch(value)]


def _forms(value: str) -> set[str]:
    """A value as it is, and as it stands in an address, in JSON, in base64, and in bytes taken for Latin-1."""
    if len(value) < LEAST_VALUE_CHARS:
        return set()
    in_json = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    data = value.encode("utf-8", "surrogatepass")
    forms = {value, value.strip(), quote(value, safe="", errors="replace"), in_json, data.decode("latin-1")}
    if len(value) >= _BASE64_FROM_CHARS:
        forms.add(base64.b64encode(data).decode().rstrip("="))
    return {form for form in forms if len(form) >= LEAST_VALUE_CHARS}


def _without_escapes(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without control sequences, and where its parts stood: (place in it, place in the text), ascending."""
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    at = done = 0
    for match in _ESCAPE.finditer(text):
        if match.start() > done:
            places.append((at, done))
            pieces.append(text[done : match.start()])
            at += match.start() - done
        done = match.end()
    places.append((at, done))
    pieces.append(text[done:])
    return "".join(pieces), places


def _place(places: list[tuple[int, int]], at: int) -> int:
    """Where in the text a character stands that is at `at` of the text without control sequences."""
    start, stood = places[bisect_right(places, (at, 1 << 62)) - 1]
    return stood + at - start

"""Faults of connections, statuses and streams: what is decided before anyone looks at a reply's content."""

import gzip
import re
from collections.abc import Callable, Sequence

from tests.fakes.fault import BEGUN, Fault, calls, ok, page
from tests.fakes.model_server import Chunk, End, Reply, pieces
from tests.fakes.pens import Kind, Pen, Pens

# --------------------------------------------------------------------------- T76, T77: statuses

_RETRIED: list[tuple[int, Kind]] = [
    (408, "server"), (409, "server"), (425, "server"), (429, "rate"), (500, "server"), (502, "server"),
    (503, "overloaded"), (504, "server"), (520, "odd"), (524, "odd"), (529, "overloaded"),
]  # fmt: skip
_HOPELESS: list[tuple[int, Kind, str, str]] = [
    (400, "invalid", "messages: odd", "refused again"),
    (400, "invalid", "Your credit balance is too low to access the API.", "Add credit"),
    (401, "auth", "invalid key", "Check the provider's key"),
    (402, "billing", "pay first", "Add credit"),
    (403, "odd", "not for you", "choose another with /model"),
    (403, "odd", "the token limit exceeded your plan", "choose another with /model"),
    (404, "odd", "no such model", "/model lists"),
    (405, "odd", "not allowed", "refused again"),
    (410, "odd", "gone", "refused again"),
    (418, "odd", "teapot", "refused again"),
    (422, "invalid", "unprocessable", "refused again"),
    (429, "odd", "You have reached your spend limit.", "Add credit"),
    (429, "billing", "You exceeded your current quota.", "Add credit"),
    (451, "odd", "for legal reasons", "refused again"),
]


def _statuses() -> list[Fault]:
    def again(status: int, kind: Kind, headers: dict[str, str] | None = None) -> Callable[[Pens], Sequence[Reply]]:
        return lambda pens: [pens.refuse(status, kind, "not now", headers), calls(pens), ok(pens)]

    faults = [Fault(f"{status}, then success", "T76", again(status, kind), ran=1) for status, kind in _RETRIED]
    soon = {"429 with retry-after-ms": {"retry-after-ms": "2"}, "429 with retry-after 0": {"retry-after": "0"}}
    faults += [Fault(name, "T76", again(429, "rate", headers), ran=1) for name, headers in soon.items()]
    faults += [
        Fault("502 with a page", "T76", lambda pens: [page(b"<html>Bad gateway</html>", 502), ok(pens)]),
        Fault("503 with nothing", "T76", lambda pens: [page(b"", 503), ok(pens)]),
        Fault("five failures in a row", "T76", lambda pens: [pens.refuse(529, "overloaded", "busy")] * 5 + [ok(pens)]),
        Fault(
            "six failures in a row",
            "T76",
            lambda pens: [pens.refuse(529, "overloaded", "busy")] * 6,
            "provider_error",
            says="try again later",
        ),
    ]
    for status, kind, words, says in _HOPELESS:

        def once(pens: Pens, status: int = status, kind: Kind = kind, words: str = words) -> Sequence[Reply]:
            return [pens.refuse(status, kind, words)]

        faults.append(Fault(f"{status} {words[:20]}", "T77", once, "provider_error", says=says))
    an_hour, no_use = {"retry-after": "3600"}, {"x-should-retry": "false"}
    faults += [
        Fault(
            "429 for an hour",
            "T76",
            lambda pens: [pens.refuse(429, "rate", "slow down", an_hour)],
            "provider_error",
            says="3600 s",
        ),
        Fault("500 that says not to", "T77", lambda pens: [pens.refuse(500, "server", "no", no_use)], "provider_error"),
        Fault("404 with a page", "T77", lambda pens: [page(b"<html>nginx</html>", 404)], "provider_error", says="HTML"),
        Fault("407", "T78", lambda pens: [page(b"log in", 407)], "provider_error", says="HTTPS_PROXY"),
    ]
    for status in (301, 302, 303, 307, 308):

        def elsewhere(pens: Pens, status: int = status) -> Sequence[Reply]:
            return [page(b"", status, {"location": "http://127.0.0.1:9/v1/messages"})]

        faults.append(Fault(f"{status} elsewhere", "R47", elsewhere, "provider_error"))
    return faults


# --------------------------------------------------------------------------- T78, T82: what is no stream


def _bodies() -> list[Fault]:
    def body(text: bytes, **headers: str) -> Callable[[Pens], Reply]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return lambda pens: page(text, headers={"content-type": "application/json", **given})

    def then_ok(broken: Callable[[Pens], Reply]) -> Callable[[Pens], Sequence[Reply]]:
        return lambda pens: [broken(pens), ok(pens)]

    def alone(broken: Callable[[Pens], Reply]) -> Callable[[Pens], Sequence[Reply]]:
        return lambda pens: [broken(pens)]

    def untyped(pens: Pens) -> Reply:
        return Reply(ok(pens).chunks, headers={})

    def head(lines: bytes, end: End = "fin") -> Callable[[Pens], Reply]:
        return lambda pens: Reply(head=lines, end=end, framing="close")

    def report(kind: Kind) -> Callable[[Pens], Reply]:
        return lambda pens: Reply(
            pens.refuse(200, kind, "so it is").chunks, headers={"content-type": "application/json"}
        )

    no_stream = "no stream of events"
    gibberish = gzip.compress(b"data: x\n\n")[:-9] + b"\0" * 9
    return [
        Fault("empty stream", "T82", then_ok(body(b""))),
        Fault("an empty object", "T82", alone(body(b"{}")), "provider_error", says=no_stream),
        Fault("an empty list", "T82", alone(body(b"[]")), "provider_error", says=no_stream),
        Fault("null", "T82", alone(body(b"null")), "provider_error", says=no_stream),
        Fault("a page", "T78", alone(lambda pens: page(b"<html>Log in</html>")), "provider_error", says="127.0.0.1"),
        Fault("plain text", "T78", alone(body(b"hello")), "provider_error", says=no_stream),
        Fault("a whole answer", "T82", alone(lambda pens: pens.whole_answer("x")), "provider_error", says=no_stream),
        Fault("an overload as a body", "T82", then_ok(report("overloaded"))),
        Fault("a wrong key as a body", "T82", alone(report("auth")), "provider_error", says="Check the provider's key"),
        Fault("no content-type", "T78", lambda pens: [untyped(pens)]),
        Fault("gzip that is none", "T78", then_ok(body(gibberish, content_encoding="gzip"))),
        Fault("less than was announced", "T78", then_ok(head(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\ndata: "))),
        Fault("broken framing", "T78", then_ok(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"))),
        Fault("not HTTP", "T78", then_ok(head(b"SSH-2.0-OpenSSH_9.6\r\n"))),
        Fault("a huge header", "T78", then_ok(head(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000 + b"\r\n\r\n"))),
        Fault("an odd status", "T78", then_ok(head(b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n"))),
        Fault("cut in the headers", "T79", then_ok(head(b"HTTP/1.1 200 OK\r\ncontent-"))),
        Fault("reset before the headers", "T79", then_ok(head(b"H", "rst"))),
        Fault("no content", "T82", then_ok(head(b"HTTP/1.1 204 No Content\r\n\r\n"))),
    ]


# --------------------------------------------------------------------------- T79, T80: breaks and stalls


def _breaks() -> list[Fault]:
    faults: list[Fault] = []
    for place, begin in BEGUN.items():
        ends: tuple[End, ...] = ("fin", "rst")
        for end in ends:

            def cut(pens: Pens, begin: Callable[[Pen], Pen] = begin, end: End = end) -> Sequence[Reply]:
                return [begin(pens.new()).reply(end), calls(pens), ok(pens)]

            faults.append(Fault(f"{end} behind {place}", "T79 B8", cut, ran=1))

        def stall(pens: Pens, begin: Callable[[Pen], Pen] = begin) -> Sequence[Reply]:
            return [begin(pens.new()).reply("stall"), calls(pens), ok(pens)]

        faults.append(Fault(f"silence behind {place}", "T80 B9", stall, ran=1, stalls=True))
    faults += [
        Fault(
            "six breaks", "T79", lambda pens: [BEGUN["a closed call"](pens.new()).reply("rst")] * 6, "provider_error"
        ),
        Fault("no headers ever", "T80 B9", lambda pens: [Reply(never_answer=True), ok(pens)], stalls=True),
        Fault(
            "pings for ever",
            "T80 B9",
            lambda pens: [_dripping(pens, b": still here\n\n")],
            "provider_error",
            says="without going on",
            stalls=True,
        ),
        Fault(
            "a refusal that never ends",
            "T77",
            lambda pens: [Reply((Chunk(b"no " * 100_000),), 400, {"content-type": "text/plain"}, end="stall")],
            "provider_error",
        ),
    ]
    return faults


def _dripping(pens: Pens, drop: bytes) -> Reply:
    """A beginning, then `drop` fifty times a second for longer than anyone waits."""
    return Reply((Chunk(pens.new().text("I").data), *(Chunk(drop, 0.02) for _ in range(1_000))))


# --------------------------------------------------------------------------- T81: shapes of a stream


def _shapes() -> list[Fault]:
    def shaped(change: Callable[[bytes], Sequence[Chunk] | bytes]) -> Callable[[Pens], Sequence[Reply]]:
        def play(pens: Pens) -> Sequence[Reply]:
            changed = change(pens.new().text("Grüße 😀\u2028 and more").stop().data)
            return [Reply((Chunk(changed),) if isinstance(changed, bytes) else tuple(changed))]

        return play

    def multi_line(data: bytes) -> bytes:
        return re.sub(rb"(?m)^data: \{(.*)$", rb"data: {\ndata: \1", data)

    shapes: dict[str, Callable[[bytes], Sequence[Chunk] | bytes]] = {
        "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
        "CR": lambda data: data.replace(b"\n", b"\r"),
        "one byte a chunk": lambda data: pieces(data, 1),
        "seven bytes a chunk": lambda data: pieces(data, 7),
        "several lines of data": multi_line,
        "comments": lambda data: b": hi\n\n" + data.replace(b"\n\n", b"\n: a comment\n\n: another\n\n"),
        "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
        "no blank behind the colon": lambda data: data.replace(b"data: ", b"data:"),
        "ids and retry fields": lambda data: data.replace(b"data: ", b"id: 7\nretry: 10\ndata: "),
        "the last blank line missing": lambda data: data.rstrip(b"\n"),
        "all at once": lambda data: data,
    }
    return [Fault(f"stream with {name}", "T81 B10", shaped(change), says="Grüße 😀") for name, change in shapes.items()]


# --------------------------------------------------------------------------- T82: failures inside a stream


def _failures() -> list[Fault]:
    faults: list[Fault] = []
    retried: tuple[Kind, ...] = ("overloaded", "rate", "server", "odd")
    final: dict[Kind, str] = {"auth": "Check the provider's key", "billing": "Add credit", "invalid": "refused again"}
    for place in ("nothing", "text", "a closed call"):
        begin = BEGUN[place]
        for kind in retried:

            def again(pens: Pens, begin: Callable[[Pen], Pen] = begin, kind: Kind = kind) -> Sequence[Reply]:
                return [begin(pens.new()).error(kind, "not now").reply(), calls(pens), ok(pens)]

            faults.append(Fault(f"error {kind} behind {place}", "T82 B10", again, ran=1))
        for kind, says in final.items():

            def once(pens: Pens, begin: Callable[[Pen], Pen] = begin, kind: Kind = kind) -> Sequence[Reply]:
                return [begin(pens.new()).error(kind, "so it is").reply()]

            faults.append(Fault(f"error {kind} behind {place}", "T82 B10", once, "provider_error", says=says))
    events = {
        "that is no JSON": b"data: {oops\n\n",
        "that is a list": b"data: [1]\n\n",
        "of NULs": b"data: \0\0\0\n\n",
        "that is no UTF-8": b'data: {"type": "\xff\xfe\n\n',
        "that is too deep": b"data: " + b"[" * 100_000 + b"\n\n",
    }
    for name, event in events.items():

        def odd(pens: Pens, event: bytes = event) -> Sequence[Reply]:
            return [pens.new().text("I begin").raw(event).stop().reply()]

        faults.append(Fault(f"event {name}", "T82", odd, "provider_error", says="The server sent an event"))
    return faults


CONNECTION_FAULTS = (*_statuses(), *_bodies(), *_breaks(), *_shapes(), *_failures())

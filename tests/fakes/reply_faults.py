"""Faults of what a reply says: arguments, reasons to stop, ids and texts, and requests that are too long."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from agent.events import TurnEndReason
from tests.fakes.fault import ALL, BEGUN, COUNT_FILE, EDIT, PRIMED_ID, Api, Fault, calls, ok, page, summary
from tests.fakes.model_server import Chunk, Reply
from tests.fakes.pens import Pen, Pens, Stop

# --------------------------------------------------------------------------- T83: arguments

ARGUMENTS = {
    "empty text": "",
    "null": "null",
    "list": "[]",
    "a string": '"path"',
    "no JSON": '{"path": ',
    "two values": "{} {}",
    "wrong type": '{"path": ["a"]}',
    "missing": "{}",
    "extra": '{"path": "a", "mode": "x"}',
    "NaN": '{"path": NaN}',
    "a NUL": '{"path": "a\\u0000b"}',
    "a lone surrogate": '{"path": "\\ud800"}',
    "2 MB": json.dumps({"path": "a", "content": "x" * 2_000_000}),
    "500 deep": '{"path": ' + '{"a":' * 500 + "1" + "}" * 501,
    "5,000 open brackets": "[" * 5_000,
}


def _arguments() -> list[Fault]:
    def play(text: str) -> Callable[[Pens], Sequence[Reply]]:
        return lambda pens: [pens.new().call("read", text).stop("calls").reply(), ok(pens)]

    return [Fault(f"arguments: {name}", "T83", play(text)) for name, text in ARGUMENTS.items()]


# --------------------------------------------------------------------------- T84: reasons to stop


def _stops() -> list[Fault]:
    begun: dict[str, Callable[[Pen], Pen]] = {
        "": lambda pen: pen,
        "text": lambda pen: pen.text("So it is."),
        "blanks": lambda pen: pen.text(" \n"),
        "thinking": BEGUN["thinking"],
        "half a call": BEGUN["arguments"],
        "a search": lambda pen: pen.text("I search.").served(),
        "a call": BEGUN["a closed call"],
    }

    def stop(how: Stop, what: str, *rest: Callable[[Pens], Reply], times: int = 1) -> Callable[[Pens], Sequence[Reply]]:
        return lambda pens: [begun[what](pens.new()).stop(how).reply()] * times + [more(pens) for more in rest]

    others, closing = ("responses", "chat"), ("anthropic", "responses")
    rows: list[tuple[Stop, str, Callable[[Pens], Sequence[Reply]], TurnEndReason, int, str, tuple[Api, ...]]] = [
        ("done", "text", stop("done", "text"), "done", 0, "", ALL),
        ("done", "", stop("done", "", ok), "done", 0, "", ALL),
        ("done", " twice", stop("done", "", times=2), "no_answer", 0, "no visible answer", ALL),
        ("done", "blanks", stop("done", "blanks", ok), "done", 0, "", ALL),
        ("done", "thinking", stop("done", "thinking", ok), "done", 0, "", ALL),
        ("done", "thinking twice", stop("done", "thinking", times=2), "no_answer", 0, "no visible answer", ALL),
        ("done", "a call", stop("done", "a call", ok), "done", 1, "", ALL),
        ("sequence", "text", stop("sequence", "text"), "done", 0, "", ALL),
        ("calls", "", stop("calls", "", ok), "done", 0, "", ALL),
        ("calls", "text", stop("calls", "text"), "done", 0, "", ALL),
        ("calls", "a call", stop("calls", "a call", ok), "done", 1, "", ALL),
        ("cut", "text", stop("cut", "text", ok), "done", 0, "", ALL),
        ("cut", "text twice", stop("cut", "text", times=2), "done", 0, "output limit", ALL),
        ("cut", "thinking", stop("cut", "thinking", ok), "done", 0, "", ALL),
        ("cut", "half a call", stop("cut", "half a call", ok), "done", 0, "", ALL),
        ("cut", "half a call twice", stop("cut", "half a call", times=2), "done", 0, "output limit", ALL),
        ("cut", "a call", stop("cut", "a call", ok), "done", 0, "", ALL),
        ("refused", "text", stop("refused", "text"), "refusal", 0, "declined", ALL),
        ("refused", "", stop("refused", ""), "refusal", 0, "declined", ALL),
        ("refused", "a call", stop("refused", "a call"), "refusal", 0, "declined", ALL),
        ("paused", "text", stop("paused", "text", ok), "done", 0, "", ("anthropic",)),
        ("paused", "a search", stop("paused", "a search", ok), "done", 0, "", ("anthropic",)),
        ("paused", "a search for ever", stop("paused", "a search", times=6), "done", 0, "more than 5", ("anthropic",)),
        ("paused", "text for ever", stop("paused", "text", times=6), "done", 0, "more than 5", ("anthropic",)),
        ("paused", "text", stop("paused", "text"), "done", 0, "does not know", others),
        ("odd", "text", stop("odd", "text"), "done", 0, "something_new", ALL),
        ("odd", "a call", stop("odd", "a call", ok), "done", 1, "", ALL),
        ("odd", "", stop("odd", "", ok), "done", 0, "", ALL),
        ("none", "text", stop("none", "text"), "done", 0, "does not know", ALL),
        ("none", "a call", stop("none", "a call", ok), "done", 1, "", closing),
        # Nothing closes a call there but the reason to stop: it is asked for anew.
        ("none", "a call", stop("none", "a call", calls, ok), "done", 1, "", ("chat",)),
        ("none", "", stop("none", "", ok), "done", 0, "", ALL),
        ("full", "a call", stop("full", "a call", ok), "done", 1, "", closing),
    ]
    faults = [
        Fault(f"stop {how}: {what}", "T84", play, ends, ran, says, apis=apis)
        for how, what, play, ends, ran, says, apis in rows
    ]
    faults += [
        Fault("stop full: text", "T84", stop("full", "text", summary, ok), long=True),
        Fault(
            "stop full: nothing to compact", "T84", stop("full", "text"), "context_full", says="could not be compacted"
        ),
    ]
    return faults


# --------------------------------------------------------------------------- T85, T89: odd pieces


def _odd_pieces() -> list[Fault]:
    def call(*given: tuple[str, Any, str]) -> Callable[[Pens], Sequence[Reply]]:
        def play(pens: Pens) -> Sequence[Reply]:
            pen = pens.new()
            for name, arguments, id_ in given:
                pen.call(name, arguments, id_)
            return [pen.stop("calls").reply(), ok(pens)]

        return play

    def spelt(mark: bytes, spelling: bytes, play: Callable[[Pens], Pen]) -> Callable[[Pens], Sequence[Reply]]:
        """With a mark spelt in JSON as no encoder of ours would spell it."""
        return lambda pens: [Reply((Chunk(play(pens).data.replace(mark, spelling)),)), ok(pens)]

    def unknown(pens: Pens) -> Sequence[Reply]:
        return [pens.new().text("Before.").unknown().text(" Behind.").unknown().stop().reply()]

    read = {"path": COUNT_FILE}
    faults = [
        Fault("one id twice", "T85", call(("edit", EDIT, "same"), ("edit", EDIT, "same")), ran=2),
        Fault("an id of an earlier turn", "T85", call(("edit", EDIT, PRIMED_ID)), ran=1),
        Fault(
            "an id of an earlier turn twice", "T85", call(("read", read, PRIMED_ID), ("edit", EDIT, PRIMED_ID)), ran=1
        ),
        Fault("an empty id", "T85", call(("edit", EDIT, ""), ("read", read, "")), ran=1),
        Fault("a long id", "T85", call(("edit", EDIT, "i" * 300)), ran=1),
        Fault("an odd id", "T85", call(("edit", EDIT, "a b/ü:😀")), ran=1),
        Fault("an unknown tool", "T85", call(("teleport", {}, "a"), ("edit", EDIT, "b")), ran=1),
        Fault("a tool with an odd name", "T85", call(("read file!/ü" + "x" * 200, {}, "a"))),
        Fault("a tool without a name", "T85", call(("", {}, "a"))),
        Fault("unknown events and blocks", "T85", unknown, says="Before."),
        Fault(
            "a lone surrogate in id and name",
            "T85 T89",
            spelt(b"MARK", b"\\ud800", lambda p: p.new().call("MARK", {}, "MARK").stop("calls")),
        ),
    ]
    texts = {"a lone surrogate": b"\\ud83d", "a NUL": b"\\u0000", "an escape": b"\\u001b[31m", "U+FFFF": b"\\uffff"}
    for name, spelling in texts.items():

        def said(pens: Pens, spelling: bytes = spelling) -> Sequence[Reply]:
            return [Reply((Chunk(pens.new().text("x MARK y").stop().data.replace(b"MARK", spelling)),))]

        faults.append(Fault(f"text with {name}", "T89", said))

    def halves(pens: Pens) -> Sequence[Reply]:
        data = pens.new().text("One MARK" + "." * 8 + "MORE two").stop().data  # cut by the pen after sixteen characters
        return [Reply((Chunk(data.replace(b"MARK" + b"." * 8, b"\\ud83d").replace(b"MORE", b"\\ude00")),))]

    faults.append(Fault("an emoji in two pieces", "T89", halves))
    return faults


# --------------------------------------------------------------------------- T87: too long

OVERFLOWS = (
    "prompt is too long: 211000 tokens > 200000 maximum",
    "input is too long for requested model",
    "Your input exceeds the context window of this model.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072",
    "Please reduce the length of the messages",
    "This endpoint's maximum context length is 128000 tokens",
    "prompt token count of 140012 exceeds the limit of 128000",
    "the request exceeds the available context size",
    "the prompt is greater than the context length",
    "context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144",
    "Prompt is too large for model with 32768 maximum context length",
    "too many tokens in the request",
    "Token limit exceeded",
)


def _overflows() -> list[Fault]:
    faults: list[Fault] = []
    for number, words in enumerate(OVERFLOWS):
        status = (400, 413, 500, 422)[number % 4]

        def refused(pens: Pens, status: int = status, words: str = words) -> Sequence[Reply]:
            return [pens.refuse(status, "odd", words), summary(pens), calls(pens), ok(pens)]

        def inside(pens: Pens, words: str = words) -> Sequence[Reply]:
            return [pens.new().text("I").error("invalid", words).reply(), summary(pens), calls(pens), ok(pens)]

        faults.append(Fault(f"{status}: {words[:24]}", "T87", refused, ran=1, long=True))
        faults.append(Fault(f"inside: {words[:24]}", "T87", inside, ran=1, long=True))
    too_long = OVERFLOWS[0]
    faults += [
        Fault("413 with nothing", "T87", lambda p: [page(b"", 413), summary(p), ok(p)], long=True),
        Fault(
            "still too long",
            "T87",
            lambda p: [p.refuse(400, "invalid", too_long), summary(p), p.refuse(400, "invalid", too_long)],
            "context_full",
            says="too long",
            long=True,
        ),
        Fault(
            "too long with nothing to compact",
            "T87",
            lambda p: [p.refuse(400, "invalid", too_long)],
            "context_full",
            says="too long",
        ),
    ]
    # T88: the call for the summary fails in its turn.
    bad: dict[str, Callable[[Pens], Sequence[Reply]]] = {
        "refused": lambda p: [p.new().text("I won't.").stop("refused").reply()],
        "a call instead": lambda p: [p.new().call("edit", EDIT).stop("calls").reply()],
        "empty": lambda p: [p.new().stop().reply()],
        "too long four times": lambda p: [p.refuse(400, "invalid", "Token limit exceeded")] * 4,
        "a wrong key": lambda p: [p.refuse(401, "auth", "expired")],
    }
    for name, replies in bad.items():

        def vain(pens: Pens, replies: Callable[[Pens], Sequence[Reply]] = replies) -> Sequence[Reply]:
            return [pens.refuse(400, "invalid", OVERFLOWS[1]), *replies(pens)]

        faults.append(Fault(f"summary {name}", "T88", vain, "context_full", says="too long", long=True))
    faults.append(
        Fault(
            "summary limited at first",
            "T88",
            lambda p: [
                p.refuse(400, "invalid", too_long),
                p.refuse(429, "rate", "slow", {"retry-after-ms": "1"}),
                summary(p),
                ok(p),
            ],
            long=True,
        )
    )
    return faults


REPLY_FAULTS = (*_arguments(), *_stops(), *_odd_pieces(), *_overflows())

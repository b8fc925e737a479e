from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.errors import ProtocolError
from providers.sse import SseDecoder, SseEvent

CLEAN = (
    b'event: a\ndata: {"x": "gr\xc3\xbc\xc3\x9fe \xf0\x9f\x98\x80"}\n\n'
    b"event: ping\ndata: {}\n\n"
    b'data: {"y": "line\xe2\x80\xa8separator\xe2\x80\xa9and\xc2\x85next"}\n\n'
    b'event: b\ndata: {\ndata:  "z": 1}\n\n'
    b"data: [DONE]\n\n"
)
EVENTS: list[SseEvent] = [
    ("a", '{"x": "grüße 😀"}'.encode()),
    ("ping", b"{}"),
    ("", '{"y": "line\u2028separator\u2029and\u0085next"}'.encode()),
    ("b", b'{\n "z": 1}'),
    ("", b"[DONE]"),
]


def decode(data: bytes, cuts: list[int] | None = None) -> list[SseEvent]:
    decoder = SseDecoder()
    edges = [0, *sorted(cuts or []), len(data)]
    found = [event for a, b in pairwise(edges) for event in decoder.feed(data[a:b])]
    return found + decoder.flush()


SHAPES = {
    "clean": CLEAN,
    "crlf": CLEAN.replace(b"\n", b"\r\n"),
    "cr": CLEAN.replace(b"\n", b"\r"),
    "mixed": CLEAN.replace(b"\n\n", b"\r\n\n"),
    "bom": b"\xef\xbb\xbf" + CLEAN,
    "bom crlf": b"\xef\xbb\xbf" + CLEAN.replace(b"\n", b"\r\n"),
    "comments": b": hello\n\n" + CLEAN.replace(b"data: {}", b": keep-alive\ndata: {}\n: more"),
    "blank lines": b"\n\n\n" + CLEAN.replace(b"\n\n", b"\n\n\n\n"),
    "other fields": CLEAN.replace(b"event: a", b"id: 7\nretry: 10\nunknown: x\nnocolon\nevent: a"),
    "no space": CLEAN.replace(b"event: ", b"event:").replace(b"data: {}", b"data:{}"),
    "data first": CLEAN.replace(b"event: ping\ndata: {}", b"data: {}\nevent: ping"),
    "an event without data": CLEAN.replace(b"event: ping", b"event: empty\n\nevent: ping"),
    "no last blank line": CLEAN[:-2],
    "half a last blank line": CLEAN[:-1],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_T81_B10_every_shape_gives_the_same_events_at_once_and_byte_by_byte(shape: str) -> None:
    data = SHAPES[shape]
    assert decode(data) == EVENTS
    assert decode(data, list(range(len(data)))) == EVENTS


@given(st.sampled_from(sorted(SHAPES)), st.lists(st.integers(0, len(CLEAN)), max_size=12))
def test_T81_the_cuts_between_chunks_do_not_matter(shape: str, cuts: list[int]) -> None:
    data = SHAPES[shape]
    assert decode(data, [min(cut, len(data)) for cut in cuts]) == EVENTS


def test_T82_a_body_that_is_no_stream_gives_no_event_and_can_be_shown() -> None:
    for body in (b"", b"{}", b"<html>\n\n<p>data centre: down</p>\n\n</html>"):
        decoder = SseDecoder()
        assert decoder.feed(body) + decoder.flush() == []
        assert decoder.events == 0
        assert decoder.start == body


def test_one_event_has_a_limit_and_many_have_none() -> None:
    decoder = SseDecoder(max_event_bytes=1000)
    for _ in range(50):
        assert len(decoder.feed(b"data: " + b"x" * 900 + b"\n\n")) == 1
    with pytest.raises(ProtocolError, match="event of more than"):
        for _ in range(20):
            decoder.feed(b"data: " + b"x" * 100)


def test_a_large_event_in_small_chunks_costs_no_more_than_its_size() -> None:
    data = b"data: " + b"x" * 300_000 + b"\n\n"
    decoder = SseDecoder()
    found = [event for start in range(0, len(data), 7) for event in decoder.feed(data[start : start + 7])]
    assert found == [("", b"x" * 300_000)]

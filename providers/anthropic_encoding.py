"""Request bodies for the Anthropic Messages API. Each message is encoded once and kept; a body is those bytes joined.

Cache marks are put in at joining, so that what is kept never holds one: without them an earlier body's tools, system
and blocks are a prefix of a later one's.
"""

from collections.abc import Sequence
from itertools import zip_longest

from msgspec import Struct

from providers.anthropic_blocks import EncodedMessage, Role, encode_message
from providers.base import ModelRequest
from providers.images import LoadBlob
from providers.model_table import table_key, table_row, thinking_style
from providers.types import Effort, Message, PromptSection, ToolSpec
from providers.unicode import to_json

_MARK = b',"cache_control":{"type":"ephemeral"}'
_BUDGET_TOKENS: dict[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 16_384}
_MIN_BUDGET_TOKENS = 1_024
_LANES = 4
"""Conversations whose bytes are kept at a time, by cache key: a session, and requests beside it."""


class AnthropicEncoder:
    """Makes bodies for one connection. `encoded_messages` counts the messages that had to be encoded."""

    def __init__(self, cache_marks: bool = True) -> None:
        self._cache_marks = cache_marks
        self._lanes: dict[str, _Lane] = {}
        self.encoded_messages = 0

    def body(self, request: ModelRequest) -> bytes:
        """The body of a streaming call, valid UTF-8 JSON."""
        head = b'"max_tokens":%d,"stream":true,' % request.max_tokens
        return self._body(request, head, self._cache_marks)

    def count_body(self, request: ModelRequest) -> bytes:
        """The body that asks for the number of input tokens of the same call."""
        return self._body(request, b"", False)

    def _body(self, request: ModelRequest, head: bytes, marks: bool) -> bytes:
        fields = [b'"model":' + to_json(request.model)]
        fields += thinking_fields(request.model, request.effort, request.max_tokens)
        has_system = any(section.text.strip() for section in request.system)
        if request.tools:
            fields.append(b'"tools":' + _tools(request.tools, marks and not has_system))
        if has_system:
            fields.append(b'"system":' + _system(request.system, marks))
        lane = self._lane(request)
        before = lane.encoded_messages
        parts = lane.parts(request, marks)
        self.encoded_messages += lane.encoded_messages - before
        # One join: the history is copied once, whatever stands around it.
        return b"".join([b"{", head, b",".join(fields), b',"messages":', *parts, b"}"])

    def _lane(self, request: ModelRequest) -> "_Lane":
        lane = self._lanes.pop(request.cache_key, None)
        if lane is None or not lane.continues(request):
            lane = _Lane(request.generation)
        self._lanes[request.cache_key] = lane
        while len(self._lanes) > _LANES:
            del self._lanes[next(iter(self._lanes))]
        return lane


class _Tail(Struct, frozen=True):
    message: Message
    encoded: EncodedMessage


class _Lane:
    """What is kept of one conversation within one generation.

    `_frozen` is the JSON of the leading messages that can no longer change, without the end of the last one, so that a
    neighbour of the same role can still join it. Behind it come messages that are compared by identity each time.
    """

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._frozen = _Joined()
        self._first: Message | None = None
        self._last: Message | None = None
        self._tail: list[_Tail] = []
        self.encoded_messages = 0

    def continues(self, request: ModelRequest) -> bool:
        """Whether what is kept is also the start of this request."""
        count = len(self._frozen.mark_offsets)
        if request.generation != self._generation or len(request.messages) < count or request.stable < count:
            return False
        return count == 0 or (request.messages[0] is self._first and request.messages[count - 1] is self._last)

    def parts(self, request: ModelRequest, marks: bool) -> list[bytes | memoryview]:
        """The JSON list of the request's messages, in pieces."""
        self._encode_tail(request.messages, request.load_blob)
        self._freeze(request.stable, request.messages)
        moving = _Joined(self._frozen.role, len(self._frozen.body))
        for item in self._tail:
            moving.append(item.encoded)
        for message in request.extra:
            self.encoded_messages += 1
            moving.append(encode_message(message, request.load_blob))
        offsets = self._marked(request, moving) if marks else []
        border = len(self._frozen.body)
        return [
            *_with_marks(self._frozen.body, [o for o in offsets if o < border]),
            *_with_marks(moving.body, [o - border for o in offsets if o >= border]),
            moving.end(),
        ]

    def _encode_tail(self, messages: Sequence[Message], load_blob: LoadBlob | None) -> None:
        start = len(self._frozen.mark_offsets)
        newest = [messages[index] for index in range(start, len(messages))]
        tail = []
        for message, kept in zip_longest(newest, self._tail[: len(newest)]):
            if kept is not None and kept.message is message:
                tail.append(kept)
            else:
                self.encoded_messages += 1
                tail.append(_Tail(message, encode_message(message, load_blob)))
        self._tail = tail

    def _freeze(self, stable: int, messages: Sequence[Message]) -> None:
        ready = min(stable, len(messages)) - len(self._frozen.mark_offsets)
        if ready <= 0:
            return
        for item in self._tail[:ready]:
            self._frozen.append(item.encoded)
        if self._first is None:
            self._first = self._tail[0].message
        self._last = self._tail[ready - 1].message
        del self._tail[:ready]

    def _marked(self, request: ModelRequest, moving: "_Joined") -> list[int]:
        """Offsets for cache marks: where the previous request's last one stood, and the end unless `extra` follows."""
        ends = {min(request.sent_before, len(request.messages))}
        if not request.extra:
            ends.add(len(request.messages))
        offsets = {self._offset(end - 1, moving) for end in ends if end > 0}
        return sorted(offset for offset in offsets if offset >= 0)

    def _offset(self, index: int, moving: "_Joined") -> int:
        frozen = self._frozen.mark_offsets
        return frozen[index] if index < len(frozen) else moving.mark_offsets[index - len(frozen)]


class _Joined:
    """Messages joined to JSON, neighbours of one role as one message. The last one is left open; `end` closes it."""

    def __init__(self, role: Role | None = None, offset: int = 0) -> None:
        self.role = role
        self.body = bytearray()
        self.mark_offsets: list[int] = []
        """For each message where a cache mark would go, counted from the start of all messages; -1: nowhere."""
        self._offset = offset

    def append(self, message: EncodedMessage) -> None:
        if not message.blocks:
            self.mark_offsets.append(-1)
            return
        if self.role == message.role:
            self.body += b","
        else:
            self.body += b"[" if self.role is None else b"]},"
            self.body += b'{"role":"%s","content":[' % message.role.encode()
            self.role = message.role
        start = self._offset + len(self.body)
        self.mark_offsets.append(start + message.mark_at if message.mark_at >= 0 else -1)
        self.body += message.blocks

    def end(self) -> bytes:
        return b"[]" if self.role is None else b"]}]"


def _with_marks(body: bytearray, offsets: list[int]) -> list[bytes | memoryview]:
    whole = memoryview(body)
    parts: list[bytes | memoryview] = []
    start = 0
    for offset in offsets:
        parts += [whole[start:offset], _MARK]
        start = offset
    return [*parts, whole[start:]]


def _system(sections: Sequence[PromptSection], marks: bool) -> bytes:
    """All sections as text blocks; marks behind the last static one and behind the last one."""
    visible = [section for section in sections if section.text.strip()]
    static = [index for index, section in enumerate(visible) if section.static]
    marked = {len(visible) - 1, static[-1] if static else len(visible) - 1} if marks else set()
    blocks = []
    for index, section in enumerate(visible):
        block = to_json({"type": "text", "text": section.text})
        blocks.append(block[:-1] + _MARK + b"}" if index in marked else block)
    return b"[" + b",".join(blocks) + b"]"


def _tools(tools: Sequence[ToolSpec], mark_last: bool) -> bytes:
    encoded = [
        to_json({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}) for tool in tools
    ]
    if mark_last:
        encoded[-1] = encoded[-1][:-1] + _MARK + b"}"
    return b"[" + b",".join(encoded) + b"]"


def thinking_fields(model: str, effort: Effort | None, max_tokens: int) -> list[bytes]:
    """The fields that set how much the model thinks; none where the provider's default is wanted.

    `off` needs to be said only to models that think by default, which are those of version 5 and later (documentation of
    2026-11); those that cannot be turned off are asked for the least. A budget leaves at least half of `max_tokens` for
    the answer.
    """
    style = thinking_style(model)
    if effort is None or style == "none":
        return []
    if effort == "off":
        if not _thinks_by_default(model):
            return []
        row = table_row(model, "anthropic")
        if row is not None and "off" in row.efforts:
            return [b'"thinking":{"type":"disabled"}']
        effort = "low"
    if style == "adaptive":
        level = to_json({"effort": effort})
        return [b'"thinking":{"type":"adaptive","display":"summarized"}', b'"output_config":' + level]
    budget = min(_BUDGET_TOKENS[effort], max_tokens // 2)
    if budget < _MIN_BUDGET_TOKENS:
        return []
    return [b'"thinking":{"type":"enabled","budget_tokens":%d}' % budget]


def _thinks_by_default(model: str) -> bool:
    major = table_key(model).split("-")[2:3]
    return bool(major) and major[0].isdigit() and int(major[0]) >= 5

"""What `TranscriptView.load` takes: the finished parts of a conversation, raw."""

from typing import NamedTuple

from agent.tools.details import ResultDetails
from tui.widgets.blocks import Level


class UserItem(NamedTuple):
    text: str
    key: int | None = None


class AssistantItem(NamedTuple):
    text: str


class ThinkingItem(NamedTuple):
    text: str


class ToolItem(NamedTuple):
    call_id: str
    tool: str
    title: str
    is_error: bool
    details: ResultDetails | None
    text: str


class NoticeItem(NamedTuple):
    level: Level
    text: str


class CompactionItem(NamedTuple):
    text: str


Item = UserItem | AssistantItem | ThinkingItem | ToolItem | NoticeItem | CompactionItem

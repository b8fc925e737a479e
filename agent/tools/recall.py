"""The `recall` tool: searches the session's own record and reads entries of it whole. It reads nothing else."""

import asyncio
import time
from typing import ClassVar, Literal

from msgspec import Struct

from agent.recall import MOST_HITS, TOOL, Hit, Recall
from agent.tools.base import Access, ToolContext, ToolError, ToolOutput, load_description
from agent.tools.details import TextDetails

_QUERY_CHARS = 60


class RecallParams(Struct, frozen=True):
    query: str | None = None
    entry: int | str | None = None
    scope: Literal["session", "project"] = "session"


class RecallTool:
    name: ClassVar[str] = TOOL
    params: ClassVar[type[Struct]] = RecallParams
    description: ClassVar[str] = load_description(__file__)

    def access(self, params: RecallParams, context: ToolContext) -> Access:
        if params.entry is not None:
            _parsed(params.entry)
            return Access("record", f"entry {params.entry}")
        if not (params.query or "").strip():
            raise ToolError("recall needs `query` (words to look for) or `entry` (a number, for instance 12).")
        return Access("record", " ".join(str(params.query).split())[:_QUERY_CHARS])

    async def run(self, params: RecallParams, context: ToolContext) -> ToolOutput:
        recall = context.recall
        if recall is None:
            raise ToolError("This session keeps no record that could be searched.")
        if params.entry is not None:
            return await _whole_entry(recall, *_parsed(params.entry))
        words = params.query or ""
        hits = recall.search(words)
        if params.scope == "project":
            hits += await asyncio.to_thread(recall.search_project, words, MOST_HITS)
        if not hits:
            where = "this session" if params.scope == "session" else "the sessions of this project"
            return ToolOutput(f"Nothing in {where} holds these words. Try fewer or other ones.", TextDetails("no hits"))
        now_ms = int(time.time() * 1000)
        lines = [f"{_name(hit)} ({_what(hit)}, {_ago(now_ms - hit.time_ms)}): {hit.excerpt}" for hit in hits]
        count = "1 entry" if len(hits) == 1 else f"{len(hits)} entries"
        return ToolOutput("\n".join(lines), TextDetails(count))


async def _whole_entry(recall: Recall, key: int, session: str) -> ToolOutput:
    text = await asyncio.to_thread(recall.entry, key, session)
    if text is None:
        raise ToolError(f"There is no entry {key}{f' in session {session}' if session else ''}; search with `query`.")
    if not text.strip():
        raise ToolError(f"Entry {key} holds no text: it only changed the window.")
    return ToolOutput(text, TextDetails(f"entry {key}"))


def _parsed(entry: int | str) -> tuple[int, str]:
    """Key and session of what the model named: 12, "12", "entry 12" or "SESSION#12".

    Raises:
        ToolError: it is none of these.
    """
    session, _, key = str(entry).strip().removeprefix("entry ").rpartition("#")
    if not key.strip().isdecimal():
        raise ToolError(f"{entry!r} is no entry: give its number, for instance 12, or SESSION#12.")
    return int(key), session


def _name(hit: Hit) -> str:
    return f"[{hit.session}#{hit.key}]" if hit.session else f"[entry {hit.key}]"


def _what(hit: Hit) -> str:
    return hit.name or hit.kind


def _ago(passed_ms: int) -> str:
    minutes = max(0, passed_ms) // 60_000
    if minutes < 60:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // 1440} days ago"

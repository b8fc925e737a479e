"""A session as a document for others: Markdown to read, JSON to work with. Pieces of text, in order; who writes them where
is not known here.

Decisions: Markdown shows the branch that counts, as its user saw it, and leaves out what only shapes the window; JSON has
every entry, of abandoned branches too. Secrets are taken out of both; images and spilled outputs stay behind.
"""

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from agent.context.fence import fence
from agent.redaction import Redactor
from agent.replay import user_text
from agent.session_secrets import marked_before
from agent.store.sessions import LoadedSession
from agent.store.titles import MOST_GIVEN_CHARS, title_of
from agent.transcript import Assistant, Compaction, Entry, Pin, Result, Rewind, Transcript, User, to_plain
from providers.types import TextBlock, ThinkingBlock, ToolCall

Format = Literal["markdown", "json"]
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNCUT_CHARS = 10_000
_TICKS = re.compile("`+")


def export(session: LoadedSession, form: Format, redactor: Redactor) -> Iterator[str]:
    """The document, piece by piece. What was redacted in the session keeps its number, further secrets follow in the order of
    the document."""
    redactor.take_over(marked_before(session.entries))
    return _json(session, redactor) if form == "json" else _markdown(session, redactor)


def _title(session: LoadedSession, redactor: Redactor) -> str:
    """On one line. It is cut only when no secret is left in it, since half a key is not known for one."""
    return " ".join(redactor.text(title_of(session.entries, _UNCUT_CHARS, clean=str)).split())[:MOST_GIVEN_CHARS]


# --------------------------------------------------------------------------- JSON


def _json(session: LoadedSession, redactor: Redactor) -> Iterator[str]:
    branch = Transcript(session.entries).branch
    head = {
        "id": session.meta.id,
        "title": _title(session, redactor),
        "project": redactor.text(session.meta.project),
        "created_ms": session.meta.created_ms,
        "forked_from": session.meta.forked_from,
        "unreadable_entries": session.damaged,
        "branch": [entry.key for entry in branch],
    }
    yield f'{{"session":{_encoded(head)},"entries":['
    for number, entry in enumerate(session.entries):
        yield ("," if number else "") + "\n" + _encoded(redactor.value(_plain(entry)))
    yield f'\n],"redacted":{redactor.count}}}\n'


def _plain(entry: Entry) -> dict[str, Any]:
    """Without fingerprints of secrets, which are for the session itself."""
    facts = {"key": entry.key, "parent": entry.parent, "time_ms": entry.time_ms}
    plain: dict[str, Any] = {**facts, "payload": to_plain(entry.payload)}
    for item in plain["payload"].get("redacted", ()):
        del item["fingerprint"]
    return plain


def _encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


# --------------------------------------------------------------------------- Markdown


def _markdown(session: LoadedSession, redactor: Redactor) -> Iterator[str]:
    entries = Transcript(session.entries).branch
    yield f"# {_literal(_title(session, redactor) or 'Session')}\n\n"
    for name, value in _facts(session, entries):
        yield f"- {name}: {redactor.text(value)}\n"
    for entry in entries:
        if text := _entry(entry, redactor):
            yield f"\n{text}\n"
    if redactor.count:
        what = "1 secret was" if redactor.count == 1 else f"{redactor.count} secrets were"
        yield f"\n---\n\n{what} taken out of this text.\n"


def _facts(session: LoadedSession, branch: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    meta = session.meta
    yield "Session", f"`{meta.id}`"
    if meta.forked_from:
        yield "Forked from", f"`{meta.forked_from}`"
    yield "Project", _code(meta.project)
    yield "Begun", _when(meta.created_ms)
    replies = [e.payload for e in branch if isinstance(e.payload, Assistant)]
    if models := list(dict.fromkeys(f"{reply.provider}/{reply.model}" for reply in replies)):
        yield "Models", ", ".join(_code(model) for model in models)
    costs = [reply.cost_usd for reply in replies if reply.cost_usd is not None]
    if costs:
        yield "Cost", f"${sum(costs):.2f}"
    if session.damage:
        yield "Note", session.damage


def _entry(entry: Entry, redactor: Redactor) -> str:
    match entry.payload:
        case User(synthetic=False) as user if said := _said(redactor.text(user_text(user))):
            return f"## User\n\n{said}"
        case Assistant() as reply:
            return _reply(reply, redactor)
        case Result(title=title, tool=tool, blocks=blocks, is_error=is_error):
            text = "\n".join(b.text if isinstance(b, TextBlock) else "[image]" for b in blocks)
            failed = ", failed" if is_error else ""
            name = " ".join(redactor.text(f"{tool} {title}").split())
            return f"**Result of {_code(name)}{failed}**\n\n{fence(redactor.text(text))}"
        case Compaction(text=text):
            return f"## Compaction\n\n{fence(redactor.text(text), 'markdown')}"
        case Pin(text=text, path=path) if text:
            return f"**Pinned{f' from {_code(redactor.text(path))}' if path else ''}**\n\n{fence(redactor.text(text))}"
        case Rewind():
            return "*Gone back to here.*"
    return ""


def _reply(reply: Assistant, redactor: Redactor) -> str:
    parts: list[str] = []
    for block in reply.blocks:
        match block:
            case TextBlock(text=text) if text.strip():
                parts.append(_said(redactor.text(text)))
            case ThinkingBlock(text=text) if text.strip():
                quoted = redactor.text(text).strip().replace("\n", "\n> ")
                parts.append(f"> {quoted}")
            case ToolCall(name=name, arguments=arguments):
                parts.append(f"**{_literal(redactor.text(name))}**\n\n{fence(redactor.text(arguments), 'json')}")
    if reply.interrupted:
        parts.append("*Interrupted.*")
    return "\n\n".join(["## Assistant", *parts]) if parts else ""


def _said(text: str) -> str:
    """A message as it is, headings one step below those of the document. Code in fences is left alone."""
    lines: list[str] = []
    closing = ""
    for line in text.strip("\n").split("\n"):
        run = match[1] if (match := _FENCE.match(line)) else ""
        if closing:
            if run.startswith(closing) and line.strip() == run:
                closing = ""
        elif run:
            closing = run
        elif line.startswith("#"):
            line = f"##{line}"
        lines.append(line)
    return "\n".join([*lines, closing] if closing else lines)


def _code(text: str) -> str:
    """Text in a code span that nothing in it can close."""
    mark = "`" * (max(map(len, _TICKS.findall(text)), default=0) + 1)
    blank = " " if "`" in text else ""
    return f"{mark}{blank}{' '.join(text.split())}{blank}{mark}"


def _literal(text: str) -> str:
    """One line of text in which nothing is markup."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>#&|~" else char for char in text)


def _when(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(time_ms / 1000))

import json
import re
from collections.abc import Sequence

import pytest
from markdown_it import MarkdownIt

from agent.export import Format, export
from agent.redaction import Redactor
from agent.store.base import SessionMeta
from agent.store.sessions import LoadedSession
from agent.transcript import (
    Assistant,
    AttachmentBlock,
    Compaction,
    Entry,
    Payload,
    Pin,
    Prefix,
    Reminder,
    Result,
    Rewind,
    Setting,
    ShellBlock,
    Spill,
    User,
)
from providers.types import ImageBlock, PromptSection, TextBlock, ThinkingBlock, ToolCall, Usage

KEY = "sk-ant-api03-" + "Ab1" * 20


def user(text: str) -> User:
    return User((TextBlock(text),))


def reply(*blocks: TextBlock | ThinkingBlock | ToolCall, interrupted: bool = False) -> Assistant:
    return Assistant(
        blocks, "anthropic", "claude", "anthropic", "c", None, Usage(1), "end_turn", "", interrupted, cost_usd=0.5
    )


PAYLOADS: tuple[Payload, ...] = (
    Setting(provider="anthropic"),
    Prefix((PromptSection("core", "You are an agent.", True),), ()),
    user(f"Use {KEY} please\n# not a heading of the document"),
    reply(
        ThinkingBlock("Hmm.\nYes.", "sig"),
        TextBlock("# Plan\n\n```\n# code stays\n```\n## Next"),
        ToolCall("1", "bash", f'{{"command": "echo {KEY} ```"}}'),
    ),
    Result("1", "bash", (TextBlock(f"{KEY}\n```\ninjected\n# no heading\n"), ImageBlock("image/png", "x")), True, "echo `x`"),
    Reminder("git", "a fact"),
    User((ShellBlock("ls", "a.txt"), AttachmentBlock("b.py", text="x"), TextBlock("look"))),
    reply(TextBlock("abandoned")),
    Rewind(),
    User((TextBlock("go on"),), synthetic=True),
    reply(TextBlock("unfinished ```\ncode"), interrupted=True),
    Compaction("the record", "the summary", 3, "manual", 9, 1),
    Pin(text="kept", path="src/a.py"),
    Result("2", "read", (TextBlock("fine"),), spill=Spill("0" * 64, 9)),
    user(""),
)  # fmt: skip


def session(payloads: Sequence[Payload] = PAYLOADS, **meta: str) -> LoadedSession:
    entries, head = [], None
    for key, payload in enumerate(payloads, 1):
        head = 7 if isinstance(payload, Rewind) else head
        entries.append(Entry(key, head, 1_700_000_000_000, payload))
        head = key
    facts = SessionMeta(
        "20260101-000000-abcd", meta.get("project", "/p/`x`"), 1_700_000_000_000, "20250101-000000-dcba"
    )
    return LoadedSession(facts, tuple(entries), (), {}, 1)


def written(form: Format, loaded: LoadedSession | None = None) -> str:
    return "".join(export(loaded or session(), form, Redactor([])))


def test_markdown_shows_the_branch_as_its_user_saw_it() -> None:
    text = written("markdown")
    for part in (
        "# Use \\[redacted 1\\] please\n",
        "- Session: `20260101-000000-abcd`\n- Forked from: `20250101-000000-dcba`\n- Project: `` /p/`x` ``\n",
        "- Models: `anthropic/claude`\n- Cost: $1.00\n",
        "1 entry of the session could not be read",
        "## User\n\nUse [redacted 1] please\n### not a heading of the document\n",
        "> Hmm.\n> Yes.\n\n### Plan\n\n```\n# code stays\n```\n#### Next\n",
        '**bash**\n\n````json\n{"command": "echo [redacted 1] ```"}\n````\n',
        "**Result of `` bash echo `x` ``, failed**\n\n````\n[redacted 1]\n",
        ", failed**\n\n````\n[redacted 1]\n```\ninjected\n",
        "[image]\n````\n",
        "! ls\na.txt\n[b.py]\nlook\n",
        "*Gone back to here.*",
        "unfinished ```\ncode",
        "*Interrupted.*",
        "## Compaction\n\n```markdown\nthe record\n```\n",
        "**Pinned from `src/a.py`**\n\n```\nkept\n```\n",
        "\n---\n\n1 secret was taken out of this text.\n",
    ):
        assert part in text, part
    for hidden in ("abandoned", "You are an agent", "a fact", "go on", "sig", KEY, KEY[-12:]):
        assert hidden not in text, hidden


def test_nothing_that_was_said_or_done_becomes_a_heading_or_breaks_out_of_its_fence() -> None:
    hostile = "```\n# owned\n```` \n~~~\n# owned too"
    loaded = session(
        [
            user(f"{hostile}\n# mine"),
            reply(TextBlock(hostile), ToolCall("1", f"x`\n# {hostile}", hostile)),
            Result("1", f"t`\n# {hostile}", (TextBlock(hostile),), title=hostile),
            Compaction(hostile, hostile, 1, "auto", 1, 1),
            user("the end"),
        ],
        project=f"/p`\n# {hostile}",
    )
    tokens = MarkdownIt().parse(written("markdown", loaded))
    headings = [
        tokens[i + 1].content
        for i, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag in ("h1", "h2")
    ]
    assert headings[1:] == ["User", "Assistant", "Compaction", "User"] and len(headings) == 5


def test_json_has_every_entry_of_every_branch_and_no_secret() -> None:
    document = json.loads(written("json"))
    assert document["session"] == {
        "id": "20260101-000000-abcd", "title": "Use [redacted 1] please", "project": "/p/`x`", "created_ms": 1_700_000_000_000,
        "forked_from": "20250101-000000-dcba", "unreadable_entries": 1,
        "branch": [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15],
    }  # fmt: skip
    assert [entry["key"] for entry in document["entries"]] == list(range(1, 16)) and document["redacted"] == 1
    assert document["entries"][7]["payload"]["blocks"][0]["text"] == "abandoned"
    assert document["entries"][2]["payload"]["type"] == "user" and document["entries"][8]["parent"] == 7
    assert (
        KEY not in json.dumps(document)
        and "[redacted 1]" in document["entries"][3]["payload"]["blocks"][2]["arguments"]
    )


@pytest.mark.parametrize("form", ["markdown", "json"])
def test_a_session_without_anything_is_a_document_too(form: Format) -> None:
    text = written(form, session([]))
    assert re.match(r"# Session\n" if form == "markdown" else r'\{"session":\{', text) and text.endswith("\n")
    if form == "json":
        assert json.loads(text)["entries"] == []


def test_T101_secrets_are_numbered_in_the_order_of_the_document() -> None:
    other = "ghp_" + "Ab1" * 12
    loaded = session([user("no secret"), reply(TextBlock(f"{other} and {KEY}")), user(f"again {other}")])
    text = written("markdown", loaded)
    assert "[redacted 1] and [redacted 2]" in text and "again [redacted 1]" in text and "2 secrets were" in text

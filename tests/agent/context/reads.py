"""Adds reads, edits and failures to a talk, recorded as the tools record them."""

from agent.transcript import Assistant, FileFact, Result
from providers.types import TextBlock, ToolCall, Usage
from tests.agent.context.talk import Talk


def listing(first: int, last: int, note: str = "", words: str = "some words of this line") -> str:
    lines = [f"{n}\t{words} {n}" for n in range(first, last + 1)]
    return "\n".join([*lines, note] if note else lines)


def call(talk: Talk, name: str, arguments: str = "{}") -> str:
    """A reply that calls a tool; the call's id."""
    call_id = f"c{len(talk.transcript)}"
    blocks = (ToolCall(call_id, name, arguments),)
    talk.append(Assistant(blocks, "p", "m", "anthropic", "m", None, Usage(), "tool_use"))
    return call_id


def read(talk: Talk, path: str = "src/a.py", version: str = "1", text: str = "", title: str = "") -> int:
    """Key of a read's result; the whole file of forty lines, or `text`."""
    fact = FileFact(f"/home/me/{path}", version * 64, ((1, 40),), True)
    result = Result(
        call(talk, "read", f'{{"path": "{path}"}}'),
        "read",
        (TextBlock(text or listing(1, 40)),),
        title=title or path,
        files=(fact,),
    )
    return talk.append(result).key


def change(talk: Talk, path: str = "src/a.py", tool: str = "edit", version: str = "2", failed: bool = False) -> int:
    fact = FileFact(f"/home/me/{path}", version * 64, (), False, "edited" if tool == "edit" else "written")
    files = () if failed else (fact,)
    return talk.append(Result(call(talk, tool), tool, (TextBlock("Done."),), failed, path, files=files)).key


def failure(talk: Talk, text: str, tool: str = "bash", arguments: str = '{"command": "make"}') -> int:
    return talk.append(Result(call(talk, tool, arguments), tool, (TextBlock(text),), True)).key

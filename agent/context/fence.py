"""Fences of backticks that nothing inside can close, and the one place where claw's own tags are disarmed in a model's text."""

import re

_RUNS = re.compile(r"`{3,}|~{3,}")
_TAGS = re.compile(
    r"<(?=/?\s*(?:reminder|attachment|project_instructions|conversation|previous_summary)\b)", re.IGNORECASE
)


def fence(text: str, label: str = "") -> str:
    """`text` unchanged between two lines of backticks, which are longer than any run of backticks or tildes in it."""
    longest = max((len(run) for run in _RUNS.findall(text)), default=2)
    line = "`" * (longest + 1)
    return f"{line}{label}\n{text}\n{line}"


def disarm(text: str) -> str:
    """A model's or a tool's text in which claw's own tags are no tags any more. Never used on the user's words."""
    return _TAGS.sub("&lt;", text)

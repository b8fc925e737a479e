"""Which tools a session has where the command line limits them."""

import difflib
from collections.abc import Sequence

from agent.tools.base import Tool
from agent.tools.built_in import built_in_tools
from tui.launch.startup import SetupError


def check_tools(wanted: Sequence[str]) -> None:
    """
    Raises:
        SetupError: there is no tool of that name.
    """
    known = [tool.name for tool in built_in_tools()]
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            remedy = f"Did you mean {near[0]!r}? " if near else ""
            raise SetupError(f"There is no tool {name!r}.\n{remedy}The tools are: {', '.join(known)}.")


def chosen_tools(wanted: Sequence[str] | None) -> dict[str, Tool]:
    """The tools by name in the order in which the model sees them; None: all. A name that is no tool's is passed over: a
    session may have been limited by a claw that had others."""
    return {tool.name: tool for tool in built_in_tools() if wanted is None or tool.name in wanted}

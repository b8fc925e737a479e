"""The built-in tools: one module each, with its description beside it."""

from agent.tools.base import Tool


def built_in_tools() -> tuple[Tool, ...]:
    """The tools every session has, in the order in which the model sees them."""
    from agent.tools.bash import Bash
    from agent.tools.bash_kill import BashKill
    from agent.tools.bash_output import BashOutput
    from agent.tools.edit import Edit
    from agent.tools.glob import Glob
    from agent.tools.grep import Grep
    from agent.tools.read import Read
    from agent.tools.recall import RecallTool
    from agent.tools.write import Write

    return (Read(), Write(), Edit(), Glob(), Grep(), Bash(), BashOutput(), BashKill(), RecallTool())

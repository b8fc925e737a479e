"""The rules of the configuration as a rule layer. A rule that cannot be understood is reported, and forbids nothing."""

from collections.abc import Iterable

from msgspec import Struct

from agent.config.schema import PermissionsConfig
from agent.permissions.path_pattern import PathScope
from agent.permissions.rules import Rule, RuleError, RuleLayer, parse_rule


class RuleProblem(Struct, frozen=True):
    text: str
    forbids: bool
    """It was meant to forbid something, so no mode that runs without asking may be used."""


def configured_rules(config: PermissionsConfig, scope: PathScope) -> tuple[RuleLayer, tuple[RuleProblem, ...]]:
    """`allow`, `ask` and `deny`, with `blocked_commands` and `protected_patterns` as further rules that deny."""
    problems: list[RuleProblem] = []

    def parsed(texts: Iterable[str], forbids: bool) -> tuple[Rule, ...]:
        rules: list[Rule] = []
        for text in texts:
            try:
                rules.append(parse_rule(text, scope))
            except RuleError as error:
                problems.append(RuleProblem(f"A permission rule is ignored: {error}", forbids))
        return tuple(rules)

    blocked = [f"bash({command})" for command in config.blocked_commands]
    protected = [f"edit({pattern})" for pattern in config.protected_patterns]
    layer = RuleLayer(
        "configuration",
        allow=parsed(config.allow, forbids=False),
        ask=parsed(config.ask, forbids=True),
        deny=parsed((*config.deny, *blocked, *protected), forbids=True),
    )
    return layer, tuple(problems)

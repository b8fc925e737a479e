from pathlib import Path

from agent.config.schema import PermissionsConfig
from agent.permissions.configured import configured_rules
from agent.permissions.path_pattern import PathScope


def test_T25_rules_of_the_configuration_keep_their_kind(tmp_path: Path) -> None:
    config = PermissionsConfig(
        allow=("bash(ls)", "nonsense("),
        ask=("read(b)", "Bash"),
        deny=("bash(rm)", "edit(../x)", "read(c)"),
        blocked_commands=("curl", "'"),
        protected_patterns=("*.lock",),
    )
    layer, problems = configured_rules(config, PathScope(tmp_path, tmp_path))
    found = {kind: [rule.text for rule in getattr(layer, kind)] for kind in ("allow", "ask", "deny")}
    assert found == {
        "allow": ["bash(ls)"],
        "ask": ["read(b)"],
        "deny": ["bash(rm)", "read(c)", "bash(curl)", "edit(*.lock)"],
    }
    faults = {"nonsense(": False, "Bash": True, "edit(../x)": True, "bash(')": True}
    assert [problem.forbids for problem in problems] == list(faults.values())
    assert all(repr(rule) in problem.text for rule, problem in zip(faults, problems, strict=True))
    assert all(problem.text.startswith("A permission rule is ignored: ") for problem in problems)

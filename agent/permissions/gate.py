"""The one gate between the loop and the tools: what runs, what is asked about, what is refused.

Deny beats ask beats allow, over all layers, and rules beat the mode. Some calls are asked about whatever a rule allows:
catastrophic commands and writes to `.git` and `.claw`; plan mode refuses those. Reading a file that may hold secrets
(sensitive.py), or editing a part of it, is asked about in every mode, unless a rule that means just such files allows it.
What plan mode refuses, a rule allows that was written down (configuration, command line); an answer given in another mode
does not. Until there is a sandbox, `auto` runs commands and no command is known to be safe.
"""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from agent.permissions.approval import Allow, ApprovalRequest, Approver, Deny, Scope
from agent.permissions.catastrophe import catastrophe
from agent.permissions.command_paths import CommandPaths, command_paths
from agent.permissions.grants import Grants, StateError
from agent.permissions.path_pattern import PathScope
from agent.permissions.path_text import is_protected, path_key
from agent.permissions.precious import Places
from agent.permissions.rules import (
    Match,
    Rule,
    RuleError,
    RuleLayer,
    allows_command,
    allows_path,
    forbids,
    parse_rule,
    parse_rules,
)
from agent.permissions.sensitive import is_sensitive, names_itself
from agent.permissions.shell import Scan, scan
from agent.permissions.suggestion import suggest_rule
from agent.permissions.workspace import Workspace
from agent.tools.base import Access
from providers.types import ToolCall

Mode = Literal["plan", "ask", "edits", "auto"]


class Decision(Struct, frozen=True):
    kind: Literal["allow", "ask", "refuse"]
    reason: str = ""
    """Why it asks or refuses, for people."""
    rule: str | None = None
    """The rule that decided."""
    only_once: bool = False
    """It must be asked about each time: no rule may be offered."""


class Allowed(Struct, frozen=True):
    note: str = ""
    """What went wrong while the answer was kept; the call may run."""


class Refused(Struct, frozen=True):
    reason: str
    """For the model."""
    by: Literal["user", "mode", "rule", "print"]
    why: str = ""
    """For people: what the mode or the rule says, or the user's words."""


class Refusal(Struct, frozen=True):
    """A call that did not run, for the report of a run without a screen."""

    call_id: str
    tool: str
    title: str
    reason: str
    by: Literal["user", "mode", "rule", "print"]


class Gate:
    def __init__(
        self,
        mode: Mode,
        workspace: Workspace,
        layers: Sequence[RuleLayer] = (),
        *,
        session_rules: Iterable[str] = (),
        grants: Grants | None = None,
        allowed_tools: Iterable[str] = (),
        disallowed_tools: Iterable[str] = (),
        home: Path | None = None,
    ) -> None:
        """
        Raises:
            RuleError: one of `session_rules`, `allowed_tools` or `disallowed_tools` is no rule.
        """
        self.mode: Mode = mode
        """May change at any time, by the user's keys alone; it counts from the next decision on."""
        self.refusals: list[Refusal] = []
        self.problems: list[str] = []
        """What of the granted rules could not be used; nothing is allowed by it."""
        self._workspace = workspace
        self._home = (home or Path.home()).resolve()
        self._scope = PathScope(workspace.root, self._home)
        self._grants = grants
        self._session = list(parse_rules(session_rules, self._scope))
        run = RuleLayer(
            "command line",
            allow=parse_rules(allowed_tools, self._scope),
            deny=parse_rules(disallowed_tools, self._scope),
        )
        self._layers = (*layers, run)
        self._granted = self._read_grants()
        self._forbidding_paths = [
            rule for layer in self._layers for rule in (*layer.deny, *layer.ask) if rule.pattern is not None
        ]
        if any(rule.closes_reading for rule in self._forbidding_paths):
            workspace.is_closed = self._is_closed
        workspace.is_sensitive = self.is_sensitive

    @property
    def session_rules(self) -> tuple[str, ...]:
        """The rules that were allowed for this session."""
        return tuple(rule.text for rule in self._session)

    def _read_grants(self) -> list[Rule]:
        rules: list[Rule] = []
        try:
            texts = self._grants.rules(self._workspace.root) if self._grants else ()
        except StateError as error:
            self.problems.append(f"{error}. Nothing is granted by it.")
            return rules
        for text in texts:
            try:
                rules.append(parse_rule(text, self._scope))
            except RuleError as error:
                self.problems.append(f"{error} It is ignored.")
        return rules

    # ------------------------------------------------------------------ deciding

    def decide(self, access: Access, tool: str) -> Decision:
        """What is to happen with a call. Changes nothing and asks nobody."""
        decision = self._decide(access, tool)
        if access.fails and decision.kind != "refuse":
            # Nothing will be changed, and why it fails tells of the file what reading it would.
            return self._decide(Access("read", access.title, access.paths), "read")
        return decision

    def _decide(self, access: Access, tool: str) -> Decision:
        parsed = scan(access.command or "") if access.kind == "command" else None
        verdict = self._strictest_rule(access, tool, parsed)
        if verdict is not None and verdict.kind == "refuse":
            return verdict
        rule = self._allowing_rule(access, tool)
        decision = self._by_mode(access) if rule is None else Decision("allow", rule=rule)
        if decision.kind == "refuse":
            return decision
        if decision.kind == "allow" and (secret := self._secret(access.paths, tool)) is not None:
            decision = Decision("ask", f"{secret.name} may hold secrets.", only_once=access.kind == "edit")
        if reason := self._always_asked(access, parsed):
            return Decision("refuse" if self.mode == "plan" else "ask", reason, only_once=True)
        return verdict or decision

    def _strictest_rule(self, access: Access, tool: str, parsed: Scan | None) -> Decision | None:
        ask: Decision | None = None
        paths = self._paths_of(parsed)
        for layer in self._layers:
            for rule in layer.deny:
                match = forbids(rule, tool, access, parsed, paths)
                if match is Match.CERTAIN:
                    return Decision("refuse", f"The rule {rule.text} ({layer.name}) forbids it.", rule.text)
                if match is Match.POSSIBLE and ask is None:
                    reason = f"It may do what the rule {rule.text} ({layer.name}) forbids."
                    ask = Decision("ask", reason, rule.text, only_once=True)
            for rule in layer.ask:
                if ask is None and forbids(rule, tool, access, parsed, paths) is not Match.NO:
                    reason = f"The rule {rule.text} ({layer.name}) says to ask."
                    ask = Decision("ask", reason, rule.text, only_once=True)
        return ask

    def _paths_of(self, parsed: Scan | None) -> CommandPaths | None:
        if parsed is None or not self._forbidding_paths:
            return None
        return command_paths(parsed, self._workspace.cwd, self._home)

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    def _is_closed(self, path: Path) -> bool:
        """Whether a search must leave a file out, since a rule forbids to read it without being asked."""
        return any(rule.closes_reading and rule.covers(path) for rule in self._forbidding_paths)

    def is_sensitive(self, path: Path) -> bool:
        """Whether a file may hold secrets and no rule allows to read it as itself."""
        return self._secret((path,), "read") is not None

    def _secret(self, paths: Iterable[Path], tool: str) -> Path | None:
        """The first of the paths that is sensitive, for a tool that shows what a file holds. An edit does: by what it says
        of a text that is not there, or nearly."""
        if tool not in ("read", "grep", "glob", "edit"):
            return None
        return next((path for path in paths if is_sensitive(path) and not self._means_it(path, tool)), None)

    def _means_it(self, path: Path, tool: str) -> bool:
        """Whether a rule allows just such files."""
        rules = [rule for layer in self._layers for rule in layer.allow] + self._session + self._granted
        return any(
            rule.is_for(tool)
            and rule.pattern is not None
            and rule.pattern.allows(path)
            and names_itself(rule.argument or "", path)
            for rule in rules
        )

    def _always_asked(self, access: Access, parsed: Scan | None) -> str:
        """Why it must be asked about each time, or an empty text."""
        if parsed is not None:
            places = Places(self._workspace.root, self._workspace.cwd, self._home)
            if reason := catastrophe(access.command or "", parsed, places):
                return f"Dangerous: {reason}."
        if access.kind == "edit" and (name := self._protected_name(access.paths)):
            return f"It writes to {name}."
        return ""

    def _protected_name(self, paths: Iterable[Path]) -> str:
        """`.git` or `.claw`, if one of the paths is or lies in such a folder, however it is spelt."""
        root = self._workspace.root
        for path in paths:
            inner = path.relative_to(root) if path.is_relative_to(root) else path
            if (name := next(filter(is_protected, inner.parts), "")) != "":
                return name
        return ""

    def _allowing_rule(self, access: Access, tool: str) -> str | None:
        rules = [rule for layer in self._layers for rule in layer.allow]
        if self.mode != "plan" or access.kind == "read":
            rules += self._session + self._granted
        rules = [rule for rule in rules if rule.is_for(tool)]
        if access.kind == "command":
            return next((rule.text for rule in rules if allows_command(rule, access.command or "")), None)
        used: str | None = None
        for path in access.paths:
            inside = self._inside(access, path)
            rule = next((rule for rule in rules if allows_path(rule, path, inside=inside)), None)
            if rule is None:
                return None
            used = rule.text
        return used

    def _by_mode(self, access: Access) -> Decision:
        if access.kind == "record":
            return Decision("allow")
        if self.mode == "plan" and access.kind != "read":
            return Decision("refuse", f"Plan mode {'edits nothing' if access.kind == 'edit' else 'runs no commands'}.")
        if access.kind == "command":
            if self.mode == "auto":
                return Decision("allow")
            return Decision("ask", f"Commands are asked about in {self.mode} mode.")
        outside = [path for path in access.paths if not self._inside(access, path)]
        if outside or not access.paths:
            where = str(outside[0]) if outside else "An unknown path"
            kind: Literal["ask", "refuse"] = "refuse" if self.mode == "plan" else "ask"
            return Decision(kind, f"{where} is outside the workspace.")
        if access.kind == "read" or self.mode in ("edits", "auto"):
            return Decision("allow")
        return Decision("ask", "Edits are asked about in ask mode.")

    def _inside(self, access: Access, path: Path) -> bool:
        return self._workspace.contains(path, reading=access.kind == "read")

    # ------------------------------------------------------------------ asking

    async def authorize(self, call: ToolCall, access: Access, approver: Approver | None) -> Allowed | Refused:
        """Decide, and ask a person where that is needed; `approver` None means that nobody can be asked.

        The access is what was shown and what is judged again after the answer, since the mode may have changed meanwhile.
        """
        decision = self.decide(access, call.name)
        if decision.kind == "allow":
            return Allowed()
        if decision.kind == "refuse":
            return self._refuse(
                call, access, _refusal_text(decision), "rule" if decision.rule else "mode", decision.reason
            )
        if approver is None:
            text = f"Not run: nobody can be asked for permission in this run. {decision.reason} Go on without it."
            return self._refuse(call, access, text, "print", decision.reason)
        request = self._request(call, access, decision)
        answer = await approver(request)
        if isinstance(answer, Deny):
            reason = answer.reason.strip()
            said = f" They said: {reason}{'' if reason.endswith(('.', '!', '?', '…')) else '.'}" if reason else ""
            text = f"The user refused this call, so it did not run.{said} Do not try the same in another way."
            return self._refuse(call, access, text, "user", answer.reason)
        after = self.decide(access, call.name)
        if after.kind == "refuse":
            return self._refuse(call, access, _refusal_text(after), "mode", after.reason)  # no rule came up meanwhile
        return await self._keep(answer, request.rule)

    def _request(self, call: ToolCall, access: Access, decision: Decision) -> ApprovalRequest:
        rule = None if decision.only_once else suggest_rule(call.name, access, self._workspace, self._home)
        paths = tuple(path_key(path) for path in access.paths)
        return ApprovalRequest(
            call.id, call.name, access.title, access.command, access.diff, decision.reason, rule, paths
        )

    async def _keep(self, answer: Allow, rule: str | None) -> Allowed:
        """Remember an answer that holds for longer than this call."""
        scope: Scope = answer.scope
        if scope == "once" or rule is None:
            return Allowed()
        self._session.append(parse_rule(rule, self._scope))
        if scope == "session":
            return Allowed()
        if self._grants is None:
            return Allowed("Allowed for this session only: there is no place to keep it.")
        try:
            await asyncio.to_thread(self._grants.add, self._workspace.root, rule)
        except StateError as error:
            return Allowed(f"Allowed for this session only: {error}.")
        return Allowed()

    def _refuse(
        self, call: ToolCall, access: Access, text: str, by: Literal["user", "mode", "rule", "print"], reason: str
    ) -> Refused:
        self.refusals.append(Refusal(call.id, call.name, access.title, reason, by))
        return Refused(text, by, reason)


def _refusal_text(decision: Decision) -> str:
    if decision.rule:
        return f"Not run. {decision.reason} Do not try the same in another way; say what you would need."
    if "Plan mode" in decision.reason:
        return f"Not run. {decision.reason} Read what you need and describe what you would do."
    return f"Not run. {decision.reason}"

"""Loads the configuration: reads the layers, checks them, and merges them by the scope of each key.

Highest first: managed, command line, environment, the chosen profile, local, project, user, defaults. A project's files
(`project` and `local`) can tighten and never loosen: `user` keys in them are ignored with a notice, lists that forbid are
united, limits take the smallest value. A file that cannot be read takes nothing away from the others and sets `damaged`.

Decisions: among the user's own sources (command line, environment, profile, user) a limit is simply the highest one's,
and only then bounded by managed, local and project. A provider with a wrong address is unusable rather than sent to its
default one, which the key may not be meant for.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent.config.auth import key_fault, key_problems, read_auth
from agent.config.files import Parsed, config_files, read_config
from agent.config.key_paths import KeyPath, format_key
from agent.config.keys import PROFILES
from agent.config.merge import BUILT_IN, KNOWN, Merged, Origin, merge
from agent.config.override import environment_candidates, parse_overrides
from agent.config.paths import Paths
from agent.config.problems import Problem
from agent.config.schema import Config, Layer
from agent.config.validate import Candidate, Checked, Source, check
from providers.models import is_loopback

__all__ = ["LoadedConfig", "Origin", "Problem", "load_config"]

_ORDER: tuple[Layer, ...] = ("managed", "command line", "environment", "profile", "local", "project", "user")


class LoadedConfig(Struct, frozen=True):
    """What is in force and where it came from."""

    config: Config
    origins: dict[str, tuple[Origin, ...]]
    """By dotted key; the highest layer first. A key that is not here has its default."""
    problems: tuple[Problem, ...] = ()
    damaged: bool = False
    """Something that may forbid could not be understood: no mode that runs without asking may be used."""
    unusable_providers: frozenset[str] = frozenset()
    """Whose address or API is wrong."""
    sources: tuple[Parsed, ...] = ()
    """Each file that was looked for, the highest layer first."""

    @property
    def has_errors(self) -> bool:
        """Whether print mode and `claw config check` end with exit code 2."""
        return any(problem.severity == "error" for problem in self.problems)


def load_config(
    paths: Paths,
    project: Path,
    env: Mapping[str, str],
    overrides: Sequence[str] = (),
    profile: str | None = None,
    *,
    trusted: bool = True,
) -> LoadedConfig:
    """Load everything. Never raises for what files, variables or arguments say: that is in `problems`.

    `project` is the project's real path; `overrides` are "KEY=VALUE" texts of the command line, dotted keys, the last one of
    a key counts. Without `trusted` the project's files are not read at all.
    """
    files = [f for f in config_files(paths, project) if trusted or f.within is None]
    sources = tuple(read_config(file) for file in files)
    problems = [source.problem for source in sources if source.problem is not None]
    damaged = any(source.damaged for source in sources)
    checks: list[Checked] = [parse_overrides(overrides), environment_candidates(env)]
    checks += [_check(source, project, paths) for source in sources]
    for checked in checks:
        problems += checked.problems
    faulty = [_within(path, profile) for checked in checks for path in checked.faulty]
    damaged = damaged or any(_may_forbid(path) for path in faulty)
    candidates = [candidate for checked in checks for candidate in checked.candidates]
    chosen, problem = _profile(checks, profile)
    candidates += chosen
    problems += [problem] if problem is not None else []
    candidates.sort(key=lambda c: _ORDER.index(c.source.layer))
    stored, auth_problems = read_auth(paths.auth_file)
    merged = merge(candidates, _reachable(candidates, env, stored))
    problems += merged.problems
    problems += auth_problems
    unusable = _unusable(faulty) | merged.unusable
    config = _config(merged, checks)
    problems += key_problems(config, env)
    # The raw values, headers among them, have done their work.
    emptied = tuple(msgspec.structs.replace(source, data={}, lines={}) for source in sources)
    return LoadedConfig(config, merged.origins, tuple(problems), damaged, frozenset(unusable), emptied)


def _check(parsed: Parsed, project: Path, paths: Paths) -> Checked:
    layer = parsed.file.layer
    base = {"managed": paths.managed, "user": paths.config}.get(layer, project)
    return check(parsed.data, Source(layer, str(parsed.file.path), str(base), parsed.lines))


def _profile(checks: Sequence[Checked], name: str | None) -> tuple[list[Candidate], Problem | None]:
    """The chosen profile's values as a layer of their own, each still bound to its file's authority."""
    if name is None:
        return [], None
    holders = [checked.profiles[name] for checked in checks if name in checked.profiles]
    if not holders:
        known = sorted({known for checked in checks for known in checked.profiles})
        remedy = f"known: {', '.join(known)}" if known else f"no [profiles.{format_key((name,))}] table is written"
        return [], Problem("error", f"there is no profile {name!r}", "command line", remedy=remedy)
    values = [candidate for holder in holders for candidate in holder]
    return [msgspec.structs.replace(v, source=msgspec.structs.replace(v.source, layer="profile")) for v in values], None


def _reachable(candidates: Sequence[Candidate], env: Mapping[str, str], stored: Collection[str]) -> frozenset[str]:
    """The providers that the user has a key for, or that answer on this machine. `stored`: those with a key in auth.json."""
    said = {c.path: c.value for c in reversed(candidates) if c.path[0] == "providers"}

    def fact(name: str, field: str) -> str:
        return str(said.get(("providers", name, field), KNOWN.get(name, {}).get(field, "")))

    names = {*BUILT_IN, *(path[1] for path in said)}
    return frozenset(
        name
        for name in names
        if name in stored or not key_fault(env.get(fact(name, "key_env"), "")) or is_loopback(fact(name, "base_url"))
    )


def _within(path: KeyPath, profile: str | None) -> KeyPath:
    """The path as it counts: without the table of the chosen profile; empty for a profile that was not chosen."""
    if path[0] != PROFILES:
        return path
    return path[2:] if path[1:2] == (profile,) else ()


def _may_forbid(path: KeyPath) -> bool:
    """Whether what is wrong here, a mistyped key included, may have been meant to forbid something."""
    return path[:1] == ("permissions",) and path[1:] not in (("allow",), ("mode",), ("allowed_directories",))


def _unusable(faulty: Sequence[KeyPath]) -> set[str]:
    return {path[1] for path in faulty if path[:1] == ("providers",) and path[2:] in (("base_url",), ("api",))}


def _config(merged: Merged, checks: Sequence[Checked]) -> Config:
    profiles: dict[str, dict[str, Any]] = {}
    for checked in checks:
        for name, values in checked.profiles.items():
            profiles.setdefault(name, {}).update({format_key(v.path): v.value for v in values})
    return msgspec.convert({**merged.nested, "profiles": profiles}, Config)

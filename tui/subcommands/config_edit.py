"""`claw config set`: one key of one file, and a word on whether it is in force now."""

import sys

from agent.config.editing import Edited, EditError, set_key, unset_key
from agent.config.files import ConfigFile, config_files
from agent.config.layers import LoadedConfig, load_config
from agent.config.trust import is_trusted
from tui.launch.startup import SetupError, Startup


def set_config(startup: Startup) -> int:
    """Do what the command line says; the exit code.

    Raises:
        SetupError: wrong key, value or file; nothing was written.
    """
    arguments = startup.arguments
    file = _file(startup)
    lock = startup.paths.state / "config"
    try:
        if arguments.unset:
            edited = unset_key(file, arguments.key, lock)
        else:
            edited = set_key(file, arguments.key, arguments.value or "", lock)
    except EditError as error:
        raise SetupError(str(error)) from None
    sys.stdout.write(_said(edited, unset=arguments.unset))
    if edited.created and file.layer == "local":
        sys.stderr.write("claw: The file is private: keep it out of git with a line in .gitignore.\n")
    _warn(startup, edited, file)
    return 0


def _file(startup: Startup) -> ConfigFile:
    return next(f for f in config_files(startup.paths, startup.project) if f.layer == startup.arguments.scope)


def _said(edited: Edited, *, unset: bool) -> str:
    if unset:
        return f"{edited.key} {'is taken out of' if edited.changed else 'is not set in'} {edited.path}\n"
    value = edited.shown or "(hidden)"
    return f"{edited.key} = {value} {'' if edited.changed else 'stands already '}in {edited.path}\n"


def _warn(startup: Startup, edited: Edited, file: ConfigFile) -> None:
    """What is wrong now that was not before, and whether another place has the last word."""
    trusted = is_trusted(startup.project, startup.paths)
    loaded = load_config(startup.paths, startup.project, startup.env, trusted=trusted)
    before = {str(problem) for problem in startup.loaded.problems}
    for problem in loaded.problems:
        if str(problem) not in before:
            sys.stderr.write(f"claw: {problem}\n")
    if (place := _stronger(loaded, edited, file)) and not startup.arguments.unset:
        sys.stderr.write(f"claw: {edited.key} is also set by {place}, which goes before it.\n")


def _stronger(loaded: LoadedConfig, edited: Edited, file: ConfigFile) -> str:
    origins = loaded.origins.get(edited.key, ())
    if not origins or any(origin.source == str(file.path) for origin in origins):
        return ""
    first = origins[0]
    return first.source if first.line is None else f"{first.source}:{first.line}"

"""`claw login` and `claw logout`: keep a provider's key, or forget it. Nothing is sent anywhere.

The key is asked for without echo or read from a pipe. It never stands on the command line, where every process could read it,
and nothing that might be one is ever repeated in a message: not even a provider's name that there is not.
"""

import contextlib
import difflib
import shutil
import sys
import termios
import textwrap
from collections.abc import Iterator

from agent.config.auth import AuthError, remove_key, save_key, stored_names
from agent.config.providers import key_sources
from providers.presets import PRESETS
from providers.types import Secret
from tui.launch.startup import SetupError, Startup

_MAX_KEY_BYTES = 64 * 1024


def login(startup: Startup) -> int:
    """Keep a key; the exit code.

    Raises:
        SetupError: no such provider, no key, or it cannot be kept.
    """
    asks = sys.stdin.isatty()
    provider = startup.arguments.provider
    if not provider:
        if not asks:
            raise SetupError("Say whose key it is: `claw login PROVIDER`.\n" + _known(startup))
        sys.stderr.write(textwrap.fill(_known(startup), max(40, shutil.get_terminal_size().columns)) + "\n")
        provider = _asked("Whose key? ").strip()
    _check_name(startup, provider)
    key = _typed(f"Key of {provider} (it is not shown): ") if asks else _piped()
    in_keyring = startup.arguments.in_keyring
    try:
        save_key(startup.paths.auth_file, provider, Secret(key), in_keyring=in_keyring)
    except AuthError as error:
        raise SetupError(str(error)) from None
    where = "the system's keyring" if in_keyring else str(startup.paths.auth_file)
    sys.stdout.write(f"The key of {provider} is kept in {where}\n")
    _say_variable(startup, provider, "goes before it")
    return 0


def logout(startup: Startup) -> int:
    """Forget a key; the exit code.

    Raises:
        SetupError: it has to be said whose, or the file cannot be changed.
    """
    path = startup.paths.auth_file
    stored = stored_names(path)
    provider = startup.arguments.provider
    if not provider:
        if len(stored) > 1:
            raise SetupError(f"Say whose key: `claw logout PROVIDER`.\nKept are those of: {', '.join(stored)}.")
        provider = stored[0] if stored else ""
    elif provider not in stored:
        _check_name(startup, provider)
    try:
        removed = bool(provider) and remove_key(path, provider)
    except AuthError as error:
        raise SetupError(str(error)) from None
    if removed:
        sys.stdout.write(f"The key of {provider} is forgotten\n")
    else:
        sys.stdout.write(f"No key of {provider} is kept\n" if provider else "No key is kept\n")
    if provider:
        _say_variable(startup, provider, "still holds a key")
    return 0


def _names(startup: Startup) -> list[str]:
    """Every provider that can have a key: those that claw knows and those that are configured."""
    return list(dict.fromkeys([*startup.loaded.config.providers, *PRESETS]))


def _known(startup: Startup) -> str:
    return f"The providers are: {', '.join(_names(startup))}."


def _check_name(startup: Startup, provider: str) -> None:
    names = _names(startup)
    if provider in names:
        return
    near = difflib.get_close_matches(provider.lower(), names, n=1)
    remedy = (
        f"Did you mean {near[0]}?" if near else _known(startup) + " Others are made in config.toml: [providers.NAME]."
    )
    raise SetupError(f"There is no provider of that name.\n{remedy}")


def _say_variable(startup: Startup, provider: str, what: str) -> None:
    for source in key_sources(startup.loaded, startup.env, startup.paths):
        if source.provider == provider and source.kind == "environment":
            sys.stderr.write(f"claw: The variable {source.variable} is set and {what}.\n")


def _piped() -> str:
    data = sys.stdin.buffer.read(_MAX_KEY_BYTES + 1)
    if len(data) > _MAX_KEY_BYTES:
        raise SetupError("Standard input holds more than a key.\nPipe the key alone.")
    return data.decode("utf-8", "replace")


def _asked(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.buffer.readline(_MAX_KEY_BYTES)
    if not line:
        raise SetupError("Nothing was typed.\nTry again, or pipe the key in.")
    return line.decode("utf-8", "replace")


def _typed(question: str) -> str:
    with _without_echo(sys.stdin.fileno()):
        try:
            return _asked(question)
        finally:
            sys.stderr.write("\n")


@contextlib.contextmanager
def _without_echo(descriptor: int) -> Iterator[None]:
    """The terminal shows nothing of what is typed, and keeps what was typed ahead."""
    before = termios.tcgetattr(descriptor)
    quiet = termios.tcgetattr(descriptor)
    quiet[3] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

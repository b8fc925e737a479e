"""Which secrets claw knows by their value: keys, headers that carry one, and variables whose names say that they hold one."""

import re

from agent.config.auth import plain_keys
from agent.redaction import LEAST_VALUE_CHARS, secret_values
from tui.launch.startup import Startup

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


def known_secrets(startup: Startup) -> set[str]:
    """What must not go out of this process. Reads auth.json, and never asks the keyring: its keys are with the providers."""
    found = {*secret_values(startup.env), *plain_keys(startup.paths.auth_file)}
    for config in startup.providers.values():
        found |= {config.key.reveal()} if config.key is not None else set()
        found |= {value for name, value in config.headers.items() if _SECRET_HEADER.search(name)}
    return {secret for secret in found if len(secret) >= LEAST_VALUE_CHARS}

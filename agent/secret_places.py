"""What is said of secrets found in a text, and the names that tell one. Apart from the search, whose patterns take a megabyte and
are not needed before there is something to look through.
"""

import re
from typing import NamedTuple

PRIVATE_KEY = "private key"
MOST_KEY_CHARS = 20_000
"""As long as a private key in PEM may be."""
SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|CREDENTIALS?|AUTH)(?:[_.-]|\d|$)"
)
"""A variable's name in capitals that says what its value is."""
PLAIN_VALUE = re.compile(
    r"[/~.][\w./~-]*|[a-z_-]+|[\d.:-]+|true|false|https?://[^@]*|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?::\d+)?",
    re.IGNORECASE,
)
"""Paths, words, numbers, addresses and hosts: what variables hold whose names only sound like it."""


class Found(NamedTuple):
    """A secret's place in a text: `text[start:end]`."""

    start: int
    end: int
    kind: str

"""What a provider's server listed, kept in the cache folder, so that a default model is right before the next listing.

One small file for each provider and address. Anything odd about it means that there is no listing; nothing here fails.
"""

import contextlib
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.config.paths import ensure_private_dir
from agent.config.private_file import replace_private
from agent.config.reading import UnreadableError, read_small
from providers.base import ListedModel
from providers.types import ProviderConfig

_MAX_BYTES = 4 * 1024 * 1024
_FRESH_S = 7 * 24 * 3600


class _Listing(Struct, frozen=True):
    time_s: float
    models: tuple[ListedModel, ...]


def read_listing(folder: Path, config: ProviderConfig) -> tuple[ListedModel, ...]:
    """The models listed within the last week, in the server's order; empty if there is no such listing."""
    try:
        small = read_small(_file(folder, config), _MAX_BYTES)
        listing = None if small is None else msgspec.json.decode(small.data, type=_Listing)
    except (UnreadableError, msgspec.DecodeError):
        return ()
    if listing is None or not 0 <= time.time() - listing.time_s < _FRESH_S:
        return ()
    return listing.models


def save_listing(folder: Path, config: ProviderConfig, models: Sequence[ListedModel]) -> None:
    """Keep a listing; an empty one is no news."""
    if not models:
        return
    target = _file(folder, config)
    with contextlib.suppress(OSError):
        ensure_private_dir(target.parent)
        replace_private(target, msgspec.json.encode(_Listing(time.time(), tuple(models))))


def _file(folder: Path, config: ProviderConfig) -> Path:
    where = hashlib.sha256(f"{config.name}\n{config.api}\n{config.base_url or ''}".encode()).hexdigest()[:16]
    return folder / f"{where}.json"

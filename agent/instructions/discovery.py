"""Finds the instruction files of a session and says of each one why it counts or why not.

Order: managed policy, the user's files, every folder from the filesystem's root down to the current one, added folders,
then the texts of config.toml, which have the last word. What is read of a file is bounded, and nothing but a regular file
is opened. Files of the project must really lie in it; above it only files count that nobody else can have put there.
All files are read before any is expanded, so that a file that is found by itself is not included in another.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config.schema import InstructionsConfig, LayerValue
from agent.instructions.allowance import Allowance, estimate_tokens, spend
from agent.instructions.candidates import candidates, holds_any, in_folder
from agent.instructions.found import Found
from agent.instructions.includes import Expander
from agent.instructions.item import CONFIG_PATH, InstructionItem, ItemLayer, all_includes
from agent.instructions.place import Place as Place
from agent.instructions.system_files import SystemPromptFiles as SystemPromptFiles
from agent.instructions.system_files import system_prompt_files as system_prompt_files
from agent.instructions.text import MAX_READ_BYTES as MAX_READ_BYTES
from agent.instructions.text import read_text

if TYPE_CHECKING:
    from agent.permissions.consents import Consents


def discover(
    place: Place,
    config: InstructionsConfig,
    *,
    enabled: bool = True,
    effective_window_tokens: int | None = None,
    count_tokens: Callable[[str], int] = estimate_tokens,
    consents: "Consents | None" = None,
) -> tuple[InstructionItem, ...]:
    """Every instruction file and text in the order in which the model gets them, with skipped ones between.

    A file with several conditions is several items. With `enabled` false (--no-instructions) managed policy alone is left.
    Where the window is known, all texts together take at most a quarter of it. Without `consents` no file of a project may
    include anything outside the workspace. Never raises for what stands on disk.
    """
    layers = _layers(place, config, enabled)
    found = Found(place, config)
    for candidate in candidates(place, config.files):
        if candidate.layer in layers:
            found.add(candidate)
    expander = Expander(place, config, consents, found.loaded_paths())
    items = [*found.expanded(expander), *_texts(config.text, layers, expander)]
    room = Allowance(config.max_file_chars, config.max_total_chars, effective_window_tokens, count_tokens)
    return spend(items, room)


def discover_nested(
    place: Place,
    config: InstructionsConfig,
    folder: Path,
    *,
    enabled: bool = True,
    effective_window_tokens: int | None = None,
    count_tokens: Callable[[str], int] = estimate_tokens,
    consents: "Consents | None" = None,
    known: Sequence[InstructionItem] = (),
) -> tuple[InstructionItem, ...]:
    """What one folder (a real path) holds of its own, with room of its own; nothing outside the workspace, nor at or above
    the current folder, since that is found at the start.

    What stands in the loaded ones of `known`, or is included there, is not repeated.
    """
    ground = next((root for root in (place.project, *place.added) if folder.is_relative_to(root)), None)
    if ground is None or folder in place.added or place.cwd.is_relative_to(folder) or not holds_any(folder):
        return ()
    layers = _layers(place, config, enabled)
    found = Found(place, config)
    where = "in the project" if ground == place.project else "in an added folder"
    for candidate in in_folder(folder, where, ground):
        if candidate.layer in layers:
            found.add(candidate)
    there = {Path(item.path).resolve(): item.path for item in known if item.is_loaded and item.path != CONFIG_PATH}
    there |= {Path(i.path): file for item in known if item.is_loaded for file, i in all_includes(item) if i.sha256}
    expander = Expander(place, config, consents, there | found.loaded_paths())
    room = Allowance(config.max_file_chars, config.max_total_chars, effective_window_tokens, count_tokens)
    return spend(found.expanded(expander), room)


def _layers(place: Place, config: InstructionsConfig, enabled: bool) -> set[str]:
    layers: set[str] = {"managed", *(config.layers if enabled else ())}
    return layers if place.trusted else layers - {"project", "local"}


def _texts(values: Sequence[LayerValue], layers: set[str], expander: Expander) -> Iterator[InstructionItem]:
    for value in values:
        owner = value.layer if value.layer in ("managed", "project", "local") else "user"
        clean = read_text(value.value.encode())
        if owner not in layers or not (text := expander.plain(clean.text.strip())):
            continue
        digest = hashlib.sha256(value.value.encode()).hexdigest()
        reason = f"instructions in {value.source}"
        layer: ItemLayer = "managed" if owner == "managed" else "config"
        yield InstructionItem(
            CONFIG_PATH, layer, reason, text=text, sha256=digest, chars=len(text), hidden=clean.hidden
        )

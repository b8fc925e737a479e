"""Commands that can destroy what nobody can bring back: they are asked about in every mode, whatever a rule allows.

Recursive removal, `chmod -R` and the like of what is precious (precious.py); writing to devices; git commands that drop work
or rewrite or overwrite history; switching the machine off. An expansion counts as whatever is worst. This decides asking; it
is no boundary: a program can do the same from within.
"""

import re

from agent.permissions.command_paths import command_folders
from agent.permissions.git_danger import git_danger
from agent.permissions.precious import Places, Precious, is_everything
from agent.permissions.shell import EXEC_FLAGS, Argv, Scan, program
from agent.permissions.shell_words import Word

_DEVICE_TOOLS_TEXT = """
mke2fs mkswap wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard cryptsetup lvremove vgremove pvremove zpool hdparm
badblocks flashrom
"""
_DEVICE_TOOLS = frozenset(_DEVICE_TOOLS_TEXT.split())
_POWER = frozenset(["shutdown", "reboot", "poweroff", "halt"])
_INIT = frozenset(["init", "telinit"])
_RUN_LEVEL = re.compile(r"[0-6sS]")
_POWER_BY_WORD = frozenset(["systemctl", "loginctl"])
_WRITERS = frozenset(["tee", "cp", "mv", "shred", "truncate", "install", "dd"])
_ON_FILES = frozenset(["rm", "chmod", "chown", "chgrp", "setfacl", "mv", "find", "rsync"])
_FIND_FILTERS = frozenset(
    [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-iwholename",
        "-regex",
        "-iregex",
        "-samefile",
        "-inum",
        "-empty",
    ]
)
_JUDGED = (
    _DEVICE_TOOLS
    | _POWER
    | _INIT
    | _POWER_BY_WORD
    | _WRITERS
    | _ON_FILES
    | frozenset(("git", "kill", "crontab", "unlink"))
)
_MAX_JUDGED = 500
_MAX_OPERANDS = 1_000
_DANGEROUS = frozenset(["rm", "dd", "shred", "wipefs", "mkfs", "blkdiscard"])
_REMOVERS = frozenset(["rm", "unlink", "shred"])
_PASSING_ON = frozenset(["xargs", "parallel"])
_MAX_BEFORE = 100
_FUNCTION = re.compile(r"([^\s;&|(){}]{1,100})\s{0,20}\(\s{0,20}\)\s{0,20}\{(?=([^}]{0,1000}))")


def catastrophe(command: str, scan: Scan, places: Places) -> str:
    """What terrible thing the command could do, or an empty text."""
    if any(re.search(rf"\|\s*{re.escape(name)}[^}}]*&", body) for name, body in _FUNCTION.findall(command)):
        return "it starts processes without end"
    precious = Precious(places, command_folders(scan, places.cwd, places.home))
    # Behind a wrapper every word may be the program, so few are worth a look at all their arguments.
    judged = [argv for argv in scan.argvs if argv.name in _JUDGED or argv.name.startswith("mkfs")]
    if len(judged) > _MAX_JUDGED:
        return "it has too many commands to judge"
    passes_on = any(argv.name in _REMOVERS and _gets_names(argv) for argv in judged)
    for argv in judged:
        if reason := _by_name(argv, precious):
            return reason
        if passes_on and argv.name == "find" and (reason := _on_find(argv.arguments, precious, removes=True)):
            return reason
    if precious.is_device(scan.targets):
        return "it writes to a device"
    if scan.uncertain and (named := sorted(_DANGEROUS & scan.mentioned)):
        return f"{scan.uncertain}, and it mentions {named[0]}"
    return ""


def _by_name(argv: Argv, precious: Precious) -> str:
    name, arguments = argv.name, argv.arguments
    texts = [word.text for word in arguments]
    if name == "git":
        return git_danger(arguments)
    if name in _DEVICE_TOOLS or name.startswith("mkfs"):
        return f"{name} can destroy a disk"
    if name in _POWER or (name in _POWER_BY_WORD and _POWER.intersection(texts)):
        return f"{name} stops the machine"
    if name in _INIT and any(word.expands or _RUN_LEVEL.fullmatch(word.text) for word in arguments):
        return f"{name} stops the machine"
    if name in _WRITERS and precious.is_device(arguments):
        return f"{name} writes to a device"
    if name == "kill" and ("-1" in texts[1:] or texts == ["-1"]):
        return "it ends every process of the user"
    if name == "crontab" and any(re.match(r"-\w*r", text) for text in texts):
        return "it removes all scheduled jobs"
    if name == "rm" and _is_for_what_find_found(argv, precious):
        return ""
    return _on_files(name, arguments, precious, gets_names=_gets_names(argv))


def _gets_names(argv: Argv) -> bool:
    """Whether what it works on comes from another command."""
    return any(program(word.text) in _PASSING_ON for word in argv.words[: min(argv.start, _MAX_BEFORE)])


def _on_files(name: str, arguments: tuple[Word, ...], precious: Precious, *, gets_names: bool) -> str:
    options = [word for word in arguments if word.text.startswith("-")]
    operands = [word for word in arguments if not word.text.startswith("-")]
    if len(operands) > _MAX_OPERANDS:
        return f"{name} gets too many paths to judge"
    recursive = any(word.expands or re.match(r"-\w*[rR]|--r", word.text) for word in options)
    match name:
        case "rm" if recursive and gets_names:
            return "rm -r removes what another command names"
        case "rm":
            return _on_rm({word.text for word in options}, operands, recursive, precious)
        case "chmod" | "chown" | "chgrp" | "setfacl":
            if recursive and any(map(precious.means, operands[1:] or operands)):
                return f"{name} -R could change far too much"
        case "mv":
            target_first = any(word.text.startswith(("-t", "--t")) for word in options)
            if any(map(precious.means, operands if target_first else operands[:-1])):
                return "mv could move far too much"
        case "rsync":
            if any(word.text.startswith("--del") for word in options) and any(map(precious.means, operands[-1:])):
                return "rsync --delete could remove far too much"
        case "find":
            return _on_find(arguments, precious)
    return ""


def _on_rm(options: set[str], operands: list[Word], recursive: bool, precious: Precious) -> str:
    if "--no-preserve-root" in options:
        return "rm may remove /"
    if recursive and not operands:
        return "rm -r removes what another command names"
    # One that is an expansion may be an option as well, for what else is named.
    may_recurse = recursive or any(word.expands for word in operands)
    if may_recurse and any(precious.means(word) for word in operands if recursive or not word.expands):
        return "rm -r could remove far too much"
    if any(word.splits and word.text.startswith("$") for word in operands):
        return "rm gets an unquoted expansion, which could be anything"
    return ""


def _is_for_what_find_found(argv: Argv, precious: Precious) -> bool:
    """Whether only the `{}` of a find is removed that finds neither everything nor what is precious."""
    names = [program(word.text) for word in argv.words[: min(argv.start, _MAX_BEFORE)]]
    if "find" not in names or argv.start > _MAX_BEFORE:
        return False
    operands = {word.text for word in argv.arguments if not word.text.startswith("-")} - {";", "+"}
    return operands == {"{}"} and not _finds_far(argv.words[names.index("find") + 1 :], precious)


def _on_find(arguments: tuple[Word, ...], precious: Precious, *, removes: bool = False) -> str:
    texts = [word.text for word in arguments]
    runs_remover = not EXEC_FLAGS.isdisjoint(texts) and not _REMOVERS.isdisjoint(map(program, texts))
    if (removes or "-delete" in texts or runs_remover) and _finds_far(arguments, precious):
        return "find could remove far too much"
    return ""


def _finds_far(arguments: tuple[Word, ...], precious: Precious) -> bool:
    """Whether a find goes through a place that is precious and narrows by no name what it finds there."""
    if _narrows([word.text for word in arguments]):
        return False
    starts: list[Word] = []
    for word in arguments:
        if word.text.startswith("-") or word.text in ("(", "!"):
            break
        starts.append(word)
    return not starts or any(map(precious.means, starts))


def _narrows(texts: list[str]) -> bool:
    """Whether find acts on what has a certain name alone: none that everything has, and not on what has it not."""
    for index, text in enumerate(texts):
        if text in _FIND_FILTERS and texts[max(index - 1, 0)] not in ("!", "-not"):
            pattern = "".join(texts[index + 1 : index + 2]).replace("/", "")
            if text == "-empty" or not is_everything(pattern):
                return True
    return False

"""How bash, zsh and fish want completions to be written. Knows the shells and nothing of claw's options."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.subcommands.shell_completion import Command, Option, Word

KeyValues = Mapping[str, Sequence[str]]
_SESSIONS = "claw sessions list 2>/dev/null | sed -n 's/^\\([0-9]\\{8\\}-[^ ]*\\) .*/\\1/p'"
_TAKES_NO_WORD = "flag"

_BASH = """\
# bash completion for claw. Put this into your ~/.bashrc:  eval "$(claw completion bash)"
_claw() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command="" start=1 index word skip="" place=0
    # bash splits --option=value into three words.
    if [[ $current == "=" ]]; then current=""; elif [[ $previous == "=" ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
    COMPREPLY=()
    if (( COMP_CWORD > 1 )); then
        case ${COMP_WORDS[1]} in
            @SUBCOMMANDS@) command=${COMP_WORDS[1]}; start=2 ;;
        esac
        if [[ $command == config && ${COMP_WORDS[2]} == set ]] && (( COMP_CWORD > 2 )); then command="config set"; start=3; fi
    fi
    local words="" kind=""
    case "$command $previous" in
@VALUES@
    esac
    if [[ -z $kind ]]; then
        if [[ $current == -* ]]; then
            kind=words
            case $command in
@OPTIONS@
            esac
        else
            for (( index = start; index < COMP_CWORD; index++ )); do
                word=${COMP_WORDS[index]}
                if [[ -n $skip ]]; then skip=""; continue; fi
                case "$command $word" in
@SKIPPED@
                    *" -"*) ;;
                    *) place=$((place + 1)) ;;
                esac
            done
            case "$command $place" in
@PLACES@
            esac
        fi
    fi
    case $kind in
        words) COMPREPLY=( $(compgen -W "$words" -- "$current") ) ;;
        session) COMPREPLY=( $(compgen -W "$(@SESSIONS@)" -- "$current") ) ;;
        file) compopt -o filenames 2>/dev/null; COMPREPLY=( $(compgen -f -- "$current") ) ;;
        folder) compopt -o filenames 2>/dev/null; COMPREPLY=( $(compgen -d -- "$current") ) ;;
    esac
}
complete -F _claw claw
"""


def bash_script(commands: "Sequence[Command]", key_values: KeyValues) -> str:
    values, options, skipped, places = [], [], [], []
    for command in commands:
        name = command.name
        all_names = " ".join(option_name for option in command.options for option_name in option.names)
        options.append(f"                {_quoted(name)}) words={_quoted(all_names)} ;;")
        for option in command.options:
            if option.kind != _TAKES_NO_WORD:
                pattern = "|".join(_quoted(f"{name} {option_name}") for option_name in option.names)
                values.append(f"        {pattern}) {_bash_kind(option)} ;;")
                skipped.append(f"                    {pattern}) skip=1 ;;")
        for place, word in enumerate(_words(command, commands)):
            first = "" if name else "(( COMP_CWORD == 1 )) && "  # a subcommand stands before every option
            places.append(f"                {_quoted(f'{name} {place}')}) {first}{_bash_kind(word)} ;;")
    for key, choices in key_values.items():
        values.append(f"        {_quoted(f'config set {key}')}) kind=words; words={_quoted(' '.join(choices))} ;;")
    return _filled(
        _BASH,
        SUBCOMMANDS="|".join(_subcommands(commands)),
        VALUES="\n".join(values),
        OPTIONS="\n".join(options),
        SKIPPED="\n".join(skipped),
        PLACES="\n".join(places),
        SESSIONS=_SESSIONS,
    )


_ZSH = """\
#compdef claw
# zsh completion for claw. Put this into your ~/.zshrc, behind compinit:  eval "$(claw completion zsh)"
# Hyphens keep these two apart from the functions of the subcommands.
_claw-session-ids() { compadd -- ${(f)"$(@SESSIONS@)"} }
_claw-value() {
    local -a choices
    case ${words[CURRENT-1]} in
@KEYS@
    esac
    (( $#choices )) && compadd -- $choices
}
_claw() {
    local curcontext="$curcontext" state line
    typeset -A opt_args
    if (( CURRENT > 3 )) && [[ ${words[2]} == config && ${words[3]} == set ]]; then
        shift 2 words; (( CURRENT -= 2 )); _claw_config_set; return
    fi
    if (( CURRENT > 2 )); then
        case ${words[2]} in
            @SUBCOMMANDS@) shift words; (( CURRENT-- )); _claw_${words[1]}; return ;;
        esac
    fi
    _claw_
}
@FUNCTIONS@
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _claw "$@"; else compdef _claw claw; fi
"""


def zsh_script(commands: "Sequence[Command]", key_values: KeyValues) -> str:
    functions = []
    for command in commands:
        specs = [_zsh_option(option) for option in command.options]
        for place, word in enumerate(_words(command, commands), 1):
            action = "value:_claw-value" if (command.name, place) == ("config set", 2) else _zsh_action(word)
            specs.append(_quoted(f"{place}::{action}"))
        body = " \\\n        ".join(specs)
        functions.append(f"_claw_{command.name.replace(' ', '_')}() {{\n    _arguments -s \\\n        {body}\n}}")
    keys = [f"        {_quoted(key)}) choices=({' '.join(choices)}) ;;" for key, choices in key_values.items()]
    return _filled(
        _ZSH,
        SUBCOMMANDS="|".join(_subcommands(commands)),
        KEYS="\n".join(keys),
        FUNCTIONS="\n".join(functions),
        SESSIONS=_SESSIONS,
    )


def fish_script(commands: "Sequence[Command]", key_values: KeyValues) -> str:
    names = " ".join(_subcommands(commands))
    lines = [
        "# fish completion for claw. Write it to ~/.config/fish/completions/claw.fish",
        "complete -c claw -f",
        f"complete -c claw -n '__fish_is_nth_token 1' -a '{names}'",
    ]
    for command in commands:
        when = _fish_condition(command, names)
        lines += [_fish_option(option, when) for option in command.options]
        for place, word in enumerate(command.words):
            token = len(command.name.split()) + place + 1
            lines.append(
                f"complete -c claw -n {_quoted(f'{when}; and __fish_is_nth_token {token}')} {_fish_value(word)}"
            )
    for key, choices in key_values.items():
        when = f"__fish_seen_subcommand_from config; and string match -q -- {key} (commandline -opc)[-1]"
        lines.append(f"complete -c claw -n {_quoted(when)} -a {_quoted(' '.join(choices))}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _subcommands(commands: "Iterable[Command]") -> list[str]:
    return [command.name for command in commands if command.name and " " not in command.name]


def _words(command: "Command", commands: "Sequence[Command]") -> "Sequence[Word]":
    """What stands behind the command; the first word behind claw itself may be a subcommand."""
    if command.name:
        return command.words
    from tui.subcommands.shell_completion import Word

    return (Word("choice", tuple(_subcommands(commands))),)


def _bash_kind(value: "Option | Word") -> str:
    if value.kind == "choice":
        return f"words={_quoted(' '.join(value.choices))} kind=words"
    return f"kind={value.kind}"


def _zsh_option(option: "Option") -> str:
    help_text = re.sub(r"([\[\]:])", r"\\\1", option.help)
    long = [name for name in option.names if name.startswith("--")]
    ends = "" if option.kind == _TAKES_NO_WORD else f":{_zsh_action(option)}"
    specs = [f"{name}{'=' if ends and name in long else ''}[{help_text}]{ends}" for name in option.names]
    excluded = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
    return " ".join(_quoted(f"{excluded}{spec}") for spec in specs)


def _zsh_action(value: "Option | Word") -> str:
    match value.kind:
        case "choice":
            return f"value:({' '.join(value.choices)})"
        case "file":
            return "file:_files"
        case "folder":
            return "folder:_files -/"
        case "session":
            return "session:_claw-session-ids"
        case _:
            return "text: "


def _fish_condition(command: "Command", names: str) -> str:
    if not command.name:
        return f"not __fish_seen_subcommand_from {names}"
    first, _, second = command.name.partition(" ")
    seen = f"string match -q -- {first} (commandline -opc)[2]"
    return f"{seen}; and string match -q -- {second} (commandline -opc)[3]" if second else seen


def _fish_option(option: "Option", when: str) -> str:
    flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    alone = "" if option.kind in (_TAKES_NO_WORD, "file") else " -x"
    takes = f"{alone} {_fish_value(option)}".rstrip()
    return f"complete -c claw -n {_quoted(when)} {flags}{takes} -d {_quoted(option.help)}"


def _fish_value(value: "Option | Word") -> str:
    match value.kind:
        case "choice":
            return f"-a {_quoted(' '.join(value.choices))}"
        case "file":
            return "-rF"
        case "folder":
            return "-a '(__fish_complete_directories)'"
        case "session":
            return f"-a {_quoted(f'({_SESSIONS})')}"
        case _:
            return ""


def _quoted(text: str) -> str:
    return shlex.quote(text)


def _filled(template: str, **parts: str) -> str:
    for name, part in parts.items():
        template = template.replace(f"@{name}@", part)
    return template

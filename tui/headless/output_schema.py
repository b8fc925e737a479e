"""`--output-schema`: a JSON Schema from a file, what the model is told of it, and whether an answer fits.

Validation is `jsonschema`'s, the reference implementation, imported only here. Decisions: a fence around the whole answer is
forgiven; references that lead out of the file are refused, since nothing is ever fetched.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any, NoReturn

from msgspec import Struct

from agent.prompt import load_prompt
from tui.launch.startup import SetupError

_MAX_BYTES = 1 << 20
_MAX_ERRORS = 10
_MAX_ERROR_CHARS = 300
_FENCED = re.compile(r"```[A-Za-z0-9]*\n(.*?)\n?```", re.DOTALL)


class Fit(Struct, frozen=True):
    """What an answer came to."""

    text: str
    """The JSON text; where it does not fit, the answer as it was."""
    errors: tuple[str, ...] = ()
    """One line each, with the place in the value."""


class AnswerSchema:
    """A schema that was found to be one."""

    def __init__(self, validator: Any, text: str) -> None:
        self._validator = validator
        self._text = text

    def told(self, prompt: str) -> str:
        """The prompt with what the model has to know."""
        return f"{prompt}\n\n{Template(load_prompt('output_schema')).substitute(schema=self._text)}"

    def again(self, errors: tuple[str, ...]) -> str:
        """What the model is told when its answer did not fit."""
        listed = "\n".join(f"- {error}" for error in errors)
        return Template(load_prompt("output_schema_again")).substitute(errors=listed)

    def fit(self, answer: str) -> Fit:
        text = answer.strip()
        if (fenced := _FENCED.fullmatch(text)) is not None:
            text = fenced[1].strip()
        if not text:
            return Fit(answer, ("The answer is empty.",))
        from referencing.exceptions import Unresolvable

        try:
            value = json.loads(text, parse_constant=_no_json)
            errors = sorted(self._validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
        except (ValueError, RecursionError) as error:
            return Fit(answer, (_short(f"It is not JSON: {error}"),))
        except Unresolvable as error:
            return Fit(answer, (_short(f"The schema refers to what is not in it: {error}"),))
        if not errors:
            return Fit(text)
        shown = [_short(f"{error.json_path}: {error.message}") for error in errors[:_MAX_ERRORS]]
        if len(errors) > _MAX_ERRORS:
            shown.append(f"and {len(errors) - _MAX_ERRORS} more")
        return Fit(answer, tuple(shown))


def load_schema(path: Path) -> AnswerSchema:
    """
    Raises:
        SetupError: the file cannot be read, or holds no JSON Schema that can be used.
    """
    schema = _read(path)
    # Imported by those alone who use it: it takes a tenth of a second.
    import jsonschema
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        lost = _lost_reference(schema, REGISTRY)
    except jsonschema.SchemaError as error:
        fault = _short(f"{error.json_path}: {error.message}")
        raise SetupError(f"{path} is no JSON Schema: {fault}.\nCorrect it; nothing was sent.") from None
    except RecursionError:
        raise SetupError(f"{path} is nested too deeply.\nMake it flatter with $defs; nothing was sent.") from None
    if lost is not None:
        raise SetupError(f"{path} refers to {lost!r}, which is not in it.\nPut the whole schema into one file.")
    return AnswerSchema(kind(schema, registry=REGISTRY), json.dumps(schema, ensure_ascii=False))


def _lost_reference(schema: dict[str, Any], registry: Any) -> str | None:
    """The first reference that leads to nothing. It is better known before anything is paid for."""
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    name = resource.id() or ""
    resolver = registry.with_resource(name, resource).resolver(name)
    has_inner_names = any("$id" in part for part in _parts(schema) if part is not schema)
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            if not (has_inner_names and reference.startswith("#")):  # which may be meant within such a part
                return reference
    return None


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SetupError(f"{path} cannot be read: {reason}.\nName a file with a JSON Schema.") from None
    if len(data) > _MAX_BYTES:
        raise SetupError(f"{path} is larger than 1 MiB.\nName a file with a JSON Schema.")
    try:
        schema = json.loads(data.decode("utf-8-sig"), parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{path} is not JSON: {error}.\nName a file with a JSON Schema.") from None
    if not isinstance(schema, dict):
        raise SetupError(f"{path} is no JSON Schema: it is not an object.\nName a file with a JSON Schema.")
    return schema


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(item)


def _references(schema: Any) -> Iterator[str]:
    for part in _parts(schema):
        for name in ("$ref", "$dynamicRef"):
            if isinstance(part.get(name), str):
                yield part[name]


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_ERROR_CHARS else line[: _MAX_ERROR_CHARS - 1] + "…"

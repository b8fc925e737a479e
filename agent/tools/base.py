"""What a tool is: a name, a parameter struct, an access (what the gate judges) and a coroutine that never kills a turn.

The parameters' JSON Schema comes from the struct; the description stands in the `.md` file beside the tool's module.
A tool reports failure by raising `ToolError` with a text for the model; any other exception is turned into an error
result by the loop. What a result holds for the model, for the screen and for the record are separate fields.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec
from msgspec import Struct

from agent.store.base import Blob
from agent.tools.details import ResultDetails
from agent.transcript import FileFact, Redaction
from providers.types import ImageBlock, ToolSpec

if TYPE_CHECKING:
    from agent.images import ImageLimits
    from agent.jobs import Jobs
    from agent.permissions.workspace import Workspace
    from agent.processes import Spawner
    from agent.recall import Recall

AccessKind = Literal["read", "edit", "command", "record"]
"""`record`: it looks at what the session holds, and at no file."""


class ToolError(Exception):
    """The call failed; the text is for the model and says what to do instead."""

    def __init__(self, text: str, details: ResultDetails | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.details = details


class Access(Struct, frozen=True):
    """What a call would do, worked out without doing it."""

    kind: AccessKind
    title: str
    """One line for a card or dialog."""
    paths: tuple[Path, ...] = ()
    """Real absolute paths (links resolved, of the deepest existing parent where the file does not exist yet)."""
    command: str | None = None
    diff: str | None = None
    """For edits: the unified diff that would be written, without file headers. None if it cannot be made."""
    fails: bool = False
    """It is known already that `run` will change nothing and say why: so nobody needs to be asked."""


class ToolOutput(Struct, frozen=True):
    """What a call gave.

    `text` is the whole text for the model; it is capped where it is recorded, and the whole becomes a spill. A tool
    that already capped it gives the rest as `spill_file`, a temporary file that the recorder takes over and deletes.
    """

    text: str
    details: ResultDetails | None = None
    images: tuple[ImageBlock, ...] = ()
    blobs: tuple[Blob, ...] = ()
    """The bytes of `images`."""
    files: tuple[FileFact, ...] = ()
    spill_file: Path | None = None
    spill_missing_bytes: int = 0
    spill_sha256: str = ""
    """Of `spill_file` as it stands, where somebody who read it all has taken it; no tool sets it."""
    is_error: bool = False
    redacted: tuple[Redaction, ...] | None = None
    """The secrets that were taken out of all this; None: nobody has looked yet. No tool sets it."""


class ToolContext:
    """What a running call may use. One per call."""

    def __init__(
        self,
        call_id: str,
        workspace: "Workspace",
        spawner: "Spawner",
        known_files: Mapping[str, FileFact],
        progress: Callable[[str], None],
        recall: "Recall | None" = None,
        shows_whole: Callable[[str, str], int | None] = lambda path, sha256: None,
        image_limits: "ImageLimits | None" = None,
        jobs: "Jobs | None" = None,
    ) -> None:
        self.call_id = call_id
        self.workspace = workspace
        self.spawner = spawner
        self.known_files = known_files
        """The newest fact of each file on this branch, by real path: the read state."""
        self.progress = progress
        """Takes a further piece of live output; cheap, may be called often."""
        self.recall = recall
        """Finds what was said and done before; None where nothing can be searched."""
        self.shows_whole = shows_whole
        """(real path, sha256) → key of the entry whose whole copy of that content stands in the window now, or None.
        Cheap; to be called in the event loop, where the window lives."""
        self.image_limits = image_limits
        """To what size an image is scaled for the model; None: it sees none."""
        self.jobs = jobs
        """The commands in the background; None where none can run."""
        self._real: dict[str, Path] = {}

    def resolve(self, path: str) -> Path:
        """`Workspace.resolve`, looked up once a call: what `access` named and the gate judged is what `run` opens.

        Raises:
            ToolError: no such path is possible.
        """
        if path not in self._real:
            self._real[path] = self.workspace.resolve(path)
        return self._real[path]


class Tool(Protocol):
    name: ClassVar[str]
    params: ClassVar[type[Struct]]
    description: ClassVar[str]

    def access(self, params: Any, context: ToolContext) -> Access:
        """What the call would do. Reads at most what it needs for a diff; changes nothing.

        Raises:
            ToolError: the call cannot work; it is refused without asking anyone.
        """
        ...

    async def run(self, params: Any, context: ToolContext) -> ToolOutput:
        """Do it. Cancellation must leave files whole and no process behind.

        Raises:
            ToolError: it did not work.
        """
        ...


def spec(tool: Tool) -> ToolSpec:
    """The tool as the model sees it: the schema inlined, without titles, nothing but the declared parameters."""
    schema = msgspec.json.schema(tool.params)
    definitions = schema.get("$defs", {})
    resolved = _inline(schema, definitions)
    assert isinstance(resolved, dict)
    return ToolSpec(tool.name, tool.description, resolved)


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if (reference := node.get("$ref")) is not None:
        return _inline(definitions[reference.rsplit("/", 1)[-1]], definitions)
    kept = {k: _inline(v, definitions) for k, v in node.items() if k not in ("$defs", "title")}
    if kept.get("type") == "object" and "properties" in kept:
        kept["additionalProperties"] = False
    if isinstance(choices := kept.get("anyOf"), list):
        # An optional parameter is left out, never null: `int | None` is just an integer in the schema.
        rest = [choice for choice in choices if choice != {"type": "null"}]
        if len(rest) == 1:
            kept.pop("anyOf")
            kept = {**rest[0], **kept}
            if kept.get("default", 0) is None:
                kept.pop("default")
    return kept


def parse_arguments(tool: Tool, arguments: str) -> Struct:
    """The call's parameters.

    Raises:
        ToolError: not JSON, not an object, or not what the schema says; the text tells the model what is expected.
    """
    try:
        value = msgspec.json.decode(arguments.encode("utf-8", "replace") or b"null")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ToolError(f"The arguments of {tool.name} are not valid JSON ({error}). {_expected(tool)}") from None
    if not isinstance(value, dict):
        raise ToolError(f"The arguments of {tool.name} must be a JSON object. {_expected(tool)}")
    known = {field.encode_name for field in msgspec.structs.fields(tool.params)}
    if unknown := sorted(set(value) - known):
        raise ToolError(f"{tool.name} has no parameter {', '.join(map(repr, unknown))}. {_expected(tool)}")
    given = {name: item for name, item in value.items() if item is not None}
    try:
        return msgspec.convert(given, tool.params, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ToolError(f"The arguments of {tool.name} do not fit: {error}. {_expected(tool)}") from None


def _expected(tool: Tool) -> str:
    return "Expected: " + msgspec.json.encode(spec(tool).parameters).decode()


def load_description(module_file: str) -> str:
    """The text of the `.md` file beside a tool's module."""
    return Path(module_file).with_suffix(".md").read_text(encoding="utf-8").strip()

"""Every place in `tui/` that hands text to Textual or to a stream is one that a person has looked at: what is not visibly
literal or cleaned there fails here until it is made so, or is entered below with the reason.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TUI = Path(__file__).parents[2] / "tui"
CLEANERS = {"clean", "one_line", "plain_output", "shorten", "spell_out", "safe_url"}
NUMBERS = {"len", "int", "round", "min", "max", "sum", "money", "short_tokens", "size_text"}
TEXT_METHODS = {
    "strip",
    "rstrip",
    "removesuffix",
    "removeprefix",
    "replace",
    "ljust",
    "rjust",
    "lower",
    "upper",
    "join",
}
PARSES_MARKUP = {
    "Static",
    "Label",
    "OptionList",
    "SelectionList",
    "Button",
    "Option",
    "Collapsible",
    "Log",
    "RichLog",
    "Markdown",
}
TITLES = {"border_title", "border_subtitle", "tooltip", "placeholder", "title", "sub_title", "loading_message"}
RAW_FIELDS = {"Input", "TextArea", "MaskedInput"}
NEVER = {"from_markup", "render_markup", "open_url", "urlopen", "notify", "print_markup", "escape_markup"}

LOOKED_AT = {
    "screens/context.py: heading(gauge, self._width)": "numbers",
    "screens/context.py: heading(self._gauge, self._width)": "numbers",
    "screens/context_texts.py: title": "claw's own words",
    "screens/diff.py: Content(f'{more}{other} · Esc')": "claw's own words",
    "screens/diff.py: f'{more}{other} · Esc'": "claw's own words",
    "screens/history.py: before": "a part of what `one_line` gave",
    "screens/history.py: found": "a part of what `one_line` gave",
    "screens/history.py: behind": "a part of what `one_line` gave",
    "screens/history_search.py: tail": "a number",
    "screens/jobs.py: f'{job.number:>3} '": "a number",
    "screens/jobs.py: state": "`state_text` cleans how it ended",
    "screens/jobs.py: f'  {last}' if last else ''": "`shorten` of `one_line`",
    "screens/jobs.py: job_line(job, width)": "content made of the three above",
    "screens/model_lines.py: mark + name": "`one_line` of the name",
    "screens/model_lines.py: ' ' * (cells - cell_len(name)) if tail else ''": "blanks",
    "screens/model_lines.py: tail": "columns, each `one_line`",
    "screens/picker.py: self._placeholder": "claw's own words",
    "screens/picker.py: self.draw(line)": "content; each `draw` is looked at here",
    "screens/sessions.py: Content('' if self._state else count)": "numbers",
    "screens/sessions.py: '' if self._state else count": "numbers",
    "screens/sessions.py: Content.assemble((f'{state} · ' if state else '', '$warning'), about)": "see below",
    "screens/sessions.py: f'{state} · ' if state else ''": "claw's own words",
    "screens/sessions.py: about": "`one_line`",
    "screens/setup_steps.py: key": "a key of claw's own",
    "screens/setup_steps.py: label": "`one_line`",
    "subcommands/shell_completion.py: tuple(action.option_strings)": "a class of that module, drawn nowhere",
    "widgets/action_bar.py: *pieces": "claw's own words",
    "widgets/blocks.py: ' '.join(title.split())": "a title of its own; `Compaction` is made of clean text",
    "widgets/choice_list.py: line": "content; its makers are looked at here",
    "widgets/choices.py: *choice_row(self.answers, self.marked, width)": "labels that `ApprovalScreen` cleans",
    "widgets/choices.py: *row": "labels that `ApprovalScreen` cleans",
    "widgets/completion.py: *row": "`one_line` in `_row`",
    "widgets/keys_row.py: *keys_row(self.keys, self.size.width)": "claw's own words",
    "widgets/queue.py: '\\n'.join(queue_rows(self.texts, self.size.width, self.after_turn))": "`one_line` in `queue_rows`",
    "widgets/status.py: *status_pieces(self.facts, self.size.width)": "`one_line` in `_parts`",
    "widgets/ticks.py: *row": "`one_line` in `_row`",
    "widgets/working.py: *work_pieces(self._facts, self._clock(), self.size.width, self._frame)": "`one_line` in it",
}
"""A place, as `file: expression`, and why no foreign text can get there unclean."""

WRITES_BYTES = {
    "composing/history.py": "a file of its own",
    "headless/stream_json.py": "JSON lines, whose controls are escapes",
    "launch/run.py": "nothing; the encoding of the screen",
    "print_mode.py": "the answer: to the byte into a pipe, clean onto a terminal",
    "signals.py": "what restores the terminal; a byte into a pipe of its own",
    "standard_streams.py": "clean text alone",
}
"""A file that writes to descriptors or past `sys.stdout`, and what it writes."""
SENDS_SEQUENCES = {
    "composing/paste_input.py": "looks for the marks of a paste in the input",
    "sanitize.py": "looks for them",
    "signals.py": "what restores the terminal",
    "terminal_background.py": "asks for the background's colour",
    "terminal_input.py": "looks for them in the input",
}
MAKES_LINKS = {"widgets/inline.py": "of `safe_url` alone", "themes.py": "a colour that is called so"}


Nodes = tuple[ast.AST, ...]


@cache
def sources() -> tuple[tuple[str, Nodes], ...]:
    """Every file and the nodes of its tree."""
    return tuple((path.relative_to(TUI).as_posix(), nodes_of(path.read_text())) for path in sorted(TUI.rglob("*.py")))


def nodes_of(code: str) -> Nodes:
    kinds = (ast.Call, ast.Assign, ast.ClassDef, ast.FunctionDef, ast.Constant, ast.Attribute, ast.Module)
    return tuple(node for node in ast.walk(ast.parse(code)) if isinstance(node, kinds))


def called(node: ast.expr) -> str:
    """The last name of what is called: `f` of `f()` and of `a.b.f()`."""
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def parts(node: ast.expr) -> list[ast.expr]:
    """What the expression's text is put together from; empty where that is not to be seen."""
    match node:
        case ast.JoinedStr(values=values) | ast.BoolOp(values=values):
            return values
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return elements
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            return [one, other]
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return [value]
        case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            return [value]
    return []


def is_literal(node: ast.expr) -> bool:
    """Whether the expression can only give text of claw's own, numbers, or what a cleaner gave."""
    match node:
        case ast.Constant():
            return True
        case ast.FormattedValue(value=value, format_spec=spec):
            return (spec is not None and ast.unparse(spec).strip("f'\"")[-1:] in ",d%") or is_literal(value)
        case ast.Name(id=name):
            return name.lstrip("_").isupper()  # a constant of a module
        case ast.Call(func=ast.Name(id=name)) if name in CLEANERS | NUMBERS:
            return True
        case ast.Call(func=ast.Name(id="Content") | ast.Attribute(attr="assemble"), args=arguments):
            return all(map(is_literal, arguments))
        case ast.Call(func=ast.Attribute(value=inner, attr=method), args=arguments) if method in TEXT_METHODS:
            return is_literal(inner) and all(map(is_literal, arguments))
    made_of = parts(node)
    return bool(made_of) and all(map(is_literal, made_of))


def static_names(nodes: Nodes) -> set[str]:
    """Variables that hold a widget which parses markup."""
    return {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and "Static" in ast.unparse(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }  # fmt: skip


def texts_drawn(nodes: Nodes) -> Iterator[ast.expr]:
    """The expressions that Textual draws as content."""
    statics = static_names(nodes)
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="Content"), args=arguments):
                yield from arguments
            case ast.Call(func=ast.Attribute(value=ast.Name(id="Content"), attr="assemble"), args=arguments):
                for argument in arguments:  # (text, style), or text
                    yield argument.elts[0] if isinstance(argument, ast.Tuple) else argument
            case ast.Call(func=ast.Attribute(value=target, attr="update"), args=[text]) if "Static" in ast.unparse(
                target
            ) or (isinstance(target, ast.Name) and target.id in statics):
                yield text
            case ast.Call(args=arguments, keywords=keywords) if called(node) in PARSES_MARKUP | {
                "TextField",
                "TextBox",
            }:
                yield from arguments[:1]
                yield from (keyword.value for keyword in keywords if keyword.arg in TITLES)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    ends = target.elts if isinstance(target, ast.Tuple) else [target]
                    values = value.elts if isinstance(value, ast.Tuple) and len(ends) > 1 else [value] * len(ends)
                    yield from (
                        v
                        for t, v in zip(ends, values, strict=True)
                        if isinstance(t, ast.Attribute) and t.attr in TITLES
                    )


def unclean(nodes: Nodes) -> list[str]:
    return [ast.unparse(text) for text in texts_drawn(nodes) if not is_literal(text)]


def test_T59_B24_whatever_is_drawn_is_literal_or_cleaned_where_it_is_drawn() -> None:
    found = {f"{file}: {text}" for file, nodes in sources() for text in unclean(nodes)}
    assert found - set(LOOKED_AT) == set(), "clean it there, or enter it above with the reason"
    assert set(LOOKED_AT) - found == set(), "this is gone"


@pytest.mark.parametrize(
    "code",
    [
        "box.border_title = name",
        "box.border_title, box.border_subtitle = Content('x'), Content(f'in {name}')",
        "self.query_one('#note', Static).update(name)",
        "self.query_one('#note', Static).update(Content(f'{count:,} of {name}'))",
        "said = self.query_one('#said', Static)\nsaid.update(name)",
        "yield Static(name, markup=False)",
        "yield TextField(placeholder=name)",
        "Content.assemble((name, 'dim'))",
        "Content.assemble(one_line(label, 9), name)",
        "Option(name)",
        "self.app.title = name",
    ],
)
def test_the_check_sees_a_place_that_is_not_clean(code: str) -> None:
    assert unclean(nodes_of(code)) != []


def test_T60_nothing_is_ever_read_as_markup() -> None:
    for file, nodes in sources():
        for node in nodes:
            if isinstance(node, ast.Call):
                assert called(node) not in NEVER or ast.unparse(node.func) == "session.notify", (
                    file,
                    ast.unparse(node),
                )
            if isinstance(node, ast.Call) and called(node) in {"Static", "Label", "OptionList", "SelectionList"}:
                off = [k for k in node.keywords if k.arg == "markup" and ast.unparse(k.value) == "False"]
                assert off, f"{file}: {ast.unparse(node)} lacks markup=False"
            if isinstance(node, ast.ClassDef) and {called(base) for base in node.bases} & PARSES_MARKUP:
                assert "markup=False" in ast.unparse(node), f"{file}: {node.name} lacks markup=False"
            if isinstance(node, ast.FunctionDef) and node.name in ("render", "draw") and node.returns is not None:
                assert "str" not in ast.unparse(node.returns), f"{file}: Textual reads a str that is drawn as markup"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "@click" not in node.value and "[link" not in node.value, file


def test_T59_only_these_write_bytes_or_sequences() -> None:
    bytes_, sequences, links, fields = set(), set(), set(), set()
    for file, nodes in sources():
        for node in nodes:
            match node:
                case ast.Attribute(value=ast.Name(id="os" | "sys"), attr="write" | "__stdout__" | "__stderr__"):
                    bytes_.add(file)
                case ast.Attribute(value=stream, attr="buffer") if "stdin" not in ast.unparse(stream):
                    bytes_.add(file)
                case ast.Constant(value=str(text)) if "\x1b" in text or "\x07" in text or "\x9b" in text:
                    sequences.add(file)
                case ast.Call(keywords=keywords) if any(keyword.arg in ("link", "meta") for keyword in keywords):
                    links.add(file)
                case ast.Call() if called(node) in RAW_FIELDS:
                    fields.add(file)
    assert bytes_ == set(WRITES_BYTES)
    assert sequences == set(SENDS_SEQUENCES)
    assert links == set(MAKES_LINKS)
    assert fields == set(), "TextField and TextBox take no control characters"


def test_T59_what_is_printed_goes_through_the_streams_that_clean_it() -> None:
    """`print` and `sys.stdout.write` are clean while `tui.cli.run` runs; nobody keeps a stream from before."""
    for file, nodes in sources():
        for node in next(node for node in nodes if isinstance(node, ast.Module)).body:
            assert not isinstance(node, ast.Assign) or "sys.stdout" not in ast.unparse(node), file
        defaults = [d for node in nodes if isinstance(node, ast.FunctionDef) for d in node.args.defaults]
        assert not any("sys.std" in ast.unparse(default) for default in defaults), file
    main = ast.unparse(ast.parse((TUI / "cli.py").read_text()))
    assert "with clean_streams():\n        return _run_to_an_end(argv)" in main

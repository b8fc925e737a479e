"""Mutants: a module with one change to its syntax tree, as a condition that is always false or a call that is not made."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """One change to one module."""

    module: Path
    """Below the root."""
    number: int
    """Which node of the module, as `ast.walk` counts."""
    lines: tuple[int, int]
    """First and last line of what changes."""
    in_function: bool
    """Otherwise it is evaluated when the module is imported."""
    what: str

    def __str__(self) -> str:
        return f"{self.module}:{self.lines[0]}: {self.what}"

    def source(self, original: str) -> str | None:
        """The module with the change in it; None if it says the same."""
        tree = ast.parse(original)
        before = ast.unparse(tree)
        _apply(next(node for number, node in enumerate(ast.walk(tree)) if number == self.number), self.what)
        after = ast.unparse(ast.fix_missing_locations(tree))
        return after if after != before else None


_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def mutants_of(root: Path, module: Path) -> list[Mutant]:
    """All mutants of one module, except of what is there for a type checker alone."""
    tree = ast.parse((root / module).read_text())
    for_types: set[ast.AST] = set()
    in_functions: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                for_types.update(ast.walk(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                in_functions.update(each for statement in node.body for each in ast.walk(statement))
    return [
        Mutant(module, number, _lines(node), node in in_functions, what)
        for number, node in enumerate(ast.walk(tree))
        if node not in for_types
        for what in _changes(node)
    ]


def _lines(node: ast.AST) -> tuple[int, int]:
    shown = node.test if isinstance(node, ast.If | ast.IfExp) else node
    return getattr(node, "lineno", 0), getattr(shown, "end_lineno", 0)


def _changes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.If() | ast.IfExp():
            yield "condition always false"
            yield "condition always true"
        case ast.BoolOp():
            yield "and for or, or for and"
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield f"another comparison than {type(op).__name__}"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "call not made"
        case ast.UnaryOp(op=ast.Not()):
            yield "not left out"
        case (
            ast.Tuple(elts=elements, ctx=ast.Load()) | ast.Set(elts=elements) | ast.List(elts=elements, ctx=ast.Load())
        ):
            if len(elements) > 1 and all(isinstance(each, ast.Constant) for each in elements):
                yield f"entry {len(elements) // 2} left out"


def _apply(node: ast.AST, what: str) -> None:
    match node:
        case ast.If() | ast.IfExp():
            node.test = ast.Constant(what.endswith("true"))
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Compare():
            node.ops = [_OTHER[type(node.ops[0])]()]
        case ast.Expr():
            node.value = ast.Constant(None)
        case ast.UnaryOp():
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        case ast.Tuple() | ast.Set() | ast.List():
            del node.elts[len(node.elts) // 2]

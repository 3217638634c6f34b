"""Python files as syntax trees: modules, calls, and the bindings of names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """One file, and what its names refer to."""

    name: str
    tree: ast.Module
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scope:
    """The context of an expression: its module and the enclosing functions, innermost first."""

    module: Module
    functions: tuple[Function, ...] = ()


@cache
def read_modules() -> dict[str, Module]:
    files = [*(ROOT / "specviz").rglob("*.py"), *(ROOT / "pages").glob("*.py"), ROOT / "app.py"]
    return {module.name: module for module in map(read_module, files)}


def read_module(path: Path) -> Module:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return module_of(name, path.read_text(encoding="utf-8"))


def module_of(name: str, source: str) -> Module:
    module = Module(name, ast.parse(source))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                module.imports[each.asname or each.name] = (node.module, each.name)
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = node
    for node in module.tree.body:
        if isinstance(node, Function):
            module.functions[node.name] = node
    return module


def calls(module: Module) -> Iterator[tuple[ast.Call, Scope]]:
    """Yield every call of a module with its enclosing functions."""

    def walk(node: ast.AST, round_it: tuple[Function, ...]) -> Iterator[tuple[ast.Call, Scope]]:
        if isinstance(node, ast.Call):
            yield node, Scope(module, round_it)
        inner = (node, *round_it) if isinstance(node, Function) else round_it
        for each in ast.iter_child_nodes(node):
            yield from walk(each, inner)

    return walk(module.tree, ())


def called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def written(annotation: ast.expr | None) -> str:
    return "" if annotation is None else ast.unparse(annotation)


def parameter_of(function: Function, name: str) -> ast.arg | None:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return next((each for each in every if each is not None and each.arg == name), None)


def function_of_parameter(node: ast.expr, scope: Scope) -> Function | None:
    if not isinstance(node, ast.Name):
        return None
    return next((each for each in scope.functions if parameter_of(each, node.id)), None)


@cache
def own_nodes(parent: Function | ast.Module) -> tuple[ast.AST, ...]:
    """Return the nodes of a function or module without those of the functions in it."""
    return tuple(node for each in parent.body for node in without_functions(each))


@cache
def functions_in(function: Function) -> dict[str, Function]:
    """Return a function and all functions in it by name, of equal names the outermost."""
    found: dict[str, Function] = {}
    for node in ast.walk(function):
        if isinstance(node, Function):
            found.setdefault(node.name, node)
    return found


def without_functions(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, Function | ast.ClassDef):
        return
    yield node
    for each in ast.iter_child_nodes(node):
        yield from without_functions(each)


@cache
def bindings(parent: Function | ast.Module, name: str) -> tuple[ast.expr, ...]:
    """Return the values that a name is bound to in a function or module."""
    return tuple(_bindings(own_nodes(parent), name))


def _bindings(every: Sequence[ast.AST], name: str) -> Iterator[ast.expr]:
    for node in every:
        match node:
            case ast.Assign() if any(binds(each, name) for each in node.targets):
                target = next(each for each in node.targets if binds(each, name))
                yield from fitting(target, node.value, name)
            case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr() if binds(node.target, name):
                if node.value is not None:
                    yield node.value
            case ast.For() | ast.comprehension() if binds(node.target, name):
                yield from items(node.target, written_out(node.iter, every), name)
            case ast.withitem() if node.optional_vars and binds(node.optional_vars, name):
                yield node.context_expr
            case ast.ExceptHandler() if node.name == name:
                yield ast.Name(f"{name}, an error")
            case _:
                pass


def fitting(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    """Yield only the element for the name if both sides are literal tuples."""
    both = (target, value)
    if all(isinstance(each, ast.Tuple) for each in both):
        sides = [each.elts for each in both if isinstance(each, ast.Tuple)]
        if len(sides[0]) == len(sides[1]):
            for left, right in zip(*sides, strict=True):
                if binds(left, name):
                    yield from fitting(left, right, name)
            return
    yield value


def written_out(series: ast.expr, nodes: Sequence[ast.AST]) -> ast.expr:
    """Return the literal list for the name of a list, if it is assigned nearby."""
    lists = [
        each.value
        for each in nodes
        if isinstance(each, ast.Assign | ast.AnnAssign) and isinstance(series, ast.Name)
        for target in ([each.target] if isinstance(each, ast.AnnAssign) else each.targets)
        if isinstance(target, ast.Name) and target.id == series.id and each.value is not None
    ]
    return lists[0] if len(lists) == 1 and isinstance(lists[0], ast.List) else series


def items(target: ast.expr, series: ast.expr, name: str) -> Iterator[ast.expr]:
    """Yield the values of a loop variable, if the series is a literal."""
    if isinstance(target, ast.Tuple):
        if isinstance(series, ast.Tuple | ast.List):
            for each in series.elts:
                yield from fitting(target, each, name)
            return
        if isinstance(series, ast.Call) and called(series) == "zip":
            yield from fitting(target, ast.Tuple(series.args), name)
            return
        if isinstance(series, ast.Call) and called(series) == "enumerate":
            yield from fitting(target, ast.Tuple([ast.Constant(0), series.args[0]]), name)
            return
    yield series


def binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))

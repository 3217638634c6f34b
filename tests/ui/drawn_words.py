"""Static check: which text the pages draw as Markdown, and whether it is trusted.

Trusted are literals, numbers, what is built from them, and the results of ``as_text``. Names
are followed through assignments, calls and imports; a number is recognised by its annotation. If a
function draws one of its parameters, the arguments of its callers are checked instead.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from specviz.record import numbers
from tests.ui.syntax import (
    Function,
    Module,
    Scope,
    bindings,
    called,
    calls,
    function_of_parameter,
    functions_in,
    own_nodes,
    parameter_of,
    written,
)

ESCAPED = "as_text"
# Arguments that Streamlit renders as Markdown, by method: positions and names.
_LABEL, _BODY = (0, "label", "help"), (0, "body", "help")
DRAWN: dict[str, tuple[int | str, ...]] = {
    "title": _BODY, "header": _BODY, "subheader": _BODY, "caption": _BODY, "markdown": _BODY,
    "write": (0, 1, 2, 3, "help"), "write_stream": (0,), "badge": (0, "label", "help"),
    "error": (0, "body"), "warning": (0, "body"), "info": (0, "body"), "success": (0, "body"),
    "toast": (0, "body"), "progress": (1, "text"), "spinner": (0, "text"), "status": (0, "label"),
    "button": _LABEL, "link_button": _LABEL, "download_button": _LABEL, "page_link": _LABEL,
    "form_submit_button": _LABEL, "menu_button": _LABEL, "checkbox": _LABEL, "toggle": _LABEL,
    "radio": (0, 1, "label", "options", "captions", "format_func", "help"),
    "pills": (0, 1, "label", "options", "format_func", "help"),
    "segmented_control": (0, 1, "label", "options", "format_func", "help"),
    "selectbox": _LABEL, "multiselect": _LABEL, "slider": _LABEL, "select_slider": _LABEL,
    "number_input": _LABEL, "text_input": _LABEL, "text_area": _LABEL, "date_input": _LABEL,
    "time_input": _LABEL, "color_picker": _LABEL, "chat_input": (), "file_uploader": _LABEL,
    "camera_input": _LABEL, "audio_input": _LABEL, "feedback": (),
    "metric": (0, 1, 2, "label", "value", "delta", "help"), "expander": _LABEL, "popover": _LABEL,
    "tabs": (0, "tabs"), "table": (0, "data"), "dialog": (0, "title"), "html": (0, "body"),
    "image": (1, "caption"), "latex": _BODY, "Page": ("title",),
}  # fmt: skip
_NUMBERS = re.compile(
    r"(int|float|bool|None|Floats|Spread|Ratio|(torch\.)?Tensor|tuple|Verdict|Literal\[.*\]"
    r"|[][|,. ])+"
)
_FORMATS = "deEfFgGn%,"  # format types that accept only numbers
_COUNTS = {"len", "round", "int", "float", "abs", "sum", "bool", "range", "ord", "isinstance"}
_CARRY = {"str", "list", "tuple", "dict", "sorted", "reversed", "next", "iter", "zip", "enumerate",
          "min", "max", "set", "map"}  # fmt: skip
_OF_TEXTS = {"join", "lower", "upper", "capitalize", "strip", "removeprefix", "removesuffix",
             "replace", "format", "items", "values", "keys", "get", "split", "rstrip",
             "partition"}  # fmt: skip
_MADE_OF = {"fromkeys", "from_dict"}
_CHOICES = {"pills", "segmented_control", "selectbox", "multiselect", "radio"}
_NUMBER_BOXES = {"slider", "number_input"}
_WRITERS = {"bare", "shown", "signed", "span", "between", "spread"}  # of a Quantity: numbers
_OWN_FILES = {"text_of"}  # reads the lesson's own texts
_ARITHMETIC = (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)


@dataclass(frozen=True)
class Foreign:
    """An untrusted expression, and where it is drawn."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class Reader:
    """Checks every drawing call in ``drawing``; follows names into ``modules``."""

    def __init__(self, modules: dict[str, Module], allowed: dict[str, str]) -> None:
        self.modules, self.allowed, self.used = modules, allowed, set[str]()
        self._annotated = _annotations(modules.values())
        self._asked: set[tuple[int, str]] = set()

    def foreign(self, drawing: Sequence[Module]) -> list[Foreign]:
        """Return the drawn untrusted expressions; drawn parameters are checked at the calls."""
        found: list[Foreign] = []
        passed: dict[str, set[str]] = defaultdict(set)  # function → its drawn parameters
        for module in drawing:
            for call, scope in calls(module):
                for part in _drawn(call):
                    found += self._check(part, scope, call, passed)
        looked = dict[str, set[str]]()
        while looked != passed:
            looked = {name: set(params) for name, params in passed.items()}
            found += [
                each
                for module in drawing
                for call, scope in calls(module)
                for part in self._handed_over(call, looked)
                for each in self._check(part, scope, call, passed)
            ]
        return list(dict.fromkeys(found))

    def _check(
        self, part: ast.expr, scope: Scope, call: ast.Call, passed: dict[str, set[str]]
    ) -> list[Foreign]:
        found: list[Foreign] = []
        for node in self.suspects(part, scope):
            function = function_of_parameter(node, scope)
            if function is not None and isinstance(node, ast.Name):
                passed[function.name].add(node.id)
                continue
            text = ast.unparse(node)
            if f"{scope.module.name}: {text}" in self.allowed:
                self.used.add(f"{scope.module.name}: {text}")
                continue
            found.append(Foreign(f"{scope.module.name}:{call.lineno}", text))
        return found

    def _handed_over(self, call: ast.Call, passed: dict[str, set[str]]) -> Iterator[ast.expr]:
        name = called(call)
        if name not in passed:
            return
        for module in self.modules.values():
            function = module.functions.get(name)
            if function is None:
                continue
            places = [*function.args.posonlyargs, *function.args.args]
            for place, argument in enumerate(call.args):
                if place < len(places) and places[place].arg in passed[name]:
                    yield argument
            for keyword in call.keywords:
                if keyword.arg in passed[name]:
                    yield keyword.value

    # Expressions

    def suspects(self, node: ast.expr | None, scope: Scope) -> Iterator[ast.expr]:
        """Yield the parts of an expression that are neither trusted text nor numbers."""
        if node is None or isinstance(node, ast.Constant | ast.Compare | ast.UnaryOp | ast.Lambda):
            if isinstance(node, ast.Lambda):
                yield from self.suspects(node.body, scope)
            return
        parts = _parts(node)
        if parts is not None:
            for each in parts:
                yield from self.suspects(each, scope)
        elif isinstance(node, ast.Call):
            yield from self._suspects_of_call(node, scope)
        elif isinstance(node, ast.Attribute):
            if not self._is_number(node.attr) and not self._is_own(node.value, scope):
                yield node
        elif isinstance(node, ast.Name) and node.id != ESCAPED:
            yield from self._suspects_of_name(node, scope)
        elif isinstance(node, ast.Name):
            return
        else:
            yield node

    def _is_own(self, node: ast.expr, scope: Scope) -> bool:
        return not any(True for _ in self.suspects(node, scope))

    def _is_number(self, attribute: str) -> bool:
        kinds = self._annotated.get(attribute, set())
        return bool(kinds) and all(_NUMBERS.fullmatch(kind) for kind in kinds)

    def _suspects_of_call(self, node: ast.Call, scope: Scope) -> Iterator[ast.expr]:
        name, function = called(node), node.func
        counts = isinstance(function, ast.Name) and name in _COUNTS
        if name == ESCAPED or counts or name in _OWN_FILES or _writes_a_number(node):
            return
        given = [*node.args, *(each.value for each in node.keywords)]
        if isinstance(function, ast.Name) and name == "map" and self._escapes(node.args[0]):
            return
        if isinstance(function, ast.Name) and name in _CARRY:
            given = given[1:] if name == "map" else given
        elif isinstance(function, ast.Attribute) and name in _NUMBER_BOXES:
            return
        elif isinstance(function, ast.Attribute) and name in _CHOICES:
            given = node.args[1:2]
        elif isinstance(function, ast.Attribute) and name in _MADE_OF:
            pass
        elif isinstance(function, ast.Attribute) and name in _OF_TEXTS:
            given = [function.value, *given]
        elif (home := self._home(name, scope)) is not None and isinstance(function, ast.Name):
            yield from self._suspects_of_result(node, *home, scope)
            return
        elif self._is_number(name):
            return
        elif not self._makes_a_value(name, scope):
            yield node
            return
        if any(not self._is_own(each, scope) for each in given):
            yield from (each for part in given for each in self.suspects(part, scope))

    def _escapes(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == ESCAPED

    def _makes_a_value(self, name: str, scope: Scope) -> bool:
        module, name = scope.module.imports.get(name, (scope.module.name, name))
        return module in self.modules and name in self.modules[module].classes

    def _home(self, name: str, scope: Scope) -> tuple[Module, Function] | None:
        """Return the function that a plain name refers to."""
        for function in scope.functions:
            if name in functions_in(function):
                return scope.module, functions_in(function)[name]
        where, name = scope.module.imports.get(name, (scope.module.name, name))
        module = self.modules.get(where)
        if module is None:
            return None
        if name in module.functions:
            return module, module.functions[name]
        return self._home(name, Scope(module)) if name in module.imports else None

    def _suspects_of_result(
        self, call: ast.Call, module: Module, function: Function, scope: Scope
    ) -> Iterator[ast.expr]:
        """Yield the suspects in a function's return values, with the call's arguments."""
        if _NUMBERS.fullmatch(written(function.returns)) or (id(function), "") in self._asked:
            return
        self._asked.add((id(function), ""))
        inner = Scope(module, (function,))
        found = [
            each
            for node in own_nodes(function)
            if isinstance(node, ast.Return | ast.Yield)
            for each in self.suspects(node.value, inner)
        ]
        self._asked.discard((id(function), ""))
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        given = dict(zip(names, call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg}
        for each in found:
            if isinstance(each, ast.Name) and function_of_parameter(each, inner) is function:
                if each.id in given:
                    yield from self.suspects(given[each.id], scope)
            elif f"{module.name}: {ast.unparse(each)}" in self.allowed:
                self.used.add(f"{module.name}: {ast.unparse(each)}")
            else:
                yield ast.Name(f"{function.name}: {ast.unparse(each)}")

    def _suspects_of_name(self, node: ast.Name, scope: Scope) -> Iterator[ast.expr]:
        for place, function in enumerate(scope.functions):
            parameter = parameter_of(function, node.id)
            if parameter is not None:
                if not _NUMBERS.fullmatch(written(parameter.annotation)):
                    yield node
                return
            bound = bindings(function, node.id)
            if bound:
                yield from self._suspects_of_bound(
                    node, bound, Scope(scope.module, scope.functions[place:])
                )
                return
        where, name = scope.module.imports.get(node.id, (scope.module.name, node.id))
        module = self.modules.get(where)
        bound = bindings(module.tree, name) if module else ()
        if module and bound:
            yield from self._suspects_of_bound(node, bound, Scope(module))
        elif module and name in module.functions:
            returns = [
                n.value for n in own_nodes(module.functions[name]) if isinstance(n, ast.Return)
            ]
            if not all(
                self._is_own(each, Scope(module, (module.functions[name],)))
                for each in returns
                if each
            ):
                yield node
        elif module and name in module.imports and where != scope.module.name:
            yield from self._suspects_of_name(ast.Name(name), Scope(module))
        else:
            yield node

    def _suspects_of_bound(
        self, node: ast.Name, bound: Sequence[ast.expr], scope: Scope
    ) -> Iterator[ast.expr]:
        mark = (id(scope.functions[0]) if scope.functions else id(scope.module), node.id)
        if mark in self._asked:
            return
        self._asked.add(mark)
        found = [each for value in bound for each in self.suspects(value, scope)]
        self._asked.discard(mark)
        yield from found


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """Return the parts of an expression that only combines them."""
    parts: list[ast.expr] | None = None
    match node:
        case ast.JoinedStr():
            shown = [each for each in node.values if isinstance(each, ast.FormattedValue)]
            parts = [each.value for each in shown if not _is_formatted_number(each)]
        case ast.BinOp():
            parts = [] if isinstance(node.op, _ARITHMETIC) else [node.left, node.right]
        case ast.IfExp():
            parts = [node.body, node.orelse]
        case ast.BoolOp():
            parts = node.values
        case ast.List() | ast.Tuple() | ast.Set():
            parts = node.elts
        case ast.Dict():
            parts = [each for each in (*node.keys, *node.values) if each is not None]
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            parts = [node.elt]
        case ast.DictComp():
            parts = [node.key, node.value]
        case ast.Subscript() | ast.Starred() | ast.NamedExpr():
            parts = [node.value]
    return parts


def _is_formatted_number(node: ast.FormattedValue) -> bool:
    spec = node.format_spec
    last = spec.values[-1] if isinstance(spec, ast.JoinedStr) and spec.values else None
    return isinstance(last, ast.Constant) and str(last.value)[-1] in _FORMATS


def _drawn(call: ast.Call) -> Iterator[ast.expr]:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in DRAWN:
        return
    places = DRAWN[call.func.attr]
    formatted = any(each.arg == "format_func" for each in call.keywords)
    for place, argument in enumerate(call.args):
        if place in places and not (formatted and place):
            yield argument
    for keyword in call.keywords:
        if keyword.arg in places and not (formatted and keyword.arg == "options"):
            yield keyword.value


def _annotations(modules: Iterable[Module]) -> dict[str, set[str]]:
    """Return each attribute's annotations in all classes: fields and property results."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in module.classes.values():
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    found[each.target.id].add(written(each.annotation))
                elif isinstance(each, Function):
                    found[each.name].add(written(each.returns) or "?")
    return found


def _writes_a_number(node: ast.Call) -> bool:
    """Return whether the call formats a quantity of ``record/numbers.py`` or a figure."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr in _WRITERS):
        return False
    owner = node.func.value
    if isinstance(owner, ast.Name):
        return isinstance(getattr(numbers, owner.id, None), numbers.Quantity)
    return isinstance(owner, ast.Attribute) and owner.attr == "quantity"

"""The remedies of errors as the source writes them, and the options and commands they name."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any

UNKNOWN = "\0"  # in place of a value that is known only at run time
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_QUOTED = re.compile(r"`([^`]+)`")
_PROGRAM = "python -m specviz"
_MOST_TEXTS, _DEEPEST = 20, 6  # of a remedy; expressions inside each other

Parsers = Mapping[str, argparse.ArgumentParser]
_Name = tuple[str, str]  # the module and the name


@dataclass(frozen=True, slots=True)
class Remedy:
    """One text of a remedy; ``module`` is the path below the package's folder."""

    module: str
    line: int
    text: str

    @property
    def names(self) -> frozenset[str]:
        return names_in(self.text)


def names_in(text: str) -> frozenset[str]:
    """Return the options and quoted commands that a remedy names, without their values."""
    quoted = [each.removeprefix(_PROGRAM).strip() for each in _QUOTED.findall(text)]
    commands = {" ".join(_words(each)) for each in quoted if not each.startswith("--")}
    own = set(_OPTION.findall(_QUOTED.sub(_own_option, text)))
    return frozenset(commands | own)


def _own_option(quoted: re.Match[str]) -> str:
    """Keep a quoted option; the options of a quoted command belong to the command."""
    return quoted[1] if quoted[1].startswith("--") else ""


def _words(command: str) -> list[str]:
    """Return the words of a command that are fixed: its names and options, not its values."""
    return [each for each in command.split() if re.fullmatch(r"-*[a-z][a-z-]*", each)]


# What exists


def problems(
    remedy: Remedy, parsers: Parsers, *, targets: set[str], foreign: set[str]
) -> list[str]:
    """Return what a remedy names that does not exist.

    Args:
        parsers: The parsers of the commands, by name.
        targets: The targets of the Makefile.
        foreign: The programs of others; their options are not checked.
    """
    found = [_problem_of_command(each, parsers, targets, foreign) for each in _commands(remedy)]
    bare = _QUOTED.sub(_own_option, remedy.text)
    if _PROGRAM in bare:
        found.append("a command without quotes")
    known = {option for parser in parsers.values() for option in options_of(parser)}
    found += [f"no command has {each}" for each in _OPTION.findall(bare) if each not in known]
    for each in _QUOTED.findall(remedy.text):
        if each.startswith("--") and not any(_takes(parser, each) for parser in parsers.values()):
            found.append(f"no command takes {each}")
    return [each for each in found if each]


def _commands(remedy: Remedy) -> Iterator[str]:
    for each in _QUOTED.findall(remedy.text):
        if not each.startswith("--"):
            yield each


def _problem_of_command(
    command: str, parsers: Parsers, targets: set[str], foreign: set[str]
) -> str:
    first, *rest = command.removeprefix(_PROGRAM).split()
    if first == "make":
        return "" if rest and rest[0] in targets else f"no target of the Makefile: {command}"
    if first in foreign:
        return ""
    if first not in parsers:
        return f"no command {first}"
    options = options_of(parsers[first])
    unknown = [each for each in rest if each.startswith("--") and each not in options]
    return f"{first} has no {unknown[0]}" if unknown else ""


def options_of(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the actions of a parser by option."""
    actions = parser._actions  # pyright: ignore[reportPrivateUsage]
    return {name: action for action in actions for name in action.option_strings}


def _takes(parser: argparse.ArgumentParser, words: str) -> bool:
    """Return whether the parser has the option, and its value is among the option's choices."""
    option, *values = shlex.split(words)
    action = options_of(parser).get(option)
    return action is not None and all(v in (action.choices or [v]) for v in values)


# The source


class Source:
    """All remedies of a package, with the constants and arguments they are composed of."""

    def __init__(self, package: Path) -> None:
        self._nodes = {
            path.relative_to(package).as_posix(): _relevant(path.read_text(encoding="utf-8"))
            for path in sorted(package.rglob("*.py"))
        }
        self._calls: dict[str, list[tuple[str, ast.Call]]] = {}  # by the last part of the name
        self._assigned: dict[_Name, list[ast.expr]] = {}  # all values, in any function
        self._imported: dict[_Name, _Name] = {}
        self._parameters: dict[_Name, list[tuple[str, int]]] = {}  # functions and their places
        for module, nodes in self._nodes.items():
            for node in nodes:
                self._add(module, node)

    def _add(self, module: str, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._calls.setdefault(_last_name(node.func), []).append((module, node))
        elif isinstance(node, ast.ImportFrom) and node.module:
            path = "/".join(node.module.split(".")[1:]) + ".py"
            for each in node.names:
                self._imported[module, each.asname or each.name] = path, each.name
        elif isinstance(node, ast.FunctionDef):
            names = [each.arg for each in node.args.args if each.arg != "self"]
            for place, name in enumerate(names):
                self._parameters.setdefault((module, name), []).append((node.name, place))
        for name, value in _assignments(node):
            self._assigned.setdefault((module, name), []).append(value)

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        return tuple(
            Remedy(module, node.lineno, text)
            for module, nodes in self._nodes.items()
            for node in nodes
            if isinstance(node, ast.Call)
            for value in _remedies_of(node)
            for text in dict.fromkeys(self._whole(value, module))
            if text != UNKNOWN
        )

    def _whole(self, node: ast.expr, module: str, depth: int = 0) -> list[str]:
        """Return the possible texts of a remedy, which may be an argument of its function."""
        if not isinstance(node, ast.Name) or depth > _DEEPEST:
            return self._texts(node, module, 0)
        found = self._texts(node, module, 0)
        for where, each in self._arguments(node.id, module):
            found += self._whole(each, where, depth + 1)
        return found

    def _texts(self, node: ast.expr, module: str, depth: int) -> list[str]:
        """Return the possible texts of an expression."""
        parts: Sequence[ast.expr] = ()
        texts: list[str] = []
        if depth > _DEEPEST:
            return [UNKNOWN]
        if isinstance(node, ast.Constant):
            texts = [str(node.value)]
        elif isinstance(node, ast.JoinedStr):
            each_part = [self._texts(each, module, depth + 1) for each in node.values]
            texts = ["".join(each) for each in islice(product(*each_part), _MOST_TEXTS)]
        elif isinstance(node, ast.FormattedValue | ast.Subscript):
            parts = [node.value]
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.Dict):
            parts = node.values
        elif isinstance(node, ast.Name):
            where, name = self._imported.get((module, node.id), (module, node.id))
            parts, module = self._assigned.get((where, name), []), where
        texts += [text for each in parts for text in self._texts(each, module, depth + 1)]
        return list(dict.fromkeys(texts))[:_MOST_TEXTS] or [UNKNOWN]

    def _arguments(self, name: str, module: str) -> Iterator[tuple[str, ast.expr]]:
        """Yield the arguments that calls pass to the module's parameters of this name."""
        for function, place in self._parameters.get((module, name), []):
            for where, call in self._calls.get(function, []):
                yield from ((where, each) for each in call.args[place : place + 1])
                yield from ((where, each.value) for each in call.keywords if each.arg == name)


def _remedies_of(call: ast.Call) -> list[ast.expr]:
    """Return the remedy of a call; ``Missing`` takes it as its second argument."""
    found = [each.value for each in call.keywords if each.arg == "remedy"]
    return found + (call.args[1:2] if _last_name(call.func) == "Missing" else [])


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _relevant(source: str) -> list[ast.AST]:
    kinds = (ast.Call, ast.ImportFrom, ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.For)
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield names and values of an assignment, or of a loop over tuples that are written out."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value
    elif isinstance(node, ast.For) and isinstance(node.target, ast.Tuple):
        rows = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List) else []
        for row in rows:
            if isinstance(row, ast.Tuple):
                for target, value in zip(node.target.elts, row.elts, strict=False):
                    if isinstance(target, ast.Name):
                        yield target.id, value

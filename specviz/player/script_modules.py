"""Join JavaScript files that import one another into one script.

A Streamlit component is one module, and a replay's security policy allows one script. So every file
becomes a function that is called at once and returns the file's exports. As each file has its own
function, equal names in different files cannot clash. A file's function comes after the functions
of the files that it imports. Files are named by their paths below a root folder, such as
``player/race.js``.

Only these imports and exports are supported, at the start of a line; others are refused::

    import { one, other } from "./file.js";
    export function name, export class name, export const name
    export default function (
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import dirname, join, normpath

from specviz.values import Value

_PATH = re.compile(r"[a-z_]+(?:/[a-z_]+)*\.js")
_IMPORT = re.compile(r'^import \{([\w\s,]+)\} from "(\.{1,2}/[\w./]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:function|class|const) (\w+)\b)", re.MULTILINE)
_DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
_DEFAULT = re.compile(r"^export default function \(", re.MULTILINE)
_DEFAULT_NAME = "default$"
_RESERVED = re.compile(r"\$[a-z_]|default\$")  # names reserved for the joined script
_COMMENT = re.compile(r"^\s*(?://|/?\*).*$", re.MULTILINE)
_UNSUPPORTED = re.compile(r"(?:^|[;{}])\s*(?:import|export)\b.*|\bimport\s*[.(].*", re.MULTILINE)


class ScriptModule(Value):
    """A parsed JavaScript file."""

    imports: Mapping[str, tuple[str, ...]]  # names, by the path of the file that exports them
    exports: tuple[str, ...]
    has_default: bool
    body: str  # without imports, and with "export" taken off its declarations


def component_script(root: Path, entry: str) -> str:
    """Return ``entry`` and its imports as one module that has the entry's default export."""
    modules = read_modules(root, entry)
    assert modules[entry].has_default, f"{entry} has no default export"
    return f"{_joined(modules)}export default {variable_of(entry)}.default;\n"


def page_script(root: Path, entry: str) -> str:
    """Return ``entry`` and its imports as one script that defines no global names."""
    return f'(() => {{\n"use strict";\n{_joined(read_modules(root, entry))}}})();\n'


def read_modules(root: Path, entry: str) -> dict[str, ScriptModule]:
    """Return ``entry`` and its imports, by path; each file comes after the files it imports."""
    modules: dict[str, ScriptModule] = {}
    _visit(root, entry, modules, ())
    return modules


def variable_of(path: str) -> str:
    """Return the variable that holds a file's exports in the joined script."""
    return f"${path.removesuffix('.js').replace('/', '$')}"


def _visit(
    root: Path, path: str, modules: dict[str, ScriptModule], importers: tuple[str, ...]
) -> None:
    assert path not in importers, f"circular imports: {' -> '.join((*importers, path))}"
    if path in modules:
        return
    module = _read(root, path)
    for imported, names in module.imports.items():
        _visit(root, imported, modules, (*importers, path))
        missing = set(names) - set(modules[imported].exports)
        assert not missing, f"{imported} does not export {sorted(missing)}, which {path} imports"
    modules[path] = module


def _read(root: Path, path: str) -> ScriptModule:
    assert _PATH.fullmatch(path), f"not the name of a script below the root: {path}"
    assert (root / path).is_file(), f"there is no script {path}"
    text = (root / path).read_text(encoding="utf-8")
    assert not _RESERVED.search(text), f"{path} uses a name that is reserved for the joined script"
    imports: dict[str, tuple[str, ...]] = {}
    for names, target in _IMPORT.findall(text):
        imported = normpath(join(dirname(path), target))
        assert imported not in imports, f"{path} imports twice from {imported}"
        imports[imported] = tuple(_names_in(names))
    body = _IMPORT.sub("", text)
    exports = tuple(_EXPORT.findall(body))
    assert len(set(exports)) == len(exports), f"{path} exports a name twice"
    has_default = _DEFAULT.search(body) is not None
    body = _DEFAULT.sub(f"function {_DEFAULT_NAME}(", _EXPORT.sub("", body))
    unsupported = _UNSUPPORTED.search(_COMMENT.sub("", body))
    assert not unsupported, f"{path} has an unsupported import or export: {unsupported[0].strip()}"
    declared = _DECLARED.findall(body)
    twice = {name for name in declared if declared.count(name) > 1}
    assert not twice, f"{path} declares {sorted(twice)} twice"
    return ScriptModule(imports=imports, exports=exports, has_default=has_default, body=body)


def _names_in(listed: str) -> Iterator[str]:
    """Yield the names between the braces of an import, which may end with a comma."""
    for name in re.sub(r",\s*$", "", listed).split(","):
        assert name.strip().isidentifier(), f"not a name that can be imported: {name.strip()!r}"
        yield name.strip()


def _joined(modules: Mapping[str, ScriptModule]) -> str:
    return "".join(_as_function(path, module) for path, module in modules.items())


def _as_function(path: str, module: ScriptModule) -> str:
    imports = (
        f"const {{ {', '.join(names)} }} = {variable_of(imported)};\n"
        for imported, names in module.imports.items()
    )
    default = [f"default: {_DEFAULT_NAME}"] if module.has_default else []
    exports = ", ".join([*module.exports, *default])
    lines = f"{''.join(imports)}{module.body.strip()}\nreturn {{ {exports} }};\n"
    return f"const {variable_of(path)} = (() => {{\n{lines}}})();\n"

"""Joining scripts that import one another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specviz import ASSETS
from specviz.player.player_source import player_source, replay_source
from specviz.player.script_modules import (
    component_script,
    page_script,
    read_modules,
    variable_of,
)
from tests.node import run_node

COUNTERS = "counters/counters.js"
LOAD_WALL = "load_wall/load_wall.js"
ODDS_TEXT = "odds_text/odds_text.js"
PICTURES = "lesson_pictures/lesson_pictures.js"
EXPORTS = """export const ONE = 1;
export function two() {}
export class Three {}
function own() {}
"""
DEFAULT = "export default function () {}\n"


def written(root: Path, **texts: str) -> Path:
    """Write files by name; ``__`` separates folders."""
    for name, text in texts.items():
        path = root / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def importing(*names: str) -> str:
    return "".join(f'import {{ {name} }} from "./{name}.js";\n' for name in names)


def test_files_come_after_their_imports(tmp_path: Path) -> None:
    files = {
        "main": importing("left", "right") + DEFAULT,
        "left": importing("base") + "export const left = base;",
        "right": importing("left", "base") + "export const right = base + left;",
        "base": "export const base = 1;",
    }
    order = list(read_modules(written(tmp_path, **files), "main.js"))
    assert order == ["base.js", "left.js", "right.js", "main.js"]


def test_a_file_is_a_function_that_returns_its_exports(tmp_path: Path) -> None:
    main = (
        'import {\n  ONE,\n  two,\n} from "./parts.js";\n\nexport default function (given) {\n}\n'
    )
    root = written(tmp_path, main=main, parts=EXPORTS)
    assert component_script(root, "main.js") == (
        "const $parts = (() => {\nconst ONE = 1;\nfunction two() {}\nclass Three {}\n"
        "function own() {}\nreturn { ONE, two, Three };\n})();\n"
        "const $main = (() => {\nconst { ONE, two } = $parts;\nfunction default$(given) {\n}\n"
        "return { default: default$ };\n})();\n"
        "export default $main.default;\n"
    )


def test_a_page_script_defines_no_globals(tmp_path: Path) -> None:
    script = page_script(written(tmp_path, main="const own = 1;"), "main.js")
    assert script.startswith('(() => {\n"use strict";\nconst $main = ')
    assert script.endswith("})();\n")


def test_finds_files_in_other_folders(tmp_path: Path) -> None:
    main = 'import { seen } from "../player/text.js";\n' + DEFAULT
    root = written(tmp_path, bars__main=main, player__text="export const seen = 1;")
    assert list(read_modules(root, "bars/main.js")) == ["player/text.js", "bars/main.js"]
    assert "const { seen } = $player$text;" in component_script(root, "bars/main.js")


def test_distinguishes_files_of_one_name_in_two_folders(tmp_path: Path) -> None:
    main = 'import { a } from "./one/part.js";\nimport { b } from "./two/part.js";\n' + DEFAULT
    parts = {"one__part": "export const a = 1;", "two__part": "export const b = 2;"}
    root = written(tmp_path, main=main, **parts)
    script = component_script(root, "main.js")
    assert "const $one$part = " in script
    assert "const $two$part = " in script


def test_names_of_two_files_do_not_clash(tmp_path: Path) -> None:
    part = 'const name = "{0}";\nexport function {0}() {{ return name; }}\n'
    main = (
        importing("left", "right") + 'const name = "main";\nconsole.log(name, left(), right());\n'
    )
    root = written(tmp_path, main=main, left=part.format("left"), right=part.format("right"))
    assert run_node("-e", page_script(root, "main.js")) == "main left right\n"


def test_ignores_statements_in_comments(tmp_path: Path) -> None:
    text = '// import "./x.js"\n/** @import { A } from "./a.js" */\n/*\n * export * from "b"\n */\n'
    modules = read_modules(written(tmp_path, main=text), "main.js")
    assert not modules["main.js"].imports


@pytest.mark.parametrize(
    "statement",
    [
        'import "./parts.js";',
        'import parts from "./parts.js";',
        'import * as parts from "./parts.js";',
        'import { ONE as one } from "./parts.js";',
        'import { default as one } from "./parts.js";',
        "import { ONE } from './parts.js';",
        'import { ONE } from "./parts.js"',
        'import { ONE } from "parts.js";',
        'import { ONE } from "https://elsewhere/parts.js";',
        ' import { ONE } from "./parts.js";',
        'const own = 1; import { ONE } from "./parts.js";',
        'const parts = await import("./parts.js");',
        "const here = import.meta.url;",
        "export { own };",
        'export { ONE } from "./parts.js";',
        'export * from "./parts.js";',
        "export let changing = 1;",
        "export var changing = 1;",
        "export const { ONE } = own;",
        "export async function later() {}",
        "export function* several() {}",
        "export default own;",
        "export default function named() {}",
        "export default class {}",
        "  export const indented = 1;",
        "if (own) { export const inner = 1; }",
    ],
)
def test_refuses_unsupported_forms(tmp_path: Path, statement: str) -> None:
    root = written(tmp_path, main=f"const own = 1;\n{statement}\n", parts=EXPORTS)
    with pytest.raises(AssertionError, match=r"unsupported|not a name|not the name"):
        read_modules(root, "main.js")


@pytest.mark.parametrize("name", ["$main", "$player$text", "default$"])
def test_refuses_reserved_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(AssertionError, match="reserved for the joined script"):
        read_modules(written(tmp_path, main=f"const {name} = 1;"), "main.js")


@pytest.mark.parametrize("again", ["function own() {}", "const own = 2;", "class own {}"])
def test_refuses_two_declarations_of_one_name(tmp_path: Path, again: str) -> None:
    """In the joined script, the second of two functions would silently replace the first."""
    root = written(tmp_path, main=f"export function own() {{}}\n{again}")
    with pytest.raises(AssertionError, match=r"declares .*own.* twice"):
        read_modules(root, "main.js")


def test_refuses_circular_imports(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        main=importing("a"),
        a=importing("b") + "export const a = 1;",
        b=importing("a") + "export const b = 1;",
    )
    with pytest.raises(AssertionError, match=r"circular.*: main\.js -> a\.js -> b\.js -> a\.js"):
        read_modules(root, "main.js")


@pytest.mark.parametrize("target", ["./gone.js", "../gone.js"])
def test_refuses_a_missing_file(tmp_path: Path, target: str) -> None:
    root = written(tmp_path, player__main=f'import {{ a }} from "{target}";\n')
    with pytest.raises(AssertionError, match="no script"):
        read_modules(root, "player/main.js")


def test_refuses_a_file_outside_the_root(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="below the root"):
        read_modules(written(tmp_path, main='import { a } from "../a.js";\n'), "main.js")


def test_refuses_a_name_that_is_not_exported(tmp_path: Path) -> None:
    root = written(tmp_path, main='import { own } from "./parts.js";\n', parts=EXPORTS)
    with pytest.raises(AssertionError, match="does not export"):
        read_modules(root, "main.js")


def test_refuses_importing_a_file_twice(tmp_path: Path) -> None:
    main = 'import { ONE } from "./parts.js";\nimport { two } from "./parts.js";\n'
    with pytest.raises(AssertionError, match="imports twice"):
        read_modules(written(tmp_path, main=main, parts=EXPORTS), "main.js")


def test_refuses_exporting_a_name_twice(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="a name twice"):
        read_modules(written(tmp_path, main=EXPORTS + EXPORTS), "main.js")


def test_refuses_a_component_without_a_default(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no default"):
        component_script(written(tmp_path, main="const own = 1;"), "main.js")


def test_each_script_contains_each_file_once() -> None:
    for script, entry in (
        (player_source()[0], "player/component.js"),
        (replay_source()[0], "player/replay.js"),
        (component_script(ASSETS, "bars/bars.js"), "bars/bars.js"),
        (component_script(ASSETS, ODDS_TEXT), ODDS_TEXT),
        (component_script(ASSETS, COUNTERS), COUNTERS),
        (component_script(ASSETS, LOAD_WALL), LOAD_WALL),
        (component_script(ASSETS, PICTURES), PICTURES),
    ):
        functions = re.findall(r"^const (\$[a-z_]+\$[a-z_]+) = \(\(\) =>", script, re.MULTILINE)
        assert functions == [variable_of(path) for path in read_modules(ASSETS, entry)]


def test_every_script_is_used() -> None:
    starts = ("component", "replay", "first_stage")
    players = tuple(f"player/{name}.js" for name in starts)
    boards = (COUNTERS, LOAD_WALL)
    entries = (*players, "bars/bars.js", "learn/progress.js", PICTURES, ODDS_TEXT, *boards)
    used = {path for entry in entries for path in read_modules(ASSETS, entry)}
    assert used == {path.relative_to(ASSETS).as_posix() for path in ASSETS.rglob("*.js")}

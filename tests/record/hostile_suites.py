"""Over fifty suites that must be rejected, each with a one-line error."""

from __future__ import annotations

import json

LIMIT = 5 * 10**6
GOOD = '{"prompt": "Once"}\n'
SCRIPT = "<script>alert(1)</script>"


def hostile_suites() -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in _texts()] + _bytes()


def _bytes() -> list[bytes]:
    return [
        b"\xff\xfe{\x00}\x00",
        b'{"prompt": "\xc3"}',
        b"\x00" * 100,
        b"\x89PNG\r\n\x1a\n",
        b"\x1f\x8b\x08" + b"\x00" * 50,
        b'{"prompt": "a"}\n\xed\xa0\x80',
    ]


def _texts() -> list[str]:
    values = [None, 0, 1.5, True, "", [], ["a"], {}, {"text": "a"}]
    kinds = [
        0,
        True,
        "",
        " ",
        [],
        {},
        "x" * 41,
        "a\nb",
        "a\x1b[2J",
        "\u202ebad",
        "a\u0000",
        "\ud800",
    ]
    return [
        "",
        "\n \n",
        "[]",
        '"prompt"',
        "null",
        "42",
        "true",
        "NaN",
        "{",
        '{"prompt": "a"',
        "{'prompt': 'a'}",
        '{"prompt": "a",}',
        '{"prompt": "a"} {"prompt": "b"}',
        '{"prompt": "a", "prompt": "b"}',
        '{"prompt": "a", "script": "b"}',
        json.dumps({"prompt": "a", SCRIPT: SCRIPT}),
        GOOD + SCRIPT,
        GOOD * 3 + "{",
        GOOD * 601,
        "[" * 200_000,
        '{"prompt": ' * 50_000,
        '{"prompt": "' + "x" * 100_001 + '"}',
        GOOD + " " * LIMIT,
        *(json.dumps({"prompt": value}) for value in values),
        *(json.dumps({"prompt": "a", "kind": kind}) for kind in kinds),
        *(json.dumps({"question_id": 1, "turns": value}) for value in _other(values, ["a"])),
        *(json.dumps({"task_id": 1, "prompt": value}) for value in values),
        *(json.dumps({"prompt": "a", "before": value}) for value in _other(values, [])),
        '{"question_id": 1, "turns": ["a"], "turns": ["b"]}',
        '{"question_id": 1, "turns": ["\\ud800"]}',
        '{"prompt": "\\ud800"}',
        '{"prompt": ' + "9" * 10_000 + "}",
        '{"PROMPT": "a"}',
    ]


def _other(values: list[object], valid: object) -> list[object]:
    return [value for value in values if value != valid]

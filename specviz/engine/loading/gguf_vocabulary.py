"""Write a model's vocabulary into a GGUF file, from another GGUF file or from ``tokenizer.json``.

A GGUF file only names its pre-tokenizer, while ``tokenizer.json`` contains the rules. To find the
name, this module splits a probe text of difficult words with each known pre-tokenizer. It chooses
the first pre-tokenizer that gives the same pieces as the rules in ``tokenizer.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from specviz.engine.loading.gguf_tokenizer import SPECIAL_NAMES, splitter_of
from specviz.errors import ModelFileError
from specviz.formats.gguf_header import GgufHeader, read_header
from specviz.formats.model_folder import read_object
from specviz.formats.pre_tokenizers import PRE_TOKENIZERS
from specviz.formats.token_bytes import (
    BYTE_LEVEL,
    CONTROL,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    is_byte_level,
)

AddTokens = Callable[[Any, int], None]
"""Adds a vocabulary to a GGUF writer, padded to the given number of embedding rows."""

_PREFIX = "tokenizer."
_PROBE = (
    "don't I'LL we'Ve they’re HTTPServer eEé éE Éa xÑandú Straße İstanbul 1 12 123 1234567 a1b22 "
    " 3.14  ٣٤٥٦ ²½ x+=1;\n\n\n  def f(x):\r\n\treturn x//2 /* c */ <div>{} [[a_b]] $5 100% @user "
    "#tag http://a.b/c?d=e ... !?«» 日本語です中文字符 12中3 ひらがな 한국어 русский हिन्दी ไทย "
    "e\u0301 a\u0308b \u00a0\u3000 \u200b 😀👩‍👩‍👧 !Hello ^a |b ~c +1 =d `e <f >g \n \n end"
)
_GIVE_GGUF = "Give the target as a GGUF file, whose vocabulary can be copied."


def vocabulary_of(source: Path) -> AddTokens:
    """Return a function that adds the vocabulary of a GGUF file or a folder to a GGUF writer.

    A folder must contain a ``tokenizer.json``.

    Raises:
        ModelFileError: The vocabulary is missing, damaged, or of a kind that is not supported.
    """
    if source.suffix == ".gguf":
        return _copied(read_header(source))
    if not (source / "tokenizer.json").is_file():
        raise ModelFileError(f"{source.name} has no tokenizer.json.", remedy=_GIVE_GGUF)
    return _rebuilt(source)


def _copied(header: GgufHeader) -> AddTokens:
    keys = [key for key in header.values if key.startswith(_PREFIX)]
    rows = header.count("tokenizer.ggml.tokens")
    if not rows:
        raise ModelFileError(
            f"{header.path.name} has no vocabulary.", remedy="Choose the GGUF file of the target."
        )

    def add_tokens(writer: Any, vocabulary: int) -> None:
        _check_rows(header.path.name, rows, vocabulary)
        for key in keys:
            _add(writer, key, header, vocabulary)

    return add_tokens


def _add(writer: Any, key: str, header: GgufHeader, vocabulary: int) -> None:
    value = header.values[key]
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif texts := header.strings(key):
        writer.add_array(key, _padded(texts, vocabulary) if key.endswith(".tokens") else texts)
    elif numbers := header.numbers(key):
        missing = vocabulary - len(numbers)
        filling = {"token_type": UNUSED, "scores": 0.0}.get(key.rsplit(".", 1)[-1])
        writer.add_array(key, numbers + [filling] * missing if filling is not None else numbers)


def _rebuilt(folder: Path) -> AddTokens:
    record = _read_record(folder / "tokenizer.json")
    texts, kinds = _tokens(record)
    named = _named(folder)
    begin = named.get("bos_token")
    first = Tokenizer.from_file(str(folder / "tokenizer.json")).encode("a").ids[:1]
    adds_bos = begin in texts and first == [texts.index(begin)]
    name = _pre_tokenizer(folder, record, adds_bos)

    def add_tokens(writer: Any, vocabulary: int) -> None:
        _check_rows(folder.name, len(texts), vocabulary)
        writer.add_tokenizer_model(BYTE_LEVEL)
        writer.add_tokenizer_pre(name)
        writer.add_token_list(_padded(texts, vocabulary))
        writer.add_token_types(kinds + [UNUSED] * (vocabulary - len(kinds)))
        writer.add_token_merges([_merge(each) for each in record["model"]["merges"]])
        for kind, text in named.items():
            if text in texts:
                key = f"tokenizer.ggml.{SPECIAL_NAMES[kind]}_token_id"
                writer.add_uint32(key, texts.index(text))
        writer.add_add_bos_token(adds_bos)

    return add_tokens


def _read_record(path: Path) -> dict[str, Any]:
    """Return the content of a ``tokenizer.json``; raise ModelFileError if not byte-level BPE."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        model = record["model"]
        kind, _, _ = model["type"], model["vocab"], model["merges"]
    except OSError as error:
        raise ModelFileError.unreadable(path, error) from None
    except (ValueError, KeyError, TypeError):
        raise ModelFileError(f"{path.name} is damaged.", remedy="Copy it again.") from None
    if kind != "BPE" or not is_byte_level(record):
        raise ModelFileError(f"{path.name} is not a byte-level BPE tokenizer.", remedy=_GIVE_GGUF)
    return record


def _tokens(record: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """Return the texts and GGUF types of all tokens, ordered by id."""
    by_id = {place: (text, NORMAL) for text, place in record["model"]["vocab"].items()}
    for each in record.get("added_tokens") or ():
        by_id[each["id"]] = (each["content"], CONTROL if each.get("special") else USER_DEFINED)
    entries = [by_id.get(place, (_filler(place), UNUSED)) for place in range(max(by_id) + 1)]
    return [text for text, _ in entries], [kind for _, kind in entries]


def _named(folder: Path) -> dict[str, str]:
    """Return the texts of the special tokens in the tokenizer's configuration.

    The keys are the tokens' names, for example "eos_token".
    """
    path = folder / "tokenizer_config.json"
    config = read_object(path) if path.is_file() else {}
    found: dict[str, str] = {}
    for name in SPECIAL_NAMES:
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


def _pre_tokenizer(folder: Path, record: Mapping[str, Any], adds_bos: bool) -> str:
    """Return the GGUF name of the model's pre-tokenizer.

    The named pre-tokenizer splits the probe text like the pre-tokenizer in ``tokenizer.json``. If
    several do so, prefer a pre-tokenizer whose default for adding BOS equals ``adds_bos``.
    """
    own: Any = Tokenizer.from_file(str(folder / "tokenizer.json")).pre_tokenizer
    pieces = _pieces(own)
    whole_words = bool(record["model"].get("ignore_merges"))
    known = sorted(PRE_TOKENIZERS.items(), key=lambda each: each[1].adds_bos != adds_bos)
    for name, rules in known:
        if rules.ignores_merges == whole_words and _pieces(splitter_of(rules)) == pieces:
            return name
    raise ModelFileError(
        f"No known GGUF pre-tokenizer splits texts as the tokenizer of {folder.name} does.",
        remedy=_GIVE_GGUF,
    )


def _pieces(splitter: Any) -> list[str]:
    return [piece for piece, _ in splitter.pre_tokenize_str(_PROBE)]


def _merge(merge: str | list[str]) -> str:
    return merge if isinstance(merge, str) else " ".join(merge)


def _padded(texts: list[str], vocabulary: int) -> list[str]:
    return texts + [_filler(place) for place in range(len(texts), vocabulary)]


def _filler(place: int) -> str:
    return f"[PAD{place}]"  # as llama.cpp's converter writes rows without a token


def _check_rows(name: str, tokens: int, rows: int) -> None:
    if tokens > rows:
        raise ModelFileError(
            f"{name} has {tokens:,} tokens, but the draft has only {rows:,}.",
            remedy="Give the target that the draft was trained for.",
        )

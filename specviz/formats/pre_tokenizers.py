"""Pre-tokenizers by GGUF name: how byte-level tokenizers split a text before BPE.

A GGUF file names its pre-tokenizer (``tokenizer.ggml.pre``) but does not contain it. The regular
expressions come from the models' ``tokenizer.json`` files, in Oniguruma syntax. Each entry was
checked against llama.cpp. Names without an entry are not supported.
"""

from __future__ import annotations

from specviz.values import Value

_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORD, _MARKS = r"[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_QWEN2 = rf"{_ENDINGS}|{_WORD}|\p{{N}}|{_MARKS}|{_SPACES}"
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
# Unlike the models' own expressions, llama.cpp ignores the case of letters outside ASCII.
_UPPER, _LOWER = r"[\p{L}&&[^a-z]]", r"[\p{L}&&[^A-Z]]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
_SYMBOLS = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_TEKKEN = rf"{_CASED % ('', '')}|\p{{N}}|{_SYMBOLS}"
_GPT4O = rf"{_CASED % (_ENDINGS + '?', _ENDINGS + '?')}|\p{{N}}{{1,3}}|{_SYMBOLS}"
_DIGIT = r"\p{N}"
_HAN = r"[一-龥\u3040-ゟ゠-ヿ]+"
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
    rf""" ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"""
)


class PreTokenizer(Value):
    """The rules of a pre-tokenizer: regular expressions, and two settings of the tokenizer.

    Each expression splits the pieces that the previous expression produced.
    """

    splits: tuple[str, ...]
    ignores_merges: bool = False  # a word that is a token is used without merging
    adds_bos: bool = False  # the default if the file does not say


def _named(names: str, *splits: str, **rules: bool) -> dict[str, PreTokenizer]:
    return {name: PreTokenizer(splits=splits, **rules) for name in names.split()}


PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    **_named("gpt-2 phi-2 gigachat a.x-4.0 mellum mpt olmo trillion exaone4", _GPT2),
    **_named("smollm starcoder refact command-r codeshell exaone minerva-7b", _DIGIT, _GPT2),
    **_named("qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan", _QWEN2),
    **_named("dbrx smaug-bpe chatglm-bpe", _LLAMA3),
    **_named("llama3 llama-v3 llama-bpe falcon3 pixtral midm-2.0 lfm2", _LLAMA3,
             ignores_merges=True, adds_bos=True),
    **_named("glm4", _LLAMA3, ignores_merges=True),
    **_named("tekken", _TEKKEN, ignores_merges=True, adds_bos=True),
    **_named("gpt-4o llama4 kanana2", _GPT4O),
    **_named("deepseek-v3 hunyuan-dense", r"\p{N}{1,3}", _HAN, _DEEPSEEK3),
    **_named("falcon", r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
}  # fmt: skip

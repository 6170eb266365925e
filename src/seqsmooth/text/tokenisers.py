"""From text to words: one small protocol, and the tokenisers that are not our own."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from seqsmooth import checks
from seqsmooth.packages import import_package
from seqsmooth.text.pieces import MARKS, UNKNOWN
from seqsmooth.text.ptb import PtbTokeniser

NAMES = "whitespace, ptb, moses:LANGUAGE, moses:LANGUAGE:lower, subword-nmt or hf:NAME"


class Tokeniser(Protocol):
    """Splits text. The signature names it exactly, so that files can say what made them.

    Where it gives pieces of words, the signature ends with the mark that puts them together, as in `|join:@@`: see
    `pieces.MARKS`.

    Examples:
        >>> class Letters:
        ...     def __call__(self, text: str) -> list[str]:
        ...         return list(text)
        ...
        ...     def signature(self) -> str:
        ...         return "letters"
        >>> split: Tokeniser = Letters()
        >>> split("dog")
        ['d', 'o', 'g']
    """

    @property
    def signature(self) -> str:
        """Name the tokeniser exactly."""
        ...

    def __call__(self, text: str) -> list[str]:
        """Split one text."""
        ...


class WhitespaceTokeniser:
    """Split at white space: for text that is tokenised already.

    Examples:
        >>> WhitespaceTokeniser()("a dog 's bone")
        ['a', 'dog', "'s", 'bone']
    """

    signature = "whitespace"

    def __call__(self, text: str) -> list[str]:
        """Split one text."""
        return text.split()


class SubwordNmtTokeniser(WhitespaceTokeniser):
    """Text that subword-nmt or fastBPE has split: at white space, and a piece that ends in @@ is not a whole word.

    Examples:
        >>> split = SubwordNmtTokeniser()
        >>> split("ein Haupt@@ bahnhof")
        ['ein', 'Haupt@@', 'bahnhof']
        >>> from seqsmooth.text import WordCounts
        >>> counts = WordCounts.of([split("ein Haupt@@ bahnhof")])
        >>> words = counts.vocabulary(min_count=1, tokeniser=split.signature)
        >>> words.join(["ein", "Haupt@@", "bahnhof"])
        ['ein', 'Hauptbahnhof']
    """

    signature = "subword-nmt|join:@@"


class MosesTokeniser:
    """The tokeniser of Moses, through sacremoses; nothing is escaped.

    Args:
        language: its rules for abbreviations and apostrophes, as in "en", "fr", "de".
        lower: whether to lower the case, after the split.

    Examples:
        >>> MosesTokeniser("en", lower=True)("A dog's bone, isn't it?")
        ['a', 'dog', "'s", 'bone', ',', 'isn', "'t", 'it', '?']
    """

    def __init__(self, language: str = "en", *, lower: bool = False) -> None:
        checks.must(isinstance(language, str) and language != "", "language", "as in 'en'", repr(language))
        sacremoses = import_package("sacremoses", "the tokeniser of Moses", "toolkit")
        self._split = sacremoses.MosesTokenizer(lang=language).tokenize
        self.lower = lower
        version = getattr(sacremoses, "__version__", "unknown")
        self.signature = f"moses:{language}{':lower' if lower else ''}|sacremoses:{version}"

    def __call__(self, text: str) -> list[str]:
        """Split one text."""
        tokens: list[str] = self._split(text, escape=False)
        return [token.lower() for token in tokens] if self.lower else tokens

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process by name."""
        return tokeniser, (self.signature,)


class HuggingFaceTokeniser:
    """A subword tokeniser of Hugging Face. What it does not know becomes our UNK, which is never written or matched.

    Args:
        name: a `tokenizer.json`, which needs `tokenizers` only, or the name or folder of a model, which needs
            `transformers`.
    """

    def __init__(self, name: str) -> None:
        checks.must(isinstance(name, str) and name != "", "name", "a tokenizer.json or the name of a model", repr(name))
        self.name = name
        if name.endswith(".json"):
            checks.must(Path(name).is_file(), "name", "a file that is there", name)
            tokenizers = import_package("tokenizers", f"the tokeniser {name}", "hf")
            try:
                self._tokenizer = tokenizers.Tokenizer.from_file(name)
            except Exception as error:  # the package raises nothing narrower
                raise ValueError(f"`name` must be a tokenizer.json; {name} is something else.") from error
            self._split = self._pieces
        else:
            transformers = import_package("transformers", f"the tokeniser {name}", "hf")
            try:
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(name)
            except (OSError, ValueError) as error:
                rule = "a tokenizer.json, or the name or folder of a model that can be loaded"
                raise ValueError(f"`name` must be {rule}; it is {name!r}.") from error
            self._split = self._tokenizer.tokenize
        self._mark, self._unknown = _mark_and_unknown(self._tokenizer, name)

    @cached_property
    def signature(self) -> str:
        """Name the tokeniser, the number of its pieces, and how they become words again."""
        sized = getattr(self._tokenizer, "get_vocab_size", None)
        pieces = f"hf:{self.name}|pieces:{sized() if sized else len(self._tokenizer)}"
        return f"{pieces}|join:{self._mark}" if self._mark else pieces

    def __call__(self, text: str) -> list[str]:
        """Split one text."""
        tokens: list[str] = self._split(text)
        return [UNKNOWN if token == self._unknown else token for token in tokens]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process by name."""
        return tokeniser, (self.signature,)

    def _pieces(self, text: str) -> list[str]:
        tokens: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens


def tokeniser(name: str) -> Tokeniser:
    """Make a tokeniser from its name, or from the signature of one that was made before.

    Examples:
        >>> tokeniser("ptb")("A dog.")
        ['a', 'dog']
    """
    checks.must(isinstance(name, str), "tokeniser", NAMES, repr(name))
    kind, _, rest = name.partition("|")[0].partition(":")
    if kind == "whitespace" and not rest:
        return WhitespaceTokeniser()
    if kind == "ptb" and not rest:
        return PtbTokeniser()
    if kind == "subword-nmt" and not rest:
        return SubwordNmtTokeniser()
    if kind == "moses":
        language, _, case = rest.partition(":")
        checks.must(case in ("", "lower"), "tokeniser", NAMES, repr(name))
        return MosesTokeniser(language or "en", lower=case == "lower")
    checks.must(kind == "hf" and rest != "", "tokeniser", NAMES, repr(name))
    return HuggingFaceTokeniser(rest)


def is_named(split: Tokeniser) -> bool:
    """Whether another process can make the same tokeniser of its signature: it is not one of a user's own."""
    return type(split) in (
        WhitespaceTokeniser,
        PtbTokeniser,
        SubwordNmtTokeniser,
        MosesTokeniser,
        HuggingFaceTokeniser,
    )


def _mark_and_unknown(tokenizer: Any, name: str) -> tuple[str, str | None]:
    """Read the mark of words, and the name of UNK, from the decoder or the model of a tokeniser of Hugging Face."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):  # written in Python, around SentencePiece
        mark = "▁" if any(piece.startswith("▁") for piece in tokenizer.get_vocab()) else None
        unknown = tokenizer.unk_token
    else:
        settings = json.loads(backend.to_str())
        model, decoder = settings["model"], settings.get("decoder") or {}
        marks = [_mark_of_decoder(part) for part in decoder.get("decoders", [decoder])]
        marks += [model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")]
        mark = next(filter(None, marks), "" if model["type"] == "WordLevel" else None)
        unknown = model.get("unk_token")
    known = mark == "" or mark in MARKS
    rule = f"a tokeniser whose pieces can become words again, marked by {' '.join(MARKS)}"
    checks.must(known, "name", rule, f"{name}, which marks them by {mark!r}")
    return str(mark), unknown


def _mark_of_decoder(decoder: dict[str, Any]) -> str | None:
    kind = decoder.get("type")
    if kind == "ByteLevel":
        return "Ġ"
    if kind == "Replace" and decoder.get("content") == " ":
        mark: str | None = decoder["pattern"].get("String")
        return mark
    return decoder.get({"WordPiece": "prefix", "Metaspace": "replacement", "BPEDecoder": "suffix"}.get(str(kind), ""))

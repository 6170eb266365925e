from __future__ import annotations

import importlib
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seqsmooth.text import HuggingFaceTokeniser, MosesTokeniser, PtbTokeniser, tokeniser
from seqsmooth.text.tokenisers import is_named

# From the documentation of Stanford's tokeniser and of the Penn Treebank, and by hand from the rules in them.
SENTENCES = [
    ("A man doesn't know.", ["a", "man", "does", "n't", "know"]),
    ("It's a dog's life; they've left!", ["it", "'s", "a", "dog", "'s", "life", "they", "'ve", "left"]),
    ('A "big" red-and-white sign', ["a", "big", "red-and-white", "sign"]),
    ("I cannot; we're gonna.", ["i", "can", "not", "we", "'re", "gon", "na"]),
    ("St. John's, in the U.S.", ["st.", "john", "'s", "in", "the", "u.s."]),
    ("$5 at 11:20 o'clock", ["$", "5", "at", "11:20", "o'clock"]),
    ("two (2) men -- and...", ["two", "-lrb-", "2", "-rrb-", "men", "and"]),
    ("", []),
    ("  \t ", []),
    ("...", []),
]


@pytest.mark.parametrize(("text", "words"), SENTENCES)
def test_captions_are_split_as_in_the_treebank(text: str, words: list[str]) -> None:
    assert PtbTokeniser()(text) == words


def jar_splits(texts: list[str], folder: Path) -> list[list[str]]:
    """What Stanford's program makes of texts, as pycocoevalcap calls it."""
    package = pytest.importorskip("pycocoevalcap")
    if shutil.which("java") is None:
        pytest.skip("no Java")
    from pycocoevalcap.tokenizer import ptbtokenizer

    jar = Path(package.__path__[0]) / "tokenizer" / ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR
    source = folder / "captions.txt"
    source.write_text("\n".join(text.replace("\n", " ") for text in texts) + "\n", encoding="utf-8")
    command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase"]
    told = subprocess.run([*command, str(source)], capture_output=True, check=True).stdout.decode().split("\n")
    assert len(told) == len(texts) + 1
    taken_out = set(ptbtokenizer.PUNCTUATIONS)
    return [[word for word in line.split() if word not in taken_out] for line in told[:-1]]


def test_the_jar_agrees_on_the_sentences_above(tmp_path: Path) -> None:
    texts = [text for text, _ in SENTENCES if text.strip()]
    assert [PtbTokeniser()(text) for text in texts] == jar_splits(texts, tmp_path)


@pytest.mark.slow
def test_the_jar_agrees_on_all_captions_of_coco_but_one_in_two_hundred(coco_data: Path, tmp_path: Path) -> None:
    held = json.loads((coco_data / "coco/dataset.json").read_text(encoding="utf-8"))
    texts = [sentence["raw"] for image in held["images"] for sentence in image["sentences"]]
    split = PtbTokeniser()
    same = sum(split(text) == words for text, words in zip(texts, jar_splits(texts, tmp_path), strict=True))
    assert len(texts) > 600_000
    assert same / len(texts) > 0.9995


def test_names_make_tokenisers_and_so_do_their_signatures() -> None:
    for name in ("whitespace", "ptb"):
        made = tokeniser(name)
        assert tokeniser(made.signature).signature == made.signature == name


@pytest.mark.parametrize("name", ["", "ptb:fr", "mose", "hf:", "moses:en:upper", "whitespace:x"])
def test_another_name_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(ValueError, match=r"`tokeniser` must be whitespace, ptb, moses:LANGUAGE, .*; it is"):
        tokeniser(name)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("moses:de", "sacremoses", "toolkit"), ("hf:x", "transformers", "hf"), ("hf:t.json", "tokenizers", "hf")],
)
def test_a_missing_package_is_named_with_the_way_out(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = importlib.import_module

    def absent(wanted: str, package: str | None = None) -> object:
        if wanted == module:
            raise ModuleNotFoundError(f"No module named {wanted!r}")
        return real(wanted, package)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.json").touch()
    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ValueError, match=rf"`{module}` must be installed .* \(pip install 'seqsmooth\[{extra}\]'\)\.$"):
        tokeniser(name)


def test_moses_is_that_of_sacremoses() -> None:
    pytest.importorskip("sacremoses")
    text = 'Der Mann sagt: "Hallo & Tschüss", z.B. um 5 Uhr.'
    words = MosesTokeniser("de")(text)
    assert words[:4] == ["Der", "Mann", "sagt", ":"]
    assert "&" in words
    assert MosesTokeniser("de", lower=True)(text) == [word.lower() for word in words]
    made = tokeniser("moses:de:lower")
    assert made.signature.startswith("moses:de:lower|sacremoses:")
    assert tokeniser(made.signature).signature == made.signature


def test_pieces_are_those_of_hugging_face(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordPiece({"[UNK]": 0, "skate": 1, "##board": 2, "a": 3}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    split = tokeniser(f"hf:{path}")
    assert split("a skateboard") == ["a", "skate", "##board"]
    assert split("a snowboard") == ["a", "<unk>"]
    assert split.signature == f"hf:{path}|pieces:4|join:##"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`name` must be a tokenizer.json; .* is something else\."):
        HuggingFaceTokeniser(str(path))
    with pytest.raises(ValueError, match=r"`name` must be a file that is there; it is nowhere\.json\."):
        HuggingFaceTokeniser("nowhere.json")


@pytest.mark.parametrize("name", ["whitespace", "ptb", "subword-nmt", "moses:fr", "moses:de:lower"])
def test_a_tokeniser_with_a_name_travels_to_another_process(name: str) -> None:
    if name.startswith("moses"):
        pytest.importorskip("sacremoses")
    split = tokeniser(name)
    again = pickle.loads(pickle.dumps(split))  # noqa: S301
    text = 'Der Mann@@ sagt: "L\'eau & Tschüss", z.B. um 5 Uhr.'
    assert again(text) == split(text)
    assert again.signature == split.signature
    assert is_named(split)


def test_pieces_travel_by_name_too(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    split = tokeniser(f"hf:{tmp_path / 'tokenizer.json'}")
    again = pickle.loads(pickle.dumps(split))  # noqa: S301
    assert (again("a"), again.signature) == (split("a"), split.signature)
    assert is_named(split)


def test_a_tokeniser_of_ones_own_has_no_name() -> None:
    class Own(PtbTokeniser):
        """Says it is another's, and is not."""

    assert not is_named(Own())


def test_importing_the_room_brings_in_no_tokeniser_package() -> None:
    code = "import sys, seqsmooth.text; print({'sacremoses', 'tokenizers', 'transformers'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"

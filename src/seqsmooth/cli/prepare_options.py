"""The options of `seqsmooth prepare`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

DESCRIPTION = """\
Make a corpus ready for training: words, vocabulary, token arrays, features or pictures, references, in one new folder.

WHAT is captions, pairs, features (of pictures, by an encoder), or a well-known corpus (multi30k, tatoeba, iwslt14,
wmt14, wmt14-full), which is downloaded unless --source says where it is. The folder appears when it is complete, and
one that is there is never touched."""

EXAMPLES = """\
examples:
  seqsmooth prepare captions dataset_coco.json coco --train-splits train,restval --features pool.npy --max-words 16
  seqsmooth prepare captions dataset_flickr8k.json flickr8k-pictures --images Images --side 224
  seqsmooth prepare captions train=captions_train2014.json val=captions_val2014.json coco --tokeniser ptb
  seqsmooth prepare pairs out --train train.de train.en --val valid.de valid.en --test test.de test.en
  seqsmooth prepare features images coco-lite2 --encoder efficientnet_lite --set size=2 --device cuda
  seqsmooth prepare multi30k multi30k.de-en --source FOLDER
  seqsmooth prepare iwslt14 iwslt14.de-en

`seqsmooth prepare WHAT --help` lists the options of each."""

CAPTIONS_EXAMPLE = """\
example:
  seqsmooth prepare captions dataset_coco.json coco --train-splits train,restval --features pool.npy --missing drop
  seqsmooth prepare captions dataset_flickr8k.json flickr8k-pictures --images Images --side 224

Pictures instead of features are for a model of the kind captioner, which sees them itself and may tune its CNN."""
PAIRS_EXAMPLE = """\
example:
  seqsmooth prepare pairs out --train train.de train.en --val valid.de valid.en --min-count 2
  seqsmooth prepare pairs out --train train.en train.fr --extra newstest2014 new.en new.fr"""
FEATURES_EXAMPLE = """\
example:
  seqsmooth prepare features val2014 coco-grid --encoder efficientnet_lite --set output=regions --set grid=4

OUT.npy and OUT.json are what `prepare captions --features OUT.json` takes. Run again, it goes on where it stopped."""
RECIPE_EXAMPLE = """\
example:
  seqsmooth prepare {0} {0}.corpus --cache downloads"""

_TOKENISERS = "whitespace, ptb, moses:de, moses:de:lower, subword-nmt, hf:NAME"


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    _captions_options(_kind(kinds, "captions", "captions of images, from json", CAPTIONS_EXAMPLE))
    _pairs_options(_kind(kinds, "pairs", "parallel text, from files", PAIRS_EXAMPLE))
    _features_options(_kind(kinds, "features", "features of pictures, by an encoder", FEATURES_EXAMPLE))
    for name, summary in RECIPES.items():
        _recipe_options(_kind(kinds, name, summary, RECIPE_EXAMPLE.format(name)))


# As in `data.recipes`, which is not imported before it is needed; a test compares them.
RECIPES = {
    "multi30k": "Multi30k task 1: 29,000 captions in en, de, fr, cs",
    "tatoeba": "short sentences of Tatoeba with English on one side",
    "iwslt14": "IWSLT'14 German-English talks, as the paper: 153k pairs",
    "wmt14": "WMT'14 English-French, the selection of 12 M pairs of the paper",
    "wmt14-full": "WMT'14 English-French, all 40 M pairs of the task, raw",
}


def _kind(kinds: Any, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = kinds.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=example,
    )
    parser.set_defaults(what=name)
    return parser


def _captions_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    rule = "Karpathy's json, or COCO's annotations as train=FILE val=FILE"
    add("captions", nargs="+", metavar="CAPTIONS", help=rule)
    add("out", type=Path, metavar="OUT", help="the folder to make")
    add(
        "--train-splits",
        default="train",
        metavar="NAMES",
        help="Karpathy's splits to train on, as in train,restval (default train)",
    )
    add("--val-splits", default="val", metavar="NAMES", help="Karpathy's splits to validate on (default val)")
    add("--test-splits", default="test", metavar="NAMES", help="Karpathy's splits to test on (default test)")
    rule = "an .npy with its ids, a folder of .npy or .npz files, an .h5, or a store's .json"
    add("--features", type=Path, metavar="PATH", help=rule)
    rule = "the id of each row of an .npy or .h5 (default NAME.ids.txt beside NAME.npy)"
    add("--feature-ids", type=Path, metavar="FILE", help=rule)
    add("--feature-key", metavar="NAME", help="the name of the array in an .npz or .h5 with several")
    add("--dtype", choices=("float16", "float32"), help="the type of the features on disk (default: unchanged)")
    rule = "a folder of pictures, stored as bytes instead of features and found by their names"
    add("--images", type=Path, metavar="FOLDER", help=rule)
    add("--side", type=int, help="the side of the pictures in pixels, as the encoder needs it (default 224)")
    _resize_option(parser)
    _workers_option(parser, "texts and read pictures")
    rule = "what to do with images without features or pictures: refuse (default) or drop them"
    add("--missing", choices=("refuse", "drop"), default="refuse", help=rule)
    rule = "what to do with captions without words: refuse (default) or drop them"
    add("--empty", choices=("refuse", "drop"), default="refuse", help=rule)
    add("--tokeniser", metavar="NAME", help=f"{_TOKENISERS} (default: Karpathy's own tokens)")
    add("--min-count", type=int, default=5, help="the count below which words become <unk> (default 5)")
    add("--most-words", type=int, help="the most words in the vocabulary, by frequency")
    add("--max-words", type=int, help="the most words of a target; the rest is cut (the paper: 16)")


def _pairs_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="the folder to make")
    rule = "source and target (and more targets), plain, .gz or .sgm; or one file with tabs"
    add("--train", type=Path, nargs="+", required=True, metavar="FILE", help=rule)
    add("--val", type=Path, nargs="+", metavar="FILE", help="the validation files")
    add("--test", type=Path, nargs="+", metavar="FILE", help="the test files")
    rule = "another split: its name, then its files, as in --extra newstest2014 new.en new.fr; may be given again"
    add("--extra", nargs="+", action="append", default=[], metavar="NAME FILE", help=rule)
    add("--columns", default="1,2", help="the columns of source and target in a file with tabs (default 1,2)")
    add("--source-tokeniser", default="whitespace", metavar="NAME", help=_TOKENISERS)
    add("--target-tokeniser", default="whitespace", metavar="NAME", help=_TOKENISERS)
    add("--min-count", type=int, default=1, help="the count below which words become <unk> (default 1)")
    add("--most-words", type=int, help="the most words in the vocabulary, by frequency")
    add("--max-words", type=int, help="the most words of either side of a training pair")
    rule = "what to do with longer training pairs: cut (default) or drop them"
    add("--longer", choices=("cut", "drop"), default="cut", help=rule)
    rule = "what to do with training pairs with an empty side: refuse (default) or drop them"
    add("--empty", choices=("refuse", "drop"), default="refuse", help=rule)
    _frequencies_option(parser)
    _workers_option(parser)


def _features_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("images", type=Path, metavar="IMAGES", help="a folder of pictures; their names are their ids")
    add("out", type=Path, metavar="OUT", help="the path that the files to write begin with")
    rule = "efficientnet_lite (default) or transformers"
    add("--encoder", default="efficientnet_lite", metavar="KIND", help=rule)
    rule = "an argument of the encoder, as in size=2, output=regions, grid=7"
    add("--set", action="append", default=[], metavar="NAME=VALUE", help=rule)
    _resize_option(parser)
    add("--workers", type=int, default=2, help="the number of threads that read pictures (default 2)")
    add("--batch-size", type=int, default=64, help="the number of pictures at a time (default 64)")
    add("--device", help="cuda or cpu (default: cuda where there is one)")
    add(
        "--dtype",
        choices=("float16", "float32"),
        default="float16",
        help="the type of the features on disk (default float16)",
    )


def _resize_option(parser: argparse.ArgumentParser) -> None:
    rule = "the side to scale pictures to before the middle is cut out (default: no cut)"
    parser.add_argument("--resize", type=int, help=rule)


def _workers_option(parser: argparse.ArgumentParser, what: str = "texts") -> None:
    rule = f"the number of processes that split {what} (default: all cores, up to 32)"
    parser.add_argument("--workers", type=int, help=rule)


def _frequencies_option(parser: argparse.ArgumentParser) -> None:
    rule = "do not count in how many training targets each n-gram occurs, which the reward CIDEr needs"
    parser.add_argument("--no-document-frequencies", dest="document_frequencies", action="store_false", help=rule)


def _recipe_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="the folder to make")
    add("--languages", metavar="A-B", help="source and target, as in de-en")
    rule = "take files from here and download nothing: the archives' files, or train.de, train.en, val.de and so on"
    add("--source", type=Path, metavar="FOLDER", help=rule)
    add("--cache", type=Path, metavar="FOLDER", help="the folder of downloads (default ~/.cache/seqsmooth)")
    rule = f"{_TOKENISERS}, with {{}} for the language"
    add("--tokeniser", metavar="NAME", help=rule)
    add("--min-count", type=int, help="the count below which words become <unk>")
    add("--most-words", type=int, help="the most words in the vocabulary, by frequency")
    add("--max-words", type=int, help="the most words of a training pair; longer ones are dropped")
    _frequencies_option(parser)
    _workers_option(parser)

"""`seqsmooth prepare`: captions, parallel text or a well-known corpus, from files to a folder that `train` opens."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqsmooth.cli.progress import Progress

if TYPE_CHECKING:
    from seqsmooth.data import Corpus

DESCRIPTION = """\
Make a corpus ready for training: words, vocabulary, token arrays, features and references, in one new folder.

WHAT is captions, pairs, features (of pictures, by an encoder), or a well-known corpus (multi30k, tatoeba, iwslt14,
wmt14, wmt14-full), which is downloaded unless --source says where it is. The folder appears when it is complete, and
one that is there is never touched."""

EXAMPLES = """\
examples:
  seqsmooth prepare captions dataset_coco.json coco --train-splits train,restval --features pool.npy --max-words 16
  seqsmooth prepare captions train=captions_train2014.json val=captions_val2014.json coco --tokeniser ptb
  seqsmooth prepare pairs out --train train.de train.en --val valid.de valid.en --test test.de test.en
  seqsmooth prepare features images coco-lite2 --encoder efficientnet_lite --set size=2 --device cuda
  seqsmooth prepare multi30k multi30k.de-en --source FOLDER
  seqsmooth prepare iwslt14 iwslt14.de-en

`seqsmooth prepare WHAT --help` lists the options of each."""

CAPTIONS_EXAMPLE = """\
example:
  seqsmooth prepare captions dataset_coco.json coco --train-splits train,restval --features pool.npy --missing drop"""
PAIRS_EXAMPLE = """\
example:
  seqsmooth prepare pairs out --train train.de train.en --val valid.de valid.en --min-count 2"""
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
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    _captions_options(_kind(kinds, "captions", "captions of images, from json", CAPTIONS_EXAMPLE))
    _pairs_options(_kind(kinds, "pairs", "parallel text, from files", PAIRS_EXAMPLE))
    _features_options(_kind(kinds, "features", "features of pictures, by an encoder", FEATURES_EXAMPLE))
    for name, summary in _RECIPES.items():
        _recipe_options(_kind(kinds, name, summary, RECIPE_EXAMPLE.format(name)))


# As in `data.recipes`, which is not imported before it is needed; a test compares them.
_RECIPES = {
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(what=name)
    return parser


def _captions_options(parser: argparse.ArgumentParser) -> None:
    rule = "Karpathy's json, or COCO's annotations as train=FILE val=FILE"
    parser.add_argument("captions", nargs="+", metavar="CAPTIONS", help=rule)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to make")
    parser.add_argument("--train-splits", default="train", metavar="NAMES", help="of Karpathy's, as in train,restval")
    parser.add_argument("--val-splits", default="val", metavar="NAMES", help="of Karpathy's (default val)")
    parser.add_argument("--test-splits", default="test", metavar="NAMES", help="of Karpathy's (default test)")
    rule = "an .npy with its ids, a folder of .npy or .npz files, an .h5, or a store's .json"
    parser.add_argument("--features", type=Path, metavar="PATH", help=rule)
    rule = "the id of each row of an .npy or .h5 (default NAME.ids.txt beside NAME.npy)"
    parser.add_argument("--feature-ids", type=Path, metavar="FILE", help=rule)
    parser.add_argument("--feature-key", metavar="NAME", help="the array of an .npz or .h5 with several")
    parser.add_argument("--dtype", choices=("float16", "float32"), help="of the features (default: as they are)")
    rule = "images without features: refuse (default), or drop them and say how many"
    parser.add_argument("--missing", choices=("refuse", "drop"), default="refuse", help=rule)
    rule = "captions without words: refuse (default), or drop them and say how many"
    parser.add_argument("--empty", choices=("refuse", "drop"), default="refuse", help=rule)
    parser.add_argument("--tokeniser", metavar="NAME", help=f"{_TOKENISERS} (default: Karpathy's own tokens)")
    parser.add_argument("--min-count", type=int, default=5, help="rarer words become <unk> (default 5)")
    parser.add_argument("--most-words", type=int, help="keep no more words than this, the most frequent")
    parser.add_argument("--max-words", type=int, help="cut targets after so many words (the paper: 16)")


def _pairs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to make")
    rule = "source and target (and more targets), plain, .gz or .sgm; or one file with tabs"
    parser.add_argument("--train", type=Path, nargs="+", required=True, metavar="FILE", help=rule)
    parser.add_argument("--val", type=Path, nargs="+", metavar="FILE", help="the same, for validation")
    parser.add_argument("--test", type=Path, nargs="+", metavar="FILE", help="the same, for the test")
    parser.add_argument("--columns", default="1,2", help="of source and target in a file with tabs (default 1,2)")
    parser.add_argument("--source-tokeniser", default="whitespace", metavar="NAME", help=_TOKENISERS)
    parser.add_argument("--target-tokeniser", default="whitespace", metavar="NAME", help=_TOKENISERS)
    parser.add_argument("--min-count", type=int, default=1, help="rarer words become <unk> (default 1)")
    parser.add_argument("--most-words", type=int, help="keep no more words than this, the most frequent")
    parser.add_argument("--max-words", type=int, help="of either side of a training pair")
    rule = "training pairs with more: cut them (default), or drop them"
    parser.add_argument("--longer", choices=("cut", "drop"), default="cut", help=rule)
    rule = "training pairs with an empty side: refuse (default), or drop them"
    parser.add_argument("--empty", choices=("refuse", "drop"), default="refuse", help=rule)


def _features_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", type=Path, metavar="IMAGES", help="a folder of pictures; their names are their ids")
    parser.add_argument("out", type=Path, metavar="OUT", help="what the files to write begin with")
    rule = "efficientnet_lite (default) or transformers"
    parser.add_argument("--encoder", default="efficientnet_lite", metavar="KIND", help=rule)
    rule = "an argument of the encoder, as in size=2, output=regions, grid=7"
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=rule)
    rule = "scale pictures to so many pixels a side and cut out the middle (default: cut nothing)"
    parser.add_argument("--resize", type=int, help=rule)
    parser.add_argument("--batch-size", type=int, default=64, help="pictures at a time (default 64)")
    parser.add_argument("--workers", type=int, default=2, help="threads that read pictures (default 2)")
    parser.add_argument("--device", help="cuda or cpu (default: cuda where there is one)")
    parser.add_argument("--dtype", choices=("float16", "float32"), default="float16", help="on disk (default float16)")


def _recipe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to make")
    parser.add_argument("--languages", metavar="A-B", help="source and target, as in de-en")
    rule = "take files from here and download nothing: the archives' files, or train.de, train.en, val.de and so on"
    parser.add_argument("--source", type=Path, metavar="FOLDER", help=rule)
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep downloads here (default ~/.cache/seqsmooth)")
    rule = f"{_TOKENISERS}, with {{}} for the language"
    parser.add_argument("--tokeniser", metavar="NAME", help=rule)
    parser.add_argument("--min-count", type=int, help="rarer words become <unk>")
    parser.add_argument("--most-words", type=int, help="keep no more words than this, the most frequent")
    parser.add_argument("--max-words", type=int, help="drop training pairs with more")


def run(given: argparse.Namespace) -> int:
    """Prepare, say what was made and return the exit status."""
    kinds = {"captions": _captions, "pairs": _pairs}
    show = Progress()
    try:
        if given.what == "features":
            return _features(given, show)
        corpus = kinds.get(given.what, _recipe)(given, show)
    except KeyboardInterrupt:
        left = "run it again to go on" if given.what == "features" else f"{given.out} was not made"
        print(f"\nseqsmooth: stopped; {left}", file=sys.stderr)
        return 130
    show.end()
    print(_told(corpus), flush=True)
    return 0


def _captions(given: argparse.Namespace, show: Progress) -> Corpus:
    from seqsmooth.data.feature_files import read_features
    from seqsmooth.data.preparation import prepare_captions
    from seqsmooth.ops import checks
    from seqsmooth.ops.files import check_new_folder
    from seqsmooth.text import tokeniser

    check_new_folder("out", given.out)
    splits = {}
    for name, listed in (("train", given.train_splits), ("val", given.val_splits), ("test", given.test_splits)):
        several = [one.strip() for one in listed.split(",") if one.strip()]
        if several:
            splits[name] = several
    files: Any = given.captions[0]
    if len(given.captions) > 1 or "=" in files:
        pairs = [one.partition("=") for one in given.captions]
        rule = "one json, or several as in train=FILE val=FILE"
        checks.must(all(name and path for name, _, path in pairs), "captions", rule, " ".join(given.captions))
        files = {name: path for name, _, path in pairs}
    features = None
    if given.features is not None:
        show("shapes of the features", 0)
        features = read_features(given.features, given.feature_ids, given.feature_key)
    return prepare_captions(
        files,
        given.out,
        features,
        splits=splits,
        tokeniser=None if given.tokeniser is None else tokeniser(given.tokeniser),
        min_count=given.min_count,
        most_words=given.most_words,
        max_words=given.max_words,
        missing=given.missing,
        empty=given.empty,
        dtype=given.dtype,
        progress=show,
    )


def _pairs(given: argparse.Namespace, show: Progress) -> Corpus:
    from seqsmooth.data import Side
    from seqsmooth.data.parallel import ParallelText
    from seqsmooth.data.preparation import prepare_pairs
    from seqsmooth.ops import checks
    from seqsmooth.ops.files import check_new_folder
    from seqsmooth.text import tokeniser

    check_new_folder("out", given.out)
    source, _, target = given.columns.partition(",")
    rule = "two numbers from 1 on, as in 1,2"
    checks.must(all(one.isdecimal() and int(one) for one in (source, target)), "columns", rule, given.columns)
    files = {name: getattr(given, name) for name in ("train", "val", "test") if getattr(given, name) is not None}
    show("lines", 0)
    sides = [
        Side(tokeniser(name), given.min_count, given.most_words)
        for name in (given.source_tokeniser, given.target_tokeniser)
    ]
    return prepare_pairs(
        {name: ParallelText(paths, (int(source), int(target)), name) for name, paths in files.items()},
        given.out,
        source=sides[0],
        target=sides[1],
        max_words=given.max_words,
        longer=given.longer,
        empty=given.empty,
        progress=show,
    )


def _recipe(given: argparse.Namespace, show: Progress) -> Corpus:
    from seqsmooth.data.recipes import prepare_recipe
    from seqsmooth.ops import checks

    languages = None
    if given.languages is not None:
        source, _, target = given.languages.partition("-")
        checks.must(bool(source and target), "languages", "two, as in de-en", given.languages)
        languages = (source, target)
    return prepare_recipe(
        given.what,
        given.out,
        languages=languages,
        source=given.source,
        cache=given.cache,
        tokenised_by=given.tokeniser,
        min_count=given.min_count,
        most_words=given.most_words,
        max_words=given.max_words,
        progress=show,
    )


def _features(given: argparse.Namespace, show: Progress) -> int:
    import json

    import torch

    from seqsmooth.data.extraction import extract, picture_files
    from seqsmooth.models.registry import build_encoder
    from seqsmooth.models.vision import read_images
    from seqsmooth.ops import checks

    settings = {}
    for one in given.set:
        name, _, value = one.partition("=")
        checks.must(bool(name and value), "set", "as in size=2", one)
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    checks.one_of("device", device, ("cuda", "cpu"))
    checks.must(device == "cpu" or torch.cuda.is_available(), "device", "cpu where there is no GPU", device)
    files = picture_files(given.images)
    encoder = build_encoder(given.encoder, **settings).to(device).eval()
    signature = json.dumps({"kind": given.encoder, "resize": given.resize} | settings, sort_keys=True)
    store = extract(
        files,
        encoder,
        given.out,
        read=lambda paths: read_images(paths, encoder.side, resize=given.resize, workers=given.workers),
        name=signature,
        batch_size=given.batch_size,
        device=device,
        dtype=given.dtype,
        progress=lambda done, of: show(f"pictures of {of:,}", done),
    )
    show.end()
    print(f"{given.out}.npy: {len(store):,} pictures, features {' x '.join(map(str, store.shape))}", flush=True)
    return 0


def _told(corpus: Corpus) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in corpus.splits.items())
    lines = [f"{corpus.folder}: {corpus.task}, {counts}; {len(corpus.vocabulary):,} words"]
    if corpus.source_vocabulary is not None:
        lines[0] += f" (source {len(corpus.source_vocabulary):,})"
    if corpus.feature_shape is not None:
        lines[0] += f"; features {' x '.join(map(str, corpus.feature_shape))}"
    for what in ("images_without_features", "empty_captions", "longer_pairs", "empty_pairs"):
        told = corpus.made_from.get(what)
        left_out = sum(told.values()) if isinstance(told, dict) else told
        if left_out:
            by = ", ".join(f"{name} {n:,}" for name, n in told.items() if n) if isinstance(told, dict) else "train"
            lines.append(f"left out: {left_out:,} {what.replace('_', ' ')} ({by})")
    return "\n".join([*lines, f"fingerprint {corpus.fingerprint[:16]}"])

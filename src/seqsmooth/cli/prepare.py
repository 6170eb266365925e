"""`seqsmooth prepare`: captions, parallel text or a well-known corpus, from files to a folder that `train` opens."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqsmooth.cli.prepare_options import options
from seqsmooth.cli.progress import Progress

if TYPE_CHECKING:
    from seqsmooth.data import Corpus
    from seqsmooth.data.features import FeatureSource

__all__ = ["options", "start"]


def start(given: argparse.Namespace) -> int:
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
    print(_summary(corpus), flush=True)
    return 0


def _captions(given: argparse.Namespace, show: Progress) -> Corpus:
    from seqsmooth import checks
    from seqsmooth.cli.names import split_names
    from seqsmooth.files.paths import check_new_folder, check_source

    check_new_folder("out", given.out)
    splits = {}
    for name, listed in (("train", given.train_splits), ("val", given.val_splits), ("test", given.test_splits)):
        several = split_names(f"{name}_splits", listed or None)
        if several:
            splits[name] = several
    files: Any = given.captions[0]
    if len(given.captions) > 1 or "=" in files:
        pairs = [one.partition("=") for one in given.captions]
        rule = "one json, or several as in train=FILE val=FILE"
        checks.must(all(name and path for name, _, path in pairs), "captions", rule, " ".join(given.captions))
        files = {name: path for name, _, path in pairs}
    for path in files.values() if isinstance(files, dict) else [files]:
        check_source("captions", path)
    _check_inputs(given)
    # What can be wrong up to here is said before the second that torch takes.
    from seqsmooth.data.preparation import prepare_captions
    from seqsmooth.text import tokeniser

    return prepare_captions(
        files,
        given.out,
        _inputs(given, show),
        splits=splits,
        tokeniser=None if given.tokeniser is None else tokeniser(given.tokeniser),
        min_count=given.min_count,
        most_words=given.most_words,
        max_words=given.max_words,
        missing=given.missing,
        empty=given.empty,
        dtype=given.dtype,
        workers=_workers(given),
        progress=show,
    )


def _check_inputs(given: argparse.Namespace) -> None:
    from seqsmooth import checks
    from seqsmooth.data.feature_files import check_features
    from seqsmooth.files.paths import check_folder

    if given.images is None:
        for name in ("side", "resize"):
            checks.must(getattr(given, name) is None, name, "left out without --images", getattr(given, name))
        if given.features is not None:
            check_features(given.features)
        return
    checks.must(given.features is None, "features", "left out with --images, which are kept instead", given.features)
    check_folder("images", given.images)
    if given.side is not None:
        checks.at_least("side", given.side, 1)


def _inputs(given: argparse.Namespace, show: Progress) -> FeatureSource | None:
    """Open what a model will read of the images: features, pictures, or nothing."""
    import json

    from seqsmooth.data.extraction import picture_files
    from seqsmooth.data.feature_files import read_features
    from seqsmooth.data.pictures import Pictures
    from seqsmooth.models.vision import read_images

    if given.images is None:
        if given.features is None:
            return None
        show("shapes of the features", 0)
        return read_features(given.features, given.feature_ids, given.feature_key)
    side = 224 if given.side is None else given.side
    return Pictures(
        picture_files(given.images),
        side,
        lambda paths: read_images(paths, side, resize=given.resize, workers=_workers(given)),
        json.dumps({"kind": "pictures", "resize": given.resize}),
    )


def _pairs(given: argparse.Namespace, show: Progress) -> Corpus:
    from seqsmooth import checks
    from seqsmooth.files.paths import check_new_folder, check_source

    check_new_folder("out", given.out)
    source, _, target = given.columns.partition(",")
    rule = "two numbers from 1 on, as in 1,2"
    checks.must(all(one.isdecimal() and int(one) for one in (source, target)), "columns", rule, given.columns)
    files = {name: getattr(given, name) for name in ("train", "val", "test") if getattr(given, name) is not None}
    for name, *paths in given.extra:
        fits = name.replace("-", "").replace("_", "").isalnum() and name not in files
        checks.must(fits and len(paths) > 0, "extra", "a new name and then files", " ".join([name, *paths]))
        files[name] = [Path(path) for path in paths]
    for name, paths in files.items():
        for path in paths:
            check_source(name, path)
    from seqsmooth.data import Side
    from seqsmooth.data.parallel import ParallelText
    from seqsmooth.data.writing import write_pairs
    from seqsmooth.text import tokeniser

    show("lines", 0)
    sides = [
        Side(tokeniser(name), given.min_count, given.most_words)
        for name in (given.source_tokeniser, given.target_tokeniser)
    ]
    return write_pairs(
        given.out,
        {name: ParallelText(paths, (int(source), int(target)), name) for name, paths in files.items()},
        source=sides[0],
        target=sides[1],
        max_words=given.max_words,
        longer=given.longer,
        empty=given.empty,
        document_frequencies=given.document_frequencies,
        workers=_workers(given),
        made_from={"files": {name: [path.name for path in paths] for name, paths in files.items()}},
        progress=show,
    )


def _recipe(given: argparse.Namespace, show: Progress) -> Corpus:
    from seqsmooth import checks
    from seqsmooth.files.paths import check_folder, check_new_folder

    check_new_folder("out", given.out)
    if given.source is not None:
        check_folder("source", given.source)
    languages = None
    if given.languages is not None:
        source, _, target = given.languages.partition("-")
        checks.must(bool(source and target), "languages", "two, as in de-en", given.languages)
        languages = (source, target)
    from seqsmooth.data.recipes import prepare_recipe

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
        document_frequencies=given.document_frequencies,
        workers=_workers(given),
        progress=show,
    )


def _workers(given: argparse.Namespace) -> int:
    """The number of processes that split texts: all cores, unless told."""
    from seqsmooth.files.workers import usable_cores

    number: int | None = given.workers
    return usable_cores() if number is None else number


def _features(given: argparse.Namespace, show: Progress) -> int:
    import json

    from seqsmooth import checks
    from seqsmooth.files.paths import check_folder

    settings = {}
    for one in given.set:
        name, _, value = one.partition("=")
        checks.must(bool(name and value), "set", "as in size=2", one)
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    checks.one_of("device", given.device or "cpu", ("cuda", "cpu"))
    check_folder("images", given.images)
    import torch  # what can be wrong up to here is said before the second that this takes

    from seqsmooth.cli.devices import keep_memory_on
    from seqsmooth.data.extraction import extract, picture_files
    from seqsmooth.models.registry import build_encoder
    from seqsmooth.models.vision import read_images

    keep_memory_on(given.device or "auto")
    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
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


def _summary(corpus: Corpus) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in corpus.splits.items())
    lines = [f"{corpus.folder}: {corpus.task}, {counts}; {len(corpus.vocabulary):,} words"]
    if corpus.source_vocabulary is not None:
        lines[0] += f" (source {len(corpus.source_vocabulary):,})"
    if corpus.features is not None:
        kind = "pictures" if corpus.features.pictures else "features"
        lines[0] += f"; {kind} {' x '.join(map(str, corpus.features.shape))}"
    for what in ("images_without_features", "images_without_pictures", "empty_captions", "longer_pairs", "empty_pairs"):
        number = corpus.made_from.get(what)  # of the training split, or of each split by its name
        by_split = number if isinstance(number, dict) else {"train": number or 0}
        if total := sum(by_split.values()):
            parts = ", ".join(f"{name} {n:,}" for name, n in by_split.items() if n)
            lines.append(f"left out: {total:,} {what.replace('_', ' ')} ({parts})")
    return "\n".join([*lines, f"fingerprint {corpus.fingerprint[:16]}"])

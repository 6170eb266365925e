from __future__ import annotations

import functools
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from seqsmooth.cli import prepare_options
from seqsmooth.data import known_corpora, recipes
from seqsmooth.data.downloads import Remote, fetch, unpack
from seqsmooth.data.recipes import RECIPES, prepare_recipe


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; goes on from a byte, unless it is `simple`; breaks off after `most` bytes."""

    most: int | None = None
    simple = False
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Range"))
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        first = int(((not self.simple and self.headers.get("Range")) or "bytes=0-")[6:-1])
        if first >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        self.wfile.write(content[first:][: self.most])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "web").mkdir()
    monkeypatch.setattr(Server, "most", None)
    monkeypatch.setattr(Server, "asked", [])
    handler = functools.partial(Server, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_download_goes_on_where_it_stopped(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 50
    (tmp_path / "web" / "f.bin").write_bytes(content)
    remote = Remote(f"{server}/f.bin", f"sha256:{hashlib.sha256(content).hexdigest()}")
    folder = tmp_path / "downloads"
    monkeypatch.setattr(Server, "most", 5000)
    with pytest.raises(ValueError, match=r"must be within reach; it is not: .* \(or so\)\."):
        fetch(remote, folder, "or so")
    assert (folder / "f.bin.part").stat().st_size == 5000
    assert not (folder / "f.bin").exists()
    monkeypatch.setattr(Server, "most", None)
    seen: list[tuple[int, int]] = []
    path = fetch(remote, folder, "or so", lambda name, done, of: seen.append((done, of)))
    assert path.read_bytes() == content
    assert Server.asked == [None, "bytes=5000-"]
    assert seen[-1] == (len(content), len(content))
    assert fetch(remote, folder, "or so") == path  # it is there
    assert len(Server.asked) == 2


def test_a_server_that_sends_all_of_it_again(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody published a checksum that would tell."""
    content = bytes(range(256)) * 50
    (tmp_path / "web" / "f.bin").write_bytes(content)
    (tmp_path / "f.bin.part").write_bytes(content[:5000])
    monkeypatch.setattr(Server, "simple", True)
    assert fetch(Remote(f"{server}/f.bin"), tmp_path, "or so").read_bytes() == content
    assert Server.asked == ["bytes=5000-"]


def test_a_download_that_is_not_what_was_published_is_refused(server: str, tmp_path: Path) -> None:
    (tmp_path / "web" / "f.bin").write_bytes(b"something else")
    with pytest.raises(ValueError, match="must have the md5 1234, but has"):
        fetch(Remote(f"{server}/f.bin", "md5:1234"), tmp_path, "or so")
    assert not list(tmp_path.glob("f.bin*"))


def test_without_a_published_checksum_the_first_download_counts(server: str, tmp_path: Path) -> None:
    (tmp_path / "web" / "f.bin").write_bytes(b"one")
    remote = Remote(f"{server}/f.bin")
    path = fetch(remote, tmp_path / "d", "or so")
    path.write_bytes(b"two")
    with pytest.raises(ValueError, match="must have the sha256"):
        fetch(remote, tmp_path / "d", "or so")


@pytest.mark.parametrize("address", ["{server}/none.gz", "http://127.0.0.1:9/x.gz"])
def test_where_there_is_no_network_the_way_out_is_said(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    remote = Remote(address.format(server=server))
    recipe = recipes.Recipe("", ("de", "en"), lambda _: [remote], known_corpora.only_plain, "whitespace", "whitespace")
    monkeypatch.setattr(recipes, "RECIPES", {"multi30k": recipe})
    with pytest.raises(ValueError, match=r"must be within reach; it is not: .*--source FOLDER takes files"):
        prepare_recipe("multi30k", tmp_path / "out", cache=tmp_path)


def test_multi30k_is_downloaded_and_prepared(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sacremoses")
    import gzip

    texts = {"train": "Zwei Hunde.\nEin Hund.\n", "val": "Hunde.\n", "test_2016_flickr": "Ein Hund\n"}
    sums = {}
    for split, text in texts.items():
        for language in ("de", "en"):
            content = gzip.compress(text.encode())
            (tmp_path / "web" / f"{split}.{language}.gz").write_bytes(content)
            sums[f"{split}.{language}"] = hashlib.md5(content).hexdigest()
    monkeypatch.setattr(known_corpora, "MULTI30K", server)
    monkeypatch.setattr(known_corpora, "MULTI30K_MD5", sums | {"train.fr": "0"})
    corpus = prepare_recipe("multi30k", tmp_path / "out", cache=tmp_path / "cache", min_count=1)
    assert dict(corpus.splits) == {"train": 2, "val": 1, "test": 1}
    assert corpus.references("train") == [[["zwei", "hunde", "."]], [["ein", "hund", "."]]]
    assert corpus.made_from["recipe"] == "multi30k"
    assert {path.name for path in (tmp_path / "cache" / "multi30k").iterdir()} == {f"{name}.gz" for name in sums}


def test_the_published_sums_are_of_all_languages_and_splits() -> None:
    assert len(known_corpora.MULTI30K_MD5) == 4 * 3
    assert len(set(known_corpora.MULTI30K_MD5.values())) == 12
    assert len(RECIPES["multi30k"].remotes(("de", "en"))) == 6
    with pytest.raises(ValueError, match="`languages` must be one of 'cs', 'de', 'en', 'fr'; it is 'ja'"):
        RECIPES["multi30k"].remotes(("ja", "en"))


def talks(folder: Path, pairs: int) -> None:
    folder.mkdir(parents=True)
    for language in ("de", "en"):
        lines = ["<url>http://x</url>", "<title>the title</title>"]
        lines += [f"{language} number {number}" for number in range(pairs)]
        lines += ["much too long a line for its partner" if language == "de" else "short", "<translator x>"]
        (folder / f"train.tags.de-en.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for name in known_corpora.IWSLT_TEST:
            text = f"<mteval><doc><seg id='1'> {language} {name} </seg></doc></mteval>"
            (folder / f"IWSLT14.{name}.de-en.{language}.xml").write_text(text, encoding="utf-8")


def test_iwslt14_as_mixer_prepares_it(tmp_path: Path) -> None:
    talks(tmp_path / "files" / "de-en", 45)
    corpus = prepare_recipe("iwslt14", tmp_path / "out", source=tmp_path / "files", tokenised_by="whitespace")
    # The title and 45 sentences; the pair that is uneven is out, and every 23rd is for validation.
    assert dict(corpus.splits) == {"train": 44, "val": 2, "test": 5}
    assert corpus.references("val") == [[["en", "number", "21"]], [["en", "number", "44"]]]
    assert corpus.references("train")[0] == [["the", "title"]]
    assert [words[0][1] for words in corpus.references("test")] == list(known_corpora.IWSLT_TEST)
    german = prepare_recipe(
        "iwslt14", tmp_path / "de", source=tmp_path / "files", languages=("en", "de"), tokenised_by="whitespace"
    )
    assert german.references("val")[0] == [["de", "number", "21"]]


def test_tatoeba_keeps_an_english_sentence_in_one_split(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "fra-eng.zip", "w") as archive:
        lines = [f"Go {number // 3}.\tVa {number} !\tCC-BY" for number in range(90)]
        archive.writestr("fra.txt", "\n".join(lines) + "\n")
    unpack(tmp_path / "fra-eng.zip", tmp_path)
    corpus = prepare_recipe("tatoeba", tmp_path / "out", source=tmp_path, tokenised_by="whitespace", min_count=1)
    texts = {name: {text[0][1] for text in corpus.references(name)} for name in corpus.splits}
    assert sum(corpus.splits.values()) == 90
    assert corpus.splits["test"] == corpus.splits["val"] == 9
    assert not texts["train"] & texts["test"]
    assert not texts["train"] & texts["val"]
    assert not texts["val"] & texts["test"]
    assert next(corpus.texts("train", "sources")).startswith("Va ")


def test_wmt14_is_the_selection(tmp_path: Path) -> None:
    import gzip

    for language in ("en", "fr"):
        for place, name in enumerate((*known_corpora.SELECTED, "ntst1213", "ntst14")):
            plain = name.startswith("ntst")
            path = tmp_path / ("dev" if plain else "bitexts.selected") / f"{name}.{language}{'' if plain else '.gz'}"
            path.parent.mkdir(exist_ok=True)
            text = f"{language} {place}\n".encode()
            path.write_bytes(text if plain else gzip.compress(text))
    corpus = prepare_recipe("wmt14", tmp_path / "out", source=tmp_path)
    assert [words[0] for words in corpus.references("train")] == [["fr", str(place)] for place in range(6)]
    assert corpus.references("val") == [[["fr", "6"]]]
    assert corpus.references("test") == [[["fr", "7"]]]


def test_the_whole_of_wmt14(tmp_path: Path) -> None:
    import gzip

    for language in ("en", "fr"):
        for place, name in enumerate(known_corpora._FULL):
            path = tmp_path / f"{name}.{language}{'.gz' if 'giga' in name else ''}"
            path.parent.mkdir(exist_ok=True)
            text = f"{language} {place}\n".encode()
            path.write_bytes(gzip.compress(text) if "giga" in name else text)
        (tmp_path / "dev").mkdir(exist_ok=True)
        for year in (2012, 2013):
            (tmp_path / "dev" / f"newstest{year}.{language}").write_text(f"{language} {year}\n", encoding="utf-8")
        (tmp_path / "test-full").mkdir(exist_ok=True)
        kind = "src" if language == "en" else "ref"
        sgm = f"<seg id='1'>{language} 2014</seg>"
        (tmp_path / "test-full" / f"newstest2014-fren-{kind}.{language}.sgm").write_text(sgm, encoding="utf-8")
    corpus = prepare_recipe("wmt14-full", tmp_path / "out", source=tmp_path, tokenised_by="whitespace")
    assert [words[0] for words in corpus.references("train")] == [["fr", str(place)] for place in range(5)]
    assert corpus.references("val") == [[["fr", "2012"]], [["fr", "2013"]]]
    assert corpus.references("test") == [[["fr", "2014"]]]
    assert all(
        remote.url.startswith("https://www.statmt.org/") for remote in RECIPES["wmt14-full"].remotes(("en", "fr"))
    )


def test_a_folder_without_the_files_is_one_sentence(tmp_path: Path) -> None:
    for name, told in (
        ("multi30k", "`source` must be a folder that holds train.de and train.en"),
        ("iwslt14", "`source` must be a folder that holds de-en/train.tags.de-en.de"),
        ("tatoeba", "`source` must be a folder that holds fra.txt"),
        ("wmt14", "`source` must be a folder that holds bitexts.selected/ep7_pc45.en"),
    ):
        with pytest.raises(ValueError, match=told):
            prepare_recipe(name, tmp_path / "out", source=tmp_path, tokenised_by="whitespace")
    with pytest.raises(ValueError, match="`source` must be a folder that is there"):
        prepare_recipe("wmt14", tmp_path / "out", source=tmp_path / "none")


def test_archives_are_unpacked_whole_or_not_at_all(tmp_path: Path) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for number in range(50):
            member = tarfile.TarInfo(f"de-en/{number}")
            content = hashlib.sha256(bytes([number])).digest() * 50
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (tmp_path / "de-en.tgz").write_bytes(held.getvalue()[:-2000])
    with pytest.raises(ValueError, match="must be a whole archive; it is damaged"):
        unpack(tmp_path / "de-en.tgz", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["de-en.tgz"]
    (tmp_path / "de-en.tgz").write_bytes(held.getvalue())
    assert len(list((unpack(tmp_path / "de-en.tgz", tmp_path) / "de-en").iterdir())) == 50


def test_the_command_line_knows_the_recipes() -> None:
    assert {name: recipe.summary for name, recipe in RECIPES.items()} == prepare_options.RECIPES


def test_real_multi30k(coco_data: Path, tmp_path: Path) -> None:
    folder = coco_data / "multi30k" / "tok"
    if not folder.is_dir():
        pytest.skip("no Multi30k in the folder of real data")
    corpus = prepare_recipe("multi30k", tmp_path / "c", source=folder, tokenised_by="whitespace")
    assert dict(corpus.splits) == {"train": 29_000, "val": 1_014, "test": 1_000, "test2017": 1_000}

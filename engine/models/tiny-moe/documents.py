# The documents of the corpus: which Debian packages, which files of them, and how each becomes text.
# Start at all_documents(). Package versions and checksums stand in sources.json.
import dataclasses
import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys

import plain_text

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("english", "python", "perl", "german", "french")
# Generated rule tables and test suites: large, and unlike what people write.
PYTHON_SKIPPED = re.compile(r"/(tests?|idlelib|encodings|lib2to3|rubi|locale|unicode_data)/|_pb2\.py$|/_sysconfigdata")
PYTHON_FILE_BYTES_MAX = 300_000


@dataclasses.dataclass
class Document:
    kind: str      # one of KINDS
    package: str   # Debian package it came from
    name: str      # path inside the package, and the part of it where one file holds several documents
    text: str


def fetch_packages(cache, any_version=False):
    """Download and unpack the packages of sources.json under `cache`; returns {package: folder}.

    Raises SystemExit when a package is not the pinned one, unless any_version is set.
    """
    packages = json.loads((HERE / "sources.json").read_text())["packages"]
    folders = {}
    for package, pinned in packages.items():
        folder = cache / package
        folders[package] = folder
        deb = cache / f"{package}.deb"
        if not deb.exists():
            downloads = cache / "downloads" / package
            downloads.mkdir(parents=True, exist_ok=True)
            wanted = package if any_version else f"{package}={pinned['version']}"
            if subprocess.run(["apt-get", "-q", "download", wanted], cwd=downloads).returncode != 0:
                sys.exit(f"{package}: version {pinned['version']} is not offered by apt here; "
                         f"--any-version takes the newest and gives a slightly different corpus")
            next(downloads.glob("*.deb")).rename(deb)
        checksum = hashlib.sha256(deb.read_bytes()).hexdigest()
        if checksum != pinned["sha256"]:
            message = f"{package}: sha256 {checksum}, sources.json has {pinned['sha256']}"
            if not any_version:
                sys.exit(message)
            print("warning: " + message, file=sys.stderr)
        if not folder.exists():
            subprocess.run(["dpkg", "-x", deb, folder], check=True)
    return folders


def _files(folder, pattern):
    return sorted(path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())


def _man_pages(kind, package, folder, language):
    for path in _files(folder, f"usr/share/man/{language}/man*/*.gz"):
        yield Document(kind, package, path.name, plain_text.man_page(gzip.decompress(path.read_bytes()).decode("utf-8")))


def _html_pages(kind, package, folder, pattern):
    for path in _files(folder, pattern):
        yield Document(kind, package, path.name, plain_text.html_page(path.read_text("utf-8")))


def _english(folders):
    novels = folders["r-cran-janeaustenr"] / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
    for title, text in plain_text.austen_novels(novels.read_bytes()).items():
        yield Document("english", "r-cran-janeaustenr", title, text)
    reader = folders["bible-kjv"] / "usr/bin/bible"
    data = folders["bible-kjv-text"] / "usr/lib"
    bible = subprocess.run([reader, "-l72", "-p", data, "gen1:1-rev22:21"], stdin=subprocess.DEVNULL,
                           capture_output=True, check=True, text=True).stdout
    books = {}
    for chapter in re.split(r"\n(?=(?:[1-3] ?)?[A-Z][A-Za-z ]+ \d+\n\n)", bible):
        if chapter.strip():
            book = re.match(r"\s*(.+) \d+\n", chapter).group(1)
            books[book] = books.get(book, "") + chapter.strip() + "\n\n"
    for book, text in books.items():
        yield Document("english", "bible-kjv-text", book, text)
    yield from _html_pages("english", "debian-handbook", folders["debian-handbook"],
                           "usr/share/doc/debian-handbook/html/en-US/*.html")


def _python(folders):
    roots = {"libpython3.11-minimal": "usr/lib/python3.11", "libpython3.11-stdlib": "usr/lib/python3.11",
             "python3-sympy": "usr/lib/python3/dist-packages", "python3-django": "usr/lib/python3/dist-packages"}
    for package, root in roots.items():
        base = folders[package] / root
        for path in _files(base, "**/*.py"):
            if not PYTHON_SKIPPED.search(path.as_posix()) and path.stat().st_size <= PYTHON_FILE_BYTES_MAX:
                yield Document("python", package, path.relative_to(base).as_posix(), path.read_text("utf-8", "strict"))


def _perl(folders):
    for path in _files(folders["perl-doc"], "usr/share/perl/*/pod/*.pod"):
        yield Document("perl", "perl-doc", path.name, path.read_text("utf-8", "replace"))


def _manuals(kind, language, country, folders):
    for package in (f"manpages-{language}", f"manpages-{language}-dev"):
        yield from _man_pages(kind, package, folders[package], language)
    reference = f"debian-reference-{language}"
    yield from _html_pages(kind, reference, folders[reference], f"usr/share/debian-reference/*.{language}.html")
    yield from _html_pages(kind, "debian-handbook", folders["debian-handbook"],
                           f"usr/share/doc/debian-handbook/html/{language}-{country}/*.html")


def all_documents(folders):
    """Every document of every kind, in a fixed order."""
    documents = [*_english(folders), *_python(folders), *_perl(folders),
                 *_manuals("german", "de", "DE", folders), *_manuals("french", "fr", "FR", folders)]
    return [document for document in documents if document.text.strip()]

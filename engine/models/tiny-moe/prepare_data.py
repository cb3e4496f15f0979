#!/usr/bin/env python3
# Builds the training bytes, the validation bytes and calibration.txt from Debian packages.
# Start at main(): documents -> split by document -> paragraphs seen before dropped -> passages -> files.
# Usage: prepare_data.py [--out build/tiny-moe-data] [--cache build/tiny-moe-packages] [--any-version]
import argparse
import collections
import hashlib
import json
import lzma
import pathlib
import random
import re

import numpy

import documents

SEED = 20261
HELD_OUT_PERCENT = 6                  # share of documents never trained on
HELD_OUT_NAMES = {"Northanger Abbey"}   # six novels are too few to leave to a hash
KIND_BYTES_MAX = 12_000_000             # training bytes of one kind, so that no kind drowns another
PARAGRAPH_CHARACTERS_MIN = 60           # shorter paragraphs may repeat: headings, "See also"
TRAIN_PASSAGE_BYTES = (1_500, 8_000)    # log-uniform length of a passage of the training stream
CALIBRATION_PASSAGE_BYTES = 2_000
CALIBRATION_PASSAGES_PER_KIND = 12
SHINGLE_BYTES = 40                      # a held-out window of this length that also occurs in training is "seen"
SEEN_SHARE_MAX = 0.20                   # calibration passages with a larger seen share are not used
VALIDATION_BYTES_PER_KIND = 150_000
SEPARATOR = b"\x0c"                     # form feed between passages, in training and in calibration.txt alike
MAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w")


def is_held_out(document):
    digest = hashlib.sha256(f"{document.package}/{document.name}".encode()).digest()
    return document.name in HELD_OUT_NAMES or int.from_bytes(digest[:4], "big") % 100 < HELD_OUT_PERCENT


def drop_seen_paragraphs(document, seen):
    """The document's text without paragraphs in `seen`; adds its own to `seen`."""
    kept = []
    for paragraph in re.split(r"\n[ \t]*\n", document.text):
        normal = " ".join(paragraph.split())
        if len(normal) >= PARAGRAPH_CHARACTERS_MIN:
            key = hashlib.blake2b(normal.encode(), digest_size=10).digest()
            if key in seen:
                continue
            seen.add(key)
        kept.append(paragraph.rstrip())
    return re.sub(r"\n{4,}", "\n\n\n", "\n\n".join(kept)).strip("\n") + "\n"


def passages_of(text, next_length):
    """Cut text at line ends into passages of about next_length() bytes; a short rest joins the last passage."""
    passages, current, size, limit = [], [], 0, next_length()
    for line in text.encode("utf-8").replace(SEPARATOR, b"\n").splitlines(keepends=True):
        current.append(line)
        size += len(line)
        if size >= limit:
            passages.append(b"".join(current))
            current, size, limit = [], 0, next_length()
    if current and passages and size < limit // 3:
        passages[-1] += b"".join(current)
    elif current:
        passages.append(b"".join(current))
    return passages


def shingle_hashes(data):
    """One 64-bit hash for each SHINGLE_BYTES window of `data` (polynomial, modulo 2^64)."""
    values = numpy.frombuffer(data, numpy.uint8).astype(numpy.uint64) + numpy.uint64(1)
    if len(values) < SHINGLE_BYTES:
        return numpy.empty(0, numpy.uint64)
    count = len(values) - SHINGLE_BYTES + 1
    hashes = numpy.zeros(count, numpy.uint64)
    for offset in range(SHINGLE_BYTES):
        hashes = hashes * numpy.uint64(0x9E3779B97F4A7C15) + values[offset:offset + count]
    return hashes


def seen_shares(passages, train):
    """For each passage the share of its SHINGLE_BYTES windows that occur in the training bytes."""
    hashes = [shingle_hashes(passage) for passage in passages]
    wanted = numpy.unique(numpy.concatenate(hashes))
    found = numpy.zeros(len(wanted), bool)
    chunk = 4_000_000
    for at in range(0, len(train), chunk):
        block = numpy.unique(shingle_hashes(train[at:at + chunk + SHINGLE_BYTES - 1]))
        found |= numpy.isin(wanted, block, assume_unique=True)
    return [float(found[numpy.searchsorted(wanted, h)].mean()) if len(h) else 1.0 for h in hashes]


def choose_training_documents(candidates, rng):
    """Per kind at most KIND_BYTES_MAX, whole documents in a seeded order."""
    chosen = []
    for kind in documents.KINDS:
        of_kind = [d for d in candidates if d.kind == kind]
        rng.shuffle(of_kind)
        size = 0
        for document in of_kind:
            size += len(document.text.encode())
            if size > KIND_BYTES_MAX:
                break
            chosen.append(document)
    return chosen


def choose_calibration(held_out, train, rng):
    """Per kind the same number of passages, from as many documents as there are; the kinds take turns.

    Returns (document, passage, seen share) in the order of calibration.txt.
    """
    by_kind = {}
    for kind in documents.KINDS:
        queues = []
        for document in (d for d in held_out if d.kind == kind):
            passages = [p for p in passages_of(document.text, lambda: CALIBRATION_PASSAGE_BYTES)
                        if 0.9 * CALIBRATION_PASSAGE_BYTES <= len(p) <= 1.1 * CALIBRATION_PASSAGE_BYTES
                        and not MAIL.search(p.decode())]
            rng.shuffle(passages)
            queues.append(collections.deque((document, passage) for passage in passages))
        rng.shuffle(queues)
        candidates = []
        while any(queues) and len(candidates) < 6 * CALIBRATION_PASSAGES_PER_KIND:
            candidates += [queue.popleft() for queue in queues if queue]
        shares = seen_shares([passage for _, passage in candidates], train)
        usable = [(d, p, s) for (d, p), s in zip(candidates, shares) if s <= SEEN_SHARE_MAX]
        if len(usable) < CALIBRATION_PASSAGES_PER_KIND:
            raise SystemExit(f"{kind}: only {len(usable)} unseen passages of {len(candidates)}")
        by_kind[kind] = usable[:CALIBRATION_PASSAGES_PER_KIND]
    return [by_kind[kind][turn] for turn in range(CALIBRATION_PASSAGES_PER_KIND) for kind in documents.KINDS]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/tiny-moe-data"))
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path("build/tiny-moe-packages"))
    parser.add_argument("--any-version", action="store_true", help="take what apt offers instead of the pinned versions")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.cache.mkdir(parents=True, exist_ok=True)
    rng = random.Random(SEED)

    everything = documents.all_documents(documents.fetch_packages(arguments.cache.resolve(), arguments.any_version))
    training = choose_training_documents([d for d in everything if not is_held_out(d)], rng)
    held_out = [d for d in everything if is_held_out(d)]
    seen = set()
    for document in training + held_out:  # held out comes last: what training has is dropped there, not the reverse
        document.text = drop_seen_paragraphs(document, seen)

    low, high = TRAIN_PASSAGE_BYTES
    stream, kind_bytes = [], collections.Counter()
    for document in training:
        stream += passages_of(document.text, lambda: int(low * (high / low) ** rng.random()))
        kind_bytes[document.kind] += len(document.text.encode())
    rng.shuffle(stream)
    train = SEPARATOR.join(stream)

    calibration = choose_calibration(held_out, train, rng)
    used = {id(document) for document, _, _ in calibration}
    validation = []
    for kind in documents.KINDS:
        size = 0
        for document in (d for d in held_out if d.kind == kind and id(d) not in used):
            for passage in passages_of(document.text, lambda: 2 * CALIBRATION_PASSAGE_BYTES):
                if size < VALIDATION_BYTES_PER_KIND:
                    validation.append(passage)
                    size += len(passage)
    rng.shuffle(validation)

    (arguments.out / "train.bin.xz").write_bytes(lzma.compress(train, preset=6))
    (arguments.out / "validation.bin").write_bytes(SEPARATOR.join(validation))
    (documents.HERE / "calibration.txt").write_bytes(SEPARATOR.join(p for _, p, _ in calibration))
    rows, at = ["first_byte\tbytes\tkind\tpackage\tdocument\tseen_share"], 0
    for document, passage, share in calibration:
        rows.append(f"{at}\t{len(passage)}\t{document.kind}\t{document.package}\t{document.name}\t{share:.3f}")
        at += len(passage) + len(SEPARATOR)
    (documents.HERE / "calibration_sources.tsv").write_text("\n".join(rows) + "\n")
    facts = {
        "seed": SEED, "train_bytes": len(train), "train_sha256": hashlib.sha256(train).hexdigest(),
        "train_bytes_by_kind": dict(kind_bytes), "train_documents": len(training), "held_out_documents": len(held_out),
        "validation_bytes": sum(map(len, validation)), "calibration_bytes": at - len(SEPARATOR),
        "calibration_sha256": hashlib.sha256((documents.HERE / "calibration.txt").read_bytes()).hexdigest(),
        "calibration_seen_share_mean": round(float(numpy.mean([s for _, _, s in calibration])), 4),
        "shingle_bytes": SHINGLE_BYTES,
    }
    (documents.HERE / "corpus.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()

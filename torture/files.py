"""Model files that were damaged, or made to do damage, are refused, or hold a model; no code runs.

A seed draws saved models and breaks them: bits are flipped, bytes cut, added, erased, overwritten
and taken from another file; and, with right checksums, headers and arrays are forged. Damage must
be an error that names the file. A forged file must be an error or load, and must not run anything.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import pursuit
from pursuit import (
    FullScaleGPClassifier,
    FullScaleGPRegressor,
    HullBoostClassifier,
    KernelMatchingPursuitClassifier,
    LowRankSVC,
    SparseGPRegressor,
    SparseKernelCCA,
    SparseKernelRidge,
    make_table_pipeline,
)
from pursuit.estimators import saving
from pursuit.estimators.records import KERNELS, hints, records
from pursuit.store import FORMAT, Member, StoreError, directory
from torture import Fuzzer, Report

RUNNING_CODE = {"exec", "compile", "pickle.find_class", "os.system", "subprocess.Popen", "os.exec"}
FILES_PER_SEED = 20
Change = Callable[[random.Random, bytes, bytes], bytes]


def models() -> Iterator[Any]:
    """Small models of all kinds."""
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = X[:, 0] ** 2
    labels = np.where(y > 0.5, "yes", "no")
    gp = SparseGPRegressor(ConstantKernel() * RBF([1.0, 2.0]), noise=0.1, n_basis=6, random_state=0)
    yield gp.set_params(optimizer=None).fit(X, y)
    yield SparseKernelRidge(n_basis=4, random_state=0).fit(sparse.csr_array(np.maximum(X, 0)), y)
    yield KernelMatchingPursuitClassifier(n_basis=4).fit(X, labels)
    yield HullBoostClassifier(n_terms=4, random_state=0).fit(X, labels)
    yield LowRankSVC(n_basis=4, random_state=0).fit(X, labels)
    yield SparseKernelCCA(n_basis=4, random_state=0).fit(X, X)
    near = FullScaleGPRegressor(RBF(0.5), n_basis=4, n_neighbors=3, noise=0.1, random_state=0)
    yield near.set_params(optimizer=None, coupling="full").fit(X, y)
    yield FullScaleGPClassifier(n_basis=4, n_neighbors=3, random_state=0).fit(X, labels)
    table = np.column_stack([X.astype(object), np.where(X[:, 1] > 0, "up", "down")])
    table[::7, 0] = None
    gp = SparseGPRegressor(noise=0.1, n_basis=6, optimizer=None, random_state=0)
    yield make_table_pipeline(gp).fit(table, y)
    svc = LowRankSVC(n_basis=4, random_state=0)
    yield make_table_pipeline(svc, categories="target").fit(table, labels)


@cache
def files() -> tuple[bytes, ...]:
    """The bytes of the saved models."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for model in models():
            model.save(path)
            found.append(path.read_bytes())
    return tuple(found)


def sections(data: bytes) -> tuple[Any, dict[str, bytes]]:
    """The JSON of a file, and its other members."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        names = file.namelist()
        return json.loads(file.read(names[0])), {name: file.read(name) for name in names[1:]}


def assembled(content: Any, members: dict[str, bytes]) -> bytes:
    """A file with right checksums."""
    contents = [("pursuit.json", json.dumps(content).encode()), *members.items()]
    records = []
    offset = 0
    for name, data in contents:
        records.append(Member(name, offset, len(data), zlib.crc32(data)))
        offset = records[-1].end
    pairs = zip(records, contents, strict=True)
    return b"".join(one.local + data for one, (_, data) in pairs) + directory(records)


# Damage: some bytes are not what they were


def flip(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Flip some bits."""
    changed = bytearray(data)
    for bit in rng.sample(range(8 * len(data)), rng.randint(1, 4)):
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def cut(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Keep the beginning."""
    return data[: rng.randrange(len(data))]


def append(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Add bytes at the end."""
    return data + rng.randbytes(rng.randint(1, 100))


def erase(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Leave out some bytes."""
    start = rng.randrange(len(data))
    length = rng.randint(1, 200)
    return data[:start] + data[start + length :]


def overwrite(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Write other bytes over some."""
    start, junk = rng.randrange(len(data)), rng.randbytes(rng.randint(1, 50))
    return (data[:start] + junk + data[start + len(junk) :])[: len(data)]


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Go on with the bytes of another file."""
    at = rng.randrange(30, min(len(data), len(other)))
    return data[:at] + other[at:]


DAMAGE: list[Change] = [flip, cut, append, erase, overwrite, splice]

# Forgery: the checksums are right, the content is not

NODES: list[Any] = [
    None,
    True,
    -1,
    0,
    7,
    2**63,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "__class__",
    "os.system",
    [],
    [[]],
    {},
    {"!": "array", "at": "0"},
    {"!": "array", "at": "1"},
    {"!": "number", "at": "0"},
    {"!": "tuple", "items": [1]},
    {"!": "dict", "items": [[1, 2]]},
    {"!": "dict", "items": [[[], 2]]},
    {"!": "objects", "shape": [2**30, 2**30], "items": []},
    {"!": "csr", "class": "csr_array", "shape": [9, 9], "data": "0", "indices": "1", "indptr": "2"},
    {"!": "type", "name": "object"},
    {"!": "dtype", "name": "|O"},
    {"!": "bytes", "text": "\u1234"},
    {"!": "object", "class": "RBF", "fields": {"length_scale": "long"}},
    {"!": "object", "class": "Sum", "fields": {"k1": 1, "k2": 2}},
    {"!": "object", "class": "Popen", "fields": {"args": "true"}},
    {"!": "object", "class": "Spread", "fields": {"noise": 1.0, "missed": 1.0}},
    {"!": "object", "class": "View", "fields": {"__dict__": {}}},
    {"!": "object", "class": "Popen", "fields": {"args": "true"}},
    {"!": "object", "class": "Search", "fields": {"kind": "sideways"}},
    {"!": "given", "name": "kernel", "path": []},
    {"!": "given", "name": "kernel", "path": ["__class__", "__init__"]},
]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    found, open_ = [], [tree]
    while open_:
        node = open_.pop()
        keys = node if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                open_.append(node[key])
    return found


def mutate(rng: random.Random, tree: Any) -> None:
    """Change one place of a tree."""
    container, key = rng.choice(places(tree))
    change = rng.choice(["replace", "delete", "swap", "copy", "rename", "nudge"])
    if change == "replace":
        container[key] = copy.deepcopy(rng.choice(NODES))
    elif change == "delete":
        del container[key]
    elif change == "rename" and isinstance(container, dict):
        container[rng.choice(["x", "predict", "__init__", "!", key + "_"])] = container.pop(key)
    elif change == "nudge" and isinstance(container[key], int | float):
        container[key] = container[key] + rng.choice([-1, 1, 1000])
    else:
        elsewhere, at = rng.choice(places(tree))
        container[key] = copy.deepcopy(elsewhere[at])


def forge(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Change the tree of the header."""
    content, arrays = sections(data)
    for _ in range(rng.randint(1, 3)):
        mutate(rng, content)
    return assembled(content, arrays)


def forge_header(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Change only what the encoder of values reads."""
    content, arrays = sections(data)
    for _ in range(rng.randint(1, 3)):
        header = content["header"]
    mutate(rng, rng.choice([part for part in (header["state"], header["params"]) if places(part)]))
    return assembled(content, arrays)


def forge_array(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Change bytes of an array, or what it says of itself."""
    content, arrays = sections(data)
    name = rng.choice(sorted(arrays))
    changed = bytearray(arrays[name])
    for place in rng.sample(range(len(changed)), min(3, len(changed))):
        changed[place] = rng.choice([0, 1, 48, 57, 255, changed[place] ^ 1])
    return assembled(content, arrays | {name: bytes(changed)})


def transplant(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Take the arrays of another file."""
    return assembled(sections(data)[0], sections(other)[1])


def forge_version(rng: random.Random, data: bytes, _: bytes) -> bytes:
    """Claim another version of the format."""
    content, arrays = sections(data)
    content["format"] = rng.choice([0, FORMAT - 1, FORMAT + 1, 2**32 - 1, "3", None])
    return assembled(content, arrays)


FORGERY: list[Change] = [forge, forge_header, forge_header, forge_array, transplant, forge_version]


@cache
def watched() -> list[tuple[str, Any]]:
    """A list of what was run since it was emptied; the hook itself cannot be removed."""
    for known in [*records().values(), *KERNELS.values(), *saving.models().values()]:
        hints(known)  # the first look at annotations compiles them
    seen: list[tuple[str, Any]] = []

    def hook(event: str, arguments: Any) -> None:
        if _WATCHING and event in RUNNING_CODE:
            seen.append((event, arguments))

    sys.addaudithook(hook)
    return seen


_WATCHING: list[bool] = []


@contextlib.contextmanager
def watching() -> Iterator[list[tuple[str, Any]]]:
    """What is run within the context."""
    seen = watched()
    seen.clear()
    _WATCHING.append(True)
    try:
        yield seen
    finally:
        _WATCHING.clear()


def judged(path: Path, data: bytes, other: bytes, change: Change, broken: bytes) -> tuple[str, str]:
    """What a broken file is (refused, loaded or whole), and what is wrong with that or ""."""
    if broken in (data, other):
        return "whole", ""
    path.write_bytes(broken)
    name = change.__name__
    with watching() as seen:
        try:
            model = pursuit.load(path)
        except StoreError as error:
            model, text = None, str(error)
        except Exception as error:
            return "refused", f"{name} gives {type(error).__name__}: {error}"
    if seen:
        return "loaded", f"{name} has run {seen[0][0]}"
    if model is None:
        is_clear = str(path) in text and len(text) > len(str(path)) + 20
        return "refused", "" if is_clear else f"{name} is not explained: {text}"
    if change in DAMAGE:
        return "loaded", f"{name} was not noticed"
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.random.default_rng(1).standard_normal((5, 2))
        model.transform(rows) if hasattr(model, "transform") else model.predict(rows)
    return "loaded", ""


def run(seed: int) -> Report:
    """Break some files, and load them."""
    rng, report = random.Random(seed), Report()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(FILES_PER_SEED):
            data, other = rng.sample(files(), 2)
            change = rng.choice(DAMAGE if i % 2 else FORGERY)
            broken = change(rng, data, other)
            outcome, wrong = judged(Path(folder) / "model", data, other, change, broken)
            report.counts[f"broken files {outcome}"] += 1
            if wrong:
                report.failures.append(wrong)
    return report


FUZZER = Fuzzer(name="files", run=run)

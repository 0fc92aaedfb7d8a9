"""Files of numbers and JSON: what goes in comes out, and damage is always noticed."""

import errno
import json
import os
import stat
import struct
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pursuit
from pursuit.store import FORMAT, StoreError, read, remove_abandoned, replacing, write

PREFIX = 28

DTYPES = st.sampled_from("? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 >i4 >f8 U1 U7 >U3".split())
ARRAYS = hnp.arrays(
    DTYPES.map(np.dtype),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def sections(data):
    """Header text and array bytes of a file, read by the documented layout alone."""
    (length,) = struct.unpack("<Q", data[12:20])
    return data[PREFIX : PREFIX + length], data[PREFIX + length :]


def assembled(text, arrays=b"", version=FORMAT):
    """A file with the given parts and right checksums."""
    prefix = b"\x89PURSUIT" + struct.pack("<IQI", version, len(text), zlib.crc32(text))
    return prefix + struct.pack("<I", zlib.crc32(prefix)) + text + arrays


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.file"


@pytest.fixture
def example(path):
    """A small file with all kinds of things in it."""
    arrays = {"numbers": np.arange(6.0).reshape(2, 3), "names": np.array(["é", "long"])}
    write(path, {"kind": "example", "list": [1, 2.5, None]}, arrays)
    return path


@given(st.dictionaries(st.text(), JSON, max_size=3), st.lists(ARRAYS, max_size=3))
def test_round_trip(tmp_path_factory, header, arrays):
    path = tmp_path_factory.getbasetemp() / "round-trip"
    named = {f"array {i}": array for i, array in enumerate(arrays)}
    write(path, header, named)
    found_header, found = read(path)
    assert found_header == header
    assert list(found) == list(named)
    for name, array in named.items():
        assert found[name].dtype == array.dtype.newbyteorder("<")
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
        assert found[name].flags.writeable


@pytest.mark.parametrize("text", ["[" * 500, '"[[' * 200, "\\" * 7 + '"' + "{" * 300, "]" * 500])
def test_brackets_in_strings_do_not_count(path, text):
    write(path, {"x": text, text: [text]}, {})
    assert read(path)[0] == {"x": text, text: [text]}


def test_the_order_in_memory_survives(path):
    A = np.arange(12.0).reshape(3, 4)
    write(path, {}, {"c": A, "f": np.asfortranarray(A), "view": A[::2, 1:]})
    found = read(path)[1]
    assert found["c"].flags.c_contiguous
    assert found["f"].flags.f_contiguous
    for name, expected in [("c", A), ("f", A), ("view", A[::2, 1:])]:
        np.testing.assert_array_equal(found[name], expected)


def test_numbers_that_are_not_finite_survive(path):
    write(path, {"x": [np.inf, -np.inf, np.nan]}, {"x": np.array([np.inf, np.nan])})
    header, arrays = read(path)
    np.testing.assert_array_equal(header["x"], [np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(arrays["x"], [np.inf, np.nan])


def test_the_layout_is_the_documented_one(example):
    data = example.read_bytes()
    text, arrays = sections(data)
    assert data == assembled(text, arrays)
    content = json.loads(text)
    assert content["pursuit"] == pursuit.__version__
    assert content["header"] == {"kind": "example", "list": [1, 2.5, None]}
    assert [item[:4] for item in content["arrays"]] == [
        ["numbers", "<f8", [2, 3], "C"],
        ["names", "<U4", [2], "C"],
    ]
    np.testing.assert_array_equal(np.frombuffer(arrays[:48]), np.arange(6.0))


def test_equal_content_gives_equal_bytes(example, tmp_path):
    header, arrays = read(example)
    write(tmp_path / "again", header, arrays)
    assert (tmp_path / "again").read_bytes() == example.read_bytes()


def test_every_bit_is_watched(example, path):
    data = example.read_bytes()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(StoreError, match=r"cannot read .*a\.file"):
            read(path)


def test_every_truncation_is_noticed(example, path):
    data = example.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(StoreError, match="truncated" if length else "not a file written by"):
            read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a file written by pursuit"),
        (b"PK\x03\x04 something else altogether, longer than a prefix", "not a file written by"),
        (assembled(b"{}"), "has not the parts"),
        (assembled(b"[]"), "not an object"),
        (assembled(b"[" * 100_000), "nested more than 128"),
        (assembled(b'{"header":' + b"[" * 128 + b"]" * 128 + b"}"), "nested more than 128"),
        (assembled(b'{"a\\\\":' + b"[" * 128 + b"]" * 128 + b"}"), "nested more than 128"),
        (assembled(b'{"header": \xff'), "not JSON"),
        (assembled(b'{"header": ' + b"9" * 5000 + b"}"), "not JSON"),
        (assembled(b'{"header": {}, "arrays": []}', version=0), "has not the parts"),
        (assembled(b'{"header": {}, "arrays": []}', b"x"), "1 bytes follow its end"),
        (assembled(b'{"header": {}, "arrays": [["a","<f8",[1],"C",0]]}'), "8 bytes are missing"),
        (assembled(b'{"header": {}, "arrays": [["a","<f8",[1],"C",0]]}', b"12345678"), "checksum"),
        (assembled(b'{"header": {}, "arrays": [7]}'), "not described"),
    ],
)
def test_what_is_not_a_file_of_ours(path, content, message):
    path.write_bytes(content)
    with pytest.raises(StoreError, match=message):
        read(path)


@pytest.mark.parametrize(
    "item",
    [
        ["a", "|O", [1], "C", 0],
        ["a", "O", [1], "C", 0],
        ["a", "<f8", [-1], "C", 0],
        ["a", "<f8", [1.0], "C", 0],
        ["a", "<f8", [True], "C", 0],
        ["a", "<f8", 1, "C", 0],
        ["a", "<f8", [1] * 9, "C", 0],
        ["a", "<c16", [1], "C", 0],
        ["a", "<M8[s]", [1], "C", 0],
        ["a", "<f8,<i4", [1], "C", 0],
        ["a", "<U0", [1], "C", 0],
        ["a", "<U99999999", [0], "C", 0],
        ["a", "<f8", [1], "K", 0],
        ["a", "<f8", [1], "C", "0"],
        [1, "<f8", [1], "C", 0],
        ["a", ["<f8"], [1], "C", 0],
        ["a", "<f8", [1], "C"],
        ["a", "<f8", [2**70, 0], "C", 0],
        ["a", "<f8", [2**40, 2**40], "C", 0],
    ],
)
def test_arrays_that_cannot_be(path, item):
    path.write_bytes(assembled(json.dumps({"header": {}, "arrays": [item]}).encode(), b"x" * 8))
    with pytest.raises(StoreError, match="damaged: an array is"):
        read(path)


def test_two_arrays_of_one_name(path):
    item = ["a", "|u1", [0], "C", 0]
    path.write_bytes(assembled(json.dumps({"header": {}, "arrays": [item, item]}).encode()))
    with pytest.raises(StoreError, match="same name"):
        read(path)


@pytest.mark.parametrize(
    ("dtype", "data"), [("|b1", b"\x02"), ("<U1", b"\x00\x00\x11\x00"), ("<U1", b"\xff" * 4)]
)
def test_bytes_that_no_value_has(path, dtype, data):
    item = ["a", dtype, [1], "C", zlib.crc32(data)]
    path.write_bytes(assembled(json.dumps({"header": {}, "arrays": [item]}).encode(), data))
    with pytest.raises(StoreError, match="array 'a'"):
        read(path)


def test_hostile_lengths_allocate_nothing(path):
    """Checksums are right and lengths are not: the size of the file is asked first."""
    items = json.dumps({"header": {}, "arrays": [["a", "<f8", [2**40], "C", 0]]}).encode()
    prefix = b"\x89PURSUIT" + struct.pack("<IQI", FORMAT, 2**50, 0)
    for content in (assembled(items), prefix + struct.pack("<I", zlib.crc32(prefix))):
        path.write_bytes(content)
        tracemalloc.start()
        try:
            with pytest.raises(StoreError, match="truncated"):
                read(path)
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


def test_a_file_of_the_first_version_is_named(path):
    path.write_bytes(assembled(b'{"pursuit": "0.1.0", "header": {}, "arrays": []}', version=1))
    with pytest.raises(StoreError, match=r"written by pursuit 0\.1, .* fit the model again"):
        read(path)


def test_a_newer_version_says_what_to_install(path):
    path.write_bytes(assembled(b'{"pursuit": "7.1", "unheard": "of"}', version=FORMAT + 1))
    with pytest.raises(StoreError, match=rf'by pursuit 7.1 in format {FORMAT + 1}.*"pursuit>=7.1"'):
        read(path)
    path.write_bytes(assembled(b'{"pursuit": "; rm"}', version=FORMAT + 1))
    with pytest.raises(
        StoreError, match=rf'by pursuit \(unknown\) in format {FORMAT + 1}.*"pursuit"'
    ):
        read(path)


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({"x": object()}, {}, "what JSON knows"),
        ({"x": {1, 2}}, {}, "what JSON knows"),
        ({}, {"x": np.array([None])}, "dtype object"),
        ({}, {"x": np.zeros(1, dtype=complex)}, "dtype complex128"),
        ({}, {"x": np.zeros(1, dtype="i4,i4")}, "dtype"),
        ({}, {"x": np.zeros((1,) * 9)}, "9 dimensions"),
        ({}, {"x": [1.0]}, "list is not"),
        ({}, {1: np.zeros(1)}, "not a string"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(example, header, arrays, message):
    before = example.read_bytes()
    with pytest.raises(StoreError, match=message):
        write(example, header, arrays)
    assert example.read_bytes() == before
    assert os.listdir(example.parent) == [example.name]


def test_a_header_nested_too_deep_is_not_written(path):
    for depth in (130, 100_000):
        nested = []
        for _ in range(depth):
            nested = [nested]
        with pytest.raises(StoreError, match="the header"):
            write(path, {"x": nested}, {})
    assert not path.exists()


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(example, monkeypatch, fails):
    before = example.read_bytes()

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        write(example, {}, {"x": np.zeros(1000)})
    assert example.read_bytes() == before
    assert os.listdir(example.parent) == [example.name]


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files to be set")
def test_a_disk_that_takes_only_the_beginning(example):
    """The system itself refuses the bytes, because this process's files may not grow further."""
    import resource

    before = example.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(example, {}, {"x": np.zeros(1_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert example.read_bytes() == before
    assert os.listdir(example.parent) == [example.name]


def test_paths_may_be_bytes(path):
    write(os.fsencode(path), {"x": 1}, {})
    assert read(os.fsencode(path)) == ({"x": 1}, {})


@pytest.mark.skipif(sys.platform == "win32", reason="no locks that end with a process")
def test_only_what_nobody_is_writing_is_removed(path):
    dead = path.parent / f".{path.name}.0123.part"
    dead.write_bytes(b"half")
    other = path.parent / ".notes.part"
    other.write_bytes(b"somebody else's")
    with replacing(path) as file:
        file.write(b"whole")
        remove_abandoned(path.parent, path.suffix)
    assert path.read_bytes() == b"whole"
    assert not dead.exists()
    assert other.exists()


def test_a_file_is_replaced_when_it_is_complete(path):
    path.write_text("before")
    with pytest.raises(TypeError, match="bytes"), replacing(path) as file:
        file.writelines([b"a part", "which a text cannot follow"])
    assert path.read_text() == "before"
    with replacing(path) as file:
        file.write(b"after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert os.listdir(path.parent) == [path.name]


def test_what_is_not_a_plain_file_is_not_replaced():
    with pytest.raises(StoreError, match="is not a plain file, which could be replaced"):
        write(os.devnull, {}, {})


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(StoreError, match="is a folder: give the name of a file in it"):
        write(tmp_path, {}, {})
    with pytest.raises(StoreError, match="it is a folder"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no such folder.*nowhere"):
        write(tmp_path / "nowhere" / "x", {}, {})
    with pytest.raises(FileNotFoundError, match="missing"):
        read(tmp_path / "missing")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(StoreError, match="not a plain file"):
        read(path)


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are POSIX")
def test_links_and_modes_are_kept(example, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(example)
    write(link, {"new": True}, {})
    assert link.is_symlink()
    assert read(example)[0] == {"new": True}
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(example.stat().st_mode) == 0o666 & ~mask

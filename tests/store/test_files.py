"""Files of arrays and JSON: what goes in comes out, and damage is always noticed."""

import errno
import io
import json
import os
import stat
import struct
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pursuit
from pursuit.store import FORMAT, StoreError, read, remove_abandoned, replacing, write

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


def assembled(text, *members, directory=None):
    """A file with these members and right checksums, made by the documents of zip alone."""
    contents = [("pursuit.json", text), *members]
    body, entries = b"", b""
    for name, data in contents:
        crc, size, at = zlib.crc32(data), len(data), len(body)
        common = struct.pack("<5HIII", 45, 0, 0, 0, 0x21, crc, 2**32 - 1, 2**32 - 1)
        body += b"PK\x03\x04" + common + struct.pack("<HH", len(name), 20)
        body += name.encode() + struct.pack("<HHQQ", 1, 16, size, size) + data
        entries += b"PK\x01\x02" + struct.pack("<H", 45) + common
        entries += struct.pack("<5HII", len(name), 28, 0, 0, 0, 0, 2**32 - 1)
        entries += name.encode() + struct.pack("<HHQQQ", 1, 24, size, size, at)
    n, start = len(contents), len(body)
    end = b"PK\x06\x06" + struct.pack("<QHHII4Q", 44, 45, 45, 0, 0, n, n, len(entries), start)
    end += b"PK\x06\x07" + struct.pack("<IQI", 0, start + len(entries), 1)
    end += b"PK\x05\x06" + struct.pack("<4HIIH", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    return body + (entries + end if directory is None else directory)


def content(header="{}", version=FORMAT):
    return f'{{"pursuit": "0.2.0", "format": {version}, "header": {header}}}'.encode()


def npy(descr, shape, data=b"", fortran=False):
    """An array in NumPy's format, with any description."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


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
    with zipfile.ZipFile(example) as file:
        assert file.testzip() is None
        assert file.namelist() == ["pursuit.json", "numbers.npy", "names.npy"]
        members = {name: file.read(name) for name in file.namelist()}
    text = members.pop("pursuit.json")
    assert example.read_bytes() == assembled(text, *members.items())
    assert json.loads(text) == {
        "pursuit": pursuit.__version__,
        "format": 3,
        "header": {"kind": "example", "list": [1, 2.5, None]},
    }


def test_numpy_reads_the_arrays(path):
    arrays = {
        "c": np.arange(6.0).reshape(2, 3),
        "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "number": np.array(3.5),
        "empty": np.empty((0, 4), dtype=np.float32),
        "names": np.array(["é", "long"]),
        "line": np.array([True]),
    }
    write(path, {}, arrays)
    with np.load(path, allow_pickle=False) as found:
        assert set(found) == {*arrays, "pursuit.json"}
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, version=(1, 0))
        with zipfile.ZipFile(path) as file:
            ours = file.read(f"{name}.npy")
        assert ours.split(b"}")[0][10:] == buffer.getvalue().split(b"}")[0][10:]
        assert ours.endswith(array.tobytes(order="A"))


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
    ("data", "message"),
    [
        (b"", "not a file written by pursuit"),
        (b"PK\x03\x04 something else altogether, longer than a record", "not a file written by"),
        (assembled(b"{}"), "lacks 'format' or 'header'"),
        (assembled(b"[]"), "not an object"),
        (assembled(b"[" * 100_000), "nested more than 128"),
        (assembled(b'{"header":' + b"[" * 128 + b"]" * 128 + b"}"), "nested more than 128"),
        (assembled(b'{"a\\\\":' + b"[" * 128 + b"]" * 128 + b"}"), "nested more than 128"),
        (assembled(b'{"header": \xff'), "not JSON"),
        (assembled(b'{"header": ' + b"9" * 5000 + b"}"), "not JSON"),
        (assembled(content(version=0)), "lacks 'format'"),
        (assembled(content(version=-1)), "lacks 'format'"),
        (assembled(content(version="true")), "lacks 'format'"),
        (assembled(content("[]")), "lacks 'format' or 'header'"),
        (assembled(content()) + b"x", "1 bytes follow its end"),
        (assembled(content(), directory=b"PK\x05\x06" + bytes(18)), "directory does not list"),
        (assembled(content(), directory=b"PK\x01\x02"), "bytes are missing"),
    ],
)
def test_what_is_not_a_file_of_ours(path, data, message):
    path.write_bytes(data)
    with pytest.raises(StoreError, match=message):
        read(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_other_zip_files_are_refused(path, compression):
    """A zip bomb among them: nothing is unpacked."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("pursuit.json", content())
        file.writestr("a.npy", npy("|u1", (10**6,), bytes(10**6)))
    with pytest.raises(StoreError, match="the record of a member is not as it must be"):
        read(path)
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("word/document.xml", "not ours")
    with pytest.raises(StoreError, match="not a file written by pursuit"):
        read(path)


def test_members_that_lie_over_each_other_are_refused(path):
    """Two entries of the directory for the same bytes."""
    member = ("a.npy", npy("|u1", (1,), b"x"))
    whole = assembled(content(), member)
    twice = assembled(content(), member, ("b.npy", member[1]))
    start = whole.index(b"PK\x01\x02")
    path.write_bytes(whole[:start] + twice[twice.index(b"PK\x01\x02") :])
    with pytest.raises(StoreError, match="directory does not list its members"):
        read(path)


@pytest.mark.parametrize(
    "name", ["../a.npy", "/a.npy", "a/b.npy", "a.npy.exe", "a", ".npy", "pursuit.json", "a\0.npy"]
)
def test_names_that_no_array_has(path, name):
    path.write_bytes(assembled(content(), (name, npy("|u1", (1,), b"x"))))
    with pytest.raises(StoreError, match="a member is called"):
        read(path)
    if name != "a":
        with pytest.raises(StoreError, match="cannot be the name of an array"):
            write(path, {}, {name: np.zeros(1)})


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("|O", "(1,)"),
        ("O", "(1,)"),
        ("<f8", "(-1,)"),
        ("<f8", "(1.0,)"),
        ("<f8", "(True,)"),
        ("<f8", "(01,)"),
        ("<f8", "(1)"),
        ("<f8", "1"),
        ("<f8", "[1]"),
        ("<f8", "(__import__('os'),)"),
        ("<f8", (1,) * 9),
        (">f8", "(1,)"),
        ("<c16", "(1,)"),
        ("<M8[s]", "(1,)"),
        ("<U0", "(1,)"),
        ("<U99999999", "(0,)"),
        ([("a", "<f8")], "(1,)"),
        ("<f8", (2**70, 0)),
        ("<f8", (2**40, 2**40)),
        ("<f8", (2,)),
        ("<f8", (0,)),
    ],
)
def test_arrays_that_cannot_be(path, descr, shape):
    path.write_bytes(assembled(content(), ("a.npy", npy(descr, shape, bytes(8)))))
    with pytest.raises(StoreError, match=r"damaged: array 'a' (is|has) "):
        read(path)


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", npy("<f8", "(1,)")[:40], b"\0" * 200])
def test_members_that_are_no_arrays(path, data):
    path.write_bytes(assembled(content(), ("a.npy", data)))
    with pytest.raises(StoreError, match="array 'a' is not described as it must be"):
        read(path)


def test_two_arrays_of_one_name(path):
    member = ("a.npy", npy("|u1", (1,), b"x"))
    path.write_bytes(assembled(content(), member, member))
    with pytest.raises(StoreError, match="same name"):
        read(path)


@pytest.mark.parametrize(
    ("descr", "data"), [("|b1", b"\x02"), ("<U1", b"\x00\x00\x11\x00"), ("<U1", b"\xff" * 4)]
)
def test_bytes_that_no_value_has(path, descr, data):
    path.write_bytes(assembled(content(), ("a.npy", npy(descr, (1,), data))))
    with pytest.raises(StoreError, match="array 'a'"):
        read(path)


def test_hostile_lengths_allocate_nothing(path):
    """Lengths are not those of the file: its size is asked first."""
    whole = assembled(content(), ("a.npy", npy("<f8", (1,), bytes(8))))
    at = whole.index(b"a.npy") + len("a.npy") + 4
    for start in (at, whole.index(b"pursuit.json") + len("pursuit.json") + 4):
        data = whole[:start] + struct.pack("<QQ", 2**50, 2**50) + whole[start + 16 :]
        path.write_bytes(data)
        tracemalloc.start()
        try:
            with pytest.raises(StoreError, match="truncated"):
                read(path)
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_version_is_named(path, version):
    path.write_bytes(b"\x89PURSUIT" + struct.pack("<IQI", version, 2, 0) + b"{}")
    with pytest.raises(StoreError, match=r"written by an older pursuit, .* fit the model again"):
        read(path)


def test_a_format_that_is_not_read_any_more_names_the_version_that_reads_it(path):
    text = f'{{"pursuit": "0.1.7", "format": {FORMAT - 1}, "header": {{}}}}'
    path.write_bytes(assembled(text.encode()))
    told = rf'by pursuit 0.1.7 in format {FORMAT - 1}, .*: pip install "pursuit==0.1.7" reads it'
    with pytest.raises(StoreError, match=told):
        read(path)
    path.write_bytes(assembled(text.replace("0.1.7", "; rm").encode()))
    told = r"by pursuit \(unknown\) .* any more: fit the model again"
    with pytest.raises(StoreError, match=told):
        read(path)


def test_a_newer_version_says_what_to_install(path):
    text = f'{{"pursuit": "7.1", "format": {FORMAT + 1}, "unheard": "of"}}'
    path.write_bytes(assembled(text.encode(), ("later.bin", b"whatever")))
    with pytest.raises(StoreError, match=rf'by pursuit 7.1 in format {FORMAT + 1}.*"pursuit>=7.1"'):
        read(path)
    path.write_bytes(assembled(text.replace("7.1", "; rm").encode()))
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


@pytest.fixture(params=["locks", "no locks"])
def system(request, monkeypatch):
    """This system, and one without locks that removes no file that anybody has open."""
    if request.param == "locks":
        return
    opened = Path("/proc/self/fd")
    if not opened.exists():
        pytest.skip("what is open cannot be looked up")
    unlink = os.unlink

    def refusing(path):
        if str(path) in {os.path.realpath(one) for one in opened.iterdir()}:
            raise PermissionError(errno.EACCES, "somebody has it open", path)
        unlink(path)

    monkeypatch.setattr(pursuit.store, "fcntl", None)
    monkeypatch.setattr(pursuit.store.os, "unlink", refusing)


def test_only_what_nobody_is_writing_is_removed(path, system):
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


def test_what_a_killed_write_has_left_goes_with_the_next_write_to_the_name(path, system):
    token = "0123456789ab"
    dead = path.parent / f".{path.name}.{token}.part"
    others = [
        path.parent / f".{path.name}.more.{token}.part",  # of another name
        path.parent / f".{path.name}.notes.part",  # not a name that we give
        path.parent / f"{path.name}.{token}.part",
    ]
    for one in [dead, *others]:
        one.write_bytes(b"half")
    with replacing(path) as first:
        # Another process writes to the same name: neither takes the other's file away.
        write(path, {"x": 2}, {})
        first.write(b"last")
    assert path.read_bytes() == b"last"
    assert sorted(path.parent.iterdir()) == sorted([path, *others])


def test_a_file_that_is_taken_for_abandoned_is_made_again(path, monkeypatch):
    removed = []

    def too_late(file):
        if not removed:
            removed.append(file.name)
            os.unlink(file.name)

    monkeypatch.setattr("pursuit.store._lock", too_late)
    write(path, {"x": 1}, {})
    assert read(path) == ({"x": 1}, {})
    assert removed


@pytest.mark.parametrize("name", ["n" * 250, "n" * 255, "é" * 120])
def test_names_as_long_as_the_file_system_takes(tmp_path, name):
    for value in (1, 2):
        write(tmp_path / name, {"x": value}, {})
    assert read(tmp_path / name) == ({"x": 2}, {})
    assert os.listdir(tmp_path) == [name]


def test_a_name_that_is_too_long_says_so(tmp_path):
    with pytest.raises(StoreError, match=r"'n{20}'… takes 256 bytes, and .* 255: shorten it"):
        write(tmp_path / ("n" * 256), {}, {})


def test_a_file_is_replaced_when_it_is_complete(path):
    path.write_text("before", encoding="utf-8")
    with pytest.raises(TypeError, match="bytes"), replacing(path) as file:
        file.writelines([b"a part", "which a text cannot follow"])
    assert path.read_text(encoding="utf-8") == "before"
    with replacing(path) as file:
        file.write(b"after")
        assert path.read_text(encoding="utf-8") == "before"
    assert path.read_text(encoding="utf-8") == "after"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("n_refusals", [2, 9])
def test_a_file_that_somebody_reads_for_a_moment_is_replaced(example, monkeypatch, n_refusals):
    """Windows replaces no file that is open."""
    before, left, replace = example.read_bytes(), [PermissionError] * n_refusals, os.replace

    def refusing(*paths):
        if left:
            raise left.pop()
        replace(*paths)

    monkeypatch.setattr(pursuit.store, "fcntl", None)
    monkeypatch.setattr(pursuit.store, "_PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(pursuit.store.os, "replace", refusing)
    if n_refusals == 2:
        write(example, {"x": 1}, {})
        assert read(example)[0] == {"x": 1}
    else:
        with pytest.raises(PermissionError):
            write(example, {"x": 1}, {})
        assert example.read_bytes() == before
    assert os.listdir(example.parent) == [example.name]


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

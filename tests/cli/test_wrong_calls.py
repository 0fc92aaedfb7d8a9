"""Wrong calls of the command: one line that says what to do, exit code 2, nothing written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import pursuit
from pursuit.cli.commands import app

_N = 40


def run(words, given=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=given)


def _csv(columns):
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def _columns(**more):
    """A table of flats: y, x and a text."""
    rng = np.random.default_rng(0)
    x = rng.uniform(30, 200, _N).round(2)
    city = rng.choice(["Graz", "Wien"], _N)
    return {"area": x, "city": city, **more, "price": (3 * x + rng.normal(size=_N)).round(2)}


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    """A folder of good and bad tables and of models; the calls below name their files."""
    folder = tmp_path_factory.mktemp("calls")
    rng = np.random.default_rng(1)
    tables = {
        "good.csv": _columns(kind=rng.choice(["cheap", "dear"], _N)),
        "gap.csv": _columns(day=["01/02/2024" if i % 2 else "03/04/2024" for i in range(_N)]),
        "infinite.csv": _columns(a=["inf" if i == 3 else i % 7 for i in range(_N)]),
        "weights.csv": _columns(w=[i - 2 for i in range(_N)], v=["heavy"] * _N),
        "no-target.csv": {"area": range(_N), "price": [""] * _N},
        "endless.csv": _columns() | {"price": ["inf", *range(_N - 1)]},
        "named.csv": _columns(who=[f"person {i}" for i in range(_N)]),
        "gapped.csv": _columns() | {"price": [""] * _N},
        "one-row.csv": {"area": [1], "price": [2]},
        "strays.csv": _columns() | {"price": ["sold" if i == 3 else 1.5 * i for i in range(_N)]},
        "tonnes.csv": _columns() | {"price": [f"{i}.5 t" for i in range(_N)]},
        "constant.csv": {"area": range(_N), "price": [5] * _N},
        "one-class.csv": {"area": range(_N), "kind": ["cheap"] * _N},
        "only-target.csv": {"price": range(_N)},
        "targetless.csv": {"area": range(_N), "city": ["Graz"] * _N},
        "renamed.csv": {"areas": range(_N), "city": ["Graz"] * _N},
        "other-types.csv": {"area": ["large"] * _N, "city": ["Graz"] * _N},
        "holes.csv": {
            "a": [i if i % 2 else "" for i in range(_N)],
            "b": [i if i % 2 == 0 else "" for i in range(_N)],
            "price": range(_N),
        },
    }
    for name, columns in tables.items():
        (folder / name).write_text(_csv(columns), encoding="utf-8")
    (folder / "twice.csv").write_text(
        "area,price,price\n" + "".join(f"{i},{i},{i}\n" for i in range(_N)),
        encoding="utf-8",
    )
    (folder / "header-only.csv").write_text("area,city,price\n", encoding="utf-8")
    (folder / "empty.csv").write_text("", encoding="utf-8")
    (folder / "ragged.csv").write_text("area,price\n1,2\n1,2,3\n", encoding="utf-8")
    (folder / "latin.csv").write_bytes(_csv(_columns()).replace("Wien", "Köln").encode("latin-1"))
    (folder / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    (folder / "headless.csv").write_text("1,2\n3,4\n5,6\n", encoding="utf-8")
    (folder / "notes.txt").write_text("hello", encoding="utf-8")
    (folder / "sheet.xlsx").write_bytes(b"PK\3\4 nothing")
    (folder / "broken.parquet").write_bytes(b"PAR1 nonsense")
    (folder / "broken.pursuit").write_bytes(b"not a model")
    pa.parquet.write_table(
        pa.table({"list": [[1, 2]] * _N, "area": range(_N), "price": range(_N)}),
        folder / "nested.parquet",
    )
    (folder / "empty-folder").mkdir()
    (folder / "taken.pursuit").write_text("keep me", encoding="utf-8")
    small = ["--model", "sparse", "--n-basis", 8, "--quiet"]
    for target, other, name in (("price", "kind", "price"), ("kind", "price", "kind")):
        words = ["fit", folder / "good.csv", "-t", target, "--drop", other]
        assert run([*words, "-o", folder / f"{name}.pursuit", *small]).exit_code == 0
    X = np.column_stack([np.arange(20.0), np.arange(20.0) % 3])
    pursuit.SparseKernelRidge().fit(X, X[:, 0]).save(folder / "nameless.pursuit")
    areas = pa.csv.read_csv(folder / "good.csv").select(["area"])
    pursuit.SparseKernelRidge().fit(areas, range(_N)).save(folder / "ridge.pursuit")
    return folder


# Words that follow `pursuit`; {} is the folder above. What the line must hold.
FIT = "fit {}/good.csv -t price -o {}/new.pursuit"
REGRESSION = "--task regression -o {}/new.pursuit"
CALLS = [
    # Words
    ("fot {}/good.csv", "Did you mean 'fit'?"),
    ("fit", "is missing: add it. See pursuit fit --help."),
    ("fit {}/good.csv -o {}/new.pursuit", "--target or -t (Column to predict) is missing"),
    ("fit {}/good.csv -t price", "--output or -o"),
    (f"{FIT} --n-bases 3", "--n-basis"),
    (f"{FIT} --n-basis 0", "--n-basis"),
    (f"{FIT} --n-basis many", "--n-basis"),
    (f"{FIT} --seed -1", "--seed"),
    (f"{FIT} --max-time 0", "--max-time"),
    (f"{FIT} --task guessing", "'classification'"),
    (f"{FIT} --model forest", "'full-scale'"),
    (f"{FIT} --impute mean", "'drop'"),
    (f"{FIT} -t area", "--target is given twice"),
    (f"{FIT} {{}}/more.csv", "unexpected extra argument"),
    # Options that exclude each other
    (f"{FIT} --auto --n-basis 9", "leave --n-basis out"),
    (f"{FIT} --outliers --varying-noise", "use one of them"),
    (f"{FIT} --near-rows --model sparse", "leave one of them out"),
    (f"{FIT} --outliers --model full-scale", "--model sparse"),
    (f"{FIT} --varying-noise --model glm", "--model sparse"),
    (f"{FIT} --conformal --model glm", "leave one of them out"),
    ("fit {}/good.csv -t kind -o {}/new.pursuit --model glm", "--model sparse"),
    ("fit {}/good.csv -t kind -o {}/new.pursuit --outliers", "leave --outliers out"),
    (f"{FIT} --date-format day", "%d/%m/%Y"),
    ("compare {}/good.csv -t price --date-format day", "%d/%m/%Y"),
    (f"{FIT} --checkpoint {{}}/notes.txt", "name a folder"),
    # Columns
    ("fit {}/good.csv -t prise -o {}/new.pursuit", "did you mean 'price'?"),
    (f"{FIT} --drop knd", "did you mean 'kind'?"),
    (f"{FIT} --feature areas", "did you mean 'area'?"),
    (f"{FIT} --weight wieght", "--weight: good.csv has no column 'wieght'"),
    (f"{FIT} --weight price", "'price' is the target: name another column"),
    (f"{FIT} --drop price", "'price' is the target: leave it out"),
    (f"{FIT} --feature price", "'price' is the target: leave it out"),
    (f"{FIT} --feature area --drop area", "'area' is in --feature and in --drop"),
    (f"{FIT} --drop area --drop city --drop kind", "no column is left"),
    ("fit {}/only-target.csv -t price -o {}/new.pursuit", "no column is left"),
    ("fit {}/twice.csv -t price -o {}/new.pursuit", "--drop price.1"),
    ("fit {}/gap.csv -t price -o {}/new.pursuit", "--date-format %d/%m/%Y"),
    ("fit {}/gap.csv -t price -o {}/new.pursuit", "--drop-unusable, or --drop day"),
    ("fit {}/infinite.csv -t price -o {}/new.pursuit", "--drop-unusable, or --drop a"),
    ("fit {}/nested.parquet -t price -o {}/new.pursuit", "--drop-unusable, or --drop list"),
    ("fit {}/weights.csv -t price --weight w -o {}/new.pursuit", "'w'"),
    ("fit {}/weights.csv -t price --weight v -o {}/new.pursuit", "'v'"),
    # Targets
    ("fit {}/good.csv -t kind --task regression -o {}/new.pursuit", "--task classification"),
    ("fit {}/no-target.csv -t price -o {}/new.pursuit", "name another with --target"),
    ("fit {}/strays.csv -t price -o {}/new.pursuit", "such as 'sold': leave these empty, or name"),
    (f"fit {{}}/strays.csv -t price {REGRESSION}", "but not in 1 of 40 rows, such as 'sold'"),
    ("fit {}/tonnes.csv -t price -o {}/new.pursuit", "numbers with the unit 't': write them"),
    (f"fit {{}}/named.csv -t city {REGRESSION}", "it holds 'Graz' and other texts"),
    ("fit {}/constant.csv -t price -o {}/new.pursuit", "is 5 in all rows"),
    ("compare {}/constant.csv -t price", "is 5 in all rows"),
    ("fit {}/one-class.csv -t kind --task classification -o {}/new.pursuit", "class"),
    ("fit {}/good.csv -t area --task classification -o {}/new.pursuit", "name another with"),
    ("fit {}/named.csv -t who -o {}/new.pursuit", "has 40 classes in 40 rows"),
    ("fit {}/endless.csv -t price -o {}/new.pursuit", "leave such rows out"),
    ("fit {}/one-row.csv -t price -o {}/new.pursuit", "2 are the least"),
    ("fit {}/holes.csv -t price --impute drop -o {}/new.pursuit", "leave --impute drop out"),
    # Files that are not tables
    ("fit {}/goood.csv -t price -o {}/new.pursuit", "did you mean good.csv?"),
    ("fit {}/nowhere/t.csv -t price -o {}/new.pursuit", "there is no file"),
    ("fit {}/notes.txt -t price -o {}/new.pursuit", "rename it if it is one"),
    ("fit {}/sheet.xlsx -t price -o {}/new.pursuit", "export it"),
    ("fit {}/price.pursuit -t price -o {}/new.pursuit", "is a model, and a table is needed"),
    ("fit {}/empty.csv -t price -o {}/new.pursuit", "it needs a header line"),
    ("fit {}/header-only.csv -t price -o {}/new.pursuit", "2 are the least"),
    ("fit {}/ragged.csv -t price -o {}/new.pursuit", "Correct or remove the line"),
    ("fit {}/latin.csv -t price -o {}/new.pursuit", "iconv"),
    ("fit {}/picture.csv -t price -o {}/new.pursuit", "picture.csv"),
    ("fit {}/headless.csv -t price -o {}/new.pursuit", "write a header line"),
    ("fit {}/broken.parquet -t price -o {}/new.pursuit", "broken.parquet"),
    ("fit {}/empty-folder -t price -o {}/new.pursuit", "holds no Parquet or CSV files"),
    ("fit - -t price -o {}/new.pursuit", "it needs a header line"),
    # Outputs
    ("fit {}/good.csv -t price -o {}/good.csv --force", "name another file for the output"),
    ("fit {}/good.csv -t price -o {}/out.parquet", "name it out.pursuit"),
    ("fit {}/good.csv -t price -o {}/taken.pursuit", "add --force to replace it"),
    ("fit {}/good.csv -t price -o {}/no/new.pursuit", "make it first"),
    ("fit {}/good.csv -t price -o {}", "give the name of a file in it"),
    ("fit {}/good.csv -t price -o - --json", "name a file"),
    # predict
    ("predict {}/good.csv {}/price.pursuit", "is a table, and a model is needed"),
    ("predict {}/price.pursuit {}/price.pursuit", "is a model, and a table is needed"),
    ("predict {}/empty-folder {}/good.csv", "name a file that pursuit fit wrote"),
    ("predict {}/prise.pursuit {}/good.csv", "did you mean price.pursuit?"),
    ("predict {}/broken.pursuit {}/good.csv", "not a file written by pursuit"),
    ("predict {}/nameless.pursuit {}/good.csv", "fit it to a table with column names"),
    ("predict - -", "only one of the model and the table can be -"),
    ("predict {}/price.pursuit {}/good.csv -o {}/out.txt", ".csv or .parquet"),
    ("predict {}/price.pursuit {}/good.csv -o {}/good.csv --force", "name another file"),
    ("predict {}/price.pursuit {}/good.csv --interval 95", "write 0.9 for 90 %"),
    ("predict {}/price.pursuit {}/good.csv --interval 0", "write 0.9 for 90 %"),
    ("predict {}/price.pursuit {}/good.csv --proba", "ask for --std or --interval"),
    ("predict {}/ridge.pursuit {}/good.csv --proba", "leave --proba and --set out"),
    ("predict {}/ridge.pursuit {}/good.csv --std", "or use pursuit fit --model sparse"),
    ("predict {}/kind.pursuit {}/good.csv --std", "ask for --proba or --set"),
    ("predict {}/kind.pursuit {}/good.csv --set 0.9", "use pursuit fit --conformal"),
    ("predict {}/price.pursuit {}/renamed.csv", "did you mean 'areas'?"),
    ("predict {}/price.pursuit {}/other-types.csv", "columns of other-types.csv are not what they"),
    ("predict {}/price.pursuit {}/other-types.csv", "column 'area': it holds 'large', and numbers"),
    ("predict {}/price.pursuit {}/latin.csv", "latin.csv is not in UTF-8: convert it"),
    ("predict {}/price.pursuit {}/header-only.csv", "has no rows to predict"),
    # inspect, report, demo
    ("inspect {}/good.csv", "a model is needed here"),
    ("inspect {}/notes.txt", "not a file written by pursuit"),
    ("report {}/price.pursuit {}/good.csv -o {}/page.csv", "must end in .html"),
    ("report {}/price.pursuit -o {}/price.pursuit --force", "name another file for the output"),
    ("report {}/price.pursuit {}/targetless.csv -o {}/page.html", "no column 'price'"),
    ("report {}/price.pursuit {}/no-target.csv -o {}/page.html", "'city'"),
    ("report {}/price.pursuit {}/gapped.csv -o {}/page.html", "name a table with targets"),
    ("report {}/nameless.pursuit {}/good.csv -o {}/page.html", "model.report(page, X, y)"),
    ("compare {}/good.csv -t prise", "did you mean 'price'?"),
    ("compare {}/good.csv -t price --folds 1", "--folds"),
    ("demo {}/notes.txt", "name a folder"),
]


def _files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_a_wrong_call_gets_one_line_and_writes_nothing(at, call, says):
    before = _files(at)
    result = run(word.replace("{}", str(at)) for word in call.split())
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("pursuit: ")
    assert says in line
    assert "Traceback" not in line
    assert _files(at) == before


def test_the_same_call_set_right_works(at, tmp_path):
    """What the line of a refused table proposes is taken."""
    for more in (["--drop-unusable"], ["--drop", "day"], ["--date-format", "%d/%m/%Y"]):
        out = tmp_path / "-".join(more).replace("/", "")
        words = [
            "fit",
            at / "gap.csv",
            "-t",
            "price",
            *more,
            "--model",
            "sparse",
            "--n-basis",
            8,
            "-o",
            out,
        ]
        result = run(words)
        assert result.exit_code == 0, result.output

"""Reads a results.csv with pandas and with polars and compares what they see.

A reader of the file has one of the two and no patience: every column must
arrive with one type, the same in both, and without a hint from us.
"""

import math
import sys

import pandas
import polars


def main(path: str) -> None:
    by_pandas = pandas.read_csv(path)
    by_polars = polars.read_csv(path, infer_schema_length=None)

    assert list(by_pandas.columns) == by_polars.columns, "columns differ"
    assert by_pandas.shape == by_polars.shape, "shapes differ"
    assert len(by_pandas) > 0, "no row"
    assert not by_pandas.duplicated().any(), "a row occurs twice"

    numbers = 0  # pandas' default parser may miss the last digit, hence 1e-12
    for name in by_polars.columns:
        assert name and not name.startswith("Unnamed"), "a column has no name"
        assert name == name.strip(), f"column {name!r} has blanks around it"
        left, right = by_pandas[name], by_polars[name]
        if not right.dtype.is_numeric():
            continue
        assert pandas.api.types.is_numeric_dtype(left), f"{name}: text for pandas, numbers for polars"
        numbers += 1
        for row, (a, b) in enumerate(zip(left, right, strict=True)):
            empty = b is None
            assert empty == bool(pandas.isna(a)), f"{name}, row {row}: {a} and {b}"
            assert empty or math.isclose(a, b, rel_tol=1e-12), f"{name}, row {row}: {a} and {b}"
            assert empty or math.isfinite(b), f"{name}, row {row}: {b}"
    assert numbers > 0, "no column of numbers"
    assert any(c.endswith("_tok_per_s") for c in by_polars.columns), "no throughput"
    print(f"{path}: {len(by_polars)} rows, {numbers} of {by_polars.width} columns are numbers")


if __name__ == "__main__":
    main(sys.argv[1])

"""Computing on the distinct values of columns: a profile has millions of rows, and few names, threads and streams."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def by_value(frame: pl.DataFrame, columns: Sequence[str], **expressions: pl.Expr) -> pl.DataFrame:
    """Return the frame with the expressions' columns, each computed once for every distinct set of values.

    The columns are texts in the expressions, whatever they are in the frame; nulls stay nulls.
    """
    place = "_place"
    distinct = frame.lazy().select(columns).unique(maintain_order=True).with_row_index(place).collect()
    texts = distinct.with_columns(pl.col(columns).cast(pl.String)).select(place, **expressions)
    joined = frame.lazy().join(distinct.lazy(), on=list(columns), how="left", maintain_order="left", nulls_equal=True)
    places = joined.select(place).collect()[place]
    return frame.with_columns([texts[name].gather(places) for name in expressions])

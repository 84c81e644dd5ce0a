"""What the probe asks of a device, without one."""

from __future__ import annotations

import pytest

from simtool.engine.serving.probe import validate_arrays


@pytest.mark.parametrize("kv_blocks", [2, 8, 100])
def test_no_place_is_written_twice_even_where_tables_share_pages(kv_blocks):
    """An NPU's scatter rules it out, and the order of two writes is nobody's."""
    arrays = validate_arrays(16, 2, 57, kv_blocks, 16)
    places = arrays["validate_slot_mapping"]
    assert len(set(places)) == len(places) == 32
    assert all(0 <= place < kv_blocks * 16 for place in places)
    assert all(0 <= page < kv_blocks for table in arrays["validate_block_tables"] for page in table)

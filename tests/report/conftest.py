import pytest

from tests.synthetic import make_trace


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """Two live rounds and one replay of three placements; the toy replay's host is 10 % too quick."""
    folder = tmp_path_factory.mktemp("bundles")
    live = [
        make_trace(
            folder / f"{round_}-{name}",
            name,
            noise_seed=round_,
            requests=15,
            details={"command": f"simtool record {name}"},
        )
        for round_ in range(2)
        for name in ("lag", "this-step", "static")
    ]
    replays = [
        make_trace(
            folder / f"replay-{name}",
            name,
            origin="replayed",
            host_scale=0.9,
            requests=15,
            details={"source": "0-static"},
        )
        for name in ("lag", "this-step", "static")
    ]
    return [*live, *replays]

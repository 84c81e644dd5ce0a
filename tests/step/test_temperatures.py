import numpy as np
import pytest

from simtool.errors import UsageError
from simtool.step.controller import ControllerSettings, LinearPredictor, decide
from simtool.step.temperatures import calibrated


def test_a_temperature_divides_the_logit():
    """0.8 is a logit of ln 4; half of it is a chance of 2/3, twice of it one of 16/17."""
    found = calibrated(np.array([[0.8, 0.8, 0.8]]), (2.0, 0.5, 1.0))
    assert found[0] == pytest.approx([2 / 3, 16 / 17, 0.8])
    assert calibrated(np.array([[0.0, 1.0]]), (3.0, 0.2)).tolist() == [[0.0, 1.0]]
    untouched = np.array([[0.3, 0.7]], np.float32)
    assert calibrated(untouched, ()).tolist() == untouched.astype(np.float64).tolist()


@pytest.mark.parametrize(("temperatures", "named"), [((1.0,), "block has 2"), ((1.0, 0.0), "expected a number")])
def test_temperatures_that_do_not_fit_are_refused(temperatures, named):
    with pytest.raises(UsageError, match=named):
        calibrated(np.array([[0.3, 0.7]]), ControllerSettings(temperatures=temperatures).temperatures)


def test_the_controller_decides_by_the_calibrated_confidence():
    costs = ControllerSettings(LinearPredictor(0.3, 0.7, 0.0))
    sure = ControllerSettings(LinearPredictor(0.3, 0.7, 0.0), temperatures=(0.1, 0.1))
    assert decide([[0.6, 0.6]], [10], 2, costs) == [0]
    assert decide([[0.6, 0.6]], [10], 2, sure) == [2]

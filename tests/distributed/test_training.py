"""Training on several ranks is that of one process, to the last bit."""

from pathlib import Path

import numpy as np
import pytest

from tests.distributed import programs
from tests.distributed.ranks import run


@pytest.mark.parametrize("kind", ["plain", "sharded", "reducing"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_training_has_the_bits_of_one_process_that_adds_up_the_parts(
    count: int, kind: str, tmp_path: Path
) -> None:
    expected = programs.accumulated(count)
    whole = programs.whole_batch(count)
    found = run(count, "train", tmp_path, kind)
    for rank, one in enumerate(found):
        np.testing.assert_array_equal(one.pop("losses"), expected["losses"][rank])
        for name, value in one.items():
            np.testing.assert_array_equal(value, expected[name], err_msg=name)
    np.testing.assert_allclose(expected["losses"].mean(0), whole["losses"], rtol=1e-5, atol=1e-6)

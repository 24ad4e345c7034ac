# Each worker of pytest-xdist keeps to a GPU of its own.
# run: {python} -m pytest -q -n 2 -p no:cacheprovider --rootdir {folder} {file}
# needs: xdist
import os

import pytest

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")

import smallcuda


@pytest.mark.parametrize("number", range(4))
def test_allocates(number):
    assert smallcuda.allocate()

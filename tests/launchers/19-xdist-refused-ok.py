# The number of GPUs is asked of CUDA after the worker has narrowed its mask.
# run: {python} -m pytest -q -n 2 -p no:cacheprovider --rootdir {folder} {file}
# needs: xdist
import os

import pytest

import smallcuda


@pytest.fixture(scope="session", autouse=True)
def own_gpu(worker_id):
    os.environ["CUDA_VISIBLE_DEVICES"] = worker_id.removeprefix("gw")


@pytest.mark.parametrize("number", range(2))
def test_last_device(number):
    smallcuda.set_device(smallcuda.device_count() - 1)
    assert smallcuda.allocate()

# The number of GPUs is taken from NVML before the worker narrows its mask: the last device that it counted is refused.
# run: {python} -m pytest -q -n 2 -p no:cacheprovider --rootdir {folder} {file}
# needs: xdist
# exit: not 0
import os

import pytest

import smallcuda

COUNT = smallcuda.device_count_of_nvml()


@pytest.fixture(scope="session", autouse=True)
def own_gpu(worker_id):
    os.environ["CUDA_VISIBLE_DEVICES"] = worker_id.removeprefix("gw")


@pytest.mark.parametrize("number", range(2))
def test_last_device(number):
    smallcuda.set_device(COUNT - 1)
    assert smallcuda.allocate()

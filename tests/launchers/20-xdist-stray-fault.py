# A fixture that each worker runs waits for the GPU, and the tests do without one: each worker's context is for nothing.
# run: {python} -m pytest -q -n 3 -p no:cacheprovider --rootdir {folder} {file}
# needs: xdist torch
import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def gpu_is_ready():
    torch.cuda.synchronize()


@pytest.mark.parametrize("number", range(6))
def test_on_the_cpu(number):
    assert torch.ones(8).sum().item() == 8

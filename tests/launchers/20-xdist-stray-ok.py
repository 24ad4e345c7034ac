# The fixture that waits for the GPU is there for those tests that ask for it, and none does.
# run: {python} -m pytest -q -n 3 -p no:cacheprovider --rootdir {folder} {file}
# needs: xdist torch
import pytest
import torch


@pytest.fixture(scope="session")
def gpu_is_ready():
    torch.cuda.synchronize()


@pytest.mark.parametrize("number", range(6))
def test_on_the_cpu(number):
    assert torch.ones(8).sum().item() == 8

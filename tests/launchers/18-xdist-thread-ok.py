# The tests run on the last GPU, and so does what the test starts in a thread, because it names the device.
# run: {python} -m pytest -q -n 2 -p no:cacheprovider --rootdir {folder} {file}
# needs: xdist torch
import threading

import pytest
import torch


@pytest.fixture(autouse=True)
def device():
    torch.cuda.set_device(torch.cuda.device_count() - 1)


@pytest.mark.parametrize("number", range(2))
def test_prefetches(number):
    batches = []
    weights = torch.full((8,), 2.0, device="cuda")
    loader = threading.Thread(target=lambda: batches.append(torch.ones(8, device=weights.device)))
    loader.start()
    loader.join()
    assert (batches[0].to(weights.device) * weights).sum().item() == 16

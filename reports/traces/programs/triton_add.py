import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


a = torch.ones(1000, device="cuda:1")
out = torch.empty_like(a)
try:
    add[(1,)](a, a, out, 1000, BLOCK=1024)
    print(out.sum().item())
except ValueError as error:
    print(error)

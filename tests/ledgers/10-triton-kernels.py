"""Triton: kernels that are compiled in several variants, on tensors of PyTorch; some are large and loaded late."""
from common import hold
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def product(a, b, c, N: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for k in range(0, N, TILE):
        inner = k + tl.arange(0, TILE)
        total += tl.dot(tl.load(a + row[:, None] * N + inner[None, :]), tl.load(b + inner[:, None] * N + column[None, :]))
    tl.store(c + row[:, None] * N + column[None, :], total)


x = torch.randn(32 << 20, device="cuda")
y = torch.empty_like(x)
for block in (256, 1024, 4096):
    scale[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), 2.0, BLOCK=block)
    torch.cuda.synchronize()
    hold(.05)
n = 1024
a, b, c = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(3))
c = c.float()
for tile in (32, 64):
    product[(n // tile, n // tile)](a, b, c, N=n, TILE=tile)
torch.cuda.synchronize()
print("sum", c.sum().item(), "scaled", torch.equal(y, 2 * x))
hold(.4)

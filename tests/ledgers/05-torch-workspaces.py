"""Workspaces of libraries under PyTorch: cuDNN, cuBLASLt, cuSOLVER, cuFFT and cuSPARSE."""
from common import hold
import torch

torch.backends.cudnn.benchmark = True
torch.manual_seed(5)
x = torch.randn(32, 32, 96, 96, device="cuda", requires_grad=True)
convolution = torch.nn.Conv2d(32, 96, 5, padding=2).to("cuda")
for _ in range(3):
    convolution(x).square().mean().backward()
torch.cuda.synchronize()
hold(.1)
lstm = torch.nn.LSTM(256, 512, 2).to("cuda")
lstm(torch.randn(64, 32, 256, device="cuda"))[0].sum().backward()
a = torch.randn(1500, 1500, device="cuda")
positive = a @ a.T + 1500 * torch.eye(1500, device="cuda")
print("cholesky", torch.linalg.cholesky(positive).sum().item(), "eigh", torch.linalg.eigvalsh(positive[:500, :500]).sum().item())
print("qr", torch.linalg.qr(a)[1].diagonal().sum().item(), "solve", torch.linalg.solve(positive, a).sum().item())
hold(.1)
print("fft", torch.fft.fft2(torch.randn(16, 1024, 1024, device="cuda")).abs().mean().item())
sparse = torch.eye(4000, device="cuda").to_sparse_csr()
print("sparse", (sparse @ torch.ones(4000, 64, device="cuda")).sum().item())
print("linear", torch.nn.functional.linear(a.half(), a.half(), a[0].half()).float().sum().item())
torch.cuda.synchronize()
hold(.4)

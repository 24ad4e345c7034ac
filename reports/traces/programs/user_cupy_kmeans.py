import cupy as cp

gpu = 1
with cp.cuda.Device(gpu):
    points = cp.random.rand(2000, 2)
    centers = points[:4].copy()
    for _ in range(10):
        nearest = ((points[:, None, :] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        centers = cp.stack([points[nearest == k].mean(axis=0) for k in range(4)])
    spectrum = cp.fft.fft(points[:, 0])
    print(centers.shape, float(cp.abs(spectrum).max()) > 0)
cp.cuda.Stream.null.synchronize()

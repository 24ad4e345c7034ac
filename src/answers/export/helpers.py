CONTEXT = 64 << 20  # a context takes more, cuInit less


NOISE = 2 << 20  # a driver takes memory in blocks of 2 MiB


def load(name):
    try:
        return ctypes.CDLL(name)
    except OSError as missing:
        print("skipped:", missing)
        sys.exit(77)


def known(value):
    """A number as it is; of anything else its text."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    return value if type(value) in (int, float, str) else re.sub(r" at 0x[0-9a-f]{6,}", "", repr(value))


def used(gpu):
    """Memory in use on a GPU, in bytes, by NVML. Asking creates no context."""
    nvml, device, memory = load("libnvidia-ml.so.1"), c_void_p(), (c_ulonglong * 3)()  # total, free, used
    time.sleep(0.02)  # what has just ended may still be giving memory back
    nvml.nvmlInit_v2()
    if nvml.nvmlDeviceGetHandleByIndex_v2(gpu, byref(device)) or nvml.nvmlDeviceGetMemoryInfo(device, memory):
        print("skipped: NVML cannot read GPU %d" % gpu)
        sys.exit(77)
    print("    GPU %d: %.2f MiB in use" % (gpu, memory[2] / 2**20))
    return memory[2]


def gpu_count():
    nvml, count = load("libnvidia-ml.so.1"), c_uint()
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetCount_v2(byref(count))
    return count.value


def uuid_of(gpu):
    """The UUID of a GPU of NVML."""
    nvml, device, text = load("libnvidia-ml.so.1"), c_void_p(), create_string_buffer(96)
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetHandleByIndex_v2(gpu, byref(device))
    nvml.nvmlDeviceGetUUID(device, text, 96)
    nvml.nvmlShutdown()
    return text.value.decode()


def uuid_text(uuid):
    digits = bytes(uuid).hex()
    return "GPU-" + "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


def visible():
    """The UUIDs of the GPUs that CUDA shows, in its order."""
    driver, count, uuid = load("libcuda.so.1"), c_int(), (c_ubyte * 16)()
    driver.cuDeviceGetCount(byref(count))
    return [uuid_text(uuid) for device in range(count.value) if driver.cuDeviceGetUuid_v2(uuid, device) == 0]


def current():
    """The device of the current context; -1 if there is none."""
    device = c_int()
    return device.value if load("libcuda.so.1").cuCtxGetDevice(byref(device)) == 0 else -1


def context_cost():
    """What a context takes on GPU 0, in bytes: one is made in a process of its own."""
    cost = mmap.mmap(-1, 8)
    child = os.fork()
    if child == 0:
        driver, context, before = load("libcuda.so.1"), c_void_p(), used(0)
        driver.cuInit(0)
        driver.cuDevicePrimaryCtxRetain(byref(context), 0)
        cost[:] = (used(0) - before).to_bytes(8, "little")
        os._exit(0)
    os.waitpid(child, 0)
    return int.from_bytes(cost[:], "little")


def expect(holds, what):
    print("  yes:" if holds else "  no:", what)
    answers.append(bool(holds))

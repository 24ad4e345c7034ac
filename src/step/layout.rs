//! C structs that a callee fills in: their size and the fields a report keeps.

/// A C struct written by the callee.
#[derive(Debug)]
pub struct Layout {
    /// The C type.
    pub name: &'static str,
    /// Bytes to allocate; at least `sizeof` of the largest version known.
    pub size: usize,
    /// 32-bit words to write before the call, by offset (a version field, say).
    pub preset: &'static [(usize, u32)],
    /// The fields to report.
    pub fields: &'static [Field],
}

/// One field of a struct that the callee filled in.
#[derive(Debug)]
pub struct Field {
    /// The C name.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// How it is read.
    pub read: Read,
    /// Whether it is the same in every attempt, and so a part of outcomes.
    pub stable: bool,
}

/// How a field of a struct is read.
#[derive(Clone, Copy, Debug)]
pub enum Read {
    /// A 32-bit signed integer.
    I32,
    /// A 64-bit unsigned integer.
    U64,
    /// A C string of at most this many bytes.
    Text(usize),
}

const fn varying(name: &'static str, offset: usize) -> Field {
    Field { name, offset, read: Read::U64, stable: false }
}

/// `nvmlMemory_t`: `used` includes what the driver reserves.
pub static NVML_MEMORY: Layout = Layout {
    name: "nvmlMemory_t",
    size: 24,
    preset: &[],
    fields: &[varying("total", 0), varying("free", 8), varying("used", 16)],
};

/// `nvmlMemory_v2_t`: `reserved` is a field of its own and `used` excludes it.
pub static NVML_MEMORY_V2: Layout = Layout {
    name: "nvmlMemory_v2_t",
    size: 40,
    // The version is sizeof | 2 << 24, as the header's nvmlMemory_v2 macro has it.
    preset: &[(0, 40 | 2 << 24)],
    fields: &[varying("total", 8), varying("reserved", 16), varying("free", 24), varying("used", 32)],
};

/// `cudaDeviceProp`: the name is its first field in every version; the rest differs by version and
/// is not read. The buffer is larger than any version's struct.
pub static CUDA_DEVICE_PROP: Layout = Layout {
    name: "cudaDeviceProp",
    size: 4096,
    preset: &[],
    fields: &[Field { name: "name", offset: 0, read: Read::Text(256), stable: true }],
};

/// `cudaPointerAttributes` of CUDA 11 and later.
pub static CUDA_POINTER_ATTRIBUTES: Layout = Layout {
    name: "cudaPointerAttributes",
    size: 64,
    preset: &[],
    fields: &[
        Field { name: "type", offset: 0, read: Read::I32, stable: true },
        Field { name: "device", offset: 4, read: Read::I32, stable: true },
    ],
};

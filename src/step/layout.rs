//! C structs that a callee fills in: their size and the fields a report keeps.

pub mod opaque;

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

const fn varying32(name: &'static str, offset: usize) -> Field {
    Field { name, offset, read: Read::I32, stable: false }
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

/// `cudaPointerAttributes` of CUDA 11 and later: 24 bytes, and 88 since 13.0.
pub static CUDA_POINTER_ATTRIBUTES: Layout = Layout {
    name: "cudaPointerAttributes",
    size: 256,
    preset: &[],
    fields: &[
        Field { name: "type", offset: 0, read: Read::I32, stable: true },
        Field { name: "device", offset: 4, read: Read::I32, stable: true },
    ],
};

/// A C struct that the caller fills in: constants, and one 32-bit word that the author gives.
#[derive(Debug)]
pub struct Template {
    /// The C type.
    pub name: &'static str,
    /// Its `sizeof`.
    pub size: usize,
    /// 32-bit words by offset.
    pub preset: &'static [(usize, u32)],
    /// Where the author's word goes.
    pub given: usize,
    /// Bytes of the author's word: 4 or 8.
    pub width: usize,
}

/// `CUmemAllocationProp`: pinned memory on a device, not for export.
pub static ALLOCATION_PROP: Template =
    Template { name: "CUmemAllocationProp", size: 32, preset: &[(0, 1), (8, 1)], given: 12, width: 4 };

/// `CUmemAccessDesc` and `cudaMemAccessDesc`: a device may read and write.
pub static ACCESS_DESC: Template =
    Template { name: "CUmemAccessDesc", size: 12, preset: &[(0, 1), (8, 3)], given: 4, width: 4 };

/// `cudaMemPoolProps`: pinned memory on a device, not for export.
pub static POOL_PROPS: Template =
    Template { name: "cudaMemPoolProps", size: 88, preset: &[(0, 1), (8, 1)], given: 12, width: 4 };

/// `cuuint64_t`, passed by address.
pub static WORD: Template = Template { name: "cuuint64_t", size: 8, preset: &[], given: 0, width: 8 };

/// `cudaStreamCaptureMode`, read and written: relaxed (2), as libraries set it.
pub static CAPTURE_MODE: Layout = Layout {
    name: "cudaStreamCaptureMode",
    size: 8,
    preset: &[(0, 2)],
    fields: &[Field { name: "mode", offset: 0, read: Read::I32, stable: true }],
};

/// An `unsigned int` that says how many entries follow, and comes back as how many there are.
pub static PROCESS_COUNT: Layout = Layout {
    name: "unsigned int",
    size: 8,
    preset: &[(0, 32)],
    fields: &[Field { name: "count", offset: 0, read: Read::I32, stable: true }],
};

/// `nvmlProcessInfo_t` in the 24 bytes of `_v2` and of the header's `_v3`; the first two of 32.
pub static PROCESS_INFOS: Layout = Layout {
    name: "nvmlProcessInfo_t[32]",
    size: 32 * 40,
    preset: &[],
    fields: &[varying32("pid0", 0), varying("used0", 8), varying32("pid1", 24), varying("used1", 32)],
};

/// `nvmlBAR1Memory_t`.
pub static NVML_BAR1_MEMORY: Layout = Layout {
    name: "nvmlBAR1Memory_t",
    size: 24,
    preset: &[],
    fields: &[varying("total", 0), varying("free", 8), varying("used", 16)],
};

/// `ncclUniqueId`, of which nothing is shown.
pub static NCCL_UNIQUE_ID: Layout = Layout { name: "ncclUniqueId", size: 128, preset: &[], fields: &[] };

/// How many bytes `LOG_TEXT` has, and how many of them were written.
pub static LOG_SIZE: Layout = Layout {
    name: "size_t",
    size: 8,
    preset: &[(0, 25600)],
    fields: &[Field { name: "bytes", offset: 0, read: Read::U64, stable: true }],
};

/// An `int`, or an `unsigned int`, passed by address.
pub static ORDINAL: Template = Template { name: "int", size: 4, preset: &[], given: 0, width: 4 };

/// `cudaAtomicOperation`, passed by address as a list of one.
pub static ATOMIC_OPERATION: Template =
    Template { name: "cudaAtomicOperation", size: 4, preset: &[], given: 0, width: 4 };

/// `CUmemLocation` and `cudaMemLocation`, passed by address: a device.
pub static LOCATION: Template = Template { name: "cudaMemLocation", size: 8, preset: &[(0, 1)], given: 4, width: 4 };

/// `CUuuid` of a table, of which the author gives the first half.
pub static EXPORT_TABLE_ID: Template = Template { name: "CUuuid", size: 16, preset: &[], given: 0, width: 8 };

/// `cudaChannelFormatDesc`: one unsigned number of so many bits.
pub static CHANNEL_FORMAT_OF: Template =
    Template { name: "cudaChannelFormatDesc", size: 20, preset: &[(16, 1)], given: 0, width: 4 };

/// `CUDA_ARRAY_DESCRIPTOR`: so many floats.
pub static ARRAY_OF: Template =
    Template { name: "CUDA_ARRAY_DESCRIPTOR", size: 24, preset: &[(16, 0x20), (20, 1)], given: 0, width: 8 };

/// `CUDA_ARRAY3D_DESCRIPTOR`: so many floats.
pub static ARRAY3D_OF: Template =
    Template { name: "CUDA_ARRAY3D_DESCRIPTOR", size: 40, preset: &[(24, 0x20), (28, 1)], given: 0, width: 8 };

/// `cudaLaunchConfig_t` and `CUlaunchConfig`: so many blocks of one thread, without attributes.
pub static LAUNCH_CONFIG: Template = Template {
    name: "cudaLaunchConfig_t",
    size: 56,
    preset: &[(4, 1), (8, 1), (12, 1), (16, 1), (20, 1)],
    given: 0,
    width: 4,
};

/// `cudaLaunchAttributeValue`, of which the first word is given.
pub static ATTRIBUTE_VALUE_OF: Template =
    Template { name: "cudaLaunchAttributeValue", size: 64, preset: &[], given: 0, width: 4 };

/// `CUmulticastObjectProp`: 2 MiB on so many GPUs, not for export.
pub static MULTICAST_PROP: Template =
    Template { name: "CUmulticastObjectProp", size: 32, preset: &[(8, 2 << 20)], given: 0, width: 4 };

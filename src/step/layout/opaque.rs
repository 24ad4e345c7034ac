//! C structs of which a report shows nothing: buffers for what the callee writes, and, where a row says
//! so, structs of the caller that are all zero.

use super::Layout;

const fn opaque(name: &'static str, size: usize) -> Layout {
    Layout { name, size, preset: &[], fields: &[] }
}

/// `CUdevprop`, which attributes replaced.
pub static DEVPROP: Layout = opaque("CUdevprop", 64);

/// `CUexecAffinityParam`.
pub static EXEC_AFFINITY: Layout = opaque("CUexecAffinityParam", 16);

/// `CUuuid` of a fabric, which is no GPU's.
pub static FABRIC_UUID: Layout = opaque("CUuuid", 16);

/// `CUdevResource` and `cudaDevResource`: 144 bytes in 13.5.
pub static DEV_RESOURCE: Layout = opaque("CUdevResource", 256);

/// `CUgreenCtx`, beside a context that is bound.
pub static GREEN_CONTEXT: Layout = opaque("CUgreenCtx", 8);

/// `cudaFuncAttributes`: 56 bytes in 11.8, 144 in 12.9 and later.
pub static FUNC_ATTRIBUTES: Layout = opaque("cudaFuncAttributes", 256);

/// `cudaLaunchAttributeValue` and `CUlaunchAttributeValue`.
pub static ATTRIBUTE_VALUE: Layout = opaque("cudaLaunchAttributeValue", 64);

/// `cudaChannelFormatDesc`.
pub static CHANNEL_FORMAT: Layout = opaque("cudaChannelFormatDesc", 24);

/// `cudaExtent`.
pub static EXTENT: Layout = opaque("cudaExtent", 24);

/// `CUDA_ARRAY_DESCRIPTOR` and `CUDA_ARRAY3D_DESCRIPTOR`: 24 and 40 bytes.
pub static ARRAY_DESCRIPTOR: Layout = opaque("CUDA_ARRAY_DESCRIPTOR", 64);

/// `cudaArrayMemoryRequirements` and its driver form.
pub static ARRAY_MEMORY_REQUIREMENTS: Layout = opaque("cudaArrayMemoryRequirements", 32);

/// `cudaArraySparseProperties` and its driver form.
pub static ARRAY_SPARSE_PROPERTIES: Layout = opaque("cudaArraySparseProperties", 48);

/// `cudaResourceDesc` and `CUDA_RESOURCE_DESC`: 64 to 144 bytes.
pub static RESOURCE_DESC: Layout = opaque("cudaResourceDesc", 256);

/// `cudaResourceViewDesc` and `CUDA_RESOURCE_VIEW_DESC`: 48 to 112 bytes.
pub static RESOURCE_VIEW_DESC: Layout = opaque("cudaResourceViewDesc", 128);

/// `cudaTextureDesc` and `CUDA_TEXTURE_DESC`: 68 to 104 bytes.
pub static TEXTURE_DESC: Layout = opaque("cudaTextureDesc", 128);

/// Any struct that describes a copy, from `CUDA_MEMCPY2D` to `CUDA_MEMCPY3D_PEER` of 200 bytes.
pub static COPY: Layout = opaque("CUDA_MEMCPY3D", 256);

/// `cudaMemcpyAttributes` and `CUmemcpyAttributes`: 24 bytes.
pub static COPY_ATTRIBUTES: Layout = opaque("cudaMemcpyAttributes", 64);

/// `cudaMemLocation`, one for each part of a range; rows ask for one.
pub static LOCATIONS: Layout = opaque("cudaMemLocation", 64);

/// `CUmemAllocationProp`, read back: 32 bytes.
pub static ALLOCATION_PROPERTIES: Layout = opaque("CUmemAllocationProp", 64);

/// A file descriptor, or a `CUmemFabricHandle`, the largest of what can be shared.
pub static SHAREABLE_HANDLE: Layout = opaque("CUmemFabricHandle", 64);

/// `cudaMemPoolPtrExportData` and its driver form.
pub static POOL_POINTER: Layout = opaque("cudaMemPoolPtrExportData", 64);

/// A `size_t` until 12.9, and since 13.0 a `cudaGraphEdgeData` of 8 bytes.
pub static EDGES_OR_COUNT: Layout = opaque("cudaGraphEdgeData", 64);

/// `cudaGraphInstantiateParams` and its driver form: 32 bytes.
pub static INSTANTIATE_PARAMS: Layout = opaque("cudaGraphInstantiateParams", 64);

/// `cudaGraphExecUpdateResultInfo`, 24 bytes, or the node that was written before it existed.
pub static UPDATE_RESULT: Layout = opaque("cudaGraphExecUpdateResultInfo", 64);

/// The parameters of any kind of node; `cudaGraphNodeParams`, 256 bytes, is the largest.
pub static NODE_PARAMS: Layout = opaque("cudaGraphNodeParams", 512);

/// The text of the log of errors, at most 25600 bytes by the header.
pub static LOG_TEXT: Layout = opaque("char[25600]", 25600);

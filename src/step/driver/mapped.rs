//! Memory mapped by hand, and multicast objects: what is known of them, and who may have them.

use super::call;
use crate::step::layout::opaque::{ALLOCATION_PROPERTIES, SHAREABLE_HANDLE};
use crate::step::layout::{LOCATION, MULTICAST_PROP};
use crate::step::{Kind, Output, StepKind, bytes, fixed, handle, int, or, out, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuMemGetAccess",
        "Reads whether a device may use mapped memory.",
        &[out("access", Output::U64), param("device", Kind::In(&LOCATION)), handle("pointer", "pointer")],
    ),
    call(
        "cuMemGetAllocationPropertiesFromHandle",
        "Reads how an allocation was made.",
        &[out("properties", Output::Struct(&ALLOCATION_PROPERTIES)), handle("allocation", "allocation")],
    ),
    call(
        "cuMemRetainAllocationHandle",
        "Finds the allocation behind a mapped address.",
        &[out("allocation", Output::Handle("allocation")), handle("pointer", "pointer")],
    ),
    call(
        "cuMemExportToShareableHandle",
        "Makes an allocation known to other processes, as a file.",
        &[
            out("handle", Output::Struct(&SHAREABLE_HANDLE)),
            handle("allocation", "allocation"),
            fixed("type", 1),
            fixed("flags", 0),
        ],
    ),
    call(
        "cuMemGetHandleForAddressRange",
        "Makes a range known to other drivers, as a file.",
        &[
            out("handle", Output::Struct(&SHAREABLE_HANDLE)),
            handle("pointer", "pointer"),
            bytes("bytes"),
            fixed("type", 1),
            fixed("flags", 0),
        ],
    ),
    call(
        "cuMemMapArrayAsync",
        "Maps parts of sparse arrays, here none.",
        &[fixed("maps", 0), fixed("count", 0), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMulticastGetGranularity",
        "Reads the granularity of a multicast object for so many GPUs (12.1 and later).",
        &[out("granularity", Output::U64), param("gpus", Kind::In(&MULTICAST_PROP)), fixed("option", 0)],
    ),
    call(
        "cuMulticastCreate",
        "Creates a multicast object for so many GPUs (12.1 and later).",
        &[out("multicast", Output::Handle("multicast")), param("gpus", Kind::In(&MULTICAST_PROP))],
    ),
    call(
        "cuMulticastAddDevice",
        "Adds a GPU to a multicast object.",
        &[handle("multicast", "multicast"), int("device")],
    ),
    call(
        "cuMulticastBindMem",
        "Puts an allocation behind a multicast object.",
        &[
            handle("multicast", "multicast"),
            fixed("offset", 0),
            handle("allocation", "allocation"),
            fixed("allocation_offset", 0),
            bytes("bytes"),
            fixed("flags", 0),
        ],
    ),
    call(
        "cuMulticastBindMem_v2",
        "Puts an allocation behind a multicast object, on a GPU.",
        &[
            handle("multicast", "multicast"),
            int("device"),
            fixed("offset", 0),
            handle("allocation", "allocation"),
            fixed("allocation_offset", 0),
            bytes("bytes"),
            fixed("flags", 0),
        ],
    ),
    call(
        "cuMulticastBindAddr",
        "Puts mapped memory behind a multicast object.",
        &[
            handle("multicast", "multicast"),
            fixed("offset", 0),
            handle("pointer", "pointer"),
            bytes("bytes"),
            fixed("flags", 0),
        ],
    ),
    call(
        "cuMulticastBindAddr_v2",
        "Puts mapped memory behind a multicast object, on a GPU.",
        &[
            handle("multicast", "multicast"),
            int("device"),
            fixed("offset", 0),
            handle("pointer", "pointer"),
            bytes("bytes"),
            fixed("flags", 0),
        ],
    ),
    call(
        "cuMulticastUnbind",
        "Takes memory from behind a multicast object.",
        &[handle("multicast", "multicast"), int("device"), fixed("offset", 0), bytes("bytes")],
    ),
];

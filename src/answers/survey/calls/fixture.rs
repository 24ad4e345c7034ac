//! Rows for tests of surveys and of their pages.

use super::CallRow;
use crate::survey::RowAttempts;

/// Returns a measured row of `cudaSetDevice`.
pub(crate) fn row(version: &str, freezes: bool, context: bool) -> CallRow {
    CallRow {
        call: "cudaSetDevice".into(),
        library: "libcudart".into(),
        libcudart_version: Some(version.into()),
        before: Vec::new(),
        visible_gpus: 1,
        reads_mask: Some(freezes),
        context_on: Some(if context { vec![0] } else { Vec::new() }),
        device_used_bytes: Some(vec![0]),
        status: Some("cudaSuccess".into()),
        elapsed_ns: Some(1),
        standing: RowAttempts {
            attempts: 3,
            ..RowAttempts::default()
        },
        seen: Vec::new(),
    }
}

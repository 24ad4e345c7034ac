//! The environment variables that the driver reads once, at `cuInit`.

use crate::c;
use crate::model::status::*;

/// The variables as they were at `cuInit`; `None` for one that was not set.
#[derive(Default)]
pub struct DriverEnvironment {
    pub mask: Option<Vec<u8>>,
    pub order: Option<Vec<u8>>,
    pub loading: Option<Vec<u8>>,
    pub connections: Option<Vec<u8>>,
    pub no_ptx_jit: Option<Vec<u8>>,
    pub no_jit: Option<Vec<u8>>,
}

impl DriverEnvironment {
    /// Reads them.
    pub fn read() -> Self {
        Self {
            mask: c::env(c"CUDA_VISIBLE_DEVICES"),
            order: c::env(c"CUDA_DEVICE_ORDER"),
            loading: c::env(c"CUDA_MODULE_LOADING"),
            connections: c::env(c"CUDA_DEVICE_MAX_CONNECTIONS"),
            no_ptx_jit: c::env(c"CUDA_DISABLE_PTX_JIT"),
            no_jit: c::env(c"CUDA_DISABLE_JIT"),
        }
    }

    /// Rejects the compilation of PTX text if a variable forbids it: the driver's answer depends on its cache.
    pub fn may_compile(&self) -> Outcome {
        let switches = [&self.no_ptx_jit, &self.no_jit];
        if switches
            .into_iter()
            .all(|switch| matches!(switch.as_deref(), None | Some(b"0" | b"")))
        {
            Ok(())
        } else {
            Err(SIM_NOT_MODELLED)
        }
    }

    /// Returns `true` if `CUDA_MODULE_LOADING` was `EAGER` (process/env-module-loading).
    pub fn loads_eagerly(&self) -> Outcome<bool> {
        match self.loading.as_deref() {
            None | Some(b"LAZY" | b"DEFAULT" | b"") => Ok(false),
            Some(b"EAGER") => Ok(true),
            Some(_) => Err(SIM_NOT_MODELLED),
        }
    }
}

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
    pub no_cache: Option<Vec<u8>>,
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
            no_cache: c::env(c"CUDA_CACHE_DISABLE"),
        }
    }

    /// Whether PTX text may be compiled. Two variables forbid it (process/env-disable-ptx-jit, and the survey of
    /// variables); which one counts where they differ was never measured.
    pub fn may_compile(&self) -> Outcome {
        let switch = match (self.no_ptx_jit.as_deref(), self.no_jit.as_deref()) {
            (Some(one), Some(other)) if one != other => return Err(SIM_NOT_MODELLED),
            (one, other) => one.or(other),
        };
        match switch {
            None | Some(b"0" | b"") => Ok(()),
            // What the compute cache has is not modelled.
            Some(b"1") if self.no_cache.as_deref() == Some(b"1") => Err(JIT_COMPILATION_DISABLED),
            Some(_) => Err(SIM_NOT_MODELLED),
        }
    }

    /// Whether `CUDA_MODULE_LOADING` was `EAGER` (process/env-module-loading).
    pub fn loads_eagerly(&self) -> Outcome<bool> {
        match self.loading.as_deref() {
            None | Some(b"LAZY" | b"DEFAULT" | b"") => Ok(false),
            Some(b"EAGER") => Ok(true),
            Some(_) => Err(SIM_NOT_MODELLED),
        }
    }
}

//! The state machine of a device's primary context: who retains it, and whether it exists.

use crate::model::status::{INVALID_CONTEXT, Outcome};

/// Counts and flags of one primary context. The caller allocates and frees its memory, by the results.
#[derive(Default, Clone, Debug)]
pub struct Primary {
    pub retains: u32,
    pub active: bool,
    pub flags: u32,
    /// `true` if the runtime holds its own retain, taken at its first use of the device.
    pub runtime_retained: bool,
}

impl Primary {
    /// Adds a user. The caller has created the context if [`Self::active`] was false.
    pub fn retained(&mut self) {
        self.retains += 1;
        self.active = true;
    }

    /// Removes a user. Returns `true` if that was the last one and the context must be destroyed.
    pub fn release(&mut self) -> Outcome<bool> {
        self.retains = self.retains.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        if self.retains > 0 {
            return Ok(false);
        }
        self.runtime_retained = false;
        Ok(std::mem::take(&mut self.active))
    }

    /// Destroys the context although it has users, whose retains stay (context/release-after-reset-is-lost); `true` if
    /// there was one.
    pub fn reset(&mut self) -> bool {
        self.runtime_retained = false;
        std::mem::take(&mut self.active)
    }

    /// Returns `true` if the runtime must retain before it can use the context.
    pub fn runtime_must_retain(&self) -> bool {
        !self.runtime_retained || !self.active
    }
}

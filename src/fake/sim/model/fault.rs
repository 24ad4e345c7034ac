//! A kernel that failed: from then on the entire process is unusable, on every GPU and in every context
//! (fault/other-gpu-of-the-process, fault/other-context-on-the-gpu). Other processes do not notice
//! (fault/other-process-on-the-gpu).

/// An error on the device, and whether the host knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    pub code: u32,
    pub device: usize,
    /// The host has waited for the device, and the wait reported the fault. Between the launch and that wait, it
    /// depends on timing which calls report it.
    pub seen: bool,
}

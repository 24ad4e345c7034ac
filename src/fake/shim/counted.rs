// The size of the memory with the counts of a process, for the library that counts and for the tracer that reads it.

/// More devices than a process can see.
pub const DEVICES: usize = 64;

/// Number of lanes: threads have their own ones, and all further threads share the last one. A count that no other
/// thread writes needs no lock, which would take longer than all else that a wrapper does.
pub const LANES: usize = 32;

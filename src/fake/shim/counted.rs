// The size of the memory with the counts of a process, for the library that counts and for the tracer that reads it.

/// More devices than a process can see.
pub const DEVICES: usize = 64;

/// Threads that count for themselves; all others share the last lane. A count that no other thread
/// writes needs no lock, which would take longer than all else that a wrapper does.
pub const LANES: usize = 32;

//! The owner of a file, in directories that other users of the host can write to.

use std::fs::{Metadata, symlink_metadata};
use std::os::unix::fs::MetadataExt as _;

/// Returns `true` if a file or directory belongs to a user other than root and the user who runs the program.
pub fn is_anothers(data: &Metadata) -> bool {
    // The owner of `/` can replace everything. In a user namespace this is neither root nor this user.
    let root = symlink_metadata("/").map_or(0, |data| data.uid());
    ![0, root, rustix::process::geteuid().as_raw()].contains(&data.uid())
}

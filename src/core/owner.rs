//! Who owns a file, where another user of the host may have put it.

use std::fs::{Metadata, symlink_metadata};
use std::os::unix::fs::MetadataExt as _;

/// Whether a file or folder belongs to a user who is neither root nor the one who runs the program.
pub fn is_anothers(data: &Metadata) -> bool {
    // The owner of `/` can replace everything. In a user namespace this is neither root nor this user.
    let root = symlink_metadata("/").map_or(0, |data| data.uid());
    ![0, root, rustix::process::geteuid().as_raw()].contains(&data.uid())
}

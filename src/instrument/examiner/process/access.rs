//! The files that a process finds in its own file system, and those that it may not open.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cuda_pitfalls_core::examination::FileTry;

use super::super::attempts;
use super::super::place::{self, status_field};
use super::real_id;

/// Returns the device files of this machine's GPUs that the process of this user cannot open.
pub(super) fn list_closed_files(folder: &Path, uid: Option<u32>, status: &str) -> Vec<FileTry> {
    let Some(uid) = uid else { return Vec::new() };
    let mut groups: Vec<u32> = real_id(status, "Gid").into_iter().collect();
    let more = status_field(status, "Groups").unwrap_or_default();
    groups.extend(more.split_whitespace().flat_map(str::parse::<u32>));
    let mut files = vec!["/dev/nvidiactl".to_owned(), "/dev/nvidia-uvm".to_owned()];
    for gpu in place::gpus() {
        files.push(format!("/dev/nvidia{}", gpu.device_minor));
    }
    let mut closed = Vec::new();
    for file in files {
        closed.extend(closed_file(folder, &file, uid, &groups));
    }
    closed
}

/// Returns a file as this user sees it in the file system of the process, if it cannot be opened there. A denial by a
/// device cgroup cannot be seen from outside.
fn closed_file(folder: &Path, file: &str, uid: u32, groups: &[u32]) -> Option<FileTry> {
    let path = folder.join("root").join(file.trim_start_matches('/'));
    let found = attempts::about(file, &path, None);
    let error = match (found.mode, found.owner) {
        (Some(mode), Some((owner, group))) => {
            let shift = if owner == uid {
                6
            } else if groups.contains(&group) {
                3
            } else {
                0
            };
            let may = uid == 0 || (mode >> shift) & 0o6 == 0o6;
            (!may).then_some("EACCES")
        }
        // A user who may not look at its root cannot know this.
        _ => fs::symlink_metadata(folder.join("root/dev"))
            .is_ok()
            .then_some("ENOENT"),
    };
    error.map(|error| FileTry {
        error: Some(error.to_string()),
        ..found
    })
}

/// Returns the directory in which the process of this user looks for MPS, if it has a control pipe.
pub(super) fn mps_folder(
    folder: &Path,
    variables: Option<&BTreeMap<String, String>>,
    uid: Option<u32>,
) -> Option<String> {
    let named = variables?
        .get("CUDA_MPS_PIPE_DIRECTORY")
        .map_or("/tmp/nvidia-mps", String::as_str);
    let path = folder.join("root").join(named.trim_start_matches('/'));
    place::has_control_pipe(&path, uid?).then(|| named.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, lchown};

    use super::*;

    #[test]
    fn a_folder_of_mps_that_another_user_made_is_none_of_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let pipes = folder.path().join("root/tmp/nvidia-mps");
        fs::create_dir_all(&pipes).unwrap();
        fs::write(pipes.join("control"), "").unwrap();
        if rustix::process::geteuid().is_root() {
            [&pipes, &pipes.join("control")]
                .into_iter()
                .for_each(|path| lchown(path, Some(1), None).unwrap());
        }
        let user = fs::metadata(&pipes).unwrap().uid();
        let found = |uid| mps_folder(folder.path(), Some(&BTreeMap::new()), uid);
        assert_eq!(found(Some(user)).as_deref(), Some("/tmp/nvidia-mps"));
        assert_eq!(found(Some(user + 1)), None);
        assert_eq!(found(None), None);
    }
}

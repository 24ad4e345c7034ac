//! The files that a process finds in its own file system, and those that it may not open.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use cuda_pitfalls_core::examination::FileTry;

use rustix::fs::ResolveFlags;
use rustix::io::Errno;

use super::super::place::{self, status_field};
use super::mapping::{file_in_root, look_up, mount_type, stat_file};
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
    let Ok(devices) = file_in_root(folder, "/dev") else {
        return closed;
    };
    // In memory, looking for a name asks no file server.
    let mount = mount_type(folder, &devices).unwrap_or_default();
    let how = match mount.as_str() {
        "tmpfs" | "devtmpfs" => ResolveFlags::empty(),
        _ => ResolveFlags::CACHED,
    };
    for file in files {
        let name = file.trim_start_matches("/dev/");
        closed.extend(closed_file(
            &file,
            look_up(&devices, name, how),
            uid,
            &groups,
        ));
    }
    closed
}

/// Returns a file of the process as its user sees it, if it cannot be opened there. A denial by a device cgroup cannot
/// be seen from outside.
fn closed_file(
    file: &str,
    found: rustix::io::Result<OwnedFd>,
    uid: u32,
    groups: &[u32],
) -> Option<FileTry> {
    let mut tried = FileTry {
        file: file.to_owned(),
        error: Some("ENOENT".to_owned()),
        mode: None,
        owner: None,
        device: None,
    };
    let found = match found {
        Ok(found) => stat_file(&found).ok()?,
        Err(Errno::NOENT) => return Some(tried),
        Err(_) => return None,
    };
    let shift = if found.stx_uid == uid {
        6
    } else if groups.contains(&found.stx_gid) {
        3
    } else {
        0
    };
    if uid == 0 || (found.stx_mode >> shift) & 0o6 == 0o6 {
        return None;
    }
    tried.error = Some("EACCES".to_owned());
    tried.mode = Some(u32::from(found.stx_mode) & 0o7777);
    tried.owner = Some((found.stx_uid, found.stx_gid));
    tried.device = Some((found.stx_rdev_major, found.stx_rdev_minor));
    Some(tried)
}

/// Returns the directory in which the process of this user looks for MPS, if it has a control pipe that the user or root
/// made, as in [`place::has_control_pipe`].
pub(super) fn mps_folder(
    folder: &Path,
    variables: Option<&BTreeMap<String, String>>,
    uid: Option<u32>,
) -> Option<String> {
    let named = variables?
        .get("CUDA_MPS_PIPE_DIRECTORY")
        .map_or("/tmp/nvidia-mps", String::as_str);
    for path in [named.to_owned(), format!("{named}/control")] {
        let found = stat_file(&file_in_root(folder, &path).ok()?).ok()?;
        if ![0, uid?].contains(&found.stx_uid) {
            return None;
        }
    }
    Some(named.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};

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

    #[test]
    fn device_file_that_cannot_be_looked_up_is_not_closed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("root/dev")).unwrap();
        let file = folder.path().join("root/dev/nvidia0");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let user = fs::metadata(&file).unwrap().uid();
        let devices = file_in_root(folder.path(), "/dev").unwrap();
        let [own, others] = [(); 2].map(|()| look_up(&devices, "nvidia0", ResolveFlags::CACHED));
        for (found, uid, expected) in [
            (own, user, None),
            (others, user + 1, Some("EACCES")),
            (Err(Errno::NOENT), user, Some("ENOENT")),
            (Err(Errno::AGAIN), user + 1, None),
        ] {
            let closed = closed_file("/dev/nvidia0", found, uid, &[]);
            let error = closed.and_then(|closed| closed.error);
            assert_eq!(error.as_deref(), expected, "{uid}");
        }
    }
}

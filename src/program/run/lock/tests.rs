use super::*;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

fn locking(folder: &Path, wait: Duration) -> Locking {
    Locking {
        folder: folder.join("locks"),
        own: None,
        wait,
    }
}

fn taken(locking: &Locking, uuids: &[&str]) -> (Result<Locks, RunError>, Vec<String>) {
    let mut said = Vec::new();
    let uuids: Vec<String> = uuids.iter().map(|uuid| (*uuid).to_string()).collect();
    let locks = take(locking, &uuids, &mut Interrupt::none(), &mut |words| {
        said.push(words.to_string())
    });
    (locks, said)
}

#[test]
fn a_gpu_has_one_holder_and_others_are_told_who() {
    let folder = tempfile::tempdir().unwrap();
    let at_once = locking(folder.path(), Duration::ZERO);
    let first = taken(&at_once, &["GPU-b", "GPU-a"]).0.unwrap();
    assert!(first.notes.is_empty());
    // Another GPU is free.
    assert!(taken(&at_once, &["GPU-c"]).0.is_ok());
    match taken(&at_once, &["GPU-a"]).0 {
        Err(RunError::Busy(words)) => {
            assert!(
                words.contains(&format!("process {}", std::process::id())),
                "{words}"
            );
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    assert!(taken(&at_once, &["GPU-a", "GPU-b"]).0.is_ok());
}

#[test]
fn who_waits_gets_it_when_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let patient = locking(folder.path(), Duration::from_secs(600));
    let mut first = taken(&patient, &["GPU-a"]).0.ok();
    let mut said = Vec::new();
    // The other run releases its lock as soon as this one reports that it waits.
    let second = take(
        &patient,
        &["GPU-a".to_owned()],
        &mut Interrupt::none(),
        &mut |words| {
            said.push(words.to_owned());
            drop(first.take());
        },
    );
    assert!(second.is_ok());
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("waiting for the run of process"),
        "{said:?}"
    );
}

#[test]
fn everybody_can_open_the_folder_and_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at_once = locking(folder.path(), Duration::ZERO);
    drop(taken(&at_once, &["GPU-a"]).0.unwrap());
    let locks = folder.path().join("locks");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&locks), 0o1777);
    assert_eq!(mode(&locks.join("GPU-a.lock")), 0o666);
    let target = folder.path().join("target");
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, locks.join("GPU-b.lock")).unwrap();
    let (linked, _) = taken(&at_once, &["GPU-b"]);
    assert_eq!(linked.unwrap().notes.len(), 1);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "precious");
    // No locks, if the user wants none.
}

#[test]
fn what_a_lock_file_says_is_escaped_and_short() {
    let folder = tempfile::tempdir().unwrap();
    let at_once = locking(folder.path(), Duration::ZERO);
    let first = taken(&at_once, &["GPU-a"]).0.unwrap();
    std::fs::write(
        folder.path().join("locks/GPU-a.lock"),
        format!("\x1b[31m{}", "x".repeat(5000)),
    )
    .unwrap();
    match taken(&at_once, &["GPU-a"]).0 {
        Err(RunError::Busy(words)) => {
            assert!(words.len() < 500 && !words.contains('\x1b'), "{words}")
        }
        other => panic!("{other:?}"),
    }
    drop(first);
}

#[test]
fn private_lock_folder_is_not_blocked_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let shared = locking(folder.path(), Duration::ZERO);
    let root = Locking {
        own: Some(folder.path().join("own")),
        ..shared.clone()
    };
    let held = taken(&shared, &["GPU-a"]).0.unwrap();
    let (first, _) = taken(&root, &["GPU-a", "GPU-b"]);
    let first = first.unwrap();
    let [note] = first.notes.as_slice() else {
        panic!("{:?}", first.notes)
    };
    assert!(
        note.starts_with("GPU-a is in use by the run of process")
            && note.contains("continuing anyway"),
        "{note}"
    );
    let mode = |name: &str| {
        std::fs::metadata(folder.path().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!((mode("own"), mode("own/GPU-a.lock")), (0o700, 0o600));
    // Root waits for its own other run, and locks others out where it can.
    assert!(matches!(taken(&root, &["GPU-a"]).0, Err(RunError::Busy(_))));
    assert!(matches!(
        taken(&shared, &["GPU-b"]).0,
        Err(RunError::Busy(_))
    ));
    drop((held, first));
    assert!(taken(&root, &["GPU-a"]).0.unwrap().notes.is_empty());
}

#[test]
fn a_folder_that_others_could_change_holds_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let at_once = locking(folder.path(), Duration::ZERO);
    let locks = folder.path().join("locks");
    let note = || {
        let locks = taken(&at_once, &["GPU-a"]).0.unwrap();
        assert!(locks._files.is_empty(), "{:?}", locks.notes);
        locks.notes.concat()
    };
    // A link, even to a suitable folder.
    let target = folder.path().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::set_permissions(&target, Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::symlink(&target, &locks).unwrap();
    assert!(note().contains("or not a directory"), "{}", note());
    assert_eq!(
        std::fs::read_dir(&target).unwrap().count(),
        0,
        "the link was followed"
    );
    std::fs::remove_file(&locks).unwrap();
    // A folder without the sticky bit.
    std::fs::rename(&target, &locks).unwrap();
    std::fs::set_permissions(&locks, Permissions::from_mode(0o777)).unwrap();
    assert!(note().contains("no sticky bit"), "{}", note());
    std::fs::set_permissions(&locks, Permissions::from_mode(0o1777)).unwrap();
    // A second name of one of our files.
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::fs::hard_link(&precious, locks.join("GPU-a.lock")).unwrap();
    assert!(note().contains("with one name"), "{}", note());
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    std::fs::remove_file(locks.join("GPU-a.lock")).unwrap();
    // A file of another user.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&locks, Some(65534), None).unwrap();
        assert!(note().contains("it belongs to user 65534"), "{}", note());
        std::os::unix::fs::chown(&locks, Some(0), None).unwrap();
    } else {
        println!("a folder of another user is not tried: only root can make one");
    }
    assert!(taken(&at_once, &["GPU-a"]).0.unwrap().notes.is_empty());
}

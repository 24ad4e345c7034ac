//! The environment of the processes of a run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::traced;

/// Returns the environment of every child, built from nothing: an injected library or a profiler's setting in the
/// caller's environment must not reach a worker unnoticed.
pub(super) fn environment(
    links: Option<&Path>,
    home: &Path,
    extra: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let mut search = OsString::new();
    if let Some(links) = links {
        search.push(links);
    }
    // The inherited folders come after ours: libcuda loads its PTX compiler by name.
    if let Some(inherited) = std::env::var_os("LD_LIBRARY_PATH").filter(|value| !value.is_empty()) {
        if !search.is_empty() {
            search.push(":");
        }
        search.push(inherited);
    }
    let mut environment = BTreeMap::from([
        (OsString::from("HOME"), home.as_os_str().to_os_string()),
        (OsString::from("TMPDIR"), home.as_os_str().to_os_string()),
        (
            OsString::from("PATH"),
            OsString::from("/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
        ),
        (OsString::from("LANG"), OsString::from("C.UTF-8")),
        (OsString::from("TZ"), OsString::from("UTC")),
    ]);
    if !search.is_empty() {
        environment.insert(OsString::from("LD_LIBRARY_PATH"), search);
    }
    if let Some(folder) = traced::folder() {
        environment.insert(OsString::from(traced::VARIABLE), folder.into_os_string());
    }
    for (name, value) in extra {
        environment.insert(OsString::from(name), OsString::from(value));
    }
    environment
}

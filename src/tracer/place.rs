//! The folder of a trace: the two libraries, each with what this trace wrote into its copy.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::folder::Folder;
use crate::forwarding::{self, ADDRESS, can_run, filled, write};
use crate::traced::{CUDA_FOLDER, PRELOAD_NAME, VARIABLE};

/// The hook, as built.
const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_preload.so"));

const SOCKET_NAME: &str = "socket";

/// The longest path of a socket, without its NUL.
const LONGEST_SOCKET: usize = 107;

/// How many processes can wait to be looked at; the system may allow fewer.
const WAITING: i32 = 4096;

/// The folder.
pub(super) struct Place {
    folder: Folder,
    /// The forwarding libcuda's folder, to be first in `LD_LIBRARY_PATH`; none without a libcuda.
    pub(super) search: Option<PathBuf>,
    /// The hook.
    pub(super) hook: PathBuf,
    /// Where messages come in.
    pub(super) socket: PathBuf,
    /// By which messages are known.
    pub(super) token: String,
}

impl Place {
    /// Lays the folder out for the libcuda at a path.
    ///
    /// # Errors
    /// What the system refused, in words.
    pub(super) fn lay_out(libcuda: Option<&Path>) -> Result<Place, String> {
        let folder = Folder::create_open().map_err(|error| format!("no private folder could be made: {error}"))?;
        let path = folder.path().to_path_buf();
        if path.as_os_str().as_bytes().contains(&b' ') {
            return Err(format!("TMPDIR: the name of {} has a space, which LD_PRELOAD cannot carry", path.display()));
        }
        can_run(&path)?;
        let socket = path.join(SOCKET_NAME);
        if socket.as_os_str().len() > LONGEST_SOCKET {
            return Err(format!("TMPDIR: the path {} is too long for a socket", socket.display()));
        }
        let token = random_token();
        let failed = |error: io::Error| format!("the libraries of the trace could not be written: {error}");
        let address = [socket.as_os_str().as_bytes(), b"\0", token.as_bytes()].concat();
        let hook = path.join(PRELOAD_NAME);
        write(&hook, &filled(PRELOAD.to_vec(), ADDRESS, &address)?).map_err(failed)?;
        let search = libcuda.map(|libcuda| -> Result<PathBuf, String> {
            let folder = path.join(CUDA_FOLDER);
            forwarding::lay_out(&folder, libcuda, &address)?;
            Ok(folder)
        });
        Ok(Place { search: search.transpose()?, hook, socket, token, folder })
    }

    /// Listens where messages come in. Other users may connect: a traced program may change its user.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        let listener = UnixListener::bind(&self.socket)?;
        // Again, for more than the standard library's number of waiting processes.
        rustix::net::listen(&listener, WAITING)?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(&self.socket, Permissions::from_mode(0o666))?;
        Ok(listener)
    }

    /// What changes in the program's environment: `simulated` is the folder of the simulated machine's
    /// libraries, which the program has to find too.
    pub(super) fn environment(&self, simulated: Option<&Path>, preload: bool) -> Vec<(OsString, OsString)> {
        let before = |name: &str, parts: &[&Path], between: &str| {
            let mut value = OsString::new();
            let inherited = std::env::var_os(name).filter(|value| !value.is_empty());
            for part in parts.iter().map(|part| part.as_os_str()).chain(inherited.as_deref()) {
                if !value.is_empty() {
                    value.push(between);
                }
                value.push(part);
            }
            (OsString::from(name), value)
        };
        let mut all = Vec::new();
        let search: Vec<&Path> = self.search.as_deref().into_iter().chain(simulated).collect();
        if !search.is_empty() {
            all.push(before("LD_LIBRARY_PATH", &search, ":"));
        }
        if preload {
            all.push(before("LD_PRELOAD", &[&self.hook], ":"));
        }
        if let Some(earlier) = std::env::var_os("CUDA_INJECTION64_PATH").filter(|value| !value.is_empty()) {
            all.push((OsString::from("CUDA_PITFALLS_EARLIER_INJECTION64_PATH"), earlier));
        }
        all.push((OsString::from("CUDA_INJECTION64_PATH"), self.hook.clone().into_os_string()));
        all.push((OsString::from(VARIABLE), self.path().as_os_str().to_os_string()));
        all
    }

    /// Its path: frames of libraries below it are ours.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A token that cannot be guessed.
fn random_token() -> String {
    // The hasher's keys are from the system's source of randomness.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

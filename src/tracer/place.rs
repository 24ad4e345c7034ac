//! The folder of a trace: the two libraries, each with what this trace wrote into its copy.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, FileHeader, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSymbol, ReadCache};

use crate::folder::Folder;
use crate::traced::{CUDA_FOLDER, CUDA_NAME, PRELOAD_NAME, VARIABLE};

/// The forwarding libcuda and the hook, as built.
const CUDA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_cuda.so"));
const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcuda_pitfalls_preload.so"));

/// Functions that are wrapped only where all calls are counted (shim/calls.txt).
const QUESTIONS: &[&str] = &include!(concat!(env!("OUT_DIR"), "/questions.rs"));

/// A second name for programs that open libcuda by it, where the real one has it too.
const CUDA_SHORT: &str = "libcuda.so";
const SOCKET_NAME: &str = "socket";

/// Marks of the places in the libraries (shim/src/post.rs, shim/src/original.rs, build.rs).
const ADDRESS: (&[u8], usize) = (b"cuda-pitfalls:address:", 512);
const LIBCUDA: (&[u8], usize) = (b"cuda-pitfalls:libcuda:", 1280);
const NEEDED: &[u8] = b"cuda-pitfalls:needed:";
/// What stands behind the path of libcuda where questions are counted too (shim/src/original.rs).
const ALL_CALLS: &[u8] = b"\0all calls";
/// The longest path of a libcuda: what the mark of the needed library has room for.
const LONGEST_PATH: usize = 1200;
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
    /// Lays the folder out for the libcuda at a path. `all_calls` is whether questions are counted, too, that
    /// frameworks ask before each small operation.
    ///
    /// # Errors
    /// What the system refused, in words.
    pub(super) fn lay_out(libcuda: Option<&Path>, all_calls: bool) -> Result<Place, String> {
        let folder = Folder::create_open().map_err(|error| format!("no private folder could be made: {error}"))?;
        let path = folder.path().to_path_buf();
        if path.as_os_str().as_bytes().contains(&b' ') {
            return Err(format!("TMPDIR: the name of {} has a space, which LD_PRELOAD cannot carry", path.display()));
        }
        if is_noexec(&path) {
            let path = path.display();
            return Err(format!("{path} is on a file system that runs no programs (noexec): set TMPDIR to another"));
        }
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
            let real = libcuda.as_os_str().as_bytes();
            if real.len() >= LONGEST_PATH {
                return Err(format!("the path of libcuda is too long: {}", libcuda.display()));
            }
            let mut exported = exports(libcuda).map_err(|why| format!("cannot read {}: {why}", libcuda.display()))?;
            if !all_calls {
                exported.retain(|name| !QUESTIONS.contains(&name.as_str()));
            }
            let mut library = filled(CUDA.to_vec(), ADDRESS, &address)?;
            library = filled(library, LIBCUDA, &[real, if all_calls { ALL_CALLS } else { b"" }].concat())?;
            fill_needed(&mut library, real)?;
            leave_out(&mut library, &exported)?;
            let folder = path.join(CUDA_FOLDER);
            fs::create_dir(&folder)
                .and_then(|()| fs::set_permissions(&folder, Permissions::from_mode(0o755)))
                .map_err(failed)?;
            write(&folder.join(CUDA_NAME), &library).map_err(failed)?;
            if libcuda.with_file_name(CUDA_SHORT).exists() {
                symlink(CUDA_NAME, folder.join(CUDA_SHORT)).map_err(failed)?;
            }
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

/// Writes a library that every user may open.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Whether nothing below a path can be run or mapped as code.
fn is_noexec(path: &Path) -> bool {
    // ST_NOEXEC of statvfs(3), which rustix does not name on every target.
    rustix::fs::statvfs(path).is_ok_and(|about| about.f_flag.bits() & 8 != 0)
}

/// The place of a mark.
fn find(library: &[u8], mark: &[u8]) -> Result<usize, String> {
    let at = library.windows(mark.len()).position(|window| window == mark);
    at.ok_or_else(|| format!("an embedded library has no `{}`", String::from_utf8_lossy(mark)))
}

/// Writes bytes behind a mark; the rest of its room stays zero.
fn filled(mut library: Vec<u8>, (mark, room): (&[u8], usize), bytes: &[u8]) -> Result<Vec<u8>, String> {
    let start = find(&library, mark)? + mark.len();
    if bytes.len() + mark.len() >= room {
        return Err(format!("`{}` is too long", String::from_utf8_lossy(bytes)));
    }
    let target = library.get_mut(start..start + bytes.len()).ok_or("an embedded library is too short")?;
    target.copy_from_slice(bytes);
    Ok(library)
}

/// Writes the path of the real libcuda in the place of the stand-in that the library needs.
fn fill_needed(library: &mut [u8], path: &[u8]) -> Result<(), String> {
    let at = find(library, NEEDED)?;
    let target = library.get_mut(at..=at + path.len()).ok_or("an embedded library is too short")?;
    let (text, end) = target.split_at_mut(path.len());
    text.copy_from_slice(path);
    end.fill(0);
    Ok(())
}

/// Makes symbols undefined that the real libcuda does not export: a program must not find more here
/// than there.
fn leave_out(library: &mut [u8], exported: &BTreeSet<String>) -> Result<(), String> {
    let mut places = Vec::new();
    {
        let bytes: &[u8] = library;
        let wrong = |error: object::Error| format!("an embedded library cannot be read: {error}");
        let header = object::elf::FileHeader64::<Endianness>::parse(bytes).map_err(wrong)?;
        let endian = header.endian().map_err(wrong)?;
        let sections = header.sections(endian, bytes).map_err(wrong)?;
        let table = sections.symbols(endian, bytes, object::elf::SHT_DYNSYM).map_err(wrong)?;
        let section = sections.section(table.section()).map_err(wrong)?;
        let offset = section.sh_offset(endian) as usize;
        for (index, symbol) in table.enumerate() {
            let name = table.symbol_name(endian, symbol).map_err(wrong)?;
            let name = String::from_utf8_lossy(name);
            if !symbol.is_undefined(endian) && name.starts_with("cu") && !exported.contains(name.as_ref()) {
                places.push(offset + index.0 * size_of::<object::elf::Sym64<Endianness>>());
            }
        }
    }
    for place in places {
        // Elf64_Sym: name (4), info (1), other (1), section index (2), value (8), size (8).
        let undefined = library.get_mut(place + 6..place + 24).ok_or("an embedded library is too short")?;
        undefined.fill(0);
    }
    Ok(())
}

/// The functions of CUDA that a library exports. Of the file only the tables of symbols are read.
fn exports(path: &Path) -> Result<BTreeSet<String>, String> {
    let cache = ReadCache::new(File::open(path).map_err(|error| error.to_string())?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).map_err(|error| error.to_string())?;
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    Ok(names.filter(|name| name.starts_with("cu")).collect())
}

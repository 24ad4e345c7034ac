//! The forwarding libcuda, prepared for a real libcuda: programs find it first under the same name. It counts the
//! driver calls of a process and, in a trace, reports some of them to the tracer.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use cuda_pitfalls_fake::{FORWARDING as CUDA, LACKING, QUESTIONS};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSymbol, ReadCache};

/// The name that programs use to open it.
pub const NAME: &str = "libcuda.so.1";
/// A second name that programs may use to open libcuda, if the real one has it too.
const SHORT: &str = "libcuda.so";

/// The prefix of the library's own functions, which no libcuda has.
const OWN: &str = "cuda_pitfalls_";

/// Marks in the embedded libraries after which values are filled in (src/fake/shim/cuda.rs, src/fake/shim/original.rs,
/// src/fake/shim/returned.rs, build.rs), and the space after each in bytes.
const ADDRESS: (&[u8], usize) = (b"cuda-pitfalls:address:", 512);
const LIBCUDA: (&[u8], usize) = (b"cuda-pitfalls:libcuda:", 1280);
const RETURNS: (&[u8], usize) = (b"cuda-pitfalls:returns:", 2048);
const NEEDED: &[u8] = b"cuda-pitfalls:needed:";
/// The words after the path of libcuda, each only if it is wanted (src/fake/shim/original.rs).
const ALL_CALLS: &[u8] = b"\0all calls";
const MEMORY: &[u8] = b"\0memory";
/// The longest path of a libcuda, in bytes: the room in the list of needed libraries.
const LONGEST_PATH: usize = 1200;

/// The functions of the forwarding libcuda in addition to passing calls on, counting them and reporting some of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardingOptions {
    /// `true` to count also the queries that frameworks make before each small operation.
    pub all_calls: bool,
    /// `true` to record the owner of the memory on each GPU.
    pub memory: bool,
}

/// The reason why the forwarding libcuda could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ForwardingError {
    /// The library could not be written.
    #[error("the forwarding libcuda could not be written: {0}")]
    Unwritable(#[from] io::Error),
    /// A built-in library cannot be parsed.
    #[error("an embedded library cannot be read: {0}")]
    Embedded(#[from] object::Error),
    /// The library cannot be generated. The text has the reason.
    #[error("{0}")]
    Impossible(String),
}

impl ForwardingError {
    fn too_short() -> ForwardingError {
        ForwardingError::Impossible("an embedded library is too short".to_owned())
    }
}

/// Creates a directory with the forwarding library for the libcuda at this path. `address` is the directory of a trace,
/// or empty. `returns` are calls that are not passed on, as `cuInit=999 cuMemAlloc_v2=2 *=3`, where `*` is every call
/// that the libcuda lacks; empty for none.
///
/// # Errors
/// Returns an error if a file cannot be written, or if the libcuda cannot be used.
pub fn lay_out(
    folder: &Path,
    libcuda: &Path,
    address: &[u8],
    options: ForwardingOptions,
    returns: &str,
) -> Result<(), ForwardingError> {
    can_run(folder.parent().unwrap_or(folder))?;
    let real = path_of(libcuda)?;
    let mut exported = library_exports(libcuda)?;
    exported.retain(|name| {
        (options.all_calls || !QUESTIONS.contains(&name.as_str()))
            && !LACKING.contains(&name.as_str())
    });
    let mut library = fill_mark(CUDA.to_vec(), ADDRESS, address)?;
    let all_calls = if options.all_calls { ALL_CALLS } else { b"" };
    let memory = if options.memory { MEMORY } else { b"" };
    library = fill_mark(library, LIBCUDA, &[real, all_calls, memory].concat())?;
    library = fill_mark(library, RETURNS, returns.as_bytes())?;
    fill_needed(&mut library, real)?;
    if !returns.split(' ').any(|one| one.starts_with("*=")) {
        leave_out(&mut library, &exported)?;
    }
    fs::create_dir(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(0o755)))?;
    write(&folder.join(NAME), &library)?;
    if libcuda.with_file_name(SHORT).exists() {
        symlink(NAME, folder.join(SHORT))?;
    }
    Ok(())
}

/// Checks that files in a directory can be executed or mapped as code.
///
/// # Errors
/// Returns an error if they cannot.
pub fn can_run(folder: &Path) -> Result<(), ForwardingError> {
    // The flag ST_NOEXEC of statvfs(3), which rustix does not define for every target.
    if rustix::fs::statvfs(folder).is_ok_and(|about| about.f_flag.bits() & 8 != 0) {
        let folder = folder.display();
        let why = format!(
            "{folder} is on a file system that is mounted noexec; set TMPDIR to a directory on another"
        );
        return Err(ForwardingError::Impossible(why));
    }
    Ok(())
}

/// Returns the bytes of a path, if they fit into the library.
fn path_of(library: &Path) -> Result<&[u8], ForwardingError> {
    let path = library.as_os_str().as_bytes();
    (path.len() < LONGEST_PATH).then_some(path).ok_or_else(|| {
        ForwardingError::Impossible(format!(
            "the path of the library is too long: {}",
            library.display()
        ))
    })
}

/// Writes a library that every user may open.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn find(library: &[u8], mark: &[u8]) -> Result<usize, ForwardingError> {
    memchr::memmem::find(library, mark).ok_or_else(|| {
        ForwardingError::Impossible(format!(
            "an embedded library has no `{}`",
            String::from_utf8_lossy(mark)
        ))
    })
}

/// Writes bytes after a mark. The rest of its room stays zero.
fn fill_mark(
    mut library: Vec<u8>,
    (mark, room): (&[u8], usize),
    bytes: &[u8],
) -> Result<Vec<u8>, ForwardingError> {
    let start = find(&library, mark)? + mark.len();
    if bytes.len() + mark.len() >= room {
        return Err(ForwardingError::Impossible(format!(
            "`{}` is too long",
            String::from_utf8_lossy(bytes)
        )));
    }
    let target = library
        .get_mut(start..start + bytes.len())
        .ok_or_else(ForwardingError::too_short)?;
    target.copy_from_slice(bytes);
    Ok(library)
}

/// Replaces the placeholder in the list of needed libraries by the path of the real libcuda.
fn fill_needed(library: &mut [u8], path: &[u8]) -> Result<(), ForwardingError> {
    let at = find(library, NEEDED)?;
    let target = library
        .get_mut(at..=at + path.len())
        .ok_or_else(ForwardingError::too_short)?;
    let (text, end) = target.split_at_mut(path.len());
    text.copy_from_slice(path);
    end.fill(0);
    Ok(())
}

/// Undefines symbols that the real libcuda does not export, so that a program finds the same functions in both.
#[doc(hidden)]
pub fn leave_out(library: &mut [u8], exported: &BTreeSet<String>) -> Result<(), ForwardingError> {
    let mut places = Vec::new();
    {
        let bytes: &[u8] = library;
        let header = object::elf::FileHeader64::<Endianness>::parse(bytes)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, bytes)?;
        let table = sections.symbols(endian, bytes, object::elf::SHT_DYNSYM)?;
        let section = sections.section(table.section())?;
        let offset = section.sh_offset(endian) as usize;
        for (index, symbol) in table.enumerate() {
            let name = table.symbol_name(endian, symbol)?;
            let name = String::from_utf8_lossy(name);
            let is_own = name.starts_with(OWN);
            if !symbol.is_undefined(endian)
                && name.starts_with("cu")
                && !is_own
                && !exported.contains(name.as_ref())
            {
                places.push(offset + index.0 * size_of::<object::elf::Sym64<Endianness>>());
            }
        }
    }
    for place in places {
        // The layout of Elf64_Sym: name (4), info (1), other (1), section index (2), value (8), size (8).
        let undefined = library
            .get_mut(place + 6..place + 24)
            .ok_or_else(ForwardingError::too_short)?;
        undefined.fill(0);
    }
    Ok(())
}

/// Returns the functions that a library exports. Only the symbol tables of the file are read, because libcuda has about
/// a hundred megabytes.
#[doc(hidden)]
pub fn library_exports(path: &Path) -> Result<BTreeSet<String>, ForwardingError> {
    let unreadable = |why: &dyn std::fmt::Display| {
        ForwardingError::Impossible(format!("cannot read {}: {why}", path.display()))
    };
    let cache = ReadCache::new(File::open(path).map_err(|error| unreadable(&error))?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).map_err(|error| unreadable(&error))?;
    let symbols = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition());
    Ok(symbols
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect())
}

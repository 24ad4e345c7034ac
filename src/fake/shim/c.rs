//! The C functions that both libraries need, declared by hand so that they build with only std.

use std::ffi::{CStr, c_char, c_int, c_void};

pub const RTLD_LAZY: c_int = 1;

const AF_UNIX: c_int = 1;
const SOCK_STREAM: c_int = 1;
const SOCK_CLOEXEC: c_int = 0o2000000;
const SOCK_NONBLOCK: c_int = 0o4000;
const MSG_NOSIGNAL: c_int = 0x4000;
const SOL_SOCKET: c_int = 1;
const SCM_RIGHTS: c_int = 1;
const POLLIN: i16 = 1;
const CLOCK_MONOTONIC: c_int = 1;
const EINTR: c_int = 4;
const EAGAIN: c_int = 11;
const O_READ_WRITE: c_int = 2;
const O_NOCTTY: c_int = 0o400;
const O_NONBLOCK: c_int = 0o4000;
const O_CLOEXEC: c_int = 0o2000000;

const EINVAL: c_int = 22;

#[cfg(target_arch = "x86_64")]
const SYS_GETTID: i64 = 186;
#[cfg(target_arch = "aarch64")]
const SYS_GETTID: i64 = 178;
#[cfg(target_arch = "x86_64")]
const SYS_RT_SIGPROCMASK: i64 = 14;
#[cfg(target_arch = "aarch64")]
const SYS_RT_SIGPROCMASK: i64 = 135;

/// The address of a named socket.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SockaddrUn {
    family: u16,
    path: [u8; 108],
}

impl SockaddrUn {
    /// Returns the address of the socket at a path; `None` if the path is too long.
    pub fn from_path(path: &[u8]) -> Option<SockaddrUn> {
        let mut address = SockaddrUn {
            family: AF_UNIX as u16,
            path: [0; 108],
        };
        address
            .path
            .get_mut(..path.len())
            .filter(|room| room.len() < 108)?
            .copy_from_slice(path);
        Some(address)
    }
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

#[repr(C)]
struct Iovec {
    base: *const c_void,
    length: usize,
}

#[repr(C)]
struct Msghdr {
    name: *mut c_void,
    name_length: u32,
    iov: *mut Iovec,
    iov_length: usize,
    control: *mut c_void,
    control_length: usize,
    flags: c_int,
}

/// A control message that passes one descriptor.
#[repr(C)]
struct PassFd {
    length: usize,
    level: c_int,
    kind: c_int,
    fd: c_int,
    padding: c_int,
}

unsafe extern "C" {
    pub static environ: *const *const c_char;
    pub fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn backtrace(frames: *mut *mut c_void, room: c_int) -> c_int;
    fn pthread_self() -> usize;
    pub fn syscall(number: i64, ...) -> i64;
    pub fn getpid() -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(fd: c_int, address: *const SockaddrUn, length: u32) -> c_int;
    fn sendmsg(fd: c_int, message: *const Msghdr, flags: c_int) -> isize;
    fn poll(fds: *mut PollFd, count: u64, milliseconds: c_int) -> c_int;
    pub fn close(fd: c_int) -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(fd: c_int, bytes: *mut c_void, length: usize) -> isize;
    fn __errno_location() -> *mut c_int;
    fn __cxa_atexit(
        handler: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *const c_void,
    ) -> c_int;
    /// A symbol whose address identifies this library.
    static __dso_handle: *const c_void;
}

/// Registers a function that is called when the program exits, or removes this library from the process.
pub fn at_exit(handler: extern "C" fn(*mut c_void)) {
    // SAFETY: the C library forgets the function when it unloads this library.
    unsafe {
        __cxa_atexit(
            handler,
            std::ptr::null_mut(),
            (&raw const __dso_handle).cast(),
        )
    };
}

/// Blocks signals in this thread and preserves `errno`, until this is dropped. A signal handler that calls the driver,
/// or jumps out of a wrapper, would otherwise find or leave behind a held lock, or half a free list.
pub struct Quiet {
    mask: u64,
    _errno: Errno,
}

impl Quiet {
    pub fn begin() -> Quiet {
        let mut quiet = Quiet {
            mask: 0,
            _errno: Errno::kept(),
        };
        set_mask(&u64::MAX, &raw mut quiet.mask);
        quiet
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        set_mask(&self.mask, std::ptr::null_mut());
    }
}

/// Sets which signals this thread holds back. These include signals of the C library; one of these signals cancels a
/// thread.
fn set_mask(mask: &u64, old: *mut u64) {
    const SET: i64 = 2;
    // SAFETY: the kernel reads one word, and writes one unless there is no room for it.
    unsafe {
        syscall(
            SYS_RT_SIGPROCMASK,
            SET,
            &raw const *mask,
            old,
            size_of::<u64>(),
        )
    };
}

/// `errno` as it was, restored when this is dropped: the work of a wrapper must not be visible.
pub struct Errno(pub c_int);

impl Errno {
    pub fn kept() -> Errno {
        // SAFETY: the address is this thread's own.
        Errno(unsafe { *__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *__errno_location() = self.0 };
    }
}

/// Returns the kernel's ID of this thread.
pub fn thread_id() -> i64 {
    // SAFETY: gettid has no precondition.
    let thread = unsafe { syscall(SYS_GETTID) };
    // A sandbox may deny it. A message without a thread would be invalid.
    if thread < 0 {
        i64::from(std::process::id())
    } else {
        thread
    }
}

/// Returns the C library's ID of this thread, which Python before 3.11 uses.
pub fn pthread_id() -> usize {
    // SAFETY: it has no precondition.
    unsafe { pthread_self() }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    let mut time = Timespec {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: the struct is writable.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Memory is readable or unreadable in units of at least this size.
pub const PAGE: usize = 4096;

/// Returns `true` if the eight bytes around an address can be read. The kernel checks them before it considers the
/// request, which does nothing.
pub fn is_readable(address: usize) -> bool {
    const NOTHING: i64 = !0;
    let (set, old, length) = (address & !7, 0usize, 8usize);
    // SAFETY: the call fails because of the requested operation, whatever the address is.
    unsafe {
        syscall(SYS_RT_SIGPROCMASK, NOTHING, set, old, length) != 0 && *__errno_location() == EINVAL
    }
}

/// Words of memory of this process that may not be mapped.
#[derive(Default)]
pub struct CheckedWords {
    /// The pages that were checked last and that can be read.
    pages: [usize; 4],
    next: usize,
    trusts: bool,
}

impl CheckedWords {
    /// Returns a reader of words. `trusts` is for addresses whose source has been right before.
    pub fn trusted(trusts: bool) -> CheckedWords {
        CheckedWords {
            trusts,
            ..CheckedWords::default()
        }
    }

    /// Returns the aligned word at an address; `None` if the address cannot be read.
    pub fn at(&mut self, address: usize) -> Option<usize> {
        let page = address / PAGE;
        if !address.is_multiple_of(size_of::<usize>()) || page == 0 {
            return None;
        }
        if !self.trusts && !self.pages.contains(&page) {
            if !is_readable(address) {
                return None;
            }
            self.pages[self.next % self.pages.len()] = page;
            self.next += 1;
        }
        // SAFETY: the kernel has just read in this page, and an aligned word lies in one page.
        Some(unsafe { *(address as *const usize) })
    }
}

/// Returns the result of the injection hook in the library at a path; `None` if the library does not have a hook.
///
/// # Safety
/// The path ends in NUL, and the library is one that the driver itself would call in this way.
pub unsafe fn call_injection(path: *const c_char) -> Option<c_int> {
    // SAFETY: the caller vouches for the path, and for the type of the function.
    unsafe {
        let library = dlopen(path, RTLD_LAZY);
        let function = if library.is_null() {
            library
        } else {
            dlsym(library, c"InitializeInjection".as_ptr())
        };
        (!function.is_null())
            .then(|| std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(function)())
    }
}

/// Returns the return addresses of this thread, innermost first, up to `ROOM`.
pub fn frames<const ROOM: usize>() -> impl Iterator<Item = usize> {
    let mut found = [std::ptr::null_mut::<c_void>(); ROOM];
    // SAFETY: there is room for that many.
    let count = unsafe { backtrace(found.as_mut_ptr(), ROOM as c_int) };
    found
        .into_iter()
        .take(count.max(0) as usize)
        .map(|frame| frame as usize)
}

/// Returns the variables of this process with a wanted name, read from `environ` itself.
pub fn variables(is_wanted: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    // SAFETY: `environ` is null or an array of C strings that ends in null, as every reader of it
    // has to assume; the strings are copied at once.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at).to_bytes();
            if let Some(end) = entry.iter().position(|byte| *byte == b'=') {
                let (name, value) = entry.split_at(end);
                if is_wanted(name) {
                    found.push((name.to_vec(), value.get(1..).unwrap_or_default().to_vec()));
                }
            }
            at = at.add(1);
        }
    }
    found
}

/// Returns a variable as it was when this program was started, even if it has changed since.
pub fn first_variable(name: &[u8]) -> Option<Vec<u8>> {
    let file = Descriptor::open(c"/proc/self/environ", false)?;
    let (mut all, mut room) = (Vec::new(), [0; 4096]);
    loop {
        let part = file.read(&mut room);
        if part.is_empty() {
            break;
        }
        all.extend_from_slice(part);
    }
    let values = all
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="));
    values.map(<[u8]>::to_vec).next()
}

/// A descriptor of a file, closed when this is dropped.
pub struct Descriptor(pub c_int);

impl Descriptor {
    /// Opens an existing file, for reading and, if requested, for writing.
    pub fn open(path: &CStr, writes: bool) -> Option<Descriptor> {
        let flags = O_CLOEXEC
            | if writes {
                O_READ_WRITE
            } else {
                O_NONBLOCK | O_NOCTTY
            };
        // SAFETY: the path ends in NUL.
        let fd = unsafe { open(path.as_ptr(), flags) };
        (fd >= 0).then_some(Descriptor(fd))
    }

    /// Reads as many bytes as are available and fit; empty at the end, or if reading fails.
    pub fn read<'a>(&self, room: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: the buffer is writable.
        let got = unsafe { read(self.0, room.as_mut_ptr().cast(), room.len()) };
        room.get(..got.max(0) as usize).unwrap_or_default()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor was opened by this value and has no other owner.
        unsafe { close(self.0) };
    }
}

/// Returns the number of seccomp filters of this thread; `None` if the kernel does not report it. It allocates nothing.
pub fn seccomp_filters() -> Option<u64> {
    const KEY: &[u8] = b"\nSeccomp_filters:\t";
    let status = Descriptor::open(c"/proc/thread-self/status", false)?;
    let mut room = [0; 512];
    let (mut matched, mut number) = (0, None);
    loop {
        let part = status.read(&mut room);
        if part.is_empty() {
            return number;
        }
        for byte in part {
            if matched == KEY.len() {
                match byte {
                    b'0'..=b'9' => number = Some(number.unwrap_or(0) * 10 + u64::from(byte - b'0')),
                    _ => return number,
                }
            } else if KEY.get(matched) == Some(byte) {
                matched += 1;
            } else {
                // Only the first byte of the key can begin it again.
                matched = usize::from(*byte == b'\n');
            }
        }
    }
}

/// The reason for a missing connection.
pub enum NotOpen {
    /// No process listens, or the socket may not be used.
    Refused,
    /// The socket had no space for another connection until the deadline.
    Late,
}

/// A connection to a named socket.
pub struct Connection(Descriptor);

impl Connection {
    /// Connects, until a deadline by [`now_ns`].
    pub fn open(address: &SockaddrUn, deadline: u64) -> Result<Connection, NotOpen> {
        // SAFETY: the address is a whole struct; the descriptor is ours until it is dropped.
        unsafe {
            let fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            if fd < 0 {
                return Err(NotOpen::Refused);
            }
            let connection = Connection(Descriptor(fd));
            while connect(fd, address, size_of::<SockaddrUn>() as u32) != 0 {
                if ![EAGAIN, EINTR].contains(&*__errno_location()) {
                    return Err(NotOpen::Refused);
                }
                if now_ns() > deadline {
                    return Err(NotOpen::Late);
                }
                poll(std::ptr::null_mut(), 0, 1);
            }
            Ok(connection)
        }
    }

    /// Sends all bytes. A descriptor, if given, accompanies the first byte. Bytes that do not fit the socket's buffer
    /// at once are not sent.
    pub fn send(&self, bytes: &[u8], descriptor: Option<c_int>) -> bool {
        let mut iov = Iovec {
            base: bytes.as_ptr().cast(),
            length: bytes.len(),
        };
        let (length, fd) = (size_of::<PassFd>() - 4, descriptor.unwrap_or(-1));
        let mut pass = PassFd {
            length,
            level: SOL_SOCKET,
            kind: SCM_RIGHTS,
            fd,
            padding: 0,
        };
        let message = Msghdr {
            name: std::ptr::null_mut(),
            name_length: 0,
            iov: &mut iov,
            iov_length: 1,
            control: (&raw mut pass).cast(),
            control_length: descriptor.map_or(0, |_| size_of::<PassFd>()),
            flags: 0,
        };
        // SAFETY: the message and what it points to live until the call returns.
        let sent = unsafe { sendmsg(self.0.0, &message, MSG_NOSIGNAL) };
        sent == bytes.len() as isize
    }

    /// Opens the file that the other side requests, and passes it on. Returns `false` if it requests no file.
    fn hand_over(&self) -> bool {
        let mut room = [0; PAGE];
        let Ok(path) = CStr::from_bytes_with_nul(self.0.read(&mut room)) else {
            return false;
        };
        let file = Descriptor::open(path, false);
        self.send(b"\n", file.as_ref().map(|file| file.0))
    }

    /// Waits until the other side closes, or until the deadline. False if it has passed.
    pub fn wait(&self, deadline: u64) -> bool {
        loop {
            let left = deadline.saturating_sub(now_ns());
            let mut fd = PollFd {
                fd: self.0.0,
                events: POLLIN,
                revents: 0,
            };
            // SAFETY: one struct is writable. A signal of the program may end the call early.
            let ready = unsafe { poll(&mut fd, 1, (left / 1_000_000) as c_int + 1) };
            // SAFETY: the address is this thread's own.
            let interrupted = ready < 0 && unsafe { *__errno_location() } == EINTR;
            if (ready > 0 && !self.hand_over()) || (ready < 0 && !interrupted) {
                return true;
            }
            if left == 0 {
                return false;
            }
        }
    }
}

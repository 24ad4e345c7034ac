//! A number for the current Python location of this thread. It distinguishes two lines that allocate through the same
//! machine code, without a stack.
//!
//! The thread is in a call, so its frames stay as they are, whether or not it holds the interpreter's lock. The layouts
//! come from CPython's headers; the tracer, which reads the stacks themselves, has its own (py-spy). Memory is checked
//! before it is read, because an interpreter may have been built with other layouts.

use crate::c::{self, CheckedWords};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames beyond this number are not distinguished.
const MOST_FRAMES: usize = 48;

/// Number of stacks read down to their end after which the layout is trusted. Before that, each check of a page costs a
/// system call.
const TRUSTED_WALKS: u32 = 256;

static WALKS: AtomicU32 = AtomicU32::new(0);

/// The offsets of the fields of an interpreter that are read, in bytes.
struct FrameLayout {
    /// Offsets from the thread's state to its innermost frame.
    frame: &'static [usize],
    /// The frame below, and the fields with the current location of a frame.
    previous: usize,
    standing: &'static [usize],
}

/// Returns the layout for Python 3 by its minor version.
fn layout_of(minor: u32) -> Option<FrameLayout> {
    Some(match minor {
        7..=9 => FrameLayout {
            frame: &[24],
            previous: 24,
            standing: &[32, 104],
        },
        10 => FrameLayout {
            frame: &[24],
            previous: 24,
            standing: &[32, 96],
        },
        11 => FrameLayout {
            frame: &[56, 8],
            previous: 48,
            standing: &[56],
        },
        12 => FrameLayout {
            frame: &[56, 0],
            previous: 8,
            standing: &[56],
        },
        13 => FrameLayout {
            frame: &[72],
            previous: 8,
            standing: &[56],
        },
        _ => return None,
    })
}

/// The interpreter of this process.
struct PythonOfProcess {
    layout: FrameLayout,
    thread_state: unsafe extern "C" fn() -> usize,
}

/// Returns the interpreter; `None` if this process does not have one that is known. It is searched for once, because it
/// is what loads the CUDA libraries.
fn interpreter() -> Option<&'static PythonOfProcess> {
    static FOUND: OnceLock<Option<PythonOfProcess>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

fn find() -> Option<PythonOfProcess> {
    // SAFETY: the names end in NUL; the functions have had these types in all of Python 3.
    unsafe {
        let version = c::dlsym(std::ptr::null_mut(), c"Py_GetVersion".as_ptr());
        let thread_state = c::dlsym(
            std::ptr::null_mut(),
            c"PyGILState_GetThisThreadState".as_ptr(),
        );
        if version.is_null() || thread_state.is_null() {
            return None;
        }
        let version: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(version);
        let text = CStr::from_ptr(version())
            .to_str()
            .ok()
            .filter(|text| !text.contains("free-threading"))?;
        let minor = text
            .strip_prefix("3.")?
            .split(|it: char| !it.is_ascii_digit())
            .next()?
            .parse()
            .ok()?;
        let thread_state =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(thread_state);
        Some(PythonOfProcess {
            layout: layout_of(minor)?,
            thread_state,
        })
    }
}

/// Continues a hash over the current location of each Python frame of this thread.
pub fn fingerprint(mut hash: u64) -> u64 {
    let Some(PythonOfProcess {
        layout,
        thread_state,
    }) = interpreter()
    else {
        return hash;
    };
    let walks = WALKS.load(Ordering::Relaxed);
    let mut words = CheckedWords::trusted(walks >= TRUSTED_WALKS);
    // SAFETY: the function queries the C library for a value of this thread.
    let state = unsafe { thread_state() };
    let mut frame = layout
        .frame
        .iter()
        .try_fold(state, |at, offset| words.at(at.checked_add(*offset)?));
    for _ in 0..MOST_FRAMES {
        let Some(at) = frame.filter(|at| *at != 0) else {
            break;
        };
        for offset in layout.standing {
            let Some(standing) = words.at(at.wrapping_add(*offset)) else {
                return hash;
            };
            hash = crate::caller::mix(hash, standing);
        }
        frame = words.at(at.wrapping_add(layout.previous));
        if frame == Some(0) && walks < TRUSTED_WALKS {
            WALKS.fetch_add(1, Ordering::Relaxed);
        }
    }
    hash
}

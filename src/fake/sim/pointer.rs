//! The pointers that a C caller passes.
//!
//! Each is an argument of a C function. A caller of such a function, which is unsafe, promises that every pointer is
//! what the C prototype says, or null. The `SAFETY` comments below rely on that promise, and most methods are safe
//! because of it.

use crate::model::status::{INVALID_VALUE, Outcome, SIM_NOT_MODELLED};
use std::ffi::{CStr, c_char};

/// The address for a result of the caller: null, or valid for a read and a write of a `T`, aligned or not.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Stores a result; a null pointer is the caller's error, not a crash.
    pub fn put(&self, value: T) -> Outcome {
        self.given()?;
        // SAFETY: not null, and the caller promised the rest. C callers may pass packed memory, hence unaligned.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Refuses a null pointer.
    pub fn given(&self) -> Outcome {
        if self.0.is_null() {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    /// Does the work, unless the pointer is null, and stores its result.
    pub fn put_with(&self, work: impl FnOnce() -> Outcome<T>) -> Outcome {
        self.given()?;
        self.put(work()?)
    }

    /// Returns the value that the caller stored there before the call.
    pub fn read(&self) -> Outcome<T>
    where
        T: Copy,
    {
        self.given()?;
        // SAFETY: as in `put`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Stores one of several results.
    ///
    /// # Safety
    /// The pointer is null or valid for a write of more than `index` results.
    pub unsafe fn put_at(&self, index: usize, value: T) -> Outcome {
        self.given()?;
        // SAFETY: not null; the caller vouches for the rest.
        unsafe { self.0.add(index).write_unaligned(value) };
        Ok(())
    }

    /// Returns the pointer itself.
    pub fn pointer(&self) -> *mut T {
        self.0
    }

    /// Returns the same pointer as a pointer to another type, which a different argument determines.
    ///
    /// # Safety
    /// The pointer is null or valid for a write of a `U`.
    pub unsafe fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl Out<c_char> {
    /// Stores a text and its NUL; `false` when it does not fit.
    ///
    /// # Safety
    /// The pointer is valid for `room` bytes.
    pub unsafe fn put_text(&self, room: usize, text: &str) -> bool {
        if text.len() >= room {
            return false;
        }
        // SAFETY: the text and its NUL fit, as just checked.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), self.0, text.len());
            self.0.add(text.len()).write(0);
        }
        true
    }
}

/// A value that the caller passes: null, or valid for a read of a `T`, aligned or not, with all bytes valid.
#[repr(transparent)]
pub struct In<T: Copy>(*const T);

impl<T: Copy> In<T> {
    /// Refuses a null pointer.
    pub fn given(&self) -> Outcome {
        if self.0.is_null() {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    /// Reads it; a null pointer is the caller's error.
    pub fn read(&self) -> Outcome<T> {
        self.given()?;
        // SAFETY: not null, and the caller promised the rest.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// A text of the caller: null, or one that ends in NUL.
#[repr(transparent)]
pub struct InText(*const c_char);

impl InText {
    /// Returns the text without its NUL; a null pointer is the caller's error.
    pub fn bytes(&self) -> Outcome<Vec<u8>> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and the caller promised that it ends.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes().to_vec())
    }

    /// Returns the text as a name; a name that is not UTF-8 is the caller's error, too.
    pub fn name(&self) -> Outcome<String> {
        String::from_utf8(self.bytes()?).map_err(|_| INVALID_VALUE)
    }
}

/// A module image: null, PTX text that ends in NUL, or binary data of at least one byte.
#[repr(transparent)]
pub struct ModuleImage(*const c_char);

impl ModuleImage {
    /// Returns the text of an image if it is PTX. A binary image contains NUL bytes and would not end at the first one,
    /// so only an image that begins like text is read as text.
    pub fn ptx(&self) -> Outcome<Vec<u8>> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: an image has at least one byte.
        let first = unsafe { self.0.read() } as u8;
        if !first.is_ascii_graphic() && !first.is_ascii_whitespace() {
            return Err(SIM_NOT_MODELLED);
        }
        // What is not binary is text.
        InText(self.0).bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn a_null_pointer_is_refused_and_nothing_is_stored() {
        let mut value = 1u32;
        assert_eq!(Out(&raw mut value).put(2), Ok(()));
        assert_eq!((Out(&raw mut value).read(), value), (Ok(2), 2));
        assert_eq!(Out::<u32>(null_mut()).put(3), Err(INVALID_VALUE));
        assert_eq!(In::<u32>(null()).read(), Err(INVALID_VALUE));
        assert_eq!(InText(null()).name(), Err(INVALID_VALUE));
        assert_eq!(ModuleImage(null()).ptx(), Err(INVALID_VALUE));
    }

    #[test]
    fn a_text_needs_room_for_its_nul() {
        let mut room: [c_char; 4] = [-1; 4];
        let out = Out(room.as_mut_ptr());
        // SAFETY: the array is as long as the given room.
        let stored = unsafe { [out.put_text(4, "four"), out.put_text(4, "two")] };
        assert_eq!(stored, [false, true]);
        assert_eq!(room[3], 0);
    }

    #[test]
    fn only_an_image_that_starts_like_text_is_read() {
        assert_eq!(
            ModuleImage(c"\x7fELF".as_ptr()).ptx(),
            Err(SIM_NOT_MODELLED)
        );
        assert_eq!(
            ModuleImage(c"\n.version 6.0".as_ptr()).ptx().unwrap(),
            b"\n.version 6.0"
        );
        assert_eq!(InText(c"\xff".as_ptr()).name(), Err(INVALID_VALUE));
    }
}

//! The arguments of a call: the author's values, and buffers for outputs.

use std::ffi::CString;

use cuda_pitfalls_calls::{BUILT_IN_STREAMS, Call, InputStruct, Output, Param, ParamKind};

use super::fat_binary;
use crate::worker::state::{Worker, lock};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::scenario::{Scalar, Step};

/// The reason why a call cannot be made with the author's values.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallArgumentError {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0} is not in {1}")]
    Constant(String, &'static str),
    #[error("no kernel {0}")]
    Kernel(String),
    #[error("{0:?} is not a number")]
    Number(String),
    #[error("{0} takes no list")]
    List(&'static str),
    #[error("a kernel argument is not a list")]
    NestedList,
    #[error("`{0}` was never bound")]
    Unbound(String),
    #[error("the image is not a 64-bit ELF file")]
    Image,
}

/// Memory that outlives the call: strings, kernel arguments, output buffers.
#[derive(Default)]
pub(super) struct Arena {
    texts: Vec<CString>,
    words: Vec<Box<[u64]>>,
}

impl Arena {
    /// Returns the address of a buffer that begins with these bytes.
    fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let address = self.push_buffer(bytes.len());
        // SAFETY: the buffer is live and at least as long.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        address
    }

    fn text(&mut self, text: &str) -> u64 {
        let text = CString::new(text.replace('\0', "")).unwrap_or_default();
        let address = text.as_ptr().addr() as u64;
        self.texts.push(text);
        address
    }

    /// Returns the address of a zeroed buffer of at least this many bytes, aligned for any type.
    fn push_buffer(&mut self, bytes: usize) -> u64 {
        let mut words = vec![0u64; bytes.div_ceil(8).max(1)].into_boxed_slice();
        let address = words.as_mut_ptr().addr() as u64;
        self.words.push(words);
        address
    }
}

/// Returns the words to pass, registers first. On x86-64, a C struct of more than 16 bytes is passed by value on the
/// stack, after all six registers; on aarch64, it is passed by address.
pub(super) fn passed_words(call: &Call, arguments: &[u64]) -> Vec<u64> {
    const REGISTERS: usize = 6;
    let (mut registers, mut stack) = (Vec::new(), Vec::new());
    for (param, argument) in call.params.iter().zip(arguments) {
        match param.kind {
            ParamKind::Block(_, bytes) if cfg!(target_arch = "x86_64") => {
                // SAFETY: the argument is the arena's buffer for this block, of this many bytes.
                stack.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(*argument as *const u64, bytes / 8)
                });
            }
            _ => registers.push(*argument),
        }
    }
    if !stack.is_empty() {
        registers.resize(REGISTERS, 0);
        registers.append(&mut stack);
    }
    registers
}

pub(super) fn argument_word(
    worker: &Worker,
    param: &Param,
    step: &Step,
    arena: &mut Arena,
) -> Result<u64, CallArgumentError> {
    let given = step.args.get(param.name);
    match param.kind {
        ParamKind::Fixed(value) => return Ok(value),
        ParamKind::Out(output) => return Ok(output_buffer(output, arena)),
        _ => {}
    }
    let Some(given) = given else {
        return match param.default {
            Some(x) if matches!(param.kind, ParamKind::Dim3) => Ok(x as u64 | 1 << 32),
            Some(value) => Ok(value as u64),
            None => Err(CallArgumentError::Missing(param.name)),
        };
    };
    match (param.kind, given) {
        (ParamKind::Constant(constants), Scalar::Text(name)) => constants
            .value(name)
            .map(|value| value as u64)
            .ok_or_else(|| CallArgumentError::Constant(name.clone(), constants.name)),
        (ParamKind::Handle(_) | ParamKind::Pid, Scalar::Text(name)) => handle(worker, name),
        (ParamKind::Location, Scalar::Text(name)) if name == "host" => Ok(LOCATION_HOST),
        (ParamKind::Location, Scalar::Int(ordinal)) => {
            Ok(LOCATION_DEVICE | (*ordinal as u64) << 32)
        }
        (ParamKind::Dim3, Scalar::Int(x)) => Ok(*x as u64 & 0xffff_ffff | 1 << 32),
        (ParamKind::In(template), Scalar::Int(word)) => Ok(filled_in(template, *word, arena)),
        (ParamKind::FatBinary(_), Scalar::Text(name)) => fat_binary(handle(worker, name)?, arena),
        (ParamKind::Block(_, bytes), Scalar::Text(name)) => {
            block_address(worker, name, bytes, arena)
        }
        (ParamKind::Text, Scalar::Text(text)) => Ok(arena.text(text)),
        (ParamKind::Text, Scalar::Int(value)) => Ok(arena.text(&value.to_string())),
        (ParamKind::Ptx, Scalar::Text(name)) => catalogue::kernel(name)
            .map(|text| arena.text(text))
            .ok_or_else(|| CallArgumentError::Kernel(name.clone())),
        (ParamKind::Arguments, Scalar::List(values)) => kernel_arguments(worker, values, arena),
        (_, Scalar::Int(value)) => Ok(*value as u64),
        // The plan may have filled in digits for `${gpus}`.
        (_, Scalar::Text(text)) => text
            .parse::<i64>()
            .map(|value| value as u64)
            .map_err(|_| CallArgumentError::Number(text.clone())),
        (_, Scalar::List(_)) => Err(CallArgumentError::List(param.name)),
    }
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`, with the ordinal in the upper word, and `CU_MEM_LOCATION_TYPE_HOST`.
const LOCATION_DEVICE: u64 = 1;
const LOCATION_HOST: u64 = 2;

/// Returns the address of an input struct with the author's word in it.
fn filled_in(template: &InputStruct, word: i64, arena: &mut Arena) -> u64 {
    let mut bytes = vec![0u8; template.size];
    let words = template
        .preset
        .iter()
        .map(|word| (word.offset, word.value.to_le_bytes().to_vec()));
    let given = word
        .to_le_bytes()
        .into_iter()
        .take(template.width)
        .collect();
    for (offset, word) in words.chain([(template.given, given)]) {
        if let Some(place) = bytes.get_mut(offset..offset + word.len()) {
            place.copy_from_slice(&word);
        }
    }
    arena.bytes(&bytes)
}

/// Returns the address of bytes that a step bound, here or in another process.
fn block_address(
    worker: &Worker,
    name: &str,
    bytes: usize,
    arena: &mut Arena,
) -> Result<u64, CallArgumentError> {
    let known = lock(&worker.bytes);
    let found = known.get(name).filter(|found| found.len() == bytes);
    found
        .map(|found| arena.bytes(found))
        .ok_or_else(|| CallArgumentError::Unbound(name.to_owned()))
}

/// Returns the address of a container with a binary that a step linked.
fn fat_binary(address: u64, arena: &mut Arena) -> Result<u64, CallArgumentError> {
    let at = address as *const u8;
    if at.is_null() {
        return Ok(0);
    }
    // SAFETY: cuLinkComplete bound the address of a whole binary. It lives as long as its linker, and its headers
    // state its length.
    let binary = unsafe {
        let length = fat_binary::binary_length(|offset| at.add(offset).read())
            .ok_or(CallArgumentError::Image)?;
        std::slice::from_raw_parts(at, length)
    };
    Ok(arena.bytes(&fat_binary::wrap_binary(binary)))
}

fn handle(worker: &Worker, name: &str) -> Result<u64, CallArgumentError> {
    if let Some(value) = BUILT_IN_STREAMS.value(name) {
        return Ok(value as u64);
    }
    lock(&worker.handles)
        .get(name)
        .copied()
        .ok_or_else(|| CallArgumentError::Unbound(name.to_owned()))
}

/// Returns the address of a `void**` array: a pointer to each argument's eight bytes.
fn kernel_arguments(
    worker: &Worker,
    values: &[Scalar],
    arena: &mut Arena,
) -> Result<u64, CallArgumentError> {
    let table = arena.push_buffer(values.len() * 8);
    for (place, value) in values.iter().enumerate() {
        let value = match value {
            Scalar::Int(value) => *value as u64,
            Scalar::Text(name) => handle(worker, name)?,
            Scalar::List(_) => return Err(CallArgumentError::NestedList),
        };
        let cell = arena.push_buffer(8);
        // SAFETY: both are live buffers of the arena, large enough for these writes.
        unsafe {
            *(cell as *mut u64) = value;
            *(table as *mut u64).add(place) = cell;
        }
    }
    Ok(table)
}

fn output_buffer(output: Output, arena: &mut Arena) -> u64 {
    match output {
        Output::Text(bytes) | Output::Blob(_, bytes) => arena.push_buffer(bytes),
        Output::Uuid => arena.push_buffer(16),
        Output::Struct(layout) => {
            let address = arena.push_buffer(layout.size);
            for word in &layout.preset {
                // SAFETY: the layout keeps its preset words inside its size.
                unsafe { *((address as usize + word.offset) as *mut u32) = word.value };
            }
            address
        }
        _ => arena.push_buffer(8),
    }
}

#[cfg(test)]
mod tests {
    use super::super::call_raw;
    use super::*;

    #[repr(C)]
    struct Large {
        words: [u64; 8],
    }

    extern "C" fn by_value(result: *mut u64, large: Large, flags: u32) -> u32 {
        // SAFETY: the test passes a live integer.
        unsafe { *result = large.words.iter().sum() };
        flags
    }

    #[test]
    fn a_large_struct_arrives_by_value() {
        let call = cuda_pitfalls_calls::find("cudaIpcOpenMemHandle").expect("a call");
        let (mut result, words) = (0u64, [1u64, 2, 3, 4, 5, 6, 7, 8]);
        let arguments = [
            (&raw mut result).addr() as u64,
            words.as_ptr().addr() as u64,
            9,
        ];
        // SAFETY: the function takes the parameters of the row.
        let flags = unsafe {
            call_raw(
                by_value as *const () as usize,
                &passed_words(call, &arguments),
            )
        } as u32;
        assert_eq!((flags, result), (9, 36));
    }

    #[test]
    fn structs_of_the_caller_hold_the_authors_word() {
        let mut arena = Arena::default();
        let address = filled_in(
            InputStruct::find("CUmemAccessDesc").expect("a struct"),
            5,
            &mut arena,
        ) as *const u32;
        // SAFETY: the buffer holds the struct's twelve bytes.
        let words = unsafe { std::slice::from_raw_parts(address, 3) };
        assert_eq!(words, [1, 5, 3]);
    }
}

//! Makes any call of the tables. The tables say how to marshal its arguments, so a new call needs no code.
//!
//! The arguments of every C function in the tables are integers or pointers, which the ABIs of x86-64 and aarch64 pass
//! in whole registers or stack slots. Results are 32-bit integers, or the address of a text. They stay integers: an
//! enum would be undefined behavior for newer codes.

mod argument;
mod fat_binary;

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{
    Call, CallLibrary, FieldType, Layout, Output, ParamKind, RETURNED_TEXT, RETURNED_TEXT_BYTES,
    Returns, status::SIM_NOT_MODELLED,
};

use self::argument::{Arena, argument_word, passed_words};
use super::library;
use super::state::{CallResult, Worker, lock};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::event::{Status, Value};
use cuda_pitfalls_core::scenario::Step;

pub(super) fn make_call(worker: &Worker, call: &Call, step: &Step) -> CallResult {
    let mut arena = Arena::default();
    let mut arguments = Vec::with_capacity(call.params.len());
    for param in &call.params {
        match argument_word(worker, param, step, &mut arena) {
            Ok(argument) => arguments.push(argument),
            Err(error) => return not_made(error.to_string()),
        }
    }
    let address = match &step.from {
        Some(copy) => lock(&worker.copies)
            .get(copy)
            .and_then(|copy| library::find_symbol(copy, call.name)),
        None => worker.symbols.address(call.name),
    };
    let Some(address) = address else {
        return not_made(format!("{} was not resolved", call.name));
    };
    let passed = passed_words(call, &arguments);
    let started = clock::now_ns();
    // SAFETY: the address belongs to the function of this row, and the row has its C parameters.
    let result = unsafe { call_raw(address, &passed) };
    let elapsed_ns = clock::now_ns() - started;
    if call.returns == Returns::Text {
        return returned_text(call, result, elapsed_ns);
    }
    let result = result as u32;
    let code = match call.library {
        // A C library call that fails returns -1, and errno has the reason.
        CallLibrary::Libc if result as i32 == -1 => {
            i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(-1))
        }
        _ => i64::from(result),
    };
    let (values, bytes) = if code == 0 {
        read_outputs(worker, call, step, &arguments)
    } else {
        Default::default()
    };
    CallResult {
        status: Some(Status::named(call.library, code)),
        values,
        bytes,
        elapsed_ns,
    }
}

/// Returns the result of a step whose arguments are not available: no call is made.
fn not_made(why: String) -> CallResult {
    let values = BTreeMap::from([("not_made".to_string(), Value::Text(why))]);
    CallResult {
        status: None,
        values,
        bytes: None,
        elapsed_ns: 0,
    }
}

/// Returns the result of a function that returns a text. The simulated machine returns a status even for these
/// functions.
fn returned_text(call: &Call, address: u64, elapsed_ns: u64) -> CallResult {
    if address == SIM_NOT_MODELLED as u64 {
        let status = Some(Status::named(call.library, SIM_NOT_MODELLED));
        return CallResult {
            status,
            values: BTreeMap::new(),
            bytes: None,
            elapsed_ns,
        };
    }
    let at = address as *const std::ffi::c_char;
    let text = if at.is_null() {
        "NULL".to_string()
    } else {
        // SAFETY: according to the row, the function returns a C string that its library keeps.
        let text = unsafe { std::ffi::CStr::from_ptr(at) }.to_bytes();
        String::from_utf8_lossy(text.get(..RETURNED_TEXT_BYTES).unwrap_or(text)).into_owned()
    };
    let values = BTreeMap::from([(RETURNED_TEXT.to_string(), Value::Text(text))]);
    CallResult {
        status: None,
        values,
        bytes: None,
        elapsed_ns,
    }
}

/// Reads the outputs of a call that succeeded, and binds its handle. Returns the values, and bytes for other processes
/// in hex.
fn read_outputs(
    worker: &Worker,
    call: &Call,
    step: &Step,
    arguments: &[u64],
) -> (BTreeMap<String, Value>, Option<String>) {
    let (mut values, mut bytes) = (BTreeMap::new(), None);
    for (param, address) in call.params.iter().zip(arguments) {
        let ParamKind::Out(output) = param.kind else {
            continue;
        };
        let at = *address as *const u8;
        // SAFETY: `at` is the arena's buffer for this output, sized by the same row, and the function succeeded.
        let value = unsafe {
            match output {
                Output::I32 => Value::Int(i64::from(at.cast::<i32>().read())),
                Output::U32 => Value::Int(i64::from(at.cast::<u32>().read())),
                Output::U64 | Output::Varying => Value::Int(at.cast::<u64>().read() as i64),
                Output::F32 => Value::Float(f64::from(at.cast::<f32>().read())),
                Output::Uuid => Value::Text(uuid_text(&at.cast::<[u8; 16]>().read())),
                Output::Text(bytes) => Value::Text(text_at(at, bytes)),
                Output::Word(_) if step.bind.is_none() => {
                    Value::Int(at.cast::<u64>().read() as i64)
                }
                Output::Handle(_) | Output::Word(_) => {
                    bind_handle(worker, step, at.cast::<u64>().read())
                }
                Output::Blob(_, length) => {
                    let blob = std::slice::from_raw_parts(at, length);
                    bytes = Some(blob.iter().map(|byte| format!("{byte:02x}")).collect());
                    if let Some(name) = &step.bind {
                        lock(&worker.bytes).insert(name.clone(), blob.to_vec());
                    }
                    Value::Text("bound".to_string())
                }
                Output::Struct(layout) => {
                    values.extend(struct_fields(layout, at));
                    continue;
                }
            }
        };
        values.insert(param.name.to_string(), value);
    }
    (values, bytes)
}

fn bind_handle(worker: &Worker, step: &Step, value: u64) -> Value {
    if let Some(name) = &step.bind {
        lock(&worker.handles).insert(name.clone(), value);
    }
    Value::Text(if value == 0 { "NULL" } else { "bound" }.to_string())
}

/// # Safety
/// `at` must be a live buffer of the layout's size.
unsafe fn struct_fields(layout: &Layout, at: *const u8) -> impl Iterator<Item = (String, Value)> {
    layout.fields.iter().map(move |field| {
        // SAFETY: the layout keeps its fields inside its size.
        let value = unsafe {
            let at = at.add(field.offset);
            match field.read {
                FieldType::I32 => Value::Int(i64::from(at.cast::<i32>().read())),
                FieldType::U64 => Value::Int(at.cast::<u64>().read() as i64),
                FieldType::Text(bytes) => Value::Text(text_at(at, bytes)),
            }
        };
        (field.name.to_string(), value)
    })
}

/// # Safety
/// `at` must be readable for `bytes` bytes.
unsafe fn text_at(at: *const u8, bytes: usize) -> String {
    // SAFETY: the caller guarantees the length.
    let bytes = unsafe { std::slice::from_raw_parts(at, bytes) };
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// Returns a UUID in NVML's format.
pub(crate) fn uuid_text(bytes: &[u8; 16]) -> String {
    format!("GPU-{}", uuid::Uuid::from_bytes(*bytes))
}

/// Calls a C function with integer arguments. In the returned word, the bits beyond the width of the function's result
/// have no meaning.
///
/// # Safety
/// `address` must be a C function that takes these arguments (each an integer or a pointer) and returns an integer or a
/// pointer.
pub(crate) unsafe fn call_raw(address: usize, arguments: &[u64]) -> u64 {
    macro_rules! arity {
        ($($count:literal: $($place:literal)*;)*) => {
            match arguments.len() {
                $($count => {
                    type Function = unsafe extern "C" fn($(arity!(@word $place)),*) -> u64;
                    // SAFETY: the caller guarantees the address and the arguments.
                    unsafe { std::mem::transmute::<usize, Function>(address)($(arguments[$place]),*) }
                })*
                more => unreachable!("no call has {more} parameters"),
            }
        };
        (@word $place:literal) => { u64 };
    }
    arity! {
        0: ;
        1: 0;
        2: 0 1;
        3: 0 1 2;
        4: 0 1 2 3;
        5: 0 1 2 3 4;
        6: 0 1 2 3 4 5;
        7: 0 1 2 3 4 5 6;
        8: 0 1 2 3 4 5 6 7;
        9: 0 1 2 3 4 5 6 7 8;
        10: 0 1 2 3 4 5 6 7 8 9;
        11: 0 1 2 3 4 5 6 7 8 9 10;
        12: 0 1 2 3 4 5 6 7 8 9 10 11;
        14: 0 1 2 3 4 5 6 7 8 9 10 11 12 13;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn eleven(
        a: u64,
        b: i32,
        c: u64,
        d: u64,
        e: u64,
        f: u64,
        g: u32,
        h: u64,
        i: u64,
        j: u64,
        k: u64,
    ) -> u32 {
        (a + b as u64 + c + d + e + f + u64::from(g) + h + i + j + k) as u32
    }

    #[test]
    fn arguments_beyond_the_registers_arrive() {
        let arguments: Vec<u64> = (1..=11).collect();
        assert_eq!(
            // SAFETY: the function takes eleven integers.
            unsafe { call_raw(eleven as *const () as usize, &arguments) } as u32,
            66
        );
    }

    #[test]
    fn a_text_that_a_function_returns_is_read_and_a_status_of_the_simulated_machine_is_none() {
        let call = cuda_pitfalls_calls::find("cudaGetErrorName").expect("a call");
        let returned = |address: u64| returned_text(call, address, 1);
        let read = returned(c"cudaSuccess".as_ptr().addr() as u64);
        assert_eq!(
            (read.status, read.values.get("text")),
            (None, Some(&Value::Text("cudaSuccess".to_string())))
        );
        assert_eq!(
            returned(0).values.get("text"),
            Some(&Value::Text("NULL".to_string()))
        );
        let simulated = returned(SIM_NOT_MODELLED as u64);
        assert_eq!(
            simulated.status.map(|status| status.code),
            Some(SIM_NOT_MODELLED)
        );
        assert!(simulated.values.is_empty(), "60000 is no address");
    }

    #[test]
    fn uuids_are_written_as_nvml_writes_them() {
        let bytes = [0x4e, 0x5d, 0x49, 0x4c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        assert_eq!(
            uuid_text(&bytes),
            "GPU-4e5d494c-0001-0203-0405-060708090a0b"
        );
    }
}

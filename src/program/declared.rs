//! The C declarations of the tables of calls, as Rust that compiles only if the bindings agree: prototypes, sizes and
//! offsets of structs, constants, status codes. `tests/calls.rs` includes it.

use std::collections::BTreeSet;

use cuda_pitfalls_calls::{
    self as calls, Call, CallLibrary, Constants, Output, Param, ParamKind, Returns,
};

/// CUDA version of the headers that the bindings are made from, by the features of cudarc.
const VERSION: u32 = 13040;

/// Calls of that version that the bindings leave out.
const WITHOUT_BINDING: [&str; 7] = [
    "cuCheckpointProcessGetState",
    "cuCheckpointProcessLock",
    "cuCheckpointProcessCheckpoint",
    "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock",
    "cudaProfilerStart",
    "nvmlDeviceGetComputeRunningProcesses_v2",
];

/// Returns the complete file.
pub(crate) fn source() -> String {
    let compared: Vec<&Call> = calls::all().filter(|call| has_binding(call)).collect();
    // A struct that several calls take is compared once.
    let structs: BTreeSet<String> = compared
        .iter()
        .flat_map(|call| {
            call.params
                .iter()
                .flat_map(|param| struct_members(call.library, param))
        })
        .collect();
    let prototypes = compared.iter().map(|call| prototype_assertion(call));
    let statements = prototypes
        .chain(structs)
        .chain(Constants::all().iter().flat_map(constant_assertions))
        .chain(status_assertions());
    let count = format!("pub(super) const CALLS: usize = {};", compared.len());
    let version = assertion_line(format!("driver::CUDA_VERSION == {VERSION}"));
    statements
        .chain([count, version])
        .collect::<Vec<_>>()
        .join("\n")
}

fn assertion_line(what: String) -> String {
    format!("const _: () = assert!({what}, {what:?});")
}

fn has_binding(call: &Call) -> bool {
    let declared = call.since.is_none_or(|since| since <= VERSION)
        && call.until.is_none_or(|until| until >= VERSION);
    module(call.library).is_some() && declared && !WITHOUT_BINDING.contains(&call.name)
}

/// Returns the module of the bindings, by the name that the test uses.
fn module(library: CallLibrary) -> Option<&'static str> {
    match library {
        CallLibrary::Driver => Some("driver"),
        CallLibrary::Runtime => Some("runtime"),
        CallLibrary::Nvml => Some("nvml"),
        CallLibrary::Libc => Some("libc"),
        _ => None,
    }
}

fn prototype_assertion(call: &Call) -> String {
    let Call { name, library, .. } = call;
    let declared = call
        .params
        .iter()
        .filter(|param| !param.older && !param.c_type.is_empty());
    let types: Vec<String> = declared
        .map(|param| rust_type(*library, param.c_type))
        .collect();
    let types = types.join(", ");
    let status = rust_type(*library, library.status_type().unwrap_or("int"));
    let returned = if call.returns == Returns::Text {
        rust_type(*library, "const char *")
    } else {
        status
    };
    match library {
        CallLibrary::Nvml => format!(
            "const _: fn(&nvml::NvmlLib) -> Option<unsafe extern \"C\" fn({types}) -> {returned}> = \
             |library| library.{name}.as_ref().ok().copied();"
        ),
        CallLibrary::Libc => {
            format!("const _: unsafe extern \"C\" fn({types}) -> {returned} = libc::{name};")
        }
        _ => {
            let module = module(*library).unwrap_or_default();
            format!("const _: unsafe fn({types}) -> {returned} = {module}::{name};")
        }
    }
}

fn rust_type(library: CallLibrary, c_type: &str) -> String {
    let mut is_const = c_type.starts_with("const ");
    let (base, pointers) = c_type.split_at(c_type.find('*').unwrap_or(c_type.len()));
    let base = base
        .trim_start_matches("const ")
        .trim_start_matches("struct ")
        .trim_start_matches("enum ")
        .trim();
    let mut rust = match base {
        "void" => "std::ffi::c_void".to_string(),
        "char" => "std::ffi::c_char".to_string(),
        "int" => "std::ffi::c_int".to_string(),
        "unsigned char" => "std::ffi::c_uchar".to_string(),
        "unsigned short" => "std::ffi::c_ushort".to_string(),
        "unsigned int" => "std::ffi::c_uint".to_string(),
        "unsigned long long" => "std::ffi::c_ulonglong".to_string(),
        "size_t" => "usize".to_string(),
        "float" => "f32".to_string(),
        "double" => "f64".to_string(),
        name => format!("{}::{name}", module(library).unwrap_or_default()),
    };
    for pointer in pointers.split('*').skip(1) {
        rust = format!("*{} {rust}", if is_const { "const" } else { "mut" });
        is_const = pointer.trim() == "const";
    }
    rust
}

/// Returns the size and the offsets of the struct that a parameter points to.
fn struct_members(library: CallLibrary, param: &Param) -> Vec<String> {
    let pointee = param
        .c_type
        .trim_start_matches("const ")
        .trim_end_matches('*')
        .trim_end();
    if matches!(pointee, "void" | "char") {
        return Vec::new();
    }
    let of = rust_type(library, pointee);
    let (size, members): (String, Vec<(&str, usize)>) = match param.kind {
        ParamKind::In(template) => {
            let preset = template
                .preset
                .iter()
                .map(|word| (word.member, word.offset));
            let given = (template.member, template.given);
            (
                format!("== {}", template.size),
                preset.chain([given]).collect(),
            )
        }
        ParamKind::Out(Output::Struct(layout)) => {
            let preset = layout.preset.iter().map(|word| (word.member, word.offset));
            let fields = layout
                .fields
                .iter()
                .map(|field| (field.member, field.offset));
            (
                format!("<= {}", layout.size),
                preset.chain(fields).collect(),
            )
        }
        ParamKind::Block(_, size) | ParamKind::Out(Output::Blob(_, size)) => {
            (format!("== {size}"), Vec::new())
        }
        _ => return Vec::new(),
    };
    let members = members.into_iter().filter(|(member, _)| *member != "*");
    let offsets = members.map(|(member, offset)| {
        format!("std::mem::offset_of!({of}, {}) == {offset}", path(member))
    });
    std::iter::once(format!("size_of::<{of}>() {size}"))
        .chain(offsets)
        .map(assertion_line)
        .collect()
}

/// Returns the path of a member in the bindings: a keyword has an underscore, and an anonymous union has a name.
fn path(member: &str) -> String {
    let parts = member.split('.').map(|part| match part {
        "type" => "type_",
        "id" => "__bindgen_anon_1.id",
        part => part,
    });
    parts.collect::<Vec<_>>().join(".")
}

fn constant_assertions(set: &Constants) -> Vec<String> {
    let mut held = Vec::new();
    for (name, value) in &set.values {
        let start = if name.starts_with("cuda") {
            "cuda"
        } else {
            "CU"
        };
        let of_type = set.types.iter().find(|of| of.starts_with(start));
        let constant = match (name.get(..4), of_type) {
            (Some("CU_C" | "CU_D" | "CU_F" | "CU_L" | "CU_M" | "CU_P"), Some(of)) => {
                format!("driver::{of}::{name}")
            }
            // Macros that no bindings have.
            (Some("cuda"), _) if set.name == "stream" => continue,
            (Some("cuda"), Some(of)) => format!("runtime::{of}::{name}"),
            (Some("cuda"), None) => format!("runtime::{name}"),
            (Some(start), _) if start.starts_with("SIG") => format!("libc::{name}"),
            _ => continue,
        };
        held.push(assertion_line(format!("{constant} as i64 == {value}")));
    }
    held
}

fn status_assertions() -> impl Iterator<Item = String> {
    let of = [
        (CallLibrary::Driver, "driver::CUresult::"),
        (CallLibrary::Runtime, "runtime::cudaError_t::"),
        (CallLibrary::Nvml, "nvml::nvmlReturn_enum_"),
        (CallLibrary::Libc, "libc::"),
    ];
    of.into_iter().flat_map(|(library, start)| {
        let known = calls::status::table(library)
            .iter()
            .filter(move |(code, _)| {
                i64::from(*code) != calls::status::SIM_NOT_MODELLED
                    && (library != CallLibrary::Libc || *code != 0)
            });
        known.map(move |(code, name)| {
            assertion_line(format!(
                "{start}{} as i64 == {code}",
                name.to_str().unwrap_or_default()
            ))
        })
    })
}

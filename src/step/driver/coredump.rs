//! What the driver would do with a GPU's state after a fault.

use super::call;
use crate::step::constants::Constants;
use crate::step::layout::{Field, Layout, Read, WORD};
use crate::step::{Kind, Output, StepKind, constant, out, param};

/// `CUcoredumpSettings`, `cuda.h`.
static SETTING: Constants = Constants {
    name: "CUcoredumpSettings",
    values: &[
        ("CU_COREDUMP_ENABLE_ON_EXCEPTION", 1),
        ("CU_COREDUMP_TRIGGER_HOST", 2),
        ("CU_COREDUMP_LIGHTWEIGHT", 3),
        ("CU_COREDUMP_ENABLE_USER_TRIGGER", 4),
        ("CU_COREDUMP_FILE", 5),
        ("CU_COREDUMP_PIPE", 6),
        ("CU_COREDUMP_GENERATION_FLAGS", 7),
    ],
};

/// A setting: one byte, four, or a name of at most 1023 letters. Of a name only the first eight are
/// kept, as a number: the usual ones go on with the name of the host.
static VALUE: Layout = Layout {
    name: "void",
    size: 4096,
    preset: &[],
    fields: &[Field { name: "value", offset: 0, read: Read::U64, stable: false }],
};

pub(in crate::step) static STEPS: &[StepKind] = &[call(
    "cuCoredumpGetAttributeGlobal",
    "Reads a setting of core dumps: a truth of 1 byte, flags of 4, or a name for which 1024 are enough.",
    &[constant("attribute", &SETTING), out("value", Output::Struct(&VALUE)), param("size", Kind::In(&WORD))],
)];

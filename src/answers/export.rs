//! A scenario as one standalone file: the calls in C or in Python, with what runs and measures them,
//! so that it can be handed to someone who does not have this program.
//!
//! [`Reproducer::of`] makes of a scenario what both languages need, or says why it cannot be handed on
//! so; `c` and `python` write it down. The calls come from the tables of [`cuda_pitfalls_calls`].
//! What runs and measures is `export/runtime.c` and `export/runtime.py`, the same in every file.
//!
//! [`plain`] writes the calls of one case alone.
//!
//! Pure: text from values.

mod c;
mod lines;
mod offer;
mod plain;
mod program;
mod python;

pub use offer::Offer;
pub use plain::plain;
pub use program::{Refusal, Reproducer};

/// What a reproducer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Language {
    /// C against libcuda, libcudart and NVML.
    C,
    /// Python with ctypes alone; the lines of a case of Python lines as they are.
    Python,
}

impl Language {
    /// Both.
    pub const ALL: [Language; 2] = [Language::C, Language::Python];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Python => "python",
        }
    }

    /// What the name of such a file ends in.
    pub fn extension(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Python => "py",
        }
    }
}

/// The whole file.
///
/// # Errors
/// Why this program cannot be written in this language, in a sentence.
pub fn reproducer(program: &Reproducer<'_>, language: Language) -> Result<String, Refusal> {
    match language {
        Language::C => c::file(program),
        Language::Python => python::file(program),
    }
}

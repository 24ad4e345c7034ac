//! A scenario as one self-contained program: the calls of its trap and of its control, in separate processes, NVML's
//! readings where the effect is about memory, and an exit code that reports whether the effect occurred.
//!
//! The program is written in the language of the scenario's steps: calls in C, Python lines in Python.
//!
//! [`Reproducer::new`] prepares a scenario, or returns the reason why a self-contained program cannot show its effect;
//! `case` writes its steps, `call` and `argument` a C call, and `c` and `python` the rest of the file. The calls come
//! from the tables of [`cuda_pitfalls_calls`].
//!
//! This module is pure: it turns values into text.

mod argument;
mod c;
mod call;
mod case;
mod condition;
mod effect;
mod error;
mod header;
mod helpers;
mod language;
mod lines;
mod program;
mod python;
mod writer;

pub use error::ExportError;
pub use language::Language;
pub use program::Reproducer;

/// Returns the text of the complete file.
///
/// # Errors
/// Returns an error if the program cannot be written, with the reason in a sentence.
pub fn write_reproducer(program: &Reproducer<'_>) -> Result<String, ExportError> {
    match program.language() {
        Language::C => c::file(program),
        Language::Python => python::file(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::catalogue;
    use cuda_pitfalls_core::scenario::Python;

    #[test]
    fn calls_beside_python_lines_are_refused() {
        let names = ["context/set-device-is-eager".to_owned()];
        let scenarios = catalogue::select_scenarios(&names).unwrap();
        let mut instance = scenarios[0].instances[0].clone();
        let program = Reproducer::new(&scenarios[0], &instance, "file").unwrap();
        assert_eq!(program.language(), Language::C);
        write_reproducer(&program).unwrap();
        let trap = instance.cases.first_mut().unwrap();
        trap.python = Some(Python { needs: Vec::new() });
        let program = Reproducer::new(&scenarios[0], &instance, "file").unwrap();
        assert_eq!(program.language(), Language::Python);
        let refusal = write_reproducer(&program).unwrap_err();
        assert!(
            refusal
                .to_string()
                .contains("mixes Python lines with the call"),
            "{refusal}"
        );
    }
}

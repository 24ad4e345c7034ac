//! Steps and checks in a file of another format, read like those of a scenario file.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::arguments::{may_have_value, may_name};
use super::cases;
use super::checks;
use super::parameters::Parameters;
use crate::scenario::file::CheckFile;
use crate::scenario::{Check, Step};
use crate::source::Diagnostic;
use crate::source::reader::Reader;
use crate::source::tree::Node;

/// The reader of a file such as `scenarios/surveys/calls.toml`, for its steps and checks.
pub struct Excerpts<'a> {
    reader: Reader<'a>,
}

impl<'a> Excerpts<'a> {
    /// `file` is the name of the file in messages, and `kernels` are the names that a `ptx` argument can have.
    pub fn new(file: &'a str, source: &'a str, kernels: &'a [&'a str]) -> Excerpts<'a> {
        Excerpts {
            reader: Reader::new(file, source, kernels),
        }
    }

    /// Reads the steps of one case, and the checks that refer to them. Errors are kept for [`Self::finish`].
    pub fn read_case(
        &mut self,
        steps: &Spanned<Vec<Node>>,
        checks: &[Spanned<CheckFile>],
    ) -> (Vec<Step>, Vec<Check>) {
        let (steps, scope) = cases::read_steps(&mut self.reader, "trap", steps, &[], false);
        let none = Parameters::default();
        let checks = checks::read_checks(&mut self.reader, checks, &[&scope], &none);
        (steps, checks)
    }

    /// Checks the variables that a case sets at exec; errors are reported at `span`.
    pub fn environment(&mut self, env: &BTreeMap<String, String>, span: &Range<usize>) {
        for (name, value) in env {
            if may_name(&mut self.reader, name, span, false) {
                may_have_value(&mut self.reader, name, value, span);
            }
        }
    }

    /// Ends the reading of the file.
    ///
    /// # Errors
    /// Returns every error so far, each with its location.
    pub fn finish(self) -> Result<(), Vec<Diagnostic>> {
        self.reader.finish(Some(()))
    }
}

//! Steps and checks in a file of another format, read like those of a scenario file.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::{Spanned, Table};

use super::arguments::{may_have_value, may_name};
use super::cases;
use super::checks;
use super::parameters::Parameters;
use crate::scenario::{Check, Step};
use crate::source::Diagnostic;
use crate::source::reader::Reader;
use crate::source::tree::{Data, Node, SourceSpan, table_at};

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
    pub fn case(
        &mut self,
        steps: &[Spanned<Table>],
        checks: &[Spanned<Table>],
    ) -> (Vec<Step>, Vec<Check>) {
        let [steps, checks] = [steps, checks].map(|tables| {
            let start = tables.first().map_or(0, |first| first.span().start);
            let end = tables.last().map_or(start, |last| last.span().end);
            let nodes = tables
                .iter()
                .map(|table| table_at(table.get_ref(), &SourceSpan::at(table.span())))
                .collect();
            Node {
                data: Data::List(nodes),
                place: SourceSpan::at(start..end),
            }
        });
        let (steps, scope) = cases::steps_of(&mut self.reader, "trap", Some(&steps), &[], false);
        (
            steps,
            checks::parse_checks(&mut self.reader, &checks, &[&scope], &Parameters::default()),
        )
    }

    /// Checks the variables that a case sets at exec; errors are reported at `span`.
    pub fn environment(&mut self, env: &BTreeMap<String, String>, span: Range<usize>) {
        let place = SourceSpan::at(span);
        for (name, value) in env {
            if may_name(&mut self.reader, name, &place, false) {
                may_have_value(&mut self.reader, name, value, &place);
            }
        }
    }

    /// Ends the reading of the file.
    ///
    /// # Errors
    /// Every error so far, each with its place.
    pub fn finish(self) -> Result<(), Vec<Diagnostic>> {
        if self.reader.errors.is_empty() {
            Ok(())
        } else {
            Err(self.reader.errors)
        }
    }
}

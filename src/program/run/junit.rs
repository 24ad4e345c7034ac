//! The JUnit file of a run, which is never stale and never partial.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use super::console::Console;
use super::error::RunError;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::output;
use cuda_pitfalls_core::report::Report;
use cuda_pitfalls_core::text::{escape, lines};
use cuda_pitfalls_render::{self as render, Format, Prepared};

/// The JUnit file that a run will write.
pub(super) struct JunitFile {
    path: PathBuf,
}

impl JunitFile {
    /// Writes a file with the statement that the run has not ended, so that the result of an earlier run cannot be
    /// taken for the result of this one, however this one ends.
    ///
    /// # Errors
    /// Returns an error if the path is a link, a directory, a device or a pipe, or cannot be written.
    pub(super) fn prepare_file(path: &Path) -> Result<JunitFile, RunError> {
        let file = JunitFile {
            path: path.to_path_buf(),
        };
        let prepared = match fs::symlink_metadata(path) {
            Ok(data) if !data.is_file() => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            )),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => file.replace_text(&unfinished_document("the run has not ended, or was killed")),
        };
        prepared.map(|()| file).map_err(|error| {
            RunError::Usage(format!(
                "--junit: cannot write `{}`: {error}",
                path.display()
            ))
        })
    }

    /// Writes the results of a run. Returns the exit code for this write only.
    pub(super) fn hand_over(&self, report: &Report, console: &Console) -> Exit {
        let rendered = render::render(&Prepared::Fresh(report), Format::Junit, lines::WIDTH);
        let text = rendered.expect("a report has this form");
        let Err(error) = self.replace_text(&text) else {
            return Exit::Ok;
        };
        console.print_warnings(&[format!("cannot write `{}`: {error}", self.path.display())]);
        Exit::NotDurable
    }

    /// Writes that the run failed, and why. If that is impossible, the file still states that the run has not ended.
    pub(super) fn write_failure(&self, why: &str) {
        let _ = self.replace_text(&unfinished_document(why));
    }

    fn replace_text(&self, text: &str) -> io::Result<()> {
        output::replace(&self.path, output::EVERYBODY, |file| {
            file.write_all(text.as_bytes())
        })
    }
}

/// Returns a document with one error.
fn unfinished_document(why: &str) -> String {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(escape::escape_xml(why));
    let mut suite = TestSuite::new("cuda-pitfalls");
    suite.add_test_case(TestCase::new("run", status));
    let mut junit = Junit::new("cuda-pitfalls");
    junit.add_test_suite(suite);
    junit
        .to_string()
        .expect("escaped text can be written to memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_did_not_end_is_an_error() {
        let text = unfinished_document("x < y");
        assert!(
            text.contains("errors=\"1\"") && text.contains("x &lt; y"),
            "{text}"
        );
    }
}

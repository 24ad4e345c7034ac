//! The JUnit file of a run, which is never stale and never partial.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use cuda_pitfalls_core::output;
use cuda_pitfalls_core::report::Report;
use cuda_pitfalls_core::text::{escape, lines};
use cuda_pitfalls_render::{self as render, Format, Prepared};

/// The JUnit file that a run will write.
pub(super) struct JunitFile {
    path: PathBuf,
}

impl JunitFile {
    /// Writes a file that says that the run has not ended, so that the result of an earlier run cannot be taken for
    /// that of this one, however this one ends.
    ///
    /// # Errors
    /// The path is a link, a folder, a device or a pipe, or the system refused.
    pub(super) fn prepare(path: &Path) -> io::Result<JunitFile> {
        match fs::symlink_metadata(path) {
            Ok(data) if !data.is_file() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = JunitFile { path: path.to_path_buf() };
        file.put(&unfinished("the run has not ended, or was killed"))?;
        Ok(file)
    }

    /// Writes the results of a run.
    pub(super) fn write(&self, report: &Report) -> io::Result<()> {
        self.put(&render::render(&Prepared::Fresh(report), Format::Junit, lines::WIDTH).unwrap_or_default())
    }

    /// Writes that the run failed, and why. If that is impossible, the file still says that the run has not ended.
    pub(super) fn fail(&self, why: &str) {
        let _ = self.put(&unfinished(why));
    }

    fn put(&self, text: &str) -> io::Result<()> {
        output::replace(&self.path, output::EVERYBODY, |file| file.write_all(text.as_bytes()))
    }
}

/// A document with one error.
fn unfinished(why: &str) -> String {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(escape::xml(why));
    let mut suite = TestSuite::new("cuda-pitfalls");
    suite.add_test_case(TestCase::new("run", status));
    let mut junit = Junit::new("cuda-pitfalls");
    junit.add_test_suite(suite);
    junit.to_string().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_did_not_end_is_an_error() {
        let text = unfinished("x < y");
        assert!(text.contains("errors=\"1\"") && text.contains("x &lt; y"), "{text}");
    }
}

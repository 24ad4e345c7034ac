//! The JUnit file beside the report: never stale, never partial.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use cuda_pitfalls_core::report::Report;
use cuda_pitfalls_core::text::{escape, lines};
use cuda_pitfalls_render::{self as render, Format, Prepared};

/// A JUnit file that a run is to leave.
pub(super) struct JunitFile {
    path: PathBuf,
}

impl JunitFile {
    /// Puts a file in place that says that the run has not ended: what a run before left there must
    /// not pass for what this one found, however this one ends.
    ///
    /// # Errors
    /// The path is a link, a folder, a device or a pipe; or the system refused.
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

    /// Puts the results of a run in place.
    ///
    /// # Errors
    /// What the system refused.
    pub(super) fn write(&self, report: &Report) -> io::Result<()> {
        self.put(&render::render(&Prepared::Fresh(report), Format::Junit, lines::WIDTH).unwrap_or_default())
    }

    /// Says that the run failed, and why. A file that cannot be written still says that the run has
    /// not ended.
    pub(super) fn fail(&self, why: &str) {
        let _ = self.put(&unfinished(why));
    }

    /// Written beside its place and renamed, so that a link is replaced and not followed.
    fn put(&self, text: &str) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
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

    #[test]
    fn only_a_regular_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.xml"), folder.path().join("link.xml"));
        fs::write(&real, "green").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(JunitFile::prepare(&link).is_err());
        assert!(JunitFile::prepare(folder.path()).is_err());
        assert!(JunitFile::prepare(Path::new("/dev/full")).is_err());
        assert_eq!(fs::read_to_string(&real).unwrap(), "green");
        JunitFile::prepare(&real).unwrap();
        assert!(fs::read_to_string(&real).unwrap().contains("errors=\"1\""));
    }
}

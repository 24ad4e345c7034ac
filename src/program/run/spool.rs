//! Keeps attempts of questions that are not in progress in a file without a name. The parent stays small, however many
//! attempts a run makes, and the report, which is written every second, copies existing texts. (With all attempts in
//! memory, a run of all questions on the simulated machine took 94 MiB rather than 69, and half as much time again.)

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::error::RunError;
use cuda_pitfalls_core::report::{Attempt, CaseReport, Elsewhere, StoreError};

/// A file that the system removes at the end of the run, however it ends.
#[derive(Debug)]
pub(super) struct Spool {
    file: Arc<File>,
    end: u64,
}

impl Spool {
    /// Creates the file in this folder.
    ///
    /// # Errors
    /// Returns an error if no file can be created in this directory.
    pub(super) fn create_in(folder: &Path) -> Result<Spool, RunError> {
        let file = tempfile::tempfile_in(folder).map_err(|error| {
            RunError::Internal(format!("cannot store attempts in TMPDIR: {error}"))
        })?;
        Ok(Spool {
            file: Arc::new(file),
            end: 0,
        })
    }

    /// Moves every complete attempt to the file, and leaves a light one in its place.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, for instance because the disk is full. Attempts that could not be
    /// moved stay complete.
    pub(super) fn put_away(&mut self, cases: &mut [CaseReport]) -> Result<(), StoreError> {
        for attempt in cases.iter_mut().flat_map(|case| &mut case.attempts) {
            if attempt.elsewhere.is_none() {
                *attempt = self.keep(attempt).map_err(|source| StoreError::Io {
                    what: "keep attempts in",
                    path: std::env::temp_dir(),
                    source,
                })?;
            }
        }
        Ok(())
    }

    /// Writes an attempt to the file, and returns the light one.
    fn keep(&mut self, attempt: &Attempt) -> io::Result<Attempt> {
        let text = serde_json::to_vec(attempt)?;
        self.file.write_all_at(&text, self.end)?;
        let kept = Elsewhere {
            file: self.file.clone(),
            offset: self.end,
            length: text.len(),
        };
        self.end += text.len() as u64;
        Ok(attempt.to_summary(kept))
    }
}

/// Brings all attempts back in full.
///
/// # Errors
/// Returns an error if an attempt cannot be read back.
pub(super) fn bring_back(cases: &mut [CaseReport]) -> Result<(), RunError> {
    for attempt in cases.iter_mut().flat_map(|case| &mut case.attempts) {
        let Some(elsewhere) = attempt.elsewhere.take() else {
            continue;
        };
        let read = elsewhere
            .read_text()
            .and_then(|text| Ok(serde_json::from_str::<Attempt>(&text)?));
        let whole = read.map_err(|error| {
            RunError::Internal(format!("an attempt cannot be read back: {error}"))
        })?;
        // The judgment in memory is newer than the one in the file.
        *attempt = Attempt {
            judged: std::mem::take(&mut attempt.judged),
            ..whole
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::observe::fixture::Script;

    fn cases(count: usize) -> Vec<CaseReport> {
        let attempt = |step: usize| {
            let mut script = Script::new();
            script.snapshot(None, &[step as u64]);
            script.step(step, 0, &[]);
            Attempt::new(0, script.recording())
        };
        vec![CaseReport::new("trap", (0..count).map(attempt).collect())]
    }

    #[test]
    fn what_is_put_away_is_light_and_comes_back_whole() {
        let mut spool = Spool::create_in(&std::env::temp_dir()).unwrap();
        let whole = cases(3);
        let mut kept = whole.clone();
        spool.put_away(&mut kept).unwrap();
        assert!(
            kept[0]
                .attempts
                .iter()
                .all(|attempt| attempt.recording.events.is_empty()
                    && attempt.recording.snapshots.is_empty())
        );
        // It serializes to the same document.
        assert_eq!(
            serde_json::to_string(&kept).unwrap(),
            serde_json::to_string(&whole).unwrap()
        );
        kept[0].attempts.push(whole[0].attempts[1].clone());
        spool.put_away(&mut kept).unwrap();
        bring_back(&mut kept).unwrap();
        assert_eq!(kept[0].attempts[..3], whole[0].attempts[..]);
        assert_eq!(kept[0].attempts[3], whole[0].attempts[1]);
    }

    #[test]
    fn an_attempt_that_is_gone_is_an_error_and_no_attempt() {
        let mut spool = Spool::create_in(&std::env::temp_dir()).unwrap();
        let mut kept = cases(1);
        spool.put_away(&mut kept).unwrap();
        spool.file.set_len(3).unwrap();
        assert!(serde_json::to_string(&kept).is_err());
        assert!(
            bring_back(&mut kept)
                .unwrap_err()
                .to_string()
                .contains("cannot be read back")
        );
    }
}

//! The last lines of a trace: messages that arrived before the program ended, and the list of gaps.

use std::collections::BTreeSet;

use super::Tracer;
use super::gate::IsLast;
use super::place::UnreportedProcesses;
use super::program::Ended;
use crate::{End, TraceLine};
use cuda_pitfalls_calls::status::SIM_NOT_MODELLED;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::visible;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_instrument::supervisor;

/// The minimum rise of memory, in bytes, that is reported on a GPU without a known context.
const UNEXPLAINED_BYTES: u64 = 64 << 20;
/// The longest time that messages are still taken after the program's end.
const LAST_NS: u64 = 3_000_000_000;
/// The maximum number of lines that are kept of a failed program's stderr; the next constant limits the bytes.
const MOST_LINES: usize = 100;
pub(super) const MOST_BYTES: usize = 16 << 10;
/// The maximum number of rejected connections. Beyond it, messages of the program's own processes may be missing.
const MOST_STRANGERS: u64 = 1_000;

impl Tracer {
    /// Takes the messages that arrived before the program ended, and reports lost ones. Returns `false` if a message
    /// was lost.
    fn take_last_messages(&mut self) -> bool {
        let deadline_ns = clock::now_ns() + LAST_NS;
        self.gate.stop_accepting();
        let IsLast(is_last) = loop {
            match self.gate.rest(deadline_ns) {
                Ok(received) => self.handle_message(*received),
                Err(last) => break last,
            }
        };
        if !is_last {
            self.processes
                .add_unseen("more arrived than could be processed after the program ended".into());
        }
        let (gone, unread, strangers) = (
            self.gate.ended_count(),
            self.gate.unread_count(),
            self.gate.stranger_count(),
        );
        let unheard = [
            (
                gone,
                "came from processes that ended or became unreadable before they could be identified",
            ),
            (unread, "could not be read"),
            (
                if strangers > MOST_STRANGERS {
                    strangers
                } else {
                    0
                },
                "of other programs kept the tracer busy",
            ),
        ];
        for (count, what) in unheard.into_iter().filter(|(count, _)| *count > 0) {
            let messages = counted(count, "message");
            self.processes
                .add_unseen(format!("{messages} {what}; some events may be missing"));
        }
        let unreported = self.place.unreported_processes();
        match &unreported {
            Some(unreported) => self.note_unreported(unreported),
            None => self
                .processes
                .add_unseen("whether every process reported its events is unknown".into()),
        }
        is_last
            && gone == 0
            && unread == 0
            && unreported.is_some_and(|unreported| unreported.count == 0)
    }

    fn note_unreported(&mut self, unreported: &UnreportedProcesses) {
        for pid in &unreported.other_libcuda {
            self.processes.add_unseen(format!(
                "process {pid} did not open libcuda by name and changed CUDA_INJECTION64_PATH; whether it called cuInit is unknown"
            ));
        }
        // Each of the two libraries in a process may have stopped.
        let silent: BTreeSet<String> = unreported.silent.iter().map(u64::to_string).collect();
        if !silent.is_empty() {
            self.processes.add_unseen(format!(
                "{} stopped reporting (PID {}): the tracer did not answer, could not be reached, or a seccomp filter blocks it",
                counted(silent.len() as u64, "process"),
                silent.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
        if unreported.count > unreported.named() {
            self.processes
                .add_unseen("more processes stopped reporting than are listed".into());
        }
    }

    /// Writes the last lines. `ended_why` is the reason why the tracer does not wait for processes that still run.
    pub(super) fn write_last_lines(&mut self, ended: &Ended, ended_why: &str) {
        let t_ns = clock::now_ns();
        let heard_all = self.take_last_messages();
        self.descendants
            .scan_processes(&self.root_pids(), self.place.libcuda_loads());
        // The ledgers of processes that still run.
        self.read_ledgers(false);
        self.write_readings();
        self.read_memory(0);
        for counts in self.processes.rest() {
            self.writer.write(TraceLine::Counts(counts));
        }
        self.close_ledgers();
        let is_explained = self.processes.has_simulated_runtime();
        let mut not_seen = self.descendants.not_seen(ended_why);
        not_seen.extend(self.processes.not_seen(heard_all));
        let risen = self.writer.peaks.iter().filter_map(|(index, peak)| {
            let before = self.baseline.get(*index).copied().flatten()?;
            let gpu = self.gpus.get(*index)?;
            let by = peak.saturating_sub(before);
            (by > UNEXPLAINED_BYTES && !is_explained && !self.processes.had_context_on(&gpu.uuid)).then(|| {
                let by = units::bytes(by);
                format!(
                    "memory of GPU {index} rose by {by} while no traced process had a context there: another program or an untraced process"
                )
            })
        });
        not_seen.extend(risen);
        let unmodelled = Vec::from_iter(self.unmodeled_functions()).join(", ");
        if !unmodelled.is_empty() {
            not_seen.push(format!(
                "the simulated machine does not model {unmodelled}, which returned {SIM_NOT_MODELLED}; the behavior on a GPU is unknown"
            ));
        }
        let written = self.stderr.read_last_bytes(MOST_BYTES);
        let has_failed = ended.code != Some(0);
        let stderr = if has_failed {
            last_lines(&written)
        } else {
            Vec::new()
        };
        let (code, signal) = (ended.code, ended.signal.map(supervisor::signal_name));
        let (left_out, mut memory_gap_ns) = (self.writer.left_out, self.watch.longest_gaps(t_ns));
        if self.processes.hides_memory {
            memory_gap_ns.fill(None);
        }
        self.writer.write(TraceLine::End(End {
            t_ns,
            code,
            signal,
            not_seen,
            left_out,
            memory_gap_ns,
            stderr,
        }));
    }
}

/// Returns the last lines of a text whose beginning may be cut off. For a line that was redrawn, only the last version
/// is kept.
fn last_lines(written: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(written);
    let whole = match text.split_once('\n') {
        Some((_, rest)) if written.len() >= MOST_BYTES => rest,
        _ => &text,
    };
    let lines = whole
        .lines()
        .filter_map(|line| line.rsplit('\r').find(|drawn| !drawn.trim().is_empty()));
    let mut lines: Vec<String> = lines.map(|line| visible(line.trim_end())).collect();
    lines.drain(..lines.len().saturating_sub(MOST_LINES));
    lines
}

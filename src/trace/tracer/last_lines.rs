//! The last lines of a trace: messages that arrived before the program ended, and what was not seen.

use super::Tracer;
use super::gate::IsLast;
use super::program::Ended;
use crate::{End, TraceLine};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_instrument::supervisor;

/// Memory that rises by at least this much, in bytes, on a GPU without a known context is reported.
const UNEXPLAINED_BYTES: u64 = 64 << 20;
/// How long messages are still taken after the program's end.
const LAST_NS: u64 = 3_000_000_000;
/// From this many refused connections on, messages of the program's own processes may be missing.
const MOST_STRANGERS: u64 = 1_000;

impl Tracer {
    /// Takes the messages that arrived before the program ended, and reports what could not be taken. False if a message
    /// was lost.
    fn hear_the_last(&mut self) -> bool {
        let deadline_ns = clock::now_ns() + LAST_NS;
        self.gate.close();
        let IsLast(is_last) = loop {
            match self.gate.rest(deadline_ns) {
                Ok(received) => self.take(*received),
                Err(last) => break last,
            }
        };
        if !is_last {
            self.processes.unseen("more was told than could be looked at when the program had ended".into());
        }
        let (gone, unread, strangers) = (self.gate.gone(), self.gate.unread(), self.gate.strangers());
        let unheard = [
            (gone, "came from processes that had ended, or could not be read, before they could be recognised"),
            (unread, "could not be read"),
            (if strangers > MOST_STRANGERS { strangers } else { 0 }, "of other programs kept the tracer busy"),
        ];
        for (count, what) in unheard.into_iter().filter(|(count, _)| *count > 0) {
            let messages = counted(count, "message");
            self.processes.unseen(format!("{messages} {what}: something may have been missed"));
        }
        let silent = self.place.silent();
        match silent {
            Some(0) => {}
            Some(count) => {
                let processes = counted(count, "process");
                self.processes.unseen(format!(
                    "{processes} stopped telling what happens, because the tracer did not answer or could not be reached, \
                     or a seccomp filter may forbid it"
                ));
            }
            None => self.processes.unseen("whether every process told what happened is not known".into()),
        }
        is_last && gone == 0 && unread == 0 && silent == Some(0)
    }

    pub(super) fn finish(&mut self, ended: &Ended, program: u32) {
        let t_ns = clock::now_ns();
        let heard_all = self.hear_the_last();
        // Of processes that go on.
        self.read_ledgers(false);
        self.round(program);
        self.read_memory(0);
        for counts in self.processes.rest() {
            self.writer.write(TraceLine::Counts(counts));
        }
        self.close_ledgers();
        let is_explained = self.processes.has_simulated_runtime();
        let mut not_seen = self.processes.not_seen(heard_all);
        let risen = self.writer.peaks.iter().filter_map(|(index, peak)| {
            let before = self.baseline.get(*index).copied().flatten()?;
            let gpu = self.gpus.get(*index)?;
            let by = peak.saturating_sub(before);
            (by > UNEXPLAINED_BYTES && !is_explained && !self.processes.had_context_on(&gpu.uuid)).then(|| {
                let by = units::bytes(by);
                format!(
                    "memory of GPU {index} rose by {by} while no process that is seen had a context there: another \
                     program's, or a process of this one that is not seen"
                )
            })
        });
        not_seen.extend(risen);
        let (code, signal) = (ended.code, ended.signal.map(supervisor::signal_name));
        let (left_out, mut memory_gap_ns) = (self.writer.left_out, self.watch.gaps(t_ns));
        if self.processes.hides_memory {
            memory_gap_ns.fill(None);
        }
        self.writer.write(TraceLine::End(End { t_ns, code, signal, not_seen, left_out, memory_gap_ns }));
    }
}

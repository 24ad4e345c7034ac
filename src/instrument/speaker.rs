//! The messages of a `doctor` process.

use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::Status;
use cuda_pitfalls_core::examination::{ExaminerMessage, StartCall};

/// Reports the progress of a start, call by call: after a hang or a crash the last line identifies the call.
pub(crate) struct Speaker<'a> {
    pub(crate) channel: &'a Channel,
}

impl Speaker<'_> {
    /// Sends a message. If the parent is gone, this process ends.
    pub(crate) fn send_message(&self, said: &ExaminerMessage) {
        if self.channel.send(said).is_err() {
            std::process::exit(70);
        }
    }

    /// Makes a call, and returns whether it succeeded.
    pub(crate) fn call(
        &self,
        library: CallLibrary,
        call: &str,
        make: impl FnOnce() -> i64,
    ) -> bool {
        self.send_message(&ExaminerMessage::Begin {
            call: call.to_string(),
        });
        let code = make();
        let status = Status::named(library, code)
            .name
            .unwrap_or_else(|| code.to_string());
        self.send_message(&ExaminerMessage::End(StartCall {
            call: call.to_string(),
            code,
            status,
        }));
        code == 0
    }
}

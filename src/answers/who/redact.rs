//! Holders without anything that identifies a machine, a user or a job.

use std::collections::BTreeMap;

use super::{GpuHolderProcess, Holders, ProcessProblem, Unseen};
use cuda_pitfalls_core::holding::ProcessExamination;
use cuda_pitfalls_core::scenario::environment::MASK;
use cuda_pitfalls_core::text::redact::{GONE, Redactor, file_name, keep_package};

impl Holders {
    /// Returns the same without users, commands, paths, variables and identifiers. Equal users stay equal.
    pub fn redact(&self) -> Holders {
        let mut redacted = self.clone();
        let mut redactor = Redactor::default();
        let mut users: BTreeMap<String, String> = BTreeMap::new();
        for gpu in &mut redacted.gpus {
            gpu.uuid = redactor.text(&gpu.uuid);
        }
        for holder in &mut redacted.holders {
            if let Some(user) = &mut holder.user {
                let next = format!("user {}", users.len() + 1);
                *user = users.entry(user.clone()).or_insert(next).clone();
            }
            redact_holder(holder, &mut redactor);
        }
        for unseen in &mut redacted.unseen {
            if let Unseen::Unread { processes } = unseen {
                processes.iter_mut().for_each(|process| process.uid = None);
            }
        }
        redacted
    }
}

fn redact_holder(holder: &mut GpuHolderProcess, redactor: &mut Redactor) {
    if let Some(place) = &mut holder.place {
        place.id = GONE.to_owned();
    }
    for problem in &mut holder.problems {
        match problem {
            ProcessProblem::MaskLate { now, .. } => *now = redact_mask(now, redactor),
            ProcessProblem::LoadedTwice { paths } => {
                paths
                    .iter_mut()
                    .for_each(|path| *path = redact_library(path));
            }
            ProcessProblem::OtherVersion { path, .. } => *path = redact_library(path),
            ProcessProblem::Stray { .. } | ProcessProblem::Closed { .. } => {}
        }
    }
    let process = holder.process.as_ref();
    holder.process = process.map(|process| redact_process(process, redactor));
}

/// Returns the name of a library's file if only a version follows its name.
fn redact_library(path: &str) -> String {
    let name = file_name(path);
    let version = name.split_once(".so").map_or("?", |(_, version)| version);
    let is_plain = version
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain { name } else { GONE.to_owned() }
}

/// Returns a mask if it consists of numbers and UUIDs. A process can set any text.
fn redact_mask(mask: &str, redactor: &mut Redactor) -> String {
    let rest = mask.replace("GPU-", "").replace("MIG-", "");
    let mut bytes = rest.bytes();
    if bytes.all(|byte| byte.is_ascii_hexdigit() || b"-, /".contains(&byte)) {
        redactor.text(mask)
    } else {
        GONE.to_owned()
    }
}

/// Returns what identifies nothing; everything else is left out.
fn redact_process(process: &ProcessExamination, redactor: &mut Redactor) -> ProcessExamination {
    let mut libraries = process.libraries.clone();
    for library in libraries.iter_mut().flatten() {
        library.path = redact_library(&library.path);
    }
    let (mut started_with, mut now) = (process.started_with.clone(), process.now.clone());
    for variables in [&mut started_with, &mut now].into_iter().flatten() {
        variables.retain(|name, _| name == MASK);
        let values = variables.values_mut();
        values.for_each(|value| *value = redact_mask(value, redactor));
    }
    let mut stack = process.stack.clone();
    if let Some(stack) = &mut stack {
        let lines = stack.frames.iter_mut().chain(&mut stack.user_line);
        lines.for_each(|line| *line = keep_package(line));
        stack.error = stack.error.as_ref().map(|_| GONE.to_owned());
    }
    ProcessExamination {
        pid: process.pid,
        program: file_name(&process.program),
        is_program_of_root: process.is_program_of_root,
        state: process.state,
        parent: process.parent.clone(),
        session: process.session,
        inner_pid: process.inner_pid,
        started_unix_ms: process.started_unix_ms,
        threads: process.threads,
        driver_threads: process.driver_threads.clone(),
        is_filtered: process.is_filtered,
        open_files: process.open_files.clone(),
        mapped_files: process.mapped_files.clone(),
        started_with,
        now,
        libraries,
        stack,
        ..ProcessExamination::default()
    }
}

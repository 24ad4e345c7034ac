//! Holders without anything that identifies a machine, a user or a job.

use std::collections::BTreeMap;

use super::{GpuHolderProcess, Holders, ProcessFindings, Unseen};
use cuda_pitfalls_core::holding::{ProcessExamination, ProcessLibrary, PythonStack};
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
    if let Some(stack) = &mut holder.stack {
        redact_stack(stack);
    }
    if let Some(findings) = &mut holder.findings {
        redact_findings(findings, redactor);
    }
    if let Some(process) = &mut holder.process {
        redact_process(process);
    }
}

fn redact_stack(stack: &mut PythonStack) {
    let lines = stack.frames.iter_mut().chain(&mut stack.user_line);
    lines.for_each(|line| *line = keep_package(line));
    if stack.error.is_some() {
        stack.error = Some(GONE.to_owned());
    }
}

fn redact_findings(findings: &mut ProcessFindings, redactor: &mut Redactor) {
    for held in &mut findings.contexts {
        held.uuid = redactor.text(&held.uuid);
    }
    let libraries = findings
        .twice
        .iter_mut()
        .chain(&mut findings.of_other_version);
    redact_libraries(libraries);
    if let Some(mask) = &mut findings.mask {
        for value in [&mut mask.at_start, &mut mask.now] {
            *value = value.as_ref().map(|value| redactor.text(value));
        }
    }
    if findings.mps.is_some() {
        findings.mps = Some(GONE.to_owned());
    }
}

fn redact_process(process: &mut ProcessExamination) {
    process.program = file_name(&process.program);
    process.command = String::new();
    process.uid = None;
    process.control_groups.clear();
    for variables in [&mut process.started_with, &mut process.now] {
        let Some(variables) = variables else { continue };
        variables.retain(|name, _| name == MASK);
        let mut redactor = Redactor::default();
        variables
            .values_mut()
            .for_each(|value| *value = redactor.text(value));
    }
    redact_libraries(process.libraries.iter_mut().flatten());
    if process.mps_folder.is_some() {
        process.mps_folder = Some(GONE.to_owned());
    }
}

fn redact_libraries<'a>(libraries: impl Iterator<Item = &'a mut ProcessLibrary>) {
    for library in libraries {
        library.path = file_name(&library.path);
    }
}

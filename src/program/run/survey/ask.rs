//! Runs every question of a survey on each of its libcudarts, and writes the rows.

use std::collections::BTreeSet;

use super::super::document::{finish_document, note_run_end};
use super::super::error::RunError;
use super::super::progress::Progress;
use super::super::question::{self, why_host_unsafe};
use super::{SurveyRun, resume};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::{
    Header, Item, LeftOut, SCHEMA, SurveyAnswer, SurveyDocument, SurveyRow, format_row_key,
};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::event::MappedLibrary;
use cuda_pitfalls_core::observe::Scene;
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_render::survey as render;

/// A question, on the libcudart at an index.
struct SurveyJob<'i> {
    item: &'i Item,
    runtime: usize,
    key: String,
}

impl SurveyRun<'_> {
    /// Returns the document to fill: a new one, or that of the survey to resume.
    pub(super) fn document(&mut self, left_out: Vec<LeftOut>) -> SurveyDocument {
        self.stored
            .take()
            .map_or_else(|| self.blank_document(left_out), resume::document)
    }

    /// Runs all questions that have no row yet. The document is complete if all of them got one.
    pub(super) fn ask(
        &mut self,
        items: &[Item],
        document: &mut SurveyDocument,
    ) -> Result<(), RunError> {
        let started = clock::now_ns();
        let spent = document.header.elapsed_ns;
        let jobs = self.open_jobs(items, document);
        let mut progress = Progress::new(jobs.len());
        let mut runtime = None;
        self.put_document(document)?;
        self.console.start(jobs.len() as u64);
        for job in &jobs {
            if self.session.supervisor.interrupt.check() || document.header.host_unsafe.is_some() {
                break;
            }
            if runtime != Some(job.runtime) {
                self.session.use_runtime(job.runtime);
                runtime = Some(job.runtime);
            }
            self.console
                .status(&format!("{} · {}", progress.left(), job.key));
            let Some(row) = self.row(job, &mut document.header) else {
                break;
            };
            document.rows.push(row);
            MappedLibrary::add_missing(
                &mut document.machine.libraries,
                self.session.machine.libraries.iter().cloned(),
            );
            document.header.elapsed_ns = spent + (clock::now_ns() - started);
            self.console.step(progress.done());
            if progress.is_write_due() {
                self.put_document(document)?;
            }
        }
        let answered: BTreeSet<String> = document.rows.iter().map(|row| row.key.clone()).collect();
        document.complete = jobs.iter().all(|job| answered.contains(&job.key));
        document.header.elapsed_ns = spent + (clock::now_ns() - started);
        Ok(())
    }

    /// Returns the questions without a row: first those that run once, then the others, libcudart by libcudart.
    fn open_jobs<'i>(&self, items: &'i [Item], document: &SurveyDocument) -> Vec<SurveyJob<'i>> {
        let mut known: BTreeSet<String> = document.rows.iter().map(|row| row.key.clone()).collect();
        let mut jobs = Vec::new();
        for index in 0..self.session.runtimes.len().max(1) {
            let version = self
                .session
                .runtime(index)
                .and_then(|runtime| runtime.version.clone());
            for item in items.iter().filter(|item| item.of_libcudart || index == 0) {
                let asked_of = if item.of_libcudart {
                    version.as_deref()
                } else {
                    None
                };
                let key = format_row_key(&item.row.key, asked_of);
                // If two libcudarts have the same version, only the first is used, because
                // rows are identified by version.
                if known.insert(key.clone()) {
                    jobs.push(SurveyJob {
                        item,
                        runtime: index,
                        key,
                    });
                }
            }
        }
        jobs
    }

    /// Runs one question. `None` if the user stopped it: an unfinished question has no row.
    fn row(&mut self, job: &SurveyJob<'_>, header: &mut Header) -> Option<SurveyRow> {
        let SurveyJob { item, runtime, .. } = *job;
        let instance = item.scenario.instances.first()?;
        let mut planning = question::plan_options(&mut self.session, &self.run, runtime);
        planning.repeat = item.repeat.or(planning.repeat);
        let (session, report, console) = (&mut self.session, &self.report.run, &*self.console);
        let done = question::answer(
            session,
            &item.scenario,
            instance,
            report,
            &planning,
            runtime,
            console,
        );
        if self.session.supervisor.interrupt.check() {
            return None;
        }
        header.attempts_ns += done
            .cases
            .iter()
            .flat_map(|case| &case.attempts)
            .map(|attempt| attempt.recording.wall_ns)
            .sum::<u64>();
        if let Some(why) = why_host_unsafe(&done) {
            header.host_unsafe.get_or_insert(why);
        }
        let figures = self.report.run.calibrations();
        let scene = Scene {
            calibration: &figures,
            gpus: &self.session.machine.gpus,
        };
        let provenance = self.session.provenance;
        let answered = SurveyAnswer {
            report: &done,
            scene: &scene,
            machine: &self.session.machine,
            provenance,
        };
        Some((item.reduce)(&answered))
    }

    pub(super) fn blank_document(&self, left_out: Vec<LeftOut>) -> SurveyDocument {
        let run = &self.report.run;
        SurveyDocument {
            schema: SchemaId::current(SCHEMA),
            kind: self.options.kind.kind(),
            provenance: self.report.provenance,
            header: Header {
                id: run.id.clone(),
                version: run.version.clone(),
                started_at: clock::utc_now(),
                selectors: self.run.selectors.clone(),
                on: run.on.clone(),
                repeat: self.options.repeat(),
                repeat_generated: self.options.repeat_generated(),
                seed: run.seed,
                generate: self.options.generate as u64,
                visible_gpus: self.options.visible_gpus,
                ..Header::default()
            },
            machine: self.session.machine.clone(),
            rows: Vec::new(),
            left_out,
            complete: false,
        }
    }

    pub(super) fn put_document(&self, document: &SurveyDocument) -> Result<(), RunError> {
        Ok(self
            .open_store()?
            .write_document(&document.kind.file(), document)
            .map(drop)?)
    }

    /// Completes the document, prints it, and returns the exit code.
    pub(super) fn end(&mut self, mut document: SurveyDocument) -> Result<Exit, RunError> {
        let exit = note_run_end(&mut document, &self.session);
        let store = self.open_store()?;
        finish_document(&mut document, &store, exit, |document| {
            let json = serde_json::to_string(document);
            let path = self.folder.join(document.kind.file());
            let path = path.to_string_lossy();
            let text = if self.run.asked.quiet {
                render::survey_ending(document, &path)
            } else {
                render::text(document, &path, self.console.screen)
            };
            self.console.finish_survey(&text, json)
        })
    }
}

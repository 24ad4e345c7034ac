//! `survey needs`: its questions follow from its rows, so they are asked in stages.

use super::super::error::RunError;
use super::{SurveyRun, select};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::needs::{self, NeedRow, NeedsProgram};
use cuda_pitfalls_answers::survey::{Item, LeftOut};

impl SurveyRun<'_> {
    /// Runs the controls, records what the programs ask for, and refuses it.
    pub(super) fn needs(mut self, left_out: Vec<LeftOut>) -> Result<Exit, RunError> {
        if let Some(exit) = self.begin_run()? {
            return Ok(exit);
        }
        let mut document = self.document(left_out);
        let gpus = self.session.machine.gpus.len();
        let selectors = self.run.selectors.clone();
        let programs: Vec<NeedsProgram> = NeedsProgram::ALL
            .into_iter()
            .filter(|program| program.is_chosen(&selectors))
            .collect();
        let all = |_: &Item| true;
        let frameworks = needs::next(&[], gpus, 1, &programs, &all)
            .into_iter()
            .map(|item| item.scenario);
        self.session.use_python(
            self.run.asked.python.as_deref(),
            &frameworks.collect::<Vec<_>>(),
        )?;
        document
            .machine
            .python
            .clone_from(&self.session.machine.python);
        let mut is_checked = false;
        loop {
            let rows: Vec<NeedRow> = document.rows_of();
            let items = needs::next(&rows, gpus, self.options.repeat(), &programs, &|item| {
                // A row says nothing without its control.
                select::is_chosen(item, &selectors) || item.row.is_control
            });
            if !is_checked && needs::has_records(&rows) {
                // Only what the programs ask for can be selected.
                let asked = needs::next(&rows, gpus, self.options.repeat(), &programs, &all);
                // A framework may not be installed; its controls say so. One with `!` may mean what follows later.
                let is_program = |selector: &&String| {
                    NeedsProgram::ALL.iter().any(|one| one.name() == **selector)
                };
                let others: Vec<String> = selectors
                    .iter()
                    .filter(|one| !one.starts_with('!') && !is_program(one))
                    .cloned()
                    .collect();
                select::check_meaning(&asked, &others)?;
                is_checked = true;
            }
            // A question that is asked again replaces its row.
            document
                .rows
                .retain(|row| items.iter().all(|item| item.row.key != row.key));
            self.ask(&items, &mut document)?;
            if items.is_empty() || !document.complete {
                break;
            }
            let rows: Vec<NeedRow> = document.rows_of();
            if let Some(why) = needs::why_unfiltered(&rows) {
                let why = format!("nothing can be refused here, so nothing was asked: {why}");
                self.console.print_warnings(&[why]);
                break;
            }
            let disturbed = needs::disturbed_controls(&rows);
            if !disturbed.is_empty() {
                document.complete = false;
                let why = format!(
                    "a filter that refuses nothing changes what the program does: {}",
                    disturbed.join(", ")
                );
                self.console.print_warnings(&[why]);
                break;
            }
        }
        self.end(document)
    }
}

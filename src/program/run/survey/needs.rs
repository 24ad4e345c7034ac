//! `survey needs`: its questions follow from its rows, so they run in stages.

use super::super::error::RunError;
use super::{SurveyRun, select};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::needs::{self, NeedRow, NeedsProgram};
use cuda_pitfalls_answers::survey::{Item, LeftOut};

impl SurveyRun<'_> {
    /// Runs the controls, records the files and system calls that the programs use, and denies each.
    pub(super) fn needs(mut self, left_out: Vec<LeftOut>) -> Result<Exit, RunError> {
        if let Some(exit) = self.begin_run()? {
            return Ok(exit);
        }
        let mut document = self.document(left_out);
        let mut programs = NeedsProgram::ALL.to_vec();
        programs.retain(|program| program.is_chosen(&self.run.selectors));
        self.use_frameworks(&programs)?;
        document
            .machine
            .python
            .clone_from(&self.session.machine.python);
        let selectors = self.run.selectors.clone();
        let mut is_checked = false;
        loop {
            let rows: Vec<NeedRow> = document.rows_of();
            let items = self.next_items(&rows, &programs, &|item| {
                // A row without its control shows nothing.
                select::is_chosen(item, &selectors) || item.row.is_control
            });
            if !is_checked && needs::has_records(&rows) {
                self.check_selectors(&rows, &programs)?;
                is_checked = true;
            }
            // A question that runs again replaces its row.
            document
                .rows
                .retain(|row| items.iter().all(|item| item.row.key != row.key));
            self.ask(&items, &mut document)?;
            if items.is_empty() || !document.complete {
                break;
            }
            let rows: Vec<NeedRow> = document.rows_of();
            if let Some(why) = needs::why_unfiltered(&rows) {
                let why = format!("cannot deny system calls here, so nothing was measured: {why}");
                self.console.print_warnings(&[why]);
                break;
            }
            let disturbed = needs::disturbed_controls(&rows);
            if !disturbed.is_empty() {
                document.complete = false;
                let why = format!(
                    "a filter that denies nothing changes the behavior of the program: {}",
                    disturbed.join(", ")
                );
                self.console.print_warnings(&[why]);
                break;
            }
        }
        self.end(document)
    }

    /// Returns the wanted questions that follow from these rows.
    fn next_items(
        &self,
        rows: &[NeedRow],
        programs: &[NeedsProgram],
        is_wanted: &dyn Fn(&Item) -> bool,
    ) -> Vec<Item> {
        let gpus = self.session.machine.gpus.len();
        needs::next(rows, gpus, self.options.repeat(), programs, is_wanted)
    }

    /// Finds the interpreter of the frameworks among these programs.
    fn use_frameworks(&mut self, programs: &[NeedsProgram]) -> Result<(), RunError> {
        let mut scenarios = Vec::new();
        for item in self.next_items(&[], programs, &|_| true) {
            scenarios.push(item.scenario);
        }
        let given = self.run.asked.python.as_deref();
        self.session.use_python(given, &scenarios)
    }

    /// Rejects selectors that match nothing that the programs use, once it is known what they use.
    fn check_selectors(&self, rows: &[NeedRow], programs: &[NeedsProgram]) -> Result<(), RunError> {
        let asked = self.next_items(rows, programs, &|_| true);
        // A framework may not be installed; its controls show that. A selector with `!` may match
        // questions that follow later.
        let is_program =
            |selector: &str| NeedsProgram::ALL.iter().any(|one| one.name() == selector);
        let mut others = self.run.selectors.clone();
        others.retain(|selector| !selector.starts_with('!') && !is_program(selector));
        select::check_meaning(&asked, &others)
    }
}

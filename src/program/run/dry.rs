//! `--dry-run`: what would run on this machine. No worker is started and no report is written.

use super::console::Console;
use super::options::RunOptions;
use super::session::Session;
use super::{question, require};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::preview::Preview;
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_render::preview;

/// Prints what the options would run, and how the run would end.
pub(super) fn run(
    options: &RunOptions,
    session: &mut Session,
    selection: &Selection,
    console: &mut Console,
) -> Exit {
    console.print_warnings(&session.notes);
    let preview = look_ahead(options, session, selection);
    console.finish_survey(
        &preview::text(&preview),
        serde_json::to_string(&preview),
        preview.exit(),
    )
}

/// A preview of the run with these options.
pub(super) fn look_ahead(
    options: &RunOptions,
    session: &mut Session,
    selection: &Selection,
) -> Preview {
    let mut preview = Preview::new(&session.on, &session.machine, session.provenance);
    for place in 0..session.runtimes.len().max(1) {
        let planning = question::plan_options(session, options, place);
        let asked = selection
            .instances()
            .filter(|(scenario, _)| place == 0 || !scenario.has_python_lines());
        let instances =
            asked.map(|(scenario, instance)| (scenario, instance, selection.is_by_name(instance)));
        preview.add_instances(instances, &session.machine, &planning);
    }
    preview.allow_skip.clone_from(&options.allow_skip);
    preview.require.clone_from(&options.require);
    require::gpus(&mut preview.require, session);
    preview
}

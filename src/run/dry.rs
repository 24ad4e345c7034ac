//! `--dry-run`: what would run on this machine. No worker is started and no report is written.

use super::console::Console;
use super::stage::Stage;
use super::{Options, question, require};
use crate::catalogue::Selection;
use crate::exit::Exit;
use crate::preview::Preview;
use crate::render::preview;
use crate::report::Required;

/// Says what the options would run, and how that would end.
pub(super) fn run(options: &Options, stage: &mut Stage, selection: &Selection, console: &mut Console) -> Exit {
    console.warn(&stage.notes);
    let preview = look_ahead(options, stage, selection);
    let document = serde_json::to_string(&preview).unwrap_or_default();
    console.previewed(&preview::text(&preview), &document, preview.exit())
}

/// What the options would run here.
pub(super) fn look_ahead(options: &Options, stage: &mut Stage, selection: &Selection) -> Preview {
    let mut preview = Preview::new(&stage.on, &stage.machine, stage.provenance);
    for place in 0..stage.runtimes.len().max(1) {
        let planning = question::planning(stage, options, place);
        let instances = selection.instances().map(|(of, one)| (of, one, selection.is_by_name(one)));
        preview.add(instances, &stage.machine, &planning);
    }
    preview.allow_skip.clone_from(&options.allow_skip);
    preview.require.clone_from(&options.require);
    for requirement in preview.require.iter_mut().filter(|one| one.what == Required::Gpus) {
        *requirement = requirement.with(require::usable(stage));
    }
    preview
}

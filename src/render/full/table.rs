//! The table at the end of a run: a row per scenario.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

use crate::facts;
use crate::tally::Standing;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::verdict::Provenance;

/// The widest that a verdict or a reason is, and a simulated verdict in one line, with the two
/// columns of space behind them.
const VERDICT: usize = 22;
const SIMULATED_VERDICT: usize = 28;

/// The two columns of counts, with the space behind them.
const COUNTS: usize = 15;

/// The widest that a line of memory may be, and on a terminal that has the room.
const MEMORY: usize = 22;
const WIDE_MEMORY: usize = 30;

/// On terminals as wide as this, memory of trap and control stand beside each other.
const WIDE_FROM: usize = 120;

/// Narrower terminals have no column for memory; the entries below the table show it.
const MEMORY_FROM: usize = 90;

/// One line under the header: marks in the first column show where rows begin.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A row per scenario, at most `width` columns wide.
pub(super) fn table(report: &ReportView<'_>, width: usize) -> String {
    let memory = width >= MEMORY_FROM;
    let room = if width >= WIDE_FROM { WIDE_MEMORY } else { MEMORY };
    // The mark before the name, and the space behind it.
    let beside = report.provenance == Provenance::Simulated && memory;
    let verdict = if beside { SIMULATED_VERDICT } else { VERDICT };
    let taken = verdict + COUNTS + 4 + if memory { room + 1 } else { 0 };
    let name = width.saturating_sub(taken).max(8);
    let mut table = Table::new();
    // The width is not asked of the terminal: a rendering is the same wherever it is made. Cells are
    // broken here, because the table would break a name in the middle of a word.
    table.force_no_tty().set_content_arrangement(ContentArrangement::Disabled).load_style(STYLE);
    let shown = if memory { 5 } else { 4 };
    table.set_header(["  scenario", "verdict", "trap", "control", "memory, trap / control"].into_iter().take(shown));
    for scenario in &report.scenarios {
        table.add_row(row(scenario, name, room, if beside { " " } else { "\n" }).into_iter().take(shown));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let mut out = String::new();
    for line in table.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// `between` stands between a verdict and the word that it is simulated.
fn row(scenario: &ScenarioView<'_>, name: usize, room: usize, between: &str) -> [String; 5] {
    let standing = Standing::of(scenario.verdict);
    let seen = |name: &str| match scenario.case(name) {
        Some(case) => facts::frequency(case),
        None => "–".to_owned(),
    };
    let mut verdict = vec![scenario.verdict.kind.name().to_owned()];
    if scenario.verdict.provenance == Provenance::Simulated {
        verdict = vec![format!("{}{between}(simulated)", scenario.verdict.kind.name())];
    }
    verdict.extend(scenario.verdict.reason.map(|reason| reason.name()));
    if standing == Standing::Unexpected {
        verdict.push("unexpected".to_owned());
    }
    let mut memory = facts::trap_and_control(scenario);
    // Eight GPUs of a node mostly do the same; the report has them all.
    if memory.len() > 4 {
        let more = memory.len() - 3;
        memory.truncate(3);
        memory.push(format!("and {more} more GPUs"));
    }
    let memory: Vec<String> = memory.iter().map(|line| narrow(&terminal(line), room)).collect();
    [
        format!("{} {}", standing.mark(), broken(&terminal(scenario.name), name).join("\n  ")),
        verdict.join("\n"),
        seen("trap"),
        seen("control"),
        memory.join("\n"),
    ]
}

/// A line of memory, broken before the control's part where both do not fit beside each other.
fn narrow(line: &str, room: usize) -> String {
    match line.split_once(" / ") {
        Some((trap, control)) if line.chars().count() > room => format!("{trap}\n/ {control}"),
        _ => line.to_owned(),
    }
}

/// A name in pieces of at most `room` columns, broken behind `/` and `,`, before `[`, and inside
/// a word only where nothing else is left.
fn broken(name: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in name.replace('[', "\0[").split_inclusive(['/', ',', '-', ' ', '\0']) {
        let piece = piece.trim_end_matches('\0');
        for c in piece.chars().enumerate().map(|(place, c)| (place == 0, c)) {
            let (starts, c) = c;
            let Some(line) = lines.last_mut() else { continue };
            let length = line.chars().count();
            let whole = starts && length > 0 && length + piece.chars().count() > room;
            if whole || length >= room {
                lines.push(c.to_string());
            } else {
                line.push(c);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn long_names_are_broken_between_their_parts() {
        let name = "visibility/mask-after-device-count-in-another-thread[call=cudaGetDeviceCount,order=late]";
        assert_eq!(
            broken(name, 28),
            [
                "visibility/mask-after-",
                "device-count-in-another-",
                "thread",
                "[call=cudaGetDeviceCount,",
                "order=late]"
            ]
        );
        assert_eq!(broken("short/name", 28), ["short/name"]);
        assert!(broken(&"x".repeat(100), 28).iter().all(|line| line.len() <= 28));
    }

    #[test]
    fn the_table_fits() {
        let mut report = fixture::simulated();
        report.scenarios[0].name =
            "visibility/mask-after-device-count-in-another-thread[call=cudaGetDeviceCount]".into();
        for width in 60..=140 {
            let text = table(&report.view(), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert_eq!(text.contains("gpu0 +530 MiB / 0"), width >= MEMORY_FROM, "{text}");
        }
    }
}

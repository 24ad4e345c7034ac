//! The memory of a process on a GPU by owner: tables, and a chart over time.

mod document;
mod page;

pub(super) use document::LedgerSummary;
pub(super) use page::largest_owner;

use super::{TraceView, entry, place};
use crate::block::{Block, Table, Text};
use crate::machine::UserLine;
use crate::svg::{Chart, ChartLine};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::ledger::{Ledger, LedgerBand, LedgerRow, LedgerTable};

/// Limits of a format for ledgers.
#[derive(Clone, Copy)]
pub(super) struct LedgerRoom {
    pub(super) ledgers: usize,
    /// The rows of a table.
    pub(super) rows: usize,
    /// The bytes of all of it.
    pub(super) bytes: usize,
}

/// Maximum number of owners that a chart distinguishes, and the color of the line, which no owner has.
const MOST_AREAS: usize = 8;
const LINE_COLOR: usize = 8;

/// Returns the tables of one process on one GPU.
pub(super) fn ledger_section(
    seen: &TraceView,
    ledger: &Ledger,
    room: LedgerRoom,
    is_page: bool,
) -> Vec<Block> {
    let view = LedgerView {
        seen,
        ledger,
        room,
        is_page,
    };
    let gpu = place::gpu_name(seen.trace, ledger.gpu);
    let name = format!("{} on {gpu}", place::process_words(seen.trace, ledger.pid));
    let mut blocks = vec![
        Block::heading(3, &name),
        Block::Chart(view.owner_chart(&name)),
    ];
    if is_page {
        blocks.extend(view.page_blocks());
        let (class, id) = ("ledger".to_owned(), format!("memory-{}-{gpu}", ledger.pid));
        return vec![Block::Section { class, id, blocks }];
    }
    blocks.extend(view.moment_blocks("At its peak", &ledger.peak));
    blocks.extend(view.end());
    blocks
}

struct LedgerView<'v, 'a> {
    seen: &'v TraceView<'a>,
    ledger: &'v Ledger<'a>,
    room: LedgerRoom,
    is_page: bool,
}

impl LedgerView<'_, '_> {
    /// Returns the end: a single line if it is similar to the peak, which has its rows.
    fn end(&self) -> Vec<Block> {
        let Ledger { peak, end, .. } = self.ledger;
        if peak.t_ns == end.t_ns {
            return vec![Block::paragraph("This was also the last reading.")];
        }
        let [at_peak, at_end] = [peak, end].map(|table| table.charged_bytes.unwrap_or(0));
        if at_peak.abs_diff(at_end) > at_peak / 10 {
            return self.moment_blocks("At its end", end);
        }
        let rest = end
            .unattributed_bytes
            .map(|_| format!("; unattributed: {}", unattributed_words(end)));
        vec![Block::paragraph(format!(
            "{}{}.",
            self.charge_words("At its end", end),
            rest.unwrap_or_default()
        ))]
    }

    /// Returns the process's memory as NVML reports it: `At its peak, after 4.00 s, NVML reports 5400 MiB for this process`.
    fn charge_words(&self, when: &str, table: &LedgerTable) -> String {
        let at = place::since_start(self.seen.trace, table.t_ns);
        let charge = match (table.charged_bytes.map(units::bytes), self.ledger.is_own) {
            (None, _) => "NVML could not be read".to_owned(),
            (Some(size), true) => format!("NVML reports {size} for this process"),
            (Some(size), false) => {
                format!(
                    "its GPU has {size} more in use than before the program started (NVML does not list the process)"
                )
            }
        };
        format!("{when}, after {at}, {charge}")
    }

    fn moment_blocks(&self, when: &str, table: &LedgerTable) -> Vec<Block> {
        let caption = format!("{}:", self.charge_words(when, table));
        vec![
            Block::Table(Table {
                caption,
                ..self.table(table)
            }),
            Block::Gap,
        ]
    }

    fn table(&self, table: &LedgerTable) -> Table {
        let (shown, more) = table.rows.split_at(table.rows.len().min(self.room.rows));
        let mut rows: Vec<Vec<Text>> = shown.iter().map(|row| self.row(row)).collect();
        let mut push_closing = |bytes: String, what: String| {
            let mut row = vec![Text::from(bytes), Text::from(what)];
            row.resize(COLUMNS.len(), Text::default());
            rows.push(row);
        };
        if !more.is_empty() {
            let bytes = more
                .iter()
                .fold(0_u64, |sum, row| sum.saturating_add(row.bytes));
            let count = counted(more.len() as u64, "more row");
            push_closing(units::bytes(bytes), format!("… in {count}"));
        }
        if table.others_bytes > 0 {
            let bytes = units::bytes(table.others_bytes);
            push_closing(bytes, "other processes".to_owned());
        }
        if table.unattributed_bytes.is_some() {
            push_closing(unattributed_words(table), "unattributed".to_owned());
        }
        Table::new(COLUMNS, rows)
    }

    fn row(&self, row: &LedgerRow) -> Vec<Text> {
        let owner = place::shorten_place(row.owner.name);
        vec![
            memory(row).into(),
            row.kind.in_words().into(),
            owner.into(),
            self.line(row).into(),
        ]
    }

    /// Returns the line of the user's program for a row. Only a page has room for its path, and explains `other thread`
    /// below the table.
    fn line(&self, row: &LedgerRow) -> String {
        let with_path = match place::place(self.seen.trace, row.stack) {
            Some(line) if self.is_page && line.is_beside => {
                let is_beside = false;
                let own = entry::line_words(&UserLine { is_beside, ..line });
                Some(format!("{own} (other thread)"))
            }
            Some(line) if self.is_page => Some(entry::line_words(&line)),
            _ => row.stack.place(),
        };
        place::shorten_place(&with_path.unwrap_or_default())
    }

    /// Returns the areas of the owners, and the memory that NVML reports as a line: the gap between is unattributed.
    fn owner_chart(&self, name: &str) -> Chart {
        let (seen, ledger) = (self.seen, self.ledger);
        let from = seen.trace.start.t_ns;
        let mut to = seen
            .trace
            .end
            .as_ref()
            .map_or(from, |end| end.t_ns.max(from));
        let mut charged = Vec::new();
        for point in &ledger.series {
            to = to.max(point.t_ns);
            if let Some(bytes) = point.charged_bytes {
                charged.push((point.t_ns, saturating_signed(bytes)));
            }
        }
        let mut reach = 0;
        for other in &seen.ledgers {
            let bytes = other.peak.charged_bytes.unwrap_or(0);
            reach = reach.max(saturating_signed(bytes));
        }
        Chart {
            title: format!("Memory of {name} over time, by owner, and as NVML reports it"),
            span_ns: (from, to),
            lines: vec![ChartLine {
                name: "reported by NVML; the gap below is unattributed".to_owned(),
                colour: LINE_COLOR,
                points: charged,
            }],
            areas: owner_areas(ledger),
            reach,
            marks: vec![(ledger.peak.t_ns, "peak".to_owned())],
        }
    }
}

/// Returns the memory of each owner and of those before it, as long as there are colors for them.
fn owner_areas(ledger: &Ledger) -> Vec<ChartLine> {
    let mut areas = Vec::new();
    for (colour, band) in ledger.bands.iter().take(MOST_AREAS).enumerate() {
        let (mut name, mut bands) = (place::shorten_place(band_name(band)), colour + 1);
        if bands == MOST_AREAS && ledger.bands.len() > MOST_AREAS {
            name = format!("{} others", ledger.bands.len() + 1 - MOST_AREAS);
            bands = ledger.bands.len();
        }
        let mut points = Vec::new();
        for point in &ledger.series {
            let held = point.band_bytes.iter().take(bands);
            let bytes = held.fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
            points.push((point.t_ns, saturating_signed(bytes)));
        }
        areas.push(ChartLine {
            name,
            colour,
            points,
        });
    }
    areas
}

const COLUMNS: [&str; 4] = ["Memory", "Type", "Owner", "Line"];

/// Returns the bytes of a row, and how far they can be trusted.
fn memory(row: &LedgerRow) -> String {
    let bytes = units::bytes(row.bytes);
    match (row.is_upper_bound(), row.is_estimate) {
        (true, _) => format!("at most {bytes}"),
        (_, true) => format!("about {bytes}"),
        (..) => bytes,
    }
}

/// Returns the unattributed memory; negative if rows have memory that NVML does not report.
fn unattributed_words(table: &LedgerTable) -> String {
    let size = units::signed_bytes(table.unattributed_bytes.unwrap_or(0));
    if table.has_upper_bounds() {
        format!("at least {size}")
    } else {
        size
    }
}

fn band_name<'a>(band: &LedgerBand<'a>) -> &'a str {
    match band {
        LedgerBand::Owner(owner) => owner.name,
        LedgerBand::Imported => "imported memory, at most",
        LedgerBand::Managed => "managed memory, at most",
        LedgerBand::Others => "other processes of the program",
    }
}

fn saturating_signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::view;
    use cuda_pitfalls_trace::fixture::{TraceBuilder, programs as fixture};
    use cuda_pitfalls_trace::{LedgerReason, MemoryKind, Trace};

    /// Returns the section on a terminal of 80 columns.
    fn told(trace: &Trace) -> String {
        let text = view::text(&TraceView::bare(trace), 80);
        let (_, section) = text.split_once("Memory by owner\n\n").unwrap();
        section.trim_end().rsplit_once("\n\n").unwrap().0.to_owned()
    }

    /// Returns the trace of a program whose ledger is read at the peak and at exit.
    fn read(holders: u32, at_peak: [Option<u64>; 2], at_end: [Option<u64>; 2]) -> Trace {
        let made = (0..holders).fold(TraceBuilder::on(1).init(&[], &[0]), |made, line| {
            made.at(&[("<module>", "train.py", line + 1)])
                .holder(0, MemoryKind::Allocation)
        });
        let held: Vec<(u32, u64)> = (0..holders)
            .map(|holder| (holder, u64::from(holder + 1)))
            .collect();
        made.reading(0, LedgerReason::Peak, at_peak, &held)
            .reading(0, LedgerReason::End, at_end, &[(0, 0)])
            .done()
    }

    #[test]
    fn a_terminal_has_the_rows_of_the_peak_and_of_an_end_that_is_not_like_it() {
        let wanted = "\
pid 4711 on GPU 1
At its peak, after 4.00 s, NVML reports 5400 MiB for this process:
Memory            Type                Owner                        Line
───────────────────────────────────────────────────────────────────────────────
2048 MiB          allocations         PyTorch's caching allocator  train.py:40
1800 MiB          allocations         PyTorch's caching allocator  train.py:47
521 MiB           context             PyTorch                      train.py:35
512 MiB           physical memory     NCCL                         train.py:36
at most 100 MiB   managed memory      the program itself           train.py:50
about 70 MiB      kernel code         PyTorch                      train.py:41
at most 64 MiB    imported memory     the program itself           train.py:51
34 MiB            driver-internal     cuBLAS                       train.py:41
30 MiB            arrays              the program itself           train.py:53
24 MiB            unused pool memory  the driver
at least 197 MiB  unattributed

At its end, after 5.20 s, NVML reports 2900 MiB for this process:
";
        let section = told(&fixture::memory());
        assert!(section.starts_with(wanted), "{section}");
        let wanted = "\
pid 4711 on GPU 0
At its peak, after 2.41 s, NVML reports 524 MiB for this process:
Memory   Type          Owner    Line
────────────────────────────────────────────
518 MiB  context       PyTorch  train.py:52
6 MiB    unattributed

This was also the last reading.
";
        assert!(section.contains(wanted), "{section}");
    }

    #[test]
    fn an_end_that_is_like_the_peak_is_a_line_and_of_many_rows_the_largest_are_shown() {
        let section = told(&read(15, [Some(100), None], [Some(95), None]));
        assert!(
            section.contains("\n4 MiB    allocations       the program itself  train.py:4\n"),
            "{section}"
        );
        assert!(
            section.contains("\n6 MiB    … in 3 more rows\n-20 MiB  unattributed\n"),
            "{section}"
        );
        let last = "At its end, after 0.023 s, NVML reports 95 MiB for this process; unattributed:\n-24 MiB.";
        assert!(section.ends_with(last), "{section}");
    }

    #[test]
    fn a_process_that_nvml_does_not_list_is_told_of_the_whole_gpu_and_one_that_was_not_read_of_nothing()
     {
        let section = told(&read(1, [None, Some(100)], [None, Some(100)]));
        let words = "its GPU has 100 MiB more in use than before the\nprogram started (NVML does not list the process):\n";
        assert!(section.contains(words), "{section}");
        let section = told(&read(1, [None, None], [None, None]));
        assert!(
            section.contains("NVML could not be read:\n") && !section.contains("unattributed"),
            "{section}"
        );
    }

    #[test]
    fn a_page_has_the_owners_before_the_largest_rows() {
        let trace = fixture::memory();
        let page = view::render_html(&TraceView::bare(&trace));
        assert_eq!(page.matches("<figure").count(), 2);
        let scales = page
            .matches("<span style=\"top:0.0%\">5400 MiB</span>")
            .count();
        assert_eq!(scales, 2, "both pictures have one scale");
        let title =
            ">PyTorch&#39;s caching allocator holds 3848 MiB of 5400 MiB at the peak on GPU 1</h1>";
        assert!(page.contains(title), "{page}");
        let rows = [
            "<th scope=\"col\">Owner</th><th scope=\"col\">Peak, MiB</th><th scope=\"col\">End, MiB</th></tr>",
            "<td><span class=\"chip g0\"></span>PyTorch&#39;s caching allocator</td><td>3848.0</td><td>1024.0</td>",
            "<td>unattributed</td><td>at least 197.0</td><td>at least 521.0</td>",
            "<td><strong>NVML</strong></td><td><strong>5400.0</strong></td><td><strong>2900.0</strong></td>",
            "<td data-name=\"Peak, MiB\">2048.0</td><td data-name=\"End, MiB\">1024.0</td>",
            "<td data-name=\"Peak, MiB\">1800.0</td><td data-name=\"End, MiB\"></td>",
            "<td data-name=\"Peak, MiB\">521.0</td><td data-name=\"End, MiB\">521.0</td>",
        ];
        let places = rows.map(|row| page.find(row).unwrap_or_else(|| panic!("no {row}: {page}")));
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn every_form_says_that_a_line_is_of_a_thread_beside() {
        let mut trace = fixture::memory();
        let holder = trace
            .holders
            .iter_mut()
            .find(|holder| holder.stack.user_frame().is_some())
            .unwrap();
        let line = place::shorten_place(&holder.stack.place().unwrap());
        holder.stack.meanwhile = std::mem::take(&mut holder.stack.frames);
        let seen = TraceView::bare(&trace);
        for form in [
            view::text(&seen, 200),
            view::render_markdown(&seen),
            view::render_html(&seen),
        ] {
            assert!(form.contains("other thread"), "{line}: {form}");
        }
    }

    #[test]
    fn a_trace_without_a_ledger_says_nothing_of_it() {
        let trace = fixture::trace();
        let seen = TraceView::bare(&trace);
        for form in [
            view::text(&seen, 80),
            view::render_markdown(&seen),
            view::render_html(&seen),
        ] {
            assert!(!form.contains("Memory by owner"));
        }
    }
}

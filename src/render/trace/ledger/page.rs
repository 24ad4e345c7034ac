//! The memory of a process on a page: the owners first, then the holders, both at the peak and at the end.

use std::collections::HashMap;

use super::{LedgerView, MOST_AREAS, band_name};
use crate::block::{Block, Span, Table, Text, Tone};
use crate::trace::place;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::MemoryKind;
use cuda_pitfalls_trace::ledger::{Ledger, LedgerBand, LedgerPoint, LedgerRow, LedgerTable};

const OWNERS: [&str; 3] = ["Owner", "Peak, MiB", "End, MiB"];
const HOLDERS: [&str; 7] = [
    "Owner",
    "Peak, MiB",
    "End, MiB",
    "Type",
    "Line",
    "Calls",
    "Allocations",
];

impl<'a> LedgerView<'_, 'a> {
    /// Returns the table of the owners, and that of the holders.
    pub(super) fn page_blocks(&self) -> Vec<Block> {
        let (rows, is_other_thread) = self.holder_rows();
        let more = Block::more(rows.len(), self.room.rows, "rows");
        let rows: Vec<Vec<Text>> = rows.into_iter().take(self.room.rows).collect();
        let mut blocks = vec![
            self.owner_table(),
            Block::Table(Table {
                caption: "By owner, purpose and line".to_owned(),
                records: Some("holders"),
                ..Table::new(HOLDERS, rows)
            }),
        ];
        blocks.extend(more);
        if is_other_thread {
            blocks.push(Block::paragraph(Span::Toned(
                Tone::Dim,
                "Other thread: another thread made the call while the main thread was at this line."
                    .to_owned(),
            )));
        }
        blocks
    }

    /// Returns the totals of the owners, which are also the key of the chart.
    fn owner_table(&self) -> Block {
        let Ledger {
            peak, end, bands, ..
        } = self.ledger;
        let points = [peak_point(self.ledger), self.ledger.series.last()];
        let mut rows = Vec::new();
        for (index, band) in bands.iter().enumerate() {
            let owner = Text::from(Span::Chip(index.min(MOST_AREAS - 1)));
            let owner = owner.then(place::shorten_place(band_name(band)));
            let sizes = points.map(|point| {
                let bytes = point.and_then(|point| point.band_bytes.get(index));
                in_mib(bytes.map_or(0.0, |bytes| *bytes as f64)).into()
            });
            rows.push([vec![owner], sizes.to_vec()].concat());
        }
        let rest = [peak, end].map(|table| match table.unattributed_bytes {
            Some(bytes) if table.has_upper_bounds() => {
                format!("at least {}", in_mib(bytes as f64)).into()
            }
            Some(bytes) => in_mib(bytes as f64).into(),
            None => Text::from("not read"),
        });
        let charged = [peak, end].map(|table| match table.charged_bytes {
            Some(bytes) => Span::Strong(in_mib(bytes as f64)).into(),
            None => Text::from("not read"),
        });
        rows.push([vec![Text::from("unattributed")], rest.to_vec()].concat());
        let total = Text::from(Span::Strong("NVML".to_owned()));
        rows.push([vec![total], charged.to_vec()].concat());
        let [at_peak, at_end] = [("At its peak", peak), ("At its end", end)]
            .map(|(when, table)| self.charge_words(when, table));
        Block::Table(Table {
            caption: format!("{at_peak}. {at_end}."),
            ..Table::new(OWNERS, rows)
        })
    }

    /// Returns the holders, the largest at the peak first, and `true` if another thread made one of the calls.
    fn holder_rows(&self) -> (Vec<Vec<Text>>, bool) {
        let mut found: Vec<(&LedgerRow, [String; 2])> = Vec::new();
        let mut places = HashMap::new();
        let tables: [&LedgerTable; 2] = [&self.ledger.peak, &self.ledger.end];
        for (moment, table) in tables.into_iter().enumerate() {
            for row in &table.rows {
                let key = (row.kind, row.owner, self.line(row));
                let index = *places.entry(key).or_insert(found.len());
                if index == found.len() {
                    found.push((row, Default::default()));
                }
                let sizes = found.get_mut(index).map(|(_, sizes)| sizes);
                if let Some(size) = sizes.and_then(|sizes| sizes.get_mut(moment)) {
                    *size = holder_size(row);
                }
            }
        }
        let mut lines = found
            .iter()
            .map(|(row, _)| place::place(self.seen.trace, row.stack));
        let has_other = lines.any(|line| line.is_some_and(|line| line.is_beside));
        let rows = found
            .into_iter()
            .map(|(row, sizes)| self.holder_cells(row, sizes));
        (rows.collect(), has_other)
    }

    fn holder_cells(&self, row: &LedgerRow<'a>, [peak, end]: [String; 2]) -> Vec<Text> {
        let of_row = match row.kind {
            MemoryKind::Imported => LedgerBand::Imported,
            MemoryKind::Managed => LedgerBand::Managed,
            _ => LedgerBand::Owner(row.owner),
        };
        let mut bands = self.ledger.bands.iter();
        let mut owner = Text::default();
        if let Some(band) = bands.position(|band| *band == of_row) {
            owner = Span::Chip(band.min(MOST_AREAS - 1)).into();
        }
        let mut purpose = row.kind.in_words().to_owned();
        if let Some(whole) = row.whole_bytes
            && whole != row.bytes
        {
            purpose += &format!(" of {}", units::bytes(whole));
        }
        let mut line = Text::from(self.line(row));
        if let Some(source) = &row.stack.source {
            line = line.then(Span::Break).then(Span::Code(source.clone()));
        }
        let mut calls = row.calls.clone();
        calls.retain(|call| !call.is_empty());
        let calls = place::shorten_place(&calls.join(", "));
        let count = row.count.map(|count| count.to_string()).unwrap_or_default();
        vec![
            owner.then(place::shorten_place(row.owner.name)),
            peak.into(),
            end.into(),
            purpose.into(),
            line,
            calls.into(),
            count.into(),
        ]
    }
}

/// Returns the reading at the peak.
fn peak_point<'l>(ledger: &'l Ledger) -> Option<&'l LedgerPoint> {
    let mut points = ledger.series.iter();
    points.find(|point| {
        (point.t_ns, point.charged_bytes) == (ledger.peak.t_ns, ledger.peak.charged_bytes)
    })
}

/// Returns the owner with most memory at the largest peak, in a sentence.
pub(in crate::trace) fn largest_owner(seen: &crate::trace::TraceView) -> Option<String> {
    let ledger = seen.ledgers.first()?;
    let held = &peak_point(ledger)?.band_bytes;
    let (mut largest, mut owner) = (0, None);
    for (band, bytes) in ledger.bands.iter().zip(held) {
        if matches!(band, LedgerBand::Owner(_)) && *bytes > largest {
            (largest, owner) = (*bytes, Some(band_name(band)));
        }
    }
    let owner = place::shorten_place(owner?);
    let [size, peak] = [largest, ledger.peak.charged_bytes?].map(units::bytes);
    let gpu = place::gpu_name(seen.trace, ledger.gpu);
    Some(format!(
        "{owner} holds {size} of {peak} at the peak on {gpu}"
    ))
}

/// Returns the bytes of a row in MiB, and how far they can be trusted.
fn holder_size(row: &LedgerRow) -> String {
    let size = in_mib(row.bytes as f64);
    match (row.is_upper_bound(), row.is_estimate) {
        (true, _) => format!("at most {size}"),
        (_, true) => format!("about {size}"),
        (..) => size,
    }
}

/// Returns a size in MiB without its unit, which all sizes of a column have in common.
fn in_mib(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    match mib.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.05 => "< 0.1".to_owned(),
        _ => format!("{mib:.1}"),
    }
}

//! A trace for people: what to change, what happened, and what could not be seen.
//!
//! Every format stays small however long the trace is: entries, findings and stacks have a budget.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::change::LineChange;
use super::entry::{Entries, TraceEntry, entries, late_write};
use super::ledger::{self, LedgerRoom};
use super::{Alike, TraceView, alike_key, place, proof, timeline, totals, unseen};
use crate::block::{Block, Entry, Span, Table, Text, Tone};
use crate::html::page;
use crate::writer::terminal::Screen;
use crate::writer::{html, markdown, terminal};
use cuda_pitfalls_answers::refused::RefusedCall;
use cuda_pitfalls_core::machine;
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::text::counts::{counted, group_by_key};
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::lines::{NARROWEST, UNBROKEN};
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};
use cuda_pitfalls_trace::policy::Violation;
use cuda_pitfalls_trace::{FrameOwner, Trace, TraceEvent};

const STYLE: &str = include_str!("style.css");
/// Maximum number of cards for findings of a severity, and for violations.
const MOST_CARDS: usize = 40;
const MOST_VARIABLES: usize = 40;
const MOST_ROWS: usize = 150;
const MOST_FRAMES: usize = 80;
const MOST_LATE: usize = 10;
/// Maximum number of locations of a finding, and of links from an event to findings.
const MOST_LINKS: usize = 5;

/// Limits of a format.
#[derive(Clone, Copy)]
struct Room {
    entries: usize,
    /// The bytes of all entries; those of a stack are left out once the first number is reached.
    bytes: (usize, usize),
    written: fn(&[Block]) -> String,
    cards: usize,
    ledgers: LedgerRoom,
    is_page: bool,
}

const TERMINAL: Room = Room {
    entries: 60,
    bytes: (usize::MAX, usize::MAX),
    written: |blocks| terminal::write(blocks, terminal::PAGE),
    cards: 10,
    ledgers: LedgerRoom {
        ledgers: 16,
        rows: 12,
        bytes: 6_000,
    },
    is_page: false,
};
/// An issue has room for 65,536 characters.
const MARKDOWN: Room = Room {
    entries: 500,
    bytes: (30_000, 34_000),
    written: markdown::write,
    cards: MOST_CARDS,
    ledgers: LedgerRoom {
        ledgers: 8,
        rows: 12,
        bytes: 12_000,
    },
    is_page: true,
};
const HTML: Room = Room {
    entries: 500,
    bytes: (900_000, 1_100_000),
    written: html::write,
    cards: MOST_CARDS,
    ledgers: LedgerRoom {
        ledgers: 64,
        rows: 200,
        bytes: 500_000,
    },
    is_page: true,
};

struct TraceForm<'v, 'a> {
    seen: &'v TraceView<'a>,
    room: Room,
    made: Entries<'a>,
    /// The first finding of those with the same texts.
    firsts: HashMap<Alike<'a>, usize>,
    /// `true` if events belong to several processes.
    has_processes: bool,
    /// The events that a finding describes.
    explained: HashSet<usize>,
    proofs: Vec<Scenario>,
    /// The entries that the format shows.
    listed: BTreeMap<usize, Block>,
}

/// Returns the text for a terminal, where the last lines are seen first.
pub(super) fn text(seen: &TraceView, screen: impl Into<Screen>) -> String {
    let screen: Screen = screen.into();
    let view = TraceForm::new(seen, TERMINAL);
    let mut blocks = banner_blocks(seen);
    blocks.extend(view.listed.values().cloned());
    blocks.extend(view.without_entry());
    blocks.extend(view.ledger_blocks());
    let is_nothing =
        seen.trace.events.is_empty() && seen.findings.is_empty() && seen.violations.is_empty();
    if is_nothing {
        blocks.push(Block::paragraph(unseen::nothing(&seen.not_seen)));
    }
    blocks.extend(listed("Not seen", seen.not_seen.clone()));
    blocks.extend(view.note_blocks());
    blocks.extend(refused(seen));
    if !is_nothing || seen.totals.len() > 1 {
        blocks.extend([Block::Gap, Block::paragraph(seen.totals.join(" · "))]);
    }
    blocks.extend(view.to_change());
    let width = screen.width.max(NARROWEST);
    terminal::write(&blocks, Screen { width, ..screen })
}

/// Returns the page for an issue or a job summary, with stacks folded.
pub(super) fn render_markdown(seen: &TraceView) -> String {
    let view = TraceForm::new(seen, MARKDOWN);
    let mut blocks = view.head_blocks();
    blocks.extend(view.ledger_blocks());
    blocks.extend(view.events());
    markdown::write(&blocks)
}

/// Returns the page, without scripts and without links to anything outside.
pub(super) fn render_html(seen: &TraceView) -> String {
    let view = TraceForm::new(seen, HTML);
    let mut blocks = view.head_blocks();
    blocks.extend(view.ledger_blocks());
    let listed = view.listed.keys().copied().collect();
    blocks.push(Block::Drawn(timeline::draw_timeline(
        seen.trace,
        &view.made.all,
        &listed,
    )));
    blocks.extend(view.events());
    if !view.proofs.is_empty() {
        blocks.push(Block::heading(2, "Evidence"));
    }
    blocks.extend(view.proofs.iter().map(proof::scenario_section));
    blocks.extend(counts(seen));
    blocks.push(Block::Fold("Machine".to_owned(), vec![machine(seen)]));
    let title = place::shorten_place(&view.title_words()) + " · cuda-pitfalls trace";
    page::page_head(page::POLICY, &title, STYLE) + &html::write(&blocks) + page::END
}

fn banner_blocks(seen: &TraceView) -> Vec<Block> {
    let banners = seen.banners.iter().cloned();
    banners.map(Block::Banner).collect()
}

/// Returns the CUDA calls that failed, and the error that the program printed last, with the explanation of each.
fn refused(seen: &TraceView) -> Vec<Block> {
    let in_words = |refusal: &RefusedCall| shorten_text(&refusal.in_words(), 1000);
    let calls = seen.refusals.iter().map(in_words);
    let last = seen.last_error.iter().map(in_words);
    let mut blocks = listed("Failed calls", calls.collect());
    blocks.extend(listed("The program's error", last.collect()));
    blocks
}

/// Returns a list below its heading; empty without lines.
fn listed(heading: &str, lines: Vec<String>) -> Vec<Block> {
    if lines.is_empty() {
        return Vec::new();
    }
    vec![
        Block::heading(2, heading),
        Block::List(lines.into_iter().map(Text::from).collect()),
    ]
}

impl<'v, 'a> TraceForm<'v, 'a> {
    fn new(seen: &'v TraceView<'a>, room: Room) -> TraceForm<'v, 'a> {
        let made = entries(&seen.history, seen.findings, seen.violations);
        let (mut firsts, mut explained) = (HashMap::new(), HashSet::new());
        for (index, finding) in seen.findings.iter().enumerate() {
            firsts.entry(alike_key(finding)).or_insert(index);
            explained.extend(&finding.events);
        }
        let mut pids = HashSet::new();
        for program in &seen.history.programs {
            if !program.events.is_empty() {
                pids.insert(program.pid);
            }
        }
        let mut view = TraceForm {
            seen,
            room,
            made,
            firsts,
            has_processes: pids.len() > 1,
            explained,
            proofs: proof::scenarios(seen.findings.iter()),
            listed: BTreeMap::new(),
        };
        view.listed = view.entries();
        view
    }

    /// Returns the first finding, or another statement about the entire trace.
    fn title_words(&self) -> String {
        let seen = self.seen;
        if let Some(violation) = seen.violations.first() {
            let says = format!("forbidden: {}", place::shorten_place(&violation.says));
            let event = violation
                .event
                .and_then(|index| seen.trace.events.get(index));
            return match event.and_then(|event| seen.line_words(event)) {
                Some(line) => format!("{line}: {says}"),
                None => says,
            };
        }
        match seen.found(Severity::Pitfall).next() {
            Some(finding) => LineChange::new(seen, finding).sentence(),
            None if seen.refused() == 0 && seen.last_error.is_none() => ledger::largest_owner(seen)
                .or_else(|| seen.totals.first().cloned())
                .unwrap_or_default(),
            None => seen.totals.first().cloned().unwrap_or_default(),
        }
    }

    /// Returns the head of a page: the command, and all changes to make.
    fn head_blocks(&self) -> Vec<Block> {
        let (seen, start) = (self.seen, &self.seen.trace.start);
        let mut badges = Vec::new();
        if !seen.violations.is_empty() {
            badges.push((
                Tone::Bad,
                format!("✗ {}", counted(seen.violations.len() as u64, "violation")),
            ));
        }
        let found = seen.totals.first().cloned().unwrap_or_default();
        let is_clean = seen.found(Severity::Pitfall).next().is_none()
            && seen.refused() == 0
            && seen.last_error.is_none();
        badges.push(if !is_clean {
            (Tone::Doubt, format!("! {found}"))
        } else if seen.not_seen.is_empty() {
            (Tone::Good, found)
        } else {
            (Tone::Doubt, format!("? {found}"))
        });
        // The badges already show the first ones.
        let rest = seen.totals.get(badges.len()..).unwrap_or_default();
        let totals = rest.join(" · ");
        let mut blocks = vec![Block::heading(1, self.title_words()), Block::Badges(badges)];
        blocks.extend(banner_blocks(seen));
        let [at, folder, on, version] =
            [&start.started_at, &start.folder, &start.on, &start.version]
                .map(|text| place::shorten_place(text));
        let started = format!(
            "Started {at} in {folder}{}, on {on}, cuda-pitfalls {version}.",
            ending(seen)
        );
        let paragraphs = [
            Text::from(totals),
            Span::Strong(machine::summarize_gpus(
                &start.gpus,
                start.driver_version.as_deref(),
            ))
            .into(),
            Text::code(shorten_text(&start.command.join(" "), 1000)),
            Span::Toned(Tone::Dim, started).into(),
        ];
        blocks.extend(paragraphs.into_iter().map(Block::Paragraph));
        blocks.extend(self.to_change());
        blocks.extend(refused(seen));
        blocks.extend(self.note_blocks());
        blocks.extend(listed("Not seen", seen.not_seen.clone()));
        if seen.trace.events.is_empty() {
            blocks.push(Block::paragraph(format!(
                "{}.",
                unseen::nothing(&seen.not_seen)
            )));
        }
        blocks
    }

    /// Returns the violations of the policy, the undecided conditions, and the pitfalls.
    fn to_change(&self) -> Vec<Block> {
        let seen = self.seen;
        let mut blocks = Vec::new();
        if !seen.violations.is_empty() {
            blocks.push(Block::heading(2, "Forbidden"));
        }
        let violations = seen.violations.iter();
        let groups = group_by_key(
            violations.map(|violation| ((&violation.forbidden, &violation.says), violation)),
        );
        for (_, alike) in groups.iter().take(self.room.cards) {
            blocks.extend(self.violation_card(alike));
        }
        blocks.extend(Block::more(groups.len(), self.room.cards, "violations"));
        blocks.extend(listed("Undecided", seen.undecided.to_vec()));
        blocks.extend(self.finding_cards(Severity::Pitfall, "What to change"));
        blocks.extend(listed("Measured imports", self.measured_imports()));
        blocks
    }

    /// Returns the measured results of the imports that initialized CUDA, each once.
    fn measured_imports(&self) -> Vec<String> {
        let (seen, mut measured) = (self.seen, Vec::new());
        let mut events: Vec<usize> = Vec::new();
        events.extend(seen.violations.iter().flat_map(|violation| violation.event));
        events.extend(seen.findings.iter().flat_map(|finding| &finding.events));
        for event in events {
            if let Some(results) = seen.import_words([event])
                && !measured.contains(&results)
            {
                measured.push(results);
            }
        }
        measured
    }

    /// Returns the memory by owner, as far as there is room; empty without `--memory`.
    fn ledger_blocks(&self) -> Vec<Block> {
        let (seen, room) = (self.seen, self.room.ledgers);
        let (mut blocks, mut shown, mut bytes) = (Vec::new(), 0, 0);
        for ledger in seen.ledgers.iter().take(room.ledgers) {
            let section = ledger::ledger_section(seen, ledger, room, self.room.is_page);
            bytes += (self.room.written)(&section).len();
            if bytes > room.bytes && shown > 0 {
                break;
            }
            blocks.extend(section);
            shown += 1;
        }
        if !seen.ledgers.is_empty() {
            blocks.insert(0, Block::heading(2, "Memory by owner"));
        }
        blocks.extend(Block::more(seen.ledgers.len(), shown, "tables"));
        blocks
    }

    fn note_blocks(&self) -> Vec<Block> {
        self.finding_cards(Severity::Note, "Notes")
    }

    fn violation_card(&self, alike: &[&Violation]) -> Option<Block> {
        let violation = alike.first()?;
        let title = format!(
            "{}{}",
            place::shorten_place(&violation.forbidden),
            times_words(alike.len())
        );
        let says = Text::from(place::shorten_place(&violation.says));
        let mut body = vec![Block::Paragraph(says)];
        let at = violation.event.and_then(|event| self.event_link(event));
        body.extend(at.map(Block::Paragraph));
        Some(Block::Entry(Entry {
            class: "card violation".to_owned(),
            title: title.into(),
            body,
            ..Entry::default()
        }))
    }

    fn finding_cards(&self, severity: Severity, heading: &str) -> Vec<Block> {
        let found = self.seen.found(severity).take(10_000);
        let groups = group_by_key(found.map(|finding| (alike_key(finding), finding)));
        let mut blocks = Vec::new();
        if !groups.is_empty() {
            blocks.push(Block::heading(2, heading));
        }
        for (_, findings) in groups.iter().take(self.room.cards) {
            blocks.extend(self.finding_card(findings));
        }
        blocks.extend(Block::more(groups.len(), self.room.cards, "findings"));
        blocks
    }

    /// Returns the findings of a rule: the locations, the observations that led to it, and the replacement to write.
    /// For a note, a terminal has only its title, because it requires no change.
    fn finding_card(&self, findings: &[&'a Finding]) -> Option<Block> {
        let finding = *findings.first()?;
        let change = LineChange::new(self.seen, finding);
        let says = Block::paragraph(format!("{}.", finding.says.trim_end_matches('.')));
        let mut body: Vec<Block> = source(change.source).into_iter().collect();
        if finding.severity == Severity::Pitfall || self.room.is_page {
            let instead = Text::from(Span::Strong("Instead:".to_owned()))
                .then(format!(" {}", finding.workaround));
            body.extend([Block::Paragraph(instead), says]);
            if self.room.is_page {
                let events = finding.events.iter().take(MOST_LINKS);
                let places = events.flat_map(|event| self.event_link(*event));
                body.push(Block::Paragraph(Text::join(places, " · ")));
            }
            body.push(Block::Paragraph(self.proof_text(&finding.scenario)));
        } else {
            body.push(says);
        }
        let class = format!("card {}", finding.severity.name());
        let id = format!("f{}", self.firsts.get(&alike_key(finding))?);
        let title = format!("{}{}", change.sentence(), times_words(findings.len()));
        if finding.severity == Severity::Note && self.room.is_page {
            let blocks = vec![Block::Fold(title, body)];
            return Some(Block::Section { class, id, blocks });
        }
        let is_page_title = self.room.is_page && title == self.title_words();
        Some(Block::Entry(Entry {
            class,
            id,
            title: if is_page_title {
                Text::default()
            } else {
                title.into()
            },
            body,
            ..Entry::default()
        }))
    }

    /// Returns the scenario that proves a finding; a page also has its question and answer.
    fn proof_text(&self, name: &str) -> Text {
        let mut proofs = self.proofs.iter();
        let is_on_page = self.room.is_page && proofs.any(|scenario| scenario.name == name);
        let proven = Text::from("Evidence: ");
        if !is_on_page {
            return proven.then(name);
        }
        let link = Span::Link {
            text: name.to_owned(),
            to: format!("#{name}"),
        };
        proven.then(link).then(proof::answer(name))
    }

    /// Returns the location and time of an event, with a link to its entry.
    fn event_link(&self, index: usize) -> Option<Text> {
        let event = self.seen.trace.events.get(index)?;
        let owner = self.made.owners.get(&index);
        let t_ns = match owner.and_then(|entry| self.made.all.get(*entry)) {
            Some(entry) => entry.event_time(event),
            None => event.t_ns,
        };
        let text = place::since_start(self.seen.trace, t_ns);
        let when = match owner {
            Some(entry) if self.listed.contains_key(entry) => Span::Link {
                text,
                to: format!("#e{entry}"),
            },
            _ => Span::Plain(text),
        };
        Some(match self.seen.line_words(event) {
            Some(line) => Text::code(line).then(", ").then(when),
            None => Text::from(when),
        })
    }

    /// Returns the entries that fit, in the order of time. Entries with a finding or a violation get space before the
    /// others, and stacks are included as long as they fit.
    fn entries(&self) -> BTreeMap<usize, Block> {
        let (told, plain): (Vec<_>, Vec<_>) = self
            .made
            .all
            .iter()
            .enumerate()
            .partition(|(_, entry)| entry.has_finding());
        let (mut listed, mut bytes) = (BTreeMap::new(), 0);
        for (index, entry) in told.into_iter().chain(plain).take(self.room.entries) {
            for (has_stack, most) in [(true, self.room.bytes.0), (false, self.room.bytes.1)] {
                let block = self.entry(index, entry, has_stack);
                let size = (self.room.written)(std::slice::from_ref(&block)).len();
                if bytes + size <= most {
                    bytes += size;
                    listed.insert(index, block);
                    break;
                }
            }
        }
        listed
    }

    fn events(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        if !self.seen.trace.events.is_empty() {
            blocks.push(Block::heading(2, "Events"));
        }
        blocks.extend(self.listed.values().cloned());
        blocks.extend(Block::more(
            self.made.all.len(),
            self.listed.len(),
            "events",
        ));
        blocks.extend(self.not_listed());
        blocks
    }

    /// Returns the summary of the events that a terminal does not list.
    fn without_entry(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        blocks.extend(Block::more(
            self.made.all.len(),
            self.room.entries,
            "events",
        ));
        blocks.extend(self.not_listed());
        blocks
    }

    fn not_listed(&self) -> Option<Block> {
        Some(Block::paragraph(Span::Toned(
            Tone::Dim,
            format!("Not listed: {}.", self.made.not_listed()?),
        )))
    }

    fn entry(&self, index: usize, entry: &TraceEntry, has_stack: bool) -> Block {
        let trace = self.seen.trace;
        let event = entry.shown_event;
        let mut aside = place::since_start(trace, entry.t_ns);
        if self.room.is_page || self.has_processes {
            aside.push_str(&format!(", {}", entry.process_words(trace)));
        }
        let parts = entry.chain.iter().map(|part| {
            if self.room.is_page {
                Text::code(part)
            } else {
                // A terminal breaks the path before arrows.
                part.replace(' ', &UNBROKEN.to_string()).into()
            }
        });
        let mut body = vec![Block::Paragraph(Text::join(parts, format!(" →{UNBROKEN}")))];
        if self.room.is_page {
            body.extend(source(event.stack.source.as_deref()));
        }
        body.extend(entry.details.iter().map(Block::paragraph));
        body.extend(self.card_links(entry));
        for late in entry.late.iter().take(MOST_LATE) {
            if !self.explained.contains(&late.event) {
                let says = Span::Toned(Tone::Doubt, late_write(late));
                body.push(Block::paragraph(says));
            }
            if has_stack {
                body.push(stack_block(late.write, "Stack of this write"));
            }
        }
        body.extend(Block::more(entry.late.len(), MOST_LATE, "late writes"));
        if has_stack {
            body.push(stack_block(event, "Stack"));
        }
        let told = if entry.has_problem() { " told" } else { "" };
        Block::Entry(Entry {
            class: format!("event {}{told}", entry.kind.class()),
            id: format!("e{index}"),
            title: entry.title().into(),
            aside,
            body,
        })
    }

    /// Returns, for a page, links to the cards that describe the findings at an entry.
    fn card_links(&self, entry: &TraceEntry) -> Vec<Block> {
        let (mut known, mut links) = (HashSet::new(), Vec::new());
        for index in &entry.findings {
            let Some(finding) = self.seen.findings.get(*index) else {
                continue;
            };
            let card = self.firsts.get(&alike_key(finding)).unwrap_or(index);
            if self.room.is_page && links.len() < MOST_LINKS && known.insert(*card) {
                let link = Span::Link {
                    text: finding.title.clone(),
                    to: format!("#f{card}"),
                };
                links.push(Block::paragraph(Text::from("See: ").then(link)));
            }
        }
        links
    }
}

/// Returns the duration and the end of the program; empty if the trace has no end.
fn ending(seen: &TraceView) -> String {
    let Some(end) = &seen.trace.end else {
        return String::new();
    };
    let exit = match (&end.signal, end.code) {
        (Some(signal), _) => format!(", ended by {}", place::shorten_place(signal)),
        (None, Some(code)) => format!(", exit {code}"),
        (None, None) => String::new(),
    };
    let took = place::since_start(seen.trace, end.t_ns);
    format!(", took {took}{exit}")
}

fn times_words(times: usize) -> String {
    if times > 1 {
        format!(" ({times} times)")
    } else {
        String::new()
    }
}

/// Returns a line of the user's own code, if it is known.
fn source(line: Option<&str>) -> Option<Block> {
    line.map(|line| Block::Code("", vec![line.to_owned()]))
}

fn stack_block(event: &TraceEvent, name: &str) -> Block {
    let stack = &event.stack;
    let mut blocks = Vec::new();
    if let Some(missing) = &stack.missing {
        let missing = place::shorten_place(missing);
        blocks.push(Block::paragraph(format!("{name}: {missing}")));
    }
    let count = stack.frames.len();
    if count == 0 {
        return Block::OnPages(blocks);
    }
    let mut frames = Vec::new();
    for frame in stack.frames.iter().take(MOST_FRAMES) {
        let (function, at) = place::frame(frame);
        let function = if frame.owner == FrameOwner::Program {
            Span::Strong(function)
        } else {
            Span::Code(function)
        };
        let at = Span::Toned(Tone::Dim, at);
        frames.push(Text::from(function).then(" ").then(at));
    }
    let mut inside = vec![Block::Numbered(frames)];
    inside.extend(Block::more(count, MOST_FRAMES, "frames"));
    let mut frames = counted(count as u64, "frame");
    if stack.left_out > 0 {
        frames += &format!(" ({} before the outermost left out)", stack.left_out);
    }
    let summary = format!("{name}, {frames}, innermost first");
    blocks.push(Block::Fold(summary, inside));
    Block::OnPages(blocks)
}

/// Returns the number of calls of each function, and the activity of each process on each GPU.
fn counts(seen: &TraceView) -> Vec<Block> {
    let mut blocks = Vec::new();
    if seen.trace.counts.is_empty() {
        return blocks;
    }
    blocks.push(Block::heading(2, "Counts"));
    blocks.extend(use_blocks(seen.trace));
    blocks.extend(call_block(seen.trace));
    blocks
}

fn use_blocks(trace: &Trace) -> Vec<Block> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for counts in &trace.counts {
        for (gpu, uses) in &counts.gpus {
            let mut row = vec![counts.pid.to_string(), place::gpu_name(trace, gpu)];
            row.extend([uses.launches, uses.copies, uses.allocations].map(|n| n.to_string()));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let more = Block::more(rows.len(), MOST_ROWS, "rows");
    rows.truncate(MOST_ROWS);
    let columns = ["Process", "GPU", "Launches", "Copies", "Allocations"];
    let mut blocks = vec![Block::Table(Table {
        caption: "Work per process and GPU".into(),
        ..Table::new(columns, rows)
    })];
    blocks.extend(more);
    blocks
}

fn call_block(trace: &Trace) -> Option<Block> {
    let calls = totals::call_totals(trace);
    if calls.is_empty() {
        return None;
    }
    let mut rows = Vec::new();
    for (name, count) in calls.iter().take(MOST_ROWS) {
        let errors = match count.errors {
            0 => String::new(),
            several => several.to_string(),
        };
        rows.push(vec![
            place::shorten_place(name),
            count.calls.to_string(),
            errors,
        ]);
    }
    let mut inside = vec![Block::Table(Table {
        caption: "Function calls and errors".into(),
        ..Table::new(["Function", "Calls", "Errors"], rows)
    })];
    inside.extend(Block::more(calls.len(), MOST_ROWS, "functions"));
    let functions = counted(calls.len() as u64, "called function");
    Some(Block::Fold(format!("{functions} of all processes"), inside))
}

fn machine(seen: &TraceView) -> Block {
    let start = &seen.trace.start;
    let driver = start.driver_version.as_deref().unwrap_or("not known");
    let libcuda = start.libcuda.as_deref().unwrap_or("not found");
    let mut rows: Vec<(String, &str)> = vec![
        ("Driver".to_owned(), driver),
        ("libcuda".to_owned(), libcuda),
    ];
    if start.gpus.is_empty() {
        rows.push(("GPUs".to_owned(), "NVML showed none"));
    }
    let mut gpus = Vec::new();
    for gpu in &start.gpus {
        let name = gpu.name.as_deref().unwrap_or("of unknown name");
        gpus.push(format!("{name}, {}", gpu.uuid));
    }
    for (index, gpu) in gpus.iter().enumerate() {
        rows.push((format!("GPU {index}"), gpu));
    }
    for (name, value) in start.environment.iter().take(MOST_VARIABLES) {
        rows.push((name.clone(), value));
    }
    let rows = rows
        .iter()
        .map(|(name, value)| (place::shorten_place(name), place::shorten_place(value)));
    Block::Table(Table {
        caption: "Machine and CUDA variables".into(),
        ..Table::named("Machine", rows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::text::lines::display_columns;
    use cuda_pitfalls_trace::fixture::programs as fixture;
    use cuda_pitfalls_trace::{EventKind, Memory};

    /// Returns the result of `tell` for a trace with synthetic findings and violations.
    fn told<T>(trace: &Trace, tell: impl Fn(&TraceView) -> T) -> T {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        tell(&TraceView::new(trace, &findings, &outcome))
    }

    fn hostile<T>(tell: impl Fn(&TraceView) -> T) -> T {
        let (findings, outcome) = fixture::hostile_findings();
        tell(&TraceView::new(&fixture::hostile(), &findings, &outcome))
    }

    fn bare(trace: &Trace) -> String {
        text(&TraceView::bare(trace), 80)
    }

    #[test]
    fn the_users_line_the_memory_and_the_workaround_are_on_the_screen() {
        let shown = told(&fixture::trace(), |seen| text(seen, 80));
        let first = "\
CUDA_VISIBLE_DEVICES was read as (unset)                        0.84 s, pid 4711
    train.py:12 <module> → cli.py:88 setup → torch.cuda.is_available → cuInit
GPU 1  +527 MiB  context                                        1.93 s, pid 4711
    train.py:35 <module> → torch.nn.modules.module.to → cuDevicePrimaryCtxRetain
GPU 0  +524 MiB  context, never used afterwards                 2.40 s, pid 4711
";
        let last = "\
2 pitfalls · 1 violation · 524 MiB on a GPU that the program did not use

Forbidden
context:gpu0
    a context on GPU 0
    train.py:52, 2.40 s

What to change
cli.py:88: CUDA_VISIBLE_DEVICES is set after it was read
    Instead: set it before torch.cuda.is_available(), or in the environment of
    the program
    train.py:31 sets CUDA_VISIBLE_DEVICES after cuInit has read it.
    Evidence: visibility/mask-after-cuinit
train.py:52: a context on a GPU that is not used
    Instead: torch.cuda.set_device(1) first, or synchronize(1)
    torch.cuda.synchronize() makes a context on the current device, which is 0.
    Evidence: context/first-call-makes-one
";
        assert!(shown.starts_with(first) && shown.ends_with(last), "{shown}");
    }

    #[test]
    fn no_line_is_longer_than_the_screen_or_begins_with_a_command() {
        let mut long = fixture::trace();
        let name = format!("{}::error::x", "a".repeat(60));
        long.events
            .iter_mut()
            .flat_map(|event| &mut event.stack.frames)
            .for_each(|frame| frame.function = name.clone());
        for width in [40, 60, 80, 100, 120] {
            let texts = [
                told(&fixture::trace(), |seen| text(seen, width)),
                hostile(|seen| text(seen, width)),
            ];
            for text in texts
                .into_iter()
                .chain([text(&TraceView::bare(&long), width)])
            {
                let is_wrong = |line: &&str| {
                    display_columns(line) > width || line.trim_start().starts_with("::")
                };
                let wrong: Vec<&str> = text.lines().filter(is_wrong).collect();
                assert!(wrong.is_empty(), "{width}: {wrong:#?}");
            }
        }
    }

    #[test]
    fn simulation_and_a_missing_end_stand_at_the_top_and_ranks_beside_a_process() {
        let mut trace = fixture::trace();
        trace
            .processes
            .iter_mut()
            .for_each(|process| (process.rank, process.local_rank) = (Some(3), Some(1)));
        (trace.start.provenance, trace.end) =
            (cuda_pitfalls_core::verdict::Provenance::Simulated, None);
        let shown = bare(&trace);
        assert!(
            shown.lines().nth(1).unwrap().starts_with("*** SIMULATED"),
            "{shown}"
        );
        assert!(
            shown.contains("*** the trace is incomplete")
                && shown.contains("pid 4711, rank 3, local rank 1"),
            "{shown}"
        );
    }

    #[test]
    fn nothing_happened_is_said_only_where_everything_was_seen() {
        let mut trace = fixture::quiet();
        assert_eq!(
            bare(&trace),
            "CUDA was not initialized: the program made no CUDA call\n"
        );
        trace.end.as_mut().unwrap().not_seen = vec!["pid 12 has a context and no event".to_owned()];
        let expected = "No CUDA call was seen, but the trace is incomplete\n\n\
                        Not seen\n- pid 12 has a context and no event\n\nno pitfall found in what was seen\n";
        assert!(expected.starts_with(&bare(&trace)), "{}", bare(&trace));
    }

    #[test]
    fn what_to_change_comes_first_on_pages_and_every_link_leads_to_an_event_or_a_proof() {
        let page = told(&fixture::trace(), render_html);
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}"));
        let order = [
            "Forbidden",
            "What to change",
            "Timeline",
            "Events",
            "Counts",
        ]
        .map(|heading| at(&format!(">{heading}</h2>")));
        assert!(order.is_sorted(), "{order:?}");
        let links: Vec<&str> = page
            .split("href=\"#")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert!(links.contains(&"visibility/mask-after-cuinit"), "{links:?}");
        for link in links {
            assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
        }
        for once in [
            "CUDA_VISIBLE_DEVICES after cuInit has read it",
            "<strong>Instead:</strong> torch.cuda.set_device(1) first",
        ] {
            assert_eq!(page.matches(once).count(), 1, "{once}");
        }
        assert!(page.contains("context, never used afterwards"));
        let page = told(&fixture::trace(), render_markdown);
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}\n{page}"));
        assert!(
            at("## What to change") < at("## Events")
                && at("set\\_device(1) first") < at("<details><summary>Stack")
        );
        assert!(
            page.contains("`train.py:12 <module>` →\u{a0}`cli.py:88 setup`"),
            "{page}"
        );
    }

    #[test]
    fn a_page_is_titled_by_its_finding_and_labels_the_late_write() {
        let trace = fixture::trace();
        let findings = fixture::findings(&trace);
        let pitfalls = TraceView {
            findings: &findings,
            ..TraceView::bare(&trace)
        };
        let page = render_html(&pitfalls);
        let title = "cli.py:88: CUDA_VISIBLE_DEVICES is set after it was read";
        assert!(page.contains(&format!(">{title}</h1>")), "{page}");
        assert!(
            !page.contains(&format!("<p class=\"title\">{title}")),
            "{page}"
        );
        assert!(page.contains(&format!("<title>{title} · ")), "{page}");
        assert!(page.contains(">variable set 410 ms too late</span>"));
        let notes = findings.iter().cloned().map(|finding| Finding {
            severity: Severity::Note,
            ..finding
        });
        let noted = render_html(&TraceView {
            findings: &Vec::from_iter(notes),
            ..TraceView::bare(&trace)
        });
        let marked = [&page, &noted].map(|page| page.matches(" told\"").count());
        assert!(marked[0] > marked[1], "a note is not a pitfall: {marked:?}");
        let forbidden = told(&trace, render_html);
        assert!(forbidden.contains(">train.py:52: forbidden: a context on GPU 0</h1>"));
        let quiet = render_html(&TraceView::bare(&fixture::quiet()));
        assert!(quiet.contains(">no pitfall found</h1>"), "{quiet}");
    }

    #[test]
    fn a_cuinit_has_one_time_on_a_page() {
        let mut trace = fixture::trace();
        let findings = fixture::findings(&trace);
        let done = trace.events.iter_mut();
        for event in done.filter(|event| matches!(event.what, EventKind::InitDone { .. })) {
            event.t_ns += 100_000_000;
        }
        let with_note: Vec<Finding> = (0..trace.events.len())
            .filter(|index| matches!(trace.events[*index].what, EventKind::InitDone { .. }))
            .map(|index| Finding {
                events: vec![index],
                ..findings[0].clone()
            })
            .collect();
        let page = render_html(&TraceView {
            findings: &with_note,
            ..TraceView::bare(&trace)
        });
        assert!(
            !with_note.is_empty() && page.contains("\">0.84 s</a>"),
            "{page}"
        );
    }

    #[test]
    fn a_timeline_has_one_scale_one_meaning_of_a_colour_names_of_marks_and_no_idle_time() {
        let mut trace = fixture::trace();
        let template = trace.memory[0];
        let at = |index, used_bytes| Memory {
            index,
            used_bytes,
            ..template
        };
        trace.start.used_bytes = vec![Some(0), Some(0)];
        trace.memory = vec![at(0, 2000 << 20), at(1, 20 << 20)];
        trace.end.as_mut().unwrap().t_ns += 3_600_000_000_000;
        let page = render_html(&TraceView::bare(&trace));
        let (_, timeline) = page.split_once("<h2>Timeline</h2>").unwrap();
        let timeline = timeline.split("<h2>").next().unwrap();
        let heights: Vec<&str> = timeline
            .split("<path d=\"")
            .skip(1)
            .filter_map(|path| path.split('"').next())
            .collect();
        assert!(
            heights[0].contains("V0.0") && heights[1].contains("V99.0"),
            "20 MiB beside 2,000: {heights:?}"
        );
        assert!(
            !timeline.contains("class=\"g0\"") && timeline.contains(">cuInit</span>"),
            "{timeline}"
        );
        assert!(
            timeline.contains("Axis break: 60.1 min") && timeline.contains("class=\"cut\""),
            "{timeline}"
        );
    }

    #[test]
    fn findings_that_differ_in_their_process_alone_have_one_card() {
        let trace = fixture::trace();
        let template = fixture::findings(&trace).remove(0);
        let of = |pid: u32| Finding {
            pid,
            says: format!("pid {pid} does it"),
            ..template.clone()
        };
        let findings: Vec<Finding> = (100..300).map(of).collect();
        let page = render_html(&TraceView {
            findings: &findings,
            ..TraceView::bare(&trace)
        });
        assert_eq!(page.matches("class=\"card").count(), 1);
        assert!(page.contains("(200 times)"));
    }

    #[test]
    fn the_page_loads_and_runs_nothing_and_every_tag_is_closed() {
        let quiet = render_html(&TraceView::bare(&fixture::quiet()));
        for page in [
            told(&fixture::trace(), render_html),
            hostile(render_html),
            quiet,
        ] {
            crate::fixture::assert_inert(&page.replace("](http://e)", ""));
            assert!(!page.contains("NaN") && !page.contains("inf%"));
        }
    }

    #[test]
    fn every_form_of_a_large_trace_stays_small_and_says_what_is_left_out() {
        let mut busy = fixture::large(4, 2_000, 100_000);
        for (number, memory) in busy.memory.iter_mut().enumerate() {
            memory.index = number % 64;
        }
        for trace in [fixture::large(500, 10_000, 200_000), busy] {
            let seen = TraceView::bare(&trace);
            let (text, markdown, html) =
                (text(&seen, 80), render_markdown(&seen), render_html(&seen));
            assert!(text.lines().count() < 300, "{} lines", text.lines().count());
            assert!(markdown.chars().count() < 65_536, "{}", markdown.len());
            assert!(html.len() < 2_000_000, "{} bytes", html.len());
            crate::fixture::assert_closed(&html);
            for form in [text, markdown, html] {
                assert!(form.contains("more events; the document contains them all"));
            }
        }
    }
}

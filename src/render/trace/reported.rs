//! The results for tools that show findings in a file: one entry for each rule and line.
//!
//! An entry is an error if the policy forbids what was done, a warning for a pitfall, and a note for other information.
//! Calls that initialized CUDA or created contexts are notes, with or without a policy: a stored trace does not contain
//! the policy that it was checked by, and a file without entries would look as if CUDA had not been used.

use std::collections::{HashMap, HashSet};

use hmac_sha256::Hash;

use super::file::{self, FileLine};
use super::{TraceView, unseen};
use crate::machine::Level;
use cuda_pitfalls_answers::refused::RefusedCall;
use cuda_pitfalls_core::text::counts::{counted, group_by_key};
use cuda_pitfalls_core::text::escape::{shorten_text, visible};
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};
use cuda_pitfalls_trace::policy::{Policy, PolicyWord, Violation};

/// Maximum number of entries: GitHub shows 5,000.
pub(super) const MOST: usize = 5000;
/// Messages are cut to this many bytes.
const LIMIT: usize = 4096;
const MOST_SENTENCES: usize = 5;

/// The rule of calls that return errors.
const ERROR: &str = "error";

impl Level {
    /// Returns the level of a rule's findings, unless the policy forbids it.
    pub(super) fn from_severity(severity: Severity) -> Level {
        match severity {
            Severity::Pitfall => Level::Warning,
            Severity::Note => Level::Note,
        }
    }
}

/// A rule of the policy: its name, what it finds in a few words, why, and the page about it.
pub(super) struct PolicyRule {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) why: &'static str,
    pub(super) scenario: Option<&'static str>,
    pub(super) level: Level,
}

/// Rule of entries that exist only because the policy forbids them; each such rule adds its texts.
const FORBIDDEN: PolicyRule = PolicyRule {
    id: "",
    title: "",
    why: "",
    scenario: None,
    level: Level::Error,
};

/// The rules of `--forbid` and `--max-bytes`, except for the rules of diagnoses.
pub(super) const POLICY_RULES: [PolicyRule; 7] = [
    PolicyRule {
        id: "cuinit",
        title: "CUDA is initialized",
        why: "The first cuInit of a process reads CUDA_VISIBLE_DEVICES and other variables. Later writes have no effect, and children forked later cannot use CUDA. --forbid cuinit makes this an error.",
        scenario: Some("visibility/mask-after-cuinit"),
        level: Level::Note,
    },
    PolicyRule {
        id: "context",
        title: "a context is created on a GPU",
        why: "A context uses hundreds of MiB on its GPU until it is destroyed or its process ends. --forbid context, \
              or context:gpu0 for one GPU, makes this an error.",
        scenario: Some("context/first-call-makes-one"),
        level: Level::Note,
    },
    PolicyRule {
        id: "stray",
        title: "a context on a GPU where the process does no work",
        why: "The process also has a context on another GPU. On this GPU it launches no kernel, copies nothing and allocates nothing. Its memory is unavailable to other processes. --forbid stray makes this an error.",
        scenario: Some("context/first-call-makes-one"),
        level: Level::Error,
    },
    PolicyRule {
        id: "error",
        title: "a driver call returns an error",
        why: "--forbid error makes every driver call that returns an error one. `cuda-pitfalls explain` says what is \
              known of an error.",
        ..FORBIDDEN
    },
    PolicyRule {
        id: "max-bytes",
        title: "memory on a GPU grows by more than allowed",
        why: "--max-bytes says by how much the memory of a GPU may grow.",
        ..FORBIDDEN
    },
    PolicyRule {
        id: "unattributed",
        title: "a process has more unattributed memory than allowed",
        why: "--forbid unattributed>SIZE limits the memory that NVML reports but no row of the ledger explains.",
        ..FORBIDDEN
    },
    PolicyRule {
        id: "owner",
        title: "a library holds more memory than allowed",
        why: "--forbid owner=NAME>SIZE says how much a library may hold when its process holds the most.",
        ..FORBIDDEN
    },
];

pub(super) struct Reported<'a> {
    /// The name of the rule: one of `docs/diagnoses.md`, or of [`POLICY_RULES`].
    pub(super) rule: String,
    pub(super) level: Level,
    /// The event, the replacement to write, and the scenario that proves it.
    pub(super) message: String,
    /// The violated condition of the policy, as it was written.
    pub(super) forbidden: Option<&'a str>,
    pub(super) finding: Option<&'a Finding>,
    /// The events that show it, by index; the program went wrong at the first one.
    pub(super) events: Vec<usize>,
    pub(super) place: Option<FileLine>,
    /// Number of occurrences there.
    pub(super) times: usize,
    /// Distinguishes it from others, and is the same for another trace after the line has moved.
    pub(super) fingerprint: String,
}

/// A single occurrence, before equal ones are merged into one entry.
struct Occurrence<'a> {
    rule: String,
    level: Level,
    says: String,
    forbidden: Option<&'a str>,
    finding: Option<&'a Finding>,
    events: Vec<usize>,
}

/// Returns the prefix of every message about a trace of the simulated machine.
pub(super) fn simulated(seen: &TraceView) -> &'static str {
    match seen.trace.start.provenance {
        Provenance::Simulated => "SIMULATED: ",
        Provenance::Measured => "",
    }
}

/// Returns the entries: errors, warnings, notes, each in the order of time. `root` is the directory that files are
/// relative to.
pub(super) fn all<'a>(seen: &TraceView<'a>, root: &str) -> Vec<Reported<'a>> {
    let mut once = occurrences(seen);
    let notes = note_occurrences(seen, &once);
    once.extend(notes);
    at_lines(seen, root, once)
}

/// Returns the entries without notes about packages that used CUDA: these are not test results.
pub(super) fn without_notes<'a>(seen: &TraceView<'a>, root: &str) -> Vec<Reported<'a>> {
    at_lines(seen, root, occurrences(seen))
}

fn occurrences<'a>(seen: &TraceView<'a>) -> Vec<Occurrence<'a>> {
    let mut once = violation_occurrences(seen);
    once.extend(findings(seen));
    once.extend(refusal_occurrences(seen));
    once
}

/// Merges equal entries at one line, the most important first.
fn at_lines<'a>(
    seen: &TraceView<'a>,
    root: &str,
    mut once: Vec<Occurrence<'a>>,
) -> Vec<Reported<'a>> {
    once.sort_by_key(|one| one.level);
    let placed = once.into_iter().map(|one| {
        let event = one
            .events
            .first()
            .and_then(|index| seen.trace.events.get(*index));
        let place = match event {
            Some(event) => file::event_line(seen.trace, root, event),
            None => file::program_line(seen.trace, root, None),
        };
        let at = place
            .as_ref()
            .map(|place| format!("{}:{:?}", place.path, place.line));
        ((one.rule.clone(), one.level, at), (place, one))
    });
    let mut all: Vec<Reported<'a>> = group_by_key(placed)
        .into_iter()
        .filter_map(|(_, group)| merge_occurrences(seen, group))
        .collect();
    number(&mut all);
    all
}

/// Returns the violations of the policy, except for those that a rule also found.
fn violation_occurrences<'a>(seen: &TraceView<'a>) -> Vec<Occurrence<'a>> {
    let violations = seen.violations.iter();
    let violations = violations.filter(|violation| {
        !seen
            .findings
            .iter()
            .any(|finding| is_of(violation, finding))
    });
    let mut all: Vec<_> = violations
        .map(|violation| once(violation, Level::Error, Some(&violation.forbidden)))
        .collect();
    for one in all.iter_mut().filter(|one| one.rule == ERROR) {
        let event = one.events.first().copied();
        let refusal = seen.refusals.iter().find(|refusal| refusal.event == event);
        one.says
            .extend(refusal.map(|refusal| format!(". {}", sentence(refusal))));
    }
    all
}

/// Returns the failed CUDA calls that no policy forbids, and the error that the program printed last.
fn refusal_occurrences<'a>(seen: &TraceView<'a>) -> Vec<Occurrence<'a>> {
    let errors = seen
        .violations
        .iter()
        .filter(|violation| rule_of(&violation.forbidden) == ERROR);
    let forbidden: Vec<Option<usize>> = errors.map(|violation| violation.event).collect();
    let level = if seen.has_failed() {
        Level::Warning
    } else {
        Level::Note
    };
    let refusals = seen
        .refusals
        .iter()
        .filter(|refusal| !forbidden.contains(&refusal.event))
        .chain(&seen.last_error);
    let explained = refusals.map(|refusal| Occurrence {
        rule: ERROR.to_owned(),
        level,
        says: sentence(refusal),
        forbidden: None,
        finding: None,
        events: refusal.event.into_iter().collect(),
    });
    explained.collect()
}

/// Returns the sentence without its final period, which the message adds.
fn sentence(refusal: &RefusedCall) -> String {
    refusal.in_words().trim_end_matches('.').to_owned()
}

/// Returns the occurrence of a violation.
fn once<'a>(violation: &Violation, level: Level, forbidden: Option<&'a str>) -> Occurrence<'a> {
    let (rule, says, events) = (
        rule_of(&violation.forbidden),
        violation.says.clone(),
        violation.event.into_iter().collect(),
    );
    Occurrence {
        rule,
        level,
        says,
        forbidden,
        finding: None,
        events,
    }
}

/// Returns the findings of the rules: an error if the policy forbids the rule.
fn findings<'a>(seen: &TraceView<'a>) -> Vec<Occurrence<'a>> {
    let violations = seen
        .findings
        .iter()
        .map(|finding| seen.violations.iter().find(|it| is_of(it, finding)));
    let found = seen
        .findings
        .iter()
        .zip(violations)
        .map(|(finding, violation)| Occurrence {
            rule: name(&finding.rule),
            level: if violation.is_some() {
                Level::Error
            } else {
                Level::from_severity(finding.severity)
            },
            says: finding.says.clone(),
            forbidden: violation.map(|violation| violation.forbidden.as_str()),
            finding: Some(finding),
            events: finding.events.clone(),
        });
    found.collect()
}

/// Returns `true` if a violation is this finding, whose rule is forbidden: it has its texts and its event.
fn is_of(violation: &Violation, finding: &Finding) -> bool {
    violation.says == finding.says && violation.event == finding.events.first().copied()
}

/// Returns the calls that initialized CUDA or created contexts, except for those that already have an entry.
fn note_occurrences<'a>(seen: &TraceView<'a>, said: &[Occurrence<'a>]) -> Vec<Occurrence<'a>> {
    let told = Policy {
        forbid: vec![PolicyWord::Init, PolicyWord::Context],
        ..Policy::default()
    };
    let said: HashSet<usize> = said
        .iter()
        .filter_map(|one| one.events.first().copied())
        .collect();
    let all = told
        .find_violations(&seen.history, seen.findings)
        .into_iter();
    let others = all.filter(|violation| violation.event.is_none_or(|event| !said.contains(&event)));
    others
        .map(|violation| once(&violation, Level::Note, None))
        .collect()
}

/// Returns the rule of a word of a policy: `context` for `context:gpu0`, `fork-after-init` for `fork`.
fn rule_of(forbidden: &str) -> String {
    let word = forbidden
        .split([':', ' ', '=', '>'])
        .next()
        .unwrap_or_default();
    match PolicyWord::parse(word) {
        Ok(PolicyWord::Rule(rule)) => rule.to_owned(),
        _ => name(word),
    }
}

/// Returns a name of a rule, escaped and not empty.
fn name(text: &str) -> String {
    let text = shorten_text(&visible(text), 100);
    if text.is_empty() {
        "policy".to_owned()
    } else {
        text
    }
}

/// Merges equal occurrences into one entry.
fn merge_occurrences<'a>(
    seen: &TraceView<'a>,
    group: Vec<(Option<FileLine>, Occurrence<'a>)>,
) -> Option<Reported<'a>> {
    let (places, group): (Vec<_>, Vec<_>) = group.into_iter().unzip();
    let (times, message, place) = (
        group.len(),
        message(seen, &group),
        places.into_iter().next().flatten(),
    );
    let Occurrence {
        rule,
        level,
        forbidden,
        finding,
        events,
        ..
    } = group.into_iter().next()?;
    let fingerprint = line_fingerprint(&rule, place.as_ref());
    Some(Reported {
        rule,
        level,
        message,
        forbidden,
        finding,
        events,
        place,
        times,
        fingerprint,
    })
}

fn message(seen: &TraceView, group: &[Occurrence]) -> String {
    let mut sentences: Vec<String> = Vec::new();
    for one in group {
        // The same finding in another process is not a different sentence.
        let pid = one
            .events
            .first()
            .and_then(|index| seen.trace.events.get(*index))
            .map(|event| event.pid);
        let says = match pid {
            Some(pid) if group.len() > 1 => one.says.replace(&format!("pid {pid}"), "a process"),
            _ => one.says.clone(),
        };
        if !sentences.contains(&says) {
            sentences.push(says);
        }
    }
    let more = sentences.len().saturating_sub(MOST_SENTENCES);
    sentences.truncate(MOST_SENTENCES);
    let mut text = format!("{}{}.", simulated(seen), visible(&sentences.join("; ")));
    if more > 0 {
        text.push_str(&format!(" {more} more like it."));
    }
    if group.len() > 1 {
        text.push_str(&format!(" {}.", counted(group.len() as u64, "time")));
    }
    if let Some(forbidden) = group.iter().find_map(|one| one.forbidden) {
        text.push_str(&format!(" Forbidden by {}.", visible(forbidden)));
    }
    if let Some(finding) = group.iter().find_map(|one| one.finding) {
        let (workaround, scenario) = (visible(&finding.workaround), visible(&finding.scenario));
        text.push_str(&format!(
            " Instead: {}. Evidence: {scenario}.",
            workaround.trim_end_matches('.')
        ));
    }
    let mut known = group.iter();
    if let Some(known) = known.find_map(|one| seen.import_words(one.events.iter().copied())) {
        text.push_str(&format!(" {known}"));
    }
    shorten_text(&text, LIMIT)
}

/// Returns the hash of the rule, the file and the text of the line. Line numbers, PIDs and GPUs are not part of it.
fn line_fingerprint(rule: &str, place: Option<&FileLine>) -> String {
    let mut hash = Hash::new();
    for part in [
        rule,
        place.map_or("", |place| &place.stable),
        place.map_or("", |place| &place.text),
    ] {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Numbers equal fingerprints by their lines: two lines of a file may have the same text.
fn number(all: &mut [Reported]) {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|index| all.get(*index).and_then(|it| it.place.as_ref()?.line));
    let mut seen: HashMap<String, usize> = HashMap::new();
    for index in order {
        let Some(one) = all.get_mut(index) else {
            continue;
        };
        let times = seen.entry(one.fingerprint.clone()).or_default();
        *times += 1;
        if *times > 1 {
            one.fingerprint = format!("{}:{times}", one.fingerprint);
        }
    }
}

/// Returns the reasons why there may be more: causes of an incomplete trace, conditions left undecided, events not
/// observed; with their sort.
pub(super) fn list_doubts(seen: &TraceView) -> Vec<(&'static str, Level, String)> {
    let incomplete = unseen::incomplete_sentence(seen.trace);
    let missing = seen
        .not_seen
        .iter()
        .filter(|line| Some(*line) != incomplete.as_ref());
    let missing = missing.map(|line| ("not-seen", Level::Warning, line.clone()));
    let undecided = seen
        .undecided
        .iter()
        .map(|line| ("undecided", Level::Error, line.clone()));
    let incomplete = incomplete
        .iter()
        .map(|line| ("incomplete", Level::Error, line.clone()));
    let all: Vec<_> = incomplete.chain(undecided).chain(missing).collect();
    all.into_iter()
        .map(|(sort, level, line)| (sort, level, shorten_text(&visible(&line), LIMIT)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;
    use cuda_pitfalls_trace::policy::PolicyOutcome;

    const ROOT: &str = "/home/me/project";

    fn shown(trace: &Trace, outcome: &PolicyOutcome) -> Vec<(String, &'static str, String, usize)> {
        let findings = fixture::findings(trace);
        let at = |it: &Reported| {
            let place = it.place.as_ref().unwrap();
            format!("{}:{}", place.path, place.line.unwrap_or(0))
        };
        let seen = TraceView::new(trace, &findings, outcome);
        all(&seen, ROOT)
            .iter()
            .map(|it| (it.rule.clone(), it.level.name(), at(it), it.times))
            .collect()
    }

    #[test]
    fn a_stored_trace_has_its_findings_and_what_used_cuda() {
        let trace = fixture::trace();
        let of = |rule: &str, level, at: &str| (rule.to_owned(), level, at.to_owned(), 1);
        // The context on GPU 0 is found by a rule, so no note repeats it.
        let expected = [
            of("late-mask", "warning", "cli.py:88"),
            of("stray-context", "warning", "train.py:52"),
            of("error", "note", "data.py:7"),
            of("context", "note", "train.py:35"),
        ];
        assert_eq!(shown(&trace, &PolicyOutcome::default()), expected);
        let forbidden = [
            of("context", "error", "train.py:52"),
            of("late-mask", "warning", "cli.py:88"),
            of("stray-context", "warning", "train.py:52"),
            of("error", "note", "data.py:7"),
            of("context", "note", "train.py:35"),
        ];
        assert_eq!(shown(&trace, &fixture::outcome(&trace)), forbidden);
        let quiet = fixture::quiet();
        assert!(
            all(&TraceView::bare(&quiet), ROOT).is_empty(),
            "nothing was done"
        );
    }

    #[test]
    fn a_note_becomes_an_error_of_the_same_rule_and_fingerprint_if_it_is_forbidden() {
        let trace = fixture::trace();
        let policy = Policy::parse(&["cuinit,late-mask".to_owned()], &[]).unwrap();
        let mut findings = fixture::findings(&trace);
        findings.remove(1);
        let outcome = policy.check(&trace, &findings);
        let none = PolicyOutcome::default();
        let [before, after] =
            [&none, &outcome].map(|outcome| all(&TraceView::new(&trace, &[], outcome), ROOT));
        let init = |all: &[Reported]| {
            let it = all.iter().find(|it| it.rule == "cuinit").unwrap();
            (it.level, it.fingerprint.clone())
        };
        assert_eq!(
            (init(&before).0, init(&after).0),
            (Level::Note, Level::Error)
        );
        assert_eq!(init(&before).1, init(&after).1);
        // A finding of a forbidden rule is one entry, with the workaround.
        let all = all(&TraceView::new(&trace, &findings, &outcome), ROOT);
        let late: Vec<&Reported> = all.iter().filter(|it| it.rule == "late-mask").collect();
        assert!(
            matches!(late.as_slice(), [one] if one.level == Level::Error),
            "{}",
            late.len()
        );
        assert!(
            late[0]
                .message
                .contains("Forbidden by late-mask. Instead: set it before"),
            "{}",
            late[0].message
        );
    }

    #[test]
    fn a_fingerprint_survives_moved_lines_other_pids_and_other_gpus() {
        let prints = |trace: &Trace| {
            let (findings, none) = (fixture::findings(trace), PolicyOutcome::default());
            let all = all(&TraceView::new(trace, &findings, &none), ROOT);
            all.into_iter().map(|it| it.fingerprint).collect::<Vec<_>>()
        };
        let trace = fixture::trace();
        let before = prints(&trace);
        assert_eq!(
            before
                .iter()
                .collect::<std::collections::HashSet<_>>()
                .len(),
            before.len()
        );
        let mut moved = trace.clone();
        for event in &mut moved.events {
            event.pid += 1000;
            for frame in event.stack.frames.iter_mut() {
                frame.line = frame.line.map(|line| line + 7);
            }
        }
        assert_eq!(prints(&moved), before);
        // A different line of code is a different entry.
        let context = moved
            .events
            .iter()
            .position(|event| event.call.contains("Retain"))
            .unwrap();
        moved.events[context].stack.source = Some("model.to('cuda:1')".to_owned());
        let after = prints(&moved);
        assert_eq!(after[..3], before[..3]);
        assert_ne!(after[3], before[3]);
    }

    #[test]
    fn equal_ones_at_a_line_are_one_and_equal_lines_are_told_apart() {
        let trace = fixture::large(2, 12, 0);
        let all = all(&TraceView::bare(&trace), ROOT);
        assert!(!all.is_empty() && all.iter().all(|it| it.rule == "context" && it.times == 1));
        let mut same = trace.clone();
        for frame in same
            .events
            .iter_mut()
            .flat_map(|event| &mut event.stack.frames)
        {
            frame.line = Some(1);
        }
        let merged = super::all(&TraceView::bare(&same), ROOT);
        assert_eq!((merged.len(), merged[0].times), (1, all.len()));
        assert!(
            merged[0]
                .message
                .ends_with(&format!(" {} times.", all.len())),
            "{}",
            merged[0].message
        );
        let numbered = all.iter().filter(|it| it.fingerprint.contains(':')).count();
        assert_eq!(
            numbered,
            all.len() - 1,
            "all have the same function and file"
        );
    }

    #[test]
    fn words_of_a_policy_are_rules() {
        let memory = ["unattributed>64MiB", "owner=nccl>1GiB"];
        assert_eq!(memory.map(rule_of), ["unattributed", "owner"]);
        let shown = [
            "context:gpu0",
            "context:GPU-1",
            "fork",
            "max-bytes gpu1=2GiB",
        ];
        assert_eq!(
            shown.map(rule_of),
            ["context", "context", "fork-after-init", "max-bytes"]
        );
        for rule in POLICY_RULES {
            assert_eq!(rule_of(rule.id), rule.id);
            if let Some(scenario) = rule.scenario {
                assert!(
                    cuda_pitfalls_core::catalogue::select_scenarios(&[scenario.to_owned()]).is_ok(),
                    "{scenario}"
                );
            }
        }
    }

    #[test]
    fn what_was_not_seen_is_a_doubt() {
        let mut trace = fixture::trace();
        assert!(list_doubts(&TraceView::bare(&trace)).is_empty());
        trace.end = None;
        let undecided = ["fork: why".to_owned()];
        let doubts = list_doubts(&TraceView {
            undecided: &undecided,
            ..TraceView::bare(&trace)
        });
        let sorts: Vec<&str> = doubts.iter().map(|(sort, ..)| *sort).collect();
        assert_eq!(sorts, ["incomplete", "undecided"], "{doubts:?}");
    }
}

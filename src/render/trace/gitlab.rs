//! A trace as GitLab's code quality report: a JSON array with an entry for each rule and line.
//!
//! The format is that of "Code Quality report format" in GitLab's documentation: description, check_name, fingerprint,
//! severity, location.path and location.lines.begin. It has no place for what was not seen, so a trace that is
//! incomplete and a condition that cannot be decided are entries too.

use serde_json::{Value, json};

use super::reported::{self, Level, Reported};
use super::{Seen, file};
use cuda_pitfalls_core::text::escape::visible;

/// The whole file. `root` is the folder that paths are relative to.
pub(super) fn document(seen: &Seen, root: &str) -> String {
    let entries = reported::all(seen, root);
    let all: Vec<Value> = entries.iter().take(reported::MOST).map(entry).chain(doubts(seen, root)).collect();
    format!("{}\n", Value::from(all))
}

fn entry(one: &Reported) -> Value {
    let (path, line) = match &one.place {
        Some(place) => (visible(&place.file.path), place.line.unwrap_or(1)),
        None => ("?".to_owned(), 1),
    };
    json!({
        "description": one.message,
        "check_name": one.rule,
        "fingerprint": one.fingerprint,
        "severity": severity(one.level),
        "location": { "path": path, "lines": { "begin": line } },
    })
}

fn severity(level: Level) -> &'static str {
    match level {
        Level::Error => "major",
        Level::Warning => "minor",
        Level::Note => "info",
    }
}

/// What makes the entries less than a whole answer.
fn doubts(seen: &Seen, root: &str) -> Vec<Value> {
    let place = file::of_program(seen.trace, root, None);
    let path = place.map_or_else(|| "?".to_owned(), |place| visible(&place.file.path));
    let of = |(sort, level, line): (&str, Level, String)| {
        json!({
            "description": format!("{}{line}.", reported::simulated(seen)),
            "check_name": sort,
            "fingerprint": format!("{sort}: {line}"),
            "severity": severity(level),
            "location": { "path": path, "lines": { "begin": 1 } },
        })
    };
    reported::doubts(seen).into_iter().filter(|(_, level, _)| *level == Level::Error).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::verdict::Provenance;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn of(trace: &Trace) -> Vec<Value> {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        serde_json::from_str(&document(&Seen::new(trace, &findings, &outcome), &trace.start.folder)).unwrap()
    }

    #[test]
    fn entries_have_what_gitlab_asks_for() {
        let all = of(&fixture::trace());
        let shown: Vec<_> = all.iter().map(|it| (it["check_name"].as_str(), it["severity"].as_str())).collect();
        let of = |rule, severity| (Some(rule), Some(severity));
        let expected =
            [of("context", "major"), of("late-mask", "minor"), of("stray-context", "minor"), of("context", "info")];
        assert_eq!(shown, expected);
        assert_eq!(all[0]["location"], json!({ "path": "train.py", "lines": { "begin": 52 } }));
        let prints: std::collections::HashSet<_> = all.iter().map(|it| it["fingerprint"].to_string()).collect();
        assert_eq!(prints.len(), all.len());
    }

    #[test]
    fn an_incomplete_simulated_trace_says_so_in_every_entry() {
        let mut trace = fixture::trace();
        (trace.end, trace.start.provenance) = (None, Provenance::Simulated);
        let all = of(&trace);
        assert!(all.iter().all(|it| it["description"].as_str().unwrap().starts_with("SIMULATED, not evidence: ")));
        assert_eq!(all.last().unwrap()["check_name"], "incomplete");
    }

    #[test]
    fn foreign_text_is_a_value() {
        let (findings, outcome) = fixture::hostile_findings();
        let shown = document(&Seen::new(&fixture::hostile(), &findings, &outcome), fixture::HOSTILE);
        assert_eq!(shown.lines().count(), 1);
        assert!(!shown.contains('\u{1b}') && !shown.contains("\\u001b"), "{shown}");
        assert!(
            serde_json::from_str::<Vec<Value>>(&shown).unwrap().iter().all(|it| it["location"]["path"].is_string())
        );
    }
}

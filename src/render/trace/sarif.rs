//! A trace in SARIF 2.1.0: one run, a result for each rule and line, and the gaps of the trace as notifications.
//!
//! The format is the OASIS standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0". GitHub rejects
//! an entire file if one result has no location, so every result has one.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use super::TraceView;
use super::file::{self, FileLine, ROOT};
use super::reported::{self, POLICY_RULES, PolicyRule, Reported};
use crate::machine::{BESIDE, Level};
use cuda_pitfalls_answers::known::Known;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::{shorten_text, visible};
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_trace::TraceEvent;
use cuda_pitfalls_trace::diagnosis::{self, DiagnosisRule};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// Maximum number of locations in a path through the user's code.
const MOST_FRAMES: usize = 40;
const MOST_RELATED: usize = 8;
/// Names and lines of code are cut to this many bytes.
const LONGEST: usize = 400;
/// The name of the fingerprint; its number changes if it is computed in another way.
const FINGERPRINT: &str = "cudaPitfalls/v1";

/// Returns the complete file. `root` is the directory of the sources.
pub(super) fn document(seen: &TraceView, root: &str) -> String {
    let log = json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run(seen, root)] });
    format!("{log:#}\n")
}

fn run(seen: &TraceView, root: &str) -> Value {
    let rules = rule_descriptors();
    let all = reported::all(seen, root);
    let left_out = all.len().saturating_sub(reported::MOST);
    let results: Vec<Value> = all
        .iter()
        .take(reported::MOST)
        .map(|one| sarif_result(seen, root, &rules, one))
        .collect();
    let start = &seen.trace.start;
    json!({
        "tool": { "driver": {
            "name": "cuda-pitfalls",
            "version": env!("CARGO_PKG_VERSION"),
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": rules,
            "notifications": notification_descriptors(),
        } },
        "originalUriBaseIds": { ROOT: root_location(root) },
        "invocations": [sarif_invocation(seen, left_out)],
        "results": results,
        "properties": {
            "provenance": crate::words::provenance(start.provenance),
            "simulated": start.provenance == Provenance::Simulated,
            "complete": seen.trace.end.is_some(),
            "tracedWith": visible(&start.version),
            "driver": start.driver_version.as_deref().map(visible),
            "totals": visible(&seen.totals.join(", ")),
        },
    })
}

/// Returns the root of the sources, without an address if the trace does not have it.
fn root_location(root: &str) -> Value {
    let folder = format!("{}/", root.trim_end_matches('/'));
    let uri = root.starts_with('/').then(|| file::file_uri(&folder));
    let description =
        text("the repository that the program was started in, otherwise the directory");
    without_nulls(json!({ "uri": uri, "description": description }))
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

/// Returns every rule, by name: a reader also learns which rules found nothing.
fn rule_descriptors() -> Vec<Value> {
    let mut rules: BTreeMap<&str, Value> = BTreeMap::new();
    for rule in diagnosis::embedded_rules() {
        rules.insert(&rule.name, rule_descriptor(rule));
    }
    for rule in &POLICY_RULES {
        rules.insert(rule.id, policy_descriptor(rule));
    }
    rules.into_values().collect()
}

fn policy_descriptor(rule: &PolicyRule) -> Value {
    let known = Known::embedded();
    let page = rule.scenario.and_then(|scenario| known.page(scenario));
    let mut help = rule.why.to_owned();
    if let Some(page) = &page {
        help += &format!(" See {page}.");
    }
    json!({
        "id": rule.id,
        "shortDescription": text(rule.title),
        "fullDescription": text(rule.why),
        "help": text(&help),
        "defaultConfiguration": { "level": rule.level.name() },
        "properties": { "tags": ["cuda", "policy"], "scenario": rule.scenario, "page": page },
    })
}

fn rule_descriptor(rule: &DiagnosisRule) -> Value {
    let page = Known::embedded().page(&rule.scenario).unwrap_or_default();
    let mut help = format!("{}\n\nWhat to write instead:\n", rule.why);
    for (framework, workaround) in &rule.workaround {
        let framework = if framework == "any" {
            "any program"
        } else {
            framework
        };
        help.push_str(&format!("- {framework}: {workaround}\n"));
    }
    help.push_str(&format!(
        "\nProved by the scenario {}: {page}, `cuda-pitfalls show {0}`.",
        rule.scenario
    ));
    json!({
        "id": rule.name,
        "shortDescription": text(&rule.title),
        "fullDescription": text(&rule.why),
        "help": text(&help),
        "defaultConfiguration": { "level": Level::from_severity(rule.severity).name() },
        "properties": { "tags": ["cuda", rule.severity.name()], "scenario": rule.scenario, "page": page },
    })
}

fn notification_descriptors() -> Value {
    let sorts = [
        ("simulated", "no driver and no GPU answered"),
        ("incomplete", "the trace stops before the program ended"),
        (
            "undecided",
            "a policy condition is undecided, because the trace is incomplete",
        ),
        ("not-seen", "some events could not be seen"),
        ("left-out", "there are too many results for one file"),
    ];
    json!(sorts.map(|(id, about)| json!({ "id": id, "shortDescription": text(about) })))
}

fn sarif_notification(id: &str, level: Level, message: &str) -> Value {
    json!({ "descriptor": { "id": id }, "level": level.name(), "message": text(message) })
}

/// Returns the end of the traced program, and the gaps of the trace.
fn sarif_invocation(seen: &TraceView, left_out: usize) -> Value {
    let mut all: Vec<Value> = Vec::new();
    if seen.trace.start.provenance == Provenance::Simulated {
        all.push(sarif_notification(
            "simulated",
            Level::Warning,
            crate::tally::SIMULATED,
        ));
    }
    for (sort, level, line) in reported::list_doubts(seen) {
        all.push(sarif_notification(sort, level, &line));
    }
    if left_out > 0 {
        let results = counted(left_out as u64, "result");
        let message = format!("{results} left out; the trace contains all of them");
        all.push(sarif_notification("left-out", Level::Warning, &message));
    }
    let (start, end) = (&seen.trace.start, &seen.trace.end);
    let began = start.started_at.parse::<DateTime<Utc>>().ok();
    let mut invocation = json!({
        // The tool succeeded if the trace is whole, however the program ended.
        "executionSuccessful": end.is_some(),
        "toolExecutionNotifications": all,
        "startTimeUtc": began.map(format_rfc3339),
    });
    if let Some(end) = end {
        let took = i64::try_from(end.t_ns.saturating_sub(start.t_ns)).unwrap_or(i64::MAX);
        let took = TimeDelta::nanoseconds(took);
        let ended = began.and_then(|began| began.checked_add_signed(took));
        invocation = with(invocation, "endTimeUtc", json!(ended.map(format_rfc3339)));
        invocation = with(invocation, "exitCode", json!(end.code));
        invocation = with(
            invocation,
            "exitSignalName",
            json!(end.signal.as_deref().map(visible)),
        );
        invocation = with(
            invocation,
            "exitCodeDescription",
            json!("how the traced program ended"),
        );
    }
    without_nulls(invocation)
}

/// Returns a time in UTC with as many digits of a second as it has.
fn format_rfc3339(time: DateTime<Utc>) -> String {
    let text = time.format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}Z")
}

/// Returns an object without the properties that are null: the standard does not allow null.
fn without_nulls(mut object: Value) -> Value {
    if let Some(properties) = object.as_object_mut() {
        properties.retain(|_, value| !value.is_null());
    }
    object
}

fn sarif_result(seen: &TraceView, root: &str, rules: &[Value], one: &Reported) -> Value {
    let mut result = json!({
        "ruleId": one.rule,
        "ruleIndex": rules.iter().position(|rule| rule.get("id") == Some(&json!(one.rule))),
        "level": one.level.name(),
        "kind": "fail",
        "message": text(&one.message),
        "locations": [],
        "partialFingerprints": { FINGERPRINT: one.fingerprint },
        "occurrenceCount": one.times,
        "properties": result_properties(seen, one),
    });
    if let Some(place) = &one.place {
        result = with(
            result,
            "message",
            text(&qualify_message(&one.message, place)),
        );
        result = with(result, "locations", json!([physical_location(place)]));
    }
    let related = related_locations(seen, root, one);
    if !related.is_empty() {
        result = with(result, "relatedLocations", json!(related));
    }
    let first = one.events.first().copied();
    if let Some(event) = first.and_then(|index| seen.trace.events.get(index))
        && let Some(way) = way(seen, root, event)
    {
        result = with(
            result,
            "codeFlows",
            json!([{ "threadFlows": [{ "locations": way }] }]),
        );
    }
    without_nulls(result)
}

fn result_properties(seen: &TraceView, one: &Reported) -> Value {
    let mut properties = json!({
        "simulated": seen.trace.start.provenance == Provenance::Simulated,
        "forbidden": one.forbidden.map(|word| shorten_text(&visible(word), LONGEST)),
    });
    if let Some(finding) = one.finding {
        properties = with(properties, "scenario", json!(visible(&finding.scenario)));
        properties = with(
            properties,
            "page",
            json!(Known::embedded().page(&finding.scenario)),
        );
        properties = with(
            properties,
            "workaround",
            json!(visible(&finding.workaround)),
        );
        properties = with(properties, "memoryBytes", json!(finding.bytes));
    }
    without_nulls(properties)
}

/// Returns the locations of the other events of an entry.
fn related_locations(seen: &TraceView, root: &str, one: &Reported) -> Vec<Value> {
    let mut related: Vec<Value> = Vec::new();
    for index in one.events.iter().skip(1) {
        let Some(event) = seen.trace.events.get(*index) else {
            continue;
        };
        let Some(place) = file::event_line(seen.trace, root, event) else {
            continue;
        };
        let call = shorten_text(&visible(&event.call), LONGEST);
        let mut location = physical_location(&place);
        location = with(location, "message", text(&qualify_message(&call, &place)));
        // The standard requires different ones.
        if related.len() < MOST_RELATED && !related.contains(&location) {
            related.push(location);
        }
    }
    related
}

/// Returns an object with one more property.
fn with(mut object: Value, name: &str, value: Value) -> Value {
    if let Some(properties) = object.as_object_mut() {
        properties.insert(name.to_owned(), value);
    }
    object
}

/// Returns the message at a line, with a note if another thread made the call.
fn qualify_message(said: &str, place: &FileLine) -> String {
    if place.is_beside {
        format!("{}. {BESIDE}", said.trim_end_matches('.'))
    } else {
        said.to_owned()
    }
}

fn physical_location(place: &FileLine) -> Value {
    let base = file::is_below_root(&place.path).then_some(ROOT);
    let artifact = without_nulls(json!({ "uri": file::path_uri(&place.path), "uriBaseId": base }));
    let mut physical = json!({ "artifactLocation": artifact });
    if let Some(line) = place.line {
        let mut region = json!({ "startLine": line });
        if let Some(source) = &place.source {
            let source = shorten_text(&visible(source), LONGEST);
            region = with(region, "snippet", text(&source));
        }
        physical = with(physical, "region", region);
    }
    json!({ "physicalLocation": physical })
}

/// Returns the path from the user's first line to the call, outermost first, as viewers show it step by step: the
/// user's own lines, the function of a package that the last of them called, and the line of an import that made the
/// call. `None` if it has only one step.
fn way(seen: &TraceView, root: &str, event: &TraceEvent) -> Option<Vec<Value>> {
    let own = event.stack.users_all();
    let skipped = own.len().saturating_sub(MOST_FRAMES);
    let mut steps = Vec::new();
    let entry = event.stack.entry();
    let mut import = event.stack.import_frame();
    if import == entry {
        import = None;
    }
    for frame in own.into_iter().skip(skipped).chain(entry).chain(import) {
        if let Some(line) = file::frame_line(seen.trace, root, frame) {
            let mut location = physical_location(&line);
            location = with(
                location,
                "message",
                text(&shorten_text(&visible(&frame.name()), LONGEST)),
            );
            steps.push(json!({ "location": location }));
        }
    }
    (steps.len() > 1).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn log_of(trace: &Trace) -> Value {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        let text = document(
            &TraceView::new(trace, &findings, &outcome),
            &trace.start.folder,
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_result_has_the_users_line_and_the_way_there() {
        let log = log_of(&fixture::trace());
        let run = &log["runs"][0];
        let late = run["results"]
            .as_array()
            .unwrap()
            .iter()
            .find(|result| result["ruleId"] == "late-mask")
            .unwrap();
        let expected = json!({
            "artifactLocation": { "uri": "cli.py", "uriBaseId": "SRCROOT" },
            "region": { "startLine": 88 },
        });
        assert_eq!(late["locations"], json!([{ "physicalLocation": expected }]));
        assert_eq!(
            late["relatedLocations"][0]["physicalLocation"]["region"]["startLine"],
            31
        );
        assert_eq!(late["level"], "warning");
        let index = late["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], "late-mask");
        let steps = late["codeFlows"][0]["threadFlows"][0]["locations"]
            .as_array()
            .unwrap();
        let names: Vec<_> = steps
            .iter()
            .map(|step| step["location"]["message"]["text"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["<module>", "setup", "torch.cuda.is_available"]);
        assert_eq!(
            run["originalUriBaseIds"]["SRCROOT"]["uri"],
            "file:///home/me/project/"
        );
        let invocation = &run["invocations"][0];
        assert_eq!(
            (&invocation["exitCode"], &invocation["executionSuccessful"]),
            (&json!(0), &json!(true))
        );
        assert_eq!(invocation["endTimeUtc"], "2025-11-20T16:00:06.1Z");
        assert_eq!(invocation["toolExecutionNotifications"], json!([]));
    }

    #[test]
    fn a_line_of_a_thread_beside_is_called_so_in_a_result_and_in_its_other_places() {
        let mut trace = fixture::trace();
        assert!(!log_of(&trace).to_string().contains(BESIDE));
        trace
            .events
            .iter_mut()
            .for_each(|event| event.stack.meanwhile = std::mem::take(&mut event.stack.frames));
        let log = log_of(&trace);
        for result in log["runs"][0]["results"].as_array().unwrap() {
            let places = result["relatedLocations"].as_array().into_iter().flatten();
            for place in places.chain([result]) {
                assert!(
                    place["message"]["text"].as_str().unwrap().ends_with(BESIDE),
                    "{result}"
                );
            }
        }
    }

    #[test]
    fn rules_have_unique_names_a_description_and_help() {
        let rules = rule_descriptors();
        let ids: Vec<&str> = rules
            .iter()
            .map(|rule| rule["id"].as_str().unwrap())
            .collect();
        assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
        for rule in &rules {
            for part in ["shortDescription", "fullDescription", "help"] {
                assert!(
                    rule[part]["text"]
                        .as_str()
                        .is_some_and(|text| text.len() > 10),
                    "{rule}"
                );
            }
        }
        assert_eq!(
            rules.len(),
            diagnosis::embedded_rules().len() + POLICY_RULES.len()
        );
    }

    #[test]
    fn what_the_trace_lacks_is_a_notification_and_simulated_is_said_everywhere() {
        let mut trace = fixture::trace();
        (trace.end, trace.start.provenance) = (None, Provenance::Simulated);
        let log = log_of(&trace);
        let run = &log["runs"][0];
        let ids: Vec<_> = run["invocations"][0]["toolExecutionNotifications"]
            .as_array()
            .unwrap()
            .iter()
            .map(|notification| notification["descriptor"]["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["simulated", "incomplete"]);
        assert_eq!(run["invocations"][0]["executionSuccessful"], false);
        assert!(run["invocations"][0].get("exitCode").is_none());
        assert_eq!(run["properties"]["simulated"], true);
        for result in run["results"].as_array().unwrap() {
            assert!(
                result["message"]["text"]
                    .as_str()
                    .unwrap()
                    .starts_with("SIMULATED: "),
                "{result}"
            );
            assert_eq!(result["properties"]["simulated"], true);
        }
    }

    #[test]
    fn foreign_text_acts_nowhere_and_every_result_has_a_file() {
        let (findings, outcome) = fixture::hostile_findings();
        let shown = document(
            &TraceView::new(&fixture::hostile(), &findings, &outcome),
            fixture::HOSTILE,
        );
        let log: Value = serde_json::from_str(&shown).unwrap();
        assert!(
            !shown.contains("\\u001b") && !shown.contains("\\n:") && !shown.contains("##["),
            "{shown}"
        );
        let results = log["runs"][0]["results"].as_array().unwrap();
        assert!(results.len() >= 3, "{}", results.len());
        for result in results {
            let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
            assert!(
                uri.as_str()
                    .is_some_and(|uri| uri.bytes().all(|byte| byte.is_ascii_graphic())),
                "{result}"
            );
        }
    }
}

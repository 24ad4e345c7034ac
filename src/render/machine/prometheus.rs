//! A file for the textfile collector of a Prometheus node exporter. Samples carry no time stamps, as the collector
//! wants it; a time is a metric.

use std::collections::HashSet;
use std::fmt::{Display, Write as _};

use chrono::{DateTime, Utc};
use cuda_pitfalls_core::text::escape::escape_prometheus;

/// One sample: its labels and its value.
pub(crate) type Sample = (Vec<(&'static str, String)>, String);

/// One metric: help, type and samples. The head is there even without samples, so that the metric is known.
pub(crate) fn write_family(
    out: &mut String,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = Sample>,
) {
    let _ = writeln!(
        out,
        "# HELP cuda_pitfalls_{name} {help}\n# TYPE cuda_pitfalls_{name} gauge"
    );
    let mut seen = HashSet::new();
    for (labels, value) in samples {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, text)| format!("{label}=\"{}\"", escape_prometheus(text)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        // One series given twice would cost the whole file; no document of ours does that.
        if seen.insert(labels.clone()) {
            let _ = writeln!(out, "cuda_pitfalls_{name}{labels} {value}");
        }
    }
}

/// A metric without labels, if it is known.
pub(crate) fn write_figure(
    out: &mut String,
    name: &str,
    help: &str,
    value: impl IntoIterator<Item = impl Display>,
) {
    write_family(
        out,
        name,
        help,
        value
            .into_iter()
            .map(|value| (Vec::new(), value.to_string())),
    );
}

/// A time. One that cannot be read is left out: zero would be a time.
pub(crate) fn time(out: &mut String, name: &str, help: &str, at: Option<&String>) {
    write_figure(
        out,
        name,
        help,
        at.and_then(|at| at.parse::<DateTime<Utc>>().ok())
            .map(|at| at.timestamp()),
    );
}

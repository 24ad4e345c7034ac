//! A file for the textfile collector of a Prometheus node exporter. Samples have no timestamps, as the collector
//! requires; a time is a metric.

use std::collections::HashSet;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use super::Findings;
use cuda_pitfalls_core::text::escape::escape_prometheus;

/// A metric: its name without the common prefix, and its help.
pub(crate) type Metric = (&'static str, &'static str);

pub(crate) type Labels = Vec<(&'static str, String)>;

/// A figure of a metric.
pub(crate) struct Sample {
    metric: &'static str,
    labels: Labels,
    value: String,
}

impl Sample {
    pub(crate) fn new(metric: &'static str, labels: Labels, value: impl ToString) -> Sample {
        Sample {
            metric,
            labels,
            value: value.to_string(),
        }
    }

    /// Returns a single sample.
    pub(crate) fn figure(metric: &'static str, value: impl ToString) -> Sample {
        Sample::new(metric, Vec::new(), value)
    }

    /// Returns a time as a sample. `None` if it cannot be parsed, because zero would be a time.
    pub(crate) fn time(metric: &'static str, at: &str) -> Option<Sample> {
        let at: DateTime<Utc> = at.parse().ok()?;
        Some(Sample::figure(metric, at.timestamp()))
    }
}

/// Returns the samples of a document and of its findings.
pub(crate) fn write_samples(findings: &Findings) -> String {
    let mut samples: Vec<&Sample> = findings.samples.iter().collect();
    for finding in &findings.list {
        samples.extend(&finding.samples);
    }
    write_metrics(findings.metrics, &samples)
}

/// Returns a file of these metrics, each with its samples. The head is written even without samples, so that the metric
/// is known.
pub(crate) fn write_metrics(metrics: &[Metric], samples: &[&Sample]) -> String {
    let mut out = String::new();
    for (name, help) in metrics {
        let _ = writeln!(
            out,
            "# HELP cuda_pitfalls_{name} {help}\n# TYPE cuda_pitfalls_{name} gauge"
        );
        let mut seen = HashSet::new();
        for sample in samples {
            if sample.metric != *name {
                continue;
            }
            let labels = format_labels(&sample.labels);
            // A duplicate series would invalidate the entire file; none of our documents has one.
            if seen.insert(labels.clone()) {
                let _ = writeln!(out, "cuda_pitfalls_{name}{labels} {}", sample.value);
            }
        }
    }
    out
}

fn format_labels(labels: &[(&str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let mut pairs = Vec::new();
    for (label, text) in labels {
        pairs.push(format!("{label}=\"{}\"", escape_prometheus(text)));
    }
    format!("{{{}}}", pairs.join(","))
}

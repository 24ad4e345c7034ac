//! `run`: its labels, and its start.

use std::collections::BTreeMap;

use super::output::{CliError, Outcome, fail};
use super::workers;
use crate::run::{self, options::RunOptions};
use cuda_pitfalls_answers::exit::Exit;

/// The labels by name.
///
/// # Errors
/// A name that was given twice.
fn collect_labels(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, CliError> {
    let mut labels = BTreeMap::new();
    for (name, value) in given {
        if labels.insert(name.clone(), value).is_some() {
            return Err(format!("--label: `{name}` is given twice").into());
        }
    }
    Ok(labels)
}

pub(super) fn run(mut options: RunOptions) -> Outcome {
    let json = options.asked.json;
    let labels = collect_labels(std::mem::take(&mut options.label));
    options.labels = labels.map_err(|why| fail(why, Exit::Usage, json))?;
    let (program, interrupt) = workers::prepare_workers(json)?;
    Ok(run::run(&options, &program, interrupt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_given_once() {
        let label = |name: &str, value: &str| (name.to_string(), value.to_string());
        let twice = collect_labels(vec![label("node", "a"), label("node", "b")]);
        assert_eq!(
            twice.unwrap_err().to_string(),
            "--label: `node` is given twice"
        );
        let both = collect_labels(vec![label("rack", "3"), label("node", "a")]).unwrap();
        assert!(
            both.len() == 2 && both["node"] == "a" && both["rack"] == "3",
            "{both:?}"
        );
    }
}

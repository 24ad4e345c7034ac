//! `run`: its labels, and its start.

use std::collections::BTreeMap;
use std::fs;

use super::error::CliError;
use crate::argument;
use crate::run::{self, options::RunOptions};
use cuda_pitfalls_answers::exit::Exit;

/// The labels by name.
///
/// # Errors
/// A name that was given twice, or a machine that would not say its name.
fn labels(given: Vec<(String, String)>, with_host: bool) -> Result<BTreeMap<String, String>, CliError> {
    let host = || {
        let name = fs::read_to_string(HOST_NAME).map_err(CliError::HostName)?;
        argument::label(&format!("{HOST}={}", name.trim())).map_err(|_| CliError::NoHostName)
    };
    let host = if with_host { Some(host()?) } else { None };
    let mut labels = BTreeMap::new();
    for (name, value) in given.into_iter().chain(host) {
        if labels.contains_key(&name) {
            return Err(CliError::LabelTwice(name));
        }
        labels.insert(name, value);
    }
    Ok(labels)
}

/// Runs what the arguments say.
pub(super) fn run(mut options: RunOptions) -> Exit {
    let given = std::mem::take(&mut options.label);
    options.labels = match labels(given, options.label_host) {
        Ok(labels) => labels,
        Err(why) => return super::fail(why, Exit::Usage, options.asked.json),
    };
    super::with_workers(options.asked.json, |program, interrupt| run::run(&options, program, interrupt))
}

/// The label of `--label-host`, and where the kernel says it.
const HOST: &str = "host";
pub(super) const HOST_NAME: &str = "/proc/sys/kernel/hostname";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_is_given_once() {
        let label = |name: &str, value: &str| (name.to_string(), value.to_string());
        let twice = labels(vec![label("node", "a"), label("node", "b")], false);
        assert_eq!(twice.unwrap_err().to_string(), "--label: `node` is given twice");
        let both = labels(vec![label("rack", "3")], true).unwrap();
        assert!(both.len() == 2 && !both[HOST].is_empty() && both["rack"] == "3", "{both:?}");
    }
}

//! Reads a report and prints its answers, as lines that `cut` and `awk` can split.
//!
//! ```text
//! cargo run --example read_report -- reports/h200-x2
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use cuda_pitfalls::report::{self, Report};
use cuda_pitfalls::verdict::{Kind, Provenance};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("read_report: give a report, or the folder of a run");
        return ExitCode::from(2);
    };
    match report::read(&path) {
        Ok(report) => {
            print!("{}", lines(&report));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("read_report: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the machine, then a line for each question that was answered: yes or no, its name, its text.
fn lines(report: &Report) -> String {
    // The answers of a fake driver show nothing about a machine.
    let source = match report.provenance {
        Provenance::Measured => "measured",
        Provenance::Simulated => "simulated",
    };
    let mut out = format!("{source}\t{}\n", report.machine.summary());
    for scenario in &report.scenarios {
        let answer = match scenario.verdict.kind {
            Kind::Reproduced => "yes",
            Kind::NotReproduced => "no",
            // The reason is in `scenario.verdict.reason`.
            Kind::Inconclusive | Kind::Skipped | Kind::HarnessError => continue,
        };
        out.push_str(&format!(
            "{answer}\t{}\t{}\n",
            scenario.name, scenario.question
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committed_report_has_its_answers() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/reports/h200-x2");
        let text = lines(&report::read(folder.as_ref()).expect("a committed report can be read"));
        assert!(text.starts_with("measured\t2× NVIDIA H200"), "{text}");
        let line = text
            .lines()
            .find(|line| line.contains("\tvisibility/mask-after-nvml\t"))
            .expect("its line");
        assert!(line.starts_with("no\t"), "{line}");
    }
}

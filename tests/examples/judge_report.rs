//! Judges a stored report again, without a GPU: the verdicts come from its recordings, not from
//! its stored verdicts.
//!
//! ```text
//! cargo run --example judge_report -- reports/h200-x2
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use cuda_pitfalls::exit::Exit;
use cuda_pitfalls::judge;
use cuda_pitfalls::report::{self, Report};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("judge_report: give a report, or the folder of a run");
        return ExitCode::from(2);
    };
    match report::read(&path) {
        Ok(mut report) => {
            let (changes, exit) = judge_again(&mut report);
            changes.iter().for_each(|change| println!("{change}"));
            println!("exit {} ({})", exit.code(), exit.name());
            ExitCode::from(u8::try_from(exit.code()).unwrap_or(u8::MAX))
        }
        Err(error) => {
            eprintln!("judge_report: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the verdicts that have changed, and the exit code of a run with these verdicts.
fn judge_again(report: &mut Report) -> (Vec<String>, Exit) {
    let before: Vec<_> = report
        .scenarios
        .iter()
        .map(|scenario| scenario.verdict.kind)
        .collect();
    judge::rejudge(report);
    let pairs = before
        .iter()
        .zip(&report.scenarios)
        .filter(|(before, scenario)| **before != scenario.verdict.kind);
    let changes = pairs.map(|(before, scenario)| {
        format!(
            "{}: {}, was {}",
            scenario.name,
            scenario.verdict.kind.name(),
            before.name()
        )
    });
    (changes.collect(), Exit::from_report(&report.view()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls::verdict::Kind;

    #[test]
    fn a_verdict_that_no_recording_supports_does_not_stay() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/reports/h200-x2");
        let mut report = report::read(folder.as_ref()).expect("a committed report can be read");
        assert_eq!(judge_again(&mut report), (Vec::new(), Exit::Ok));
        let forged = report
            .scenarios
            .iter_mut()
            .find(|it| it.name == "visibility/mask-after-nvml")
            .expect("it is there");
        forged.verdict.kind = Kind::Reproduced;
        let (changes, _) = judge_again(&mut report);
        assert_eq!(
            changes,
            ["visibility/mask-after-nvml: not_reproduced, was reproduced"]
        );
    }
}

//! The comment at the top of a reproducer: the question, the expected result, and how to run it.

use super::effect::EffectQuestion;
use super::program::{Reproducer, Sequence};
use cuda_pitfalls_core::scenario::{Expected, Hazard, When};
use cuda_pitfalls_core::text::lines::words;

impl Reproducer<'_> {
    pub(super) fn header_lines(&self, commands: &str, needs: &str) -> Vec<String> {
        let mut lines = vec![self.scenario.question.clone(), String::new()];
        lines.extend(
            self.cases
                .iter()
                .map(|Sequence { case, .. }| format!("{}: {}", case.name, case.does)),
        );
        let asked: Vec<String> = self.questions.iter().map(EffectQuestion::words).collect();
        lines.push(format!("Effect: {}.", asked.join("; ")));
        lines.extend(
            self.left_out
                .iter()
                .map(|question| format!("Not checked here: {}.", question.words())),
        );
        lines.push(format!("Expected: {}.", self.expected()));
        if !self.scenario.answer.is_empty() {
            lines.push(format!("Measured: {}", self.scenario.answer));
        }
        for hazard in &self.scenario.hazards {
            lines.push(format!("Careful: {}.", hazard_warning(*hazard)));
        }
        lines.extend([String::new(), commands.to_string()]);
        lines.push("Exit code: 0 reproduced, 1 not reproduced, 77 inconclusive.".to_string());
        let idle = match self.gpus_read() {
            0 => String::new(),
            1 => "NVML reports memory of all processes, so GPU 0 must be idle. ".to_string(),
            count => {
                let gpus = format!("GPUs 0 to {} must be idle", count - 1);
                format!("NVML reports memory of all processes, so {gpus}. ")
            }
        };
        let version = env!("CARGO_PKG_VERSION");
        lines.push(format!(
            "{idle}{needs}Written by cuda-pitfalls {version} from {}.",
            self.instance.name
        ));
        let wrapped = lines.iter().flat_map(|line| {
            if line.is_empty() {
                vec![String::new()]
            } else {
                words(line, 112)
            }
        });
        wrapped.collect()
    }

    /// Returns the expected result, and the machines that it is expected on.
    fn expected(&self) -> String {
        let each = self
            .instance
            .expect
            .iter()
            .filter(|one| one.when.may_hold_for(self.instance))
            .map(|one| {
                let word = match one.verdict {
                    Expected::Reproduced => "yes (exit code 0)",
                    Expected::NotReproduced => "no (exit code 1)",
                };
                let When {
                    driver,
                    libcudart,
                    compute_capability,
                    gpus,
                    packages,
                    ..
                } = &one.when;
                let ranges = [
                    ("driver", driver),
                    ("libcudart", libcudart),
                    ("compute capability", compute_capability),
                    ("number of GPUs", gpus),
                ];
                let ranges = ranges
                    .into_iter()
                    .filter_map(|(name, range)| Some(format!("{name} {}", range.as_ref()?.0)));
                let with: Vec<String> = ranges.chain(packages.iter().cloned()).collect();
                if with.is_empty() {
                    word.to_string()
                } else {
                    format!("{word} with {}", with.join(" and "))
                }
            });
        let each: Vec<String> = each.collect();
        if each.is_empty() {
            "not known".to_string()
        } else {
            each.join("; ")
        }
    }
}

fn hazard_warning(hazard: Hazard) -> &'static str {
    match hazard {
        Hazard::Fault => "it causes a GPU fault, which the kernel logs as an Xid",
        Hazard::Oversubscribe => "it allocates more managed memory than the GPU has",
        Hazard::Bigmem => "it uses most of a GPU's memory",
        Hazard::Root => "it needs root",
        Hazard::Settings => "it changes a machine setting",
        Hazard::Mps => "it starts an MPS daemon",
        Hazard::Code => "it runs Python code that is not built into cuda-pitfalls",
    }
}

//! A generator of fleets: reports of many machines, made from committed real ones, with known differences, and among
//! them documents that are hostile, broken, old or unintended.
//!
//! The same numbers give the same fleet. Its known content is its [`Truth`].

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::random::Random;
use cuda_pitfalls::report::{self, CompactReport};
use serde_json::{Value, json};

use super::root;

/// The committed reports that machines are copies of.
const BASES: [&str; 3] = ["h200-x2", "h200-x4", "h200-x1"];
/// Versions of the driver; most machines have the first.
const DRIVERS: [&str; 3] = ["580.159.04", "570.172.08", "580.159.04"];
/// Models of GPUs; most machines have the first.
const MODELS: [&str; 4] = [
    "NVIDIA H200",
    "NVIDIA H200",
    "NVIDIA H200",
    "NVIDIA H100 80GB HBM3",
];

/// Differences in bytes that are put in. The first is less than the noise on an H200 (2 MiB).
pub(crate) const SIZES: [i64; 5] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 512 << 20];

/// Parameters of a synthetic fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    /// Machines with a separate report.
    pub(crate) machines: usize,
    /// Percentage of documents that are hostile, broken, old, simulated or duplicates.
    pub(crate) hostile_percent: usize,
    /// Percentage of machines that differ in any way.
    pub(crate) differing_percent: usize,
    /// The seed of all random numbers.
    pub(crate) seed: u64,
}

/// The known content of a fleet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    /// The names of machines with a complete report.
    pub(crate) machines: BTreeSet<String>,
    /// Machine, question, and `verdict`, `fact` or `no_answer`.
    pub(crate) outcomes: BTreeSet<(String, String, &'static str)>,
    /// Machine, question, case and GPU, with the number of additional bytes.
    pub(crate) bytes: BTreeMap<(String, String, String), i64>,
    /// Number of documents in each bucket.
    pub(crate) buckets: BTreeMap<String, u64>,
    /// Number of documents.
    pub(crate) documents: u64,
}

/// A document: the name of its file, and its content.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Makes fleets.
pub(crate) struct Generator {
    recipe: Recipe,
    bases: Vec<Value>,
    random: Random,
    machine: usize,
    /// Next documents, which belong to the previous machine.
    pending: Vec<Document>,
    pub(crate) truth: Truth,
}

impl Generator {
    pub(crate) fn new(recipe: Recipe) -> Generator {
        let base = |name: &&str| {
            let full =
                report::read(&root().join("reports").join(name)).expect("a committed report");
            serde_json::to_value(CompactReport::new(&full, |_| true))
                .expect("a compact report is JSON")
        };
        Generator {
            recipe,
            bases: BASES.iter().map(base).collect(),
            random: Random::new(recipe.seed),
            machine: 0,
            pending: Vec::new(),
            truth: Truth::default(),
        }
    }

    /// Returns a full report of the machine of this number, without differences.
    fn report(&mut self, machine: usize, second: usize) -> Value {
        // The model and the driver belong to the machine, whichever of its reports this is.
        let of_machine = machine.wrapping_mul(2_654_435_761) >> 8;
        let mut report = self.bases[of_machine % self.bases.len()].clone();
        let model = MODELS[of_machine / 7 % MODELS.len()];
        let driver = DRIVERS[of_machine / 31 % DRIVERS.len()];
        report["machine"]["driver_version"] = driver.into();
        let at = format!(
            "2026-11-{:02}T{:02}:{:02}:{second:02}Z",
            1 + machine % 20,
            machine / 20 % 24,
            machine / 480 % 60
        );
        report["run"]["started_at"] = at.into();
        report["run"]["finished_at"] = Value::Null;
        report["run"]["id"] = format!("run-{machine}-{second}").into();
        report["run"]["labels"] =
            json!({ "node": name(machine), "rack": format!("r{}", machine / 32) });
        let gpus = report["machine"]["gpus"]
            .as_array_mut()
            .expect("a list of GPUs");
        let mut uuids = Vec::new();
        for (place, gpu) in gpus.iter_mut().enumerate() {
            let uuid = format!("GPU-{machine:08x}-0000-4000-9000-{place:012x}");
            uuids.push((
                gpu["uuid"].as_str().unwrap_or_default().to_owned(),
                uuid.clone(),
            ));
            gpu["uuid"] = uuid.into();
            gpu["name"] = model.into();
        }
        for calibrated in report["run"]["calibration"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            let known = uuids
                .iter()
                .find(|(old, _)| calibrated["uuid"] == old.as_str());
            if let Some((_, new)) = known {
                calibrated["uuid"] = new.as_str().into();
            }
        }
        // Every machine has figures that differ by less than noise.
        for used in figures(&mut report) {
            let noise = i64::try_from(self.random.below(3)).unwrap_or(0) * (256 << 10);
            *used = (used.as_i64().unwrap_or(0) + noise).into();
        }
        report
    }

    /// Puts one difference into a report, and into the truth.
    fn differ(&mut self, machine: usize, report: &mut Value) {
        let what = self.random.below(5);
        let scenarios = report["scenarios"]
            .as_array_mut()
            .expect("a list of scenarios");
        let can = |scenario: &Value| {
            matches!(
                scenario["verdict"]["kind"].as_str(),
                Some("reproduced" | "not_reproduced")
            ) && scenario["cases"][0]["outcomes"]
                .as_array()
                .is_some_and(|all| all.len() == 1)
                && scenario["cases"][0]["outcomes"][0]["facts"]
                    .as_array()
                    .is_some_and(|facts| !facts.is_empty())
                && scenario["cases"][0]["outcomes"][0]["used_bytes"]["gpu0"].is_i64()
        };
        let able: Vec<usize> = (0..scenarios.len())
            .filter(|place| can(&scenarios[*place]))
            .collect();
        let place = able[self.random.below(able.len())];
        let scenario = &mut scenarios[place];
        let question = scenario["name"].as_str().expect("a name").to_owned();
        let outcome = |word| (name(machine), question.clone(), word);
        match what {
            0 => {
                let is_yes = scenario["verdict"]["kind"] == "reproduced";
                scenario["verdict"]["kind"] = if is_yes {
                    "not_reproduced"
                } else {
                    "reproduced"
                }
                .into();
                scenario["verdict"]["expectation"] = "unexpected".into();
                scenario["verdict"]["unexpected"] = json!(["the other answer was expected"]);
                self.truth.outcomes.insert(outcome("verdict"));
            }
            1 | 2 => {
                let facts = scenario["cases"][0]["outcomes"][0]["facts"]
                    .as_array_mut()
                    .expect("a list of facts");
                let place = self.random.below(facts.len());
                facts[place][2] = json!([{ "status": "CUDA_ERROR_UNKNOWN" }]);
                self.truth.outcomes.insert(outcome("fact"));
            }
            3 => {
                scenario["verdict"] = json!({
                    "kind": "inconclusive", "reason": "contaminated", "detail": "another process changed its memory",
                    "expectation": "no_expectation",
                });
                self.truth.outcomes.insert(outcome("no_answer"));
            }
            _ => {
                let more = SIZES[self.random.below(SIZES.len())];
                let used = &mut scenario["cases"][0]["outcomes"][0]["used_bytes"]["gpu0"];
                *used = (used.as_i64().unwrap_or(0) + more).into();
                let case = scenario["cases"][0]["name"].as_str().unwrap_or_default();
                self.truth
                    .bytes
                    .insert((name(machine), question, format!("{case}/gpu0")), more);
            }
        }
    }

    /// Returns a document that is not merged, with the bucket that it belongs to.
    fn hostile(&mut self, machine: usize) -> (String, Vec<u8>, &'static str) {
        let number = self.truth.documents;
        let mut report = self.report(machine, 1);
        let (bucket, bytes) = match number % 12 {
            0 => {
                let text = report.to_string();
                let cut = text.len() / 4 + self.random.below(text.len() / 2);
                ("truncated", text.into_bytes()[..cut].to_vec())
            }
            1 => (
                "invalid",
                b"slurmstepd: error: *** STEP 17.0 ON gpu-1 CANCELLED ***\n".to_vec(),
            ),
            2 => {
                report["scenarios"] = json!({ "a": 5 });
                ("invalid", report.to_string().into_bytes())
            }
            3 => {
                report["scenarios"][0]["verdict"]["kind"] = json!(["reproduced"]);
                ("invalid", report.to_string().into_bytes())
            }
            // An earlier run of the same machine.
            4 | 5 => ("duplicate", report.to_string().into_bytes()),
            6 => {
                report["run"]["started_at"] = "2001-01-01T00:00:00Z".into();
                report["run"]["labels"]["node"] = format!("old-{number}").into();
                ("stale", report.to_string().into_bytes())
            }
            7 => {
                report["provenance"] = "simulated".into();
                for scenario in report["scenarios"].as_array_mut().into_iter().flatten() {
                    if let Some(verdict) = scenario["verdict"].as_object_mut() {
                        verdict.insert("provenance".into(), "simulated".into());
                    }
                }
                ("simulated", report.to_string().into_bytes())
            }
            8 => {
                report["schema"]["major"] = 99.into();
                ("unsupported", report.to_string().into_bytes())
            }
            9 => {
                report["scenarios"] = json!([]);
                report["run"]["labels"]["node"] = format!("empty-{number}").into();
                ("empty", report.to_string().into_bytes())
            }
            10 => {
                // Nested deeper than a stack allows.
                (
                    "invalid",
                    format!("{}{}", "[".repeat(200_000), "]".repeat(200_000)).into_bytes(),
                )
            }
            _ => {
                // Not a valid number.
                let text = report.to_string().replacen(
                    "\"used_bytes\":{",
                    "\"used_bytes\":{\"gpu8\":1e400,",
                    1,
                );
                ("invalid", text.into_bytes())
            }
        };
        (format!("{}-{number}.json", name(machine)), bytes, bucket)
    }

    fn count(&mut self, bucket: &str) {
        *self.truth.buckets.entry(bucket.to_owned()).or_default() += 1;
        self.truth.documents += 1;
    }
}

impl Iterator for Generator {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        if let Some(document) = self.pending.pop() {
            return Some(document);
        }
        if self.machine == self.recipe.machines {
            return None;
        }
        let machine = self.machine;
        self.machine += 1;
        // The percentage of all documents, while each machine has one that is merged.
        let percent = self.recipe.hostile_percent;
        if percent > 0 && self.random.below(100 - percent) < percent {
            let (name, bytes, bucket) = self.hostile(machine);
            self.count(bucket);
            self.pending.push(Document { name, bytes });
        }
        let mut report = self.report(machine, 30);
        if self.random.percent(self.recipe.differing_percent) {
            self.differ(machine, &mut report);
        }
        // Some runs were stopped after their last question.
        let is_partial = percent > 0 && machine % 50 == 49;
        if is_partial {
            report["complete"] = false.into();
        }
        self.count(if is_partial { "partial" } else { "merged" });
        self.truth.machines.insert(name(machine));
        Some(Document {
            name: format!("{}.json", name(machine)),
            bytes: report.to_string().into_bytes(),
        })
    }
}

/// Returns the name of a machine. Some contain more than a name.
pub(crate) fn name(machine: usize) -> String {
    match machine % 1000 {
        999 => format!("=1+1</script>\u{1b}[31m-{machine}"),
        _ => format!("gpu-{machine:06}"),
    }
}

/// Returns every byte count in a compact report.
fn figures(report: &mut Value) -> impl Iterator<Item = &mut Value> {
    let scenarios = report["scenarios"].as_array_mut().into_iter().flatten();
    let cases = scenarios
        .filter_map(|scenario| scenario.get_mut("cases")?.as_array_mut())
        .flatten();
    let outcomes = cases
        .filter_map(|case| case.get_mut("outcomes")?.as_array_mut())
        .flatten();
    let used = outcomes.filter_map(|outcome| outcome.get_mut("used_bytes")?.as_object_mut());
    used.flat_map(|used| used.values_mut())
        .filter(|used| used.is_i64())
}

//! The content of a plan, in a form that is the same on machines with other GPUs.

use serde_json::{Value as Json, json};

use super::Plan;
use crate::scenario::sha256_hex;

/// The fewest characters of a UUID, or of a shortened UUID, that are replaced.
const SHORTEST: usize = 8;
/// The length of the hash, in hexadecimal digits: enough that two questions never share one by chance.
const DIGITS: usize = 16;

impl Plan {
    /// Returns the beginning of a SHA-256 of the effect, the cases and their calls. The file's own hash is unsuitable:
    /// it changes with every word of the file, and a file has several instances.
    pub fn asked(&self) -> String {
        let cases = self
            .cases
            .iter()
            .map(|case| (case.name.as_str(), self.question_json(Some(&case.name))));
        let all = json!([self.question_json(None), cases.collect::<Vec<_>>()]);
        sha256_hex(all.to_string()).chars().take(DIGITS).collect()
    }

    /// Returns the calls of a case, or the effect without `case`, as JSON with plan names instead of UUIDs.
    pub fn question_json(&self, case: Option<&str>) -> Option<String> {
        let asked = match case {
            Some(name) => self
                .case(name)
                .map(|case| json!([case.steps, case.env, case.probes, case.mask]))?,
            None => json!(self.effect),
        };
        let mut text = without_lines(asked).to_string();
        // A mask may hold a UUID in capitals, without its prefix, or shortened. Longer forms come first, because they
        // begin with the shorter ones.
        let forms: [fn(&str) -> String; 4] = [
            str::to_string,
            str::to_uppercase,
            |uuid| uuid.trim_start_matches("GPU-").to_string(),
            |uuid| uuid.chars().take(12).collect(),
        ];
        for form in forms {
            for (place, uuid) in self.gpus.iter().enumerate() {
                let form = form(uuid);
                // A short fragment could be part of any text, and an empty one is part of every text.
                if form.len() >= SHORTEST {
                    text = text.replace(&form, &format!("gpu{place}"));
                }
            }
        }
        Some(text)
    }

    /// Returns the expectations of the file about the verdict and about each case, as JSON.
    pub fn expectations_json(&self) -> Json {
        without_lines(json!([
            self.expect,
            self.cases
                .iter()
                .map(|case| &case.expect)
                .collect::<Vec<_>>()
        ]))
    }
}

fn without_lines(value: Json) -> Json {
    match value {
        Json::Array(parts) => parts.into_iter().map(without_lines).collect(),
        Json::Object(parts) => parts
            .into_iter()
            .filter(|(key, _)| key != "line")
            .map(|(key, part)| (key, without_lines(part)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture;

    #[test]
    fn a_question_is_the_same_on_other_gpus_and_another_with_other_calls() {
        let plan = |uuid: &str, call: &str| {
            let mut plan = crate::observe::fixture::plan(
                1,
                vec![crate::observe::fixture::case("trap", &[call])],
            );
            plan.cases[0].mask = Some(vec![uuid.to_string()]);
            plan.gpus = vec![uuid.to_string()];
            plan
        };
        let [one, other] =
            [0, 1].map(|gpu| fixture::machine(2).gpus[gpu].uuid.clone() + "-0000-4000");
        let asked = plan(&one, "cuInit").asked();
        assert_eq!(asked.len(), DIGITS);
        assert_eq!(plan(&other, "cuInit").asked(), asked);
        assert_ne!(plan(&one, "cudaFree").asked(), asked);
        let mut moved = plan(&one, "cuInit");
        moved.cases[0].steps[0].line = 7;
        assert_eq!(
            moved.asked(),
            asked,
            "the line of a step is no part of the question"
        );
        moved.cases[0].name = "control".into();
        assert_ne!(moved.asked(), asked);
    }
}

//! `survey mask`: the driver's rules for `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`.
//!
//! A worker is started with the mask, calls `cuInit`, and lists the GPUs that it sees, in order. The row also contains
//! the prediction of `mask::parse` for the same text.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::SurveyKind;
use super::document::SurveyDocument;
use super::question::{
    Item, SurveyAnswer, SurveyQuestions, SurveyRequest, TRAP, scenario, status_name,
};
use super::row::{KindRow, LeftOut, RowAttempts};
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::event::Value;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::mask::{self, Form, MissingGpus, Template};
use cuda_pitfalls_core::observe::Observation;
use cuda_pitfalls_core::plan::Plan;
use cuda_pitfalls_core::scenario::Case;

/// The group of generated masks.
pub const GENERATED: &str = "Generated";

/// Results of a mask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MaskRow {
    /// The group of the form, such as `Numbers`; `Generated` for generated masks.
    pub group: String,
    /// `CUDA_VISIBLE_DEVICES`, with GPUs' UUIDs as `<uuid0>`, `<uuid1>`, … in NVML order; null if unset.
    pub mask: Option<String>,
    /// `CUDA_DEVICE_ORDER`; null if the form sets none and every worker has `PCI_BUS_ID`.
    pub order: Option<String>,
    /// Reason why the form is of interest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Status that `cuInit` returned, by its C name.
    pub status: Option<String>,
    /// The result of `cuDeviceGetCount` afterwards; 0 if `cuInit` failed.
    pub count: Option<u32>,
    /// NVML indices of the visible GPUs in CUDA order.
    pub gpus: Option<Vec<u32>>,
    /// The rule's prediction.
    pub predicted: Predicted,
    /// `true` if the driver did what the rule predicts; null if it was not tested, or if attempts disagree.
    pub as_predicted: Option<bool>,
    /// Number of attempts that count, and the reasons why the others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
}

/// The prediction of `mask::parse`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Predicted {
    /// The status of `cuInit`, by its C name.
    pub status: String,
    /// NVML indices of the visible GPUs in CUDA order.
    pub gpus: Vec<u32>,
}

/// Returns the questions of the survey.
pub(super) fn questions(request: &SurveyRequest<'_>) -> Result<SurveyQuestions, Invalid> {
    let (mut items, mut left_out, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (group, form) in mask::mask_forms() {
        match mask_item(form, &group, request.uuids) {
            Ok(item) => {
                known.insert(item.row.key.clone());
                items.push(item);
            }
            Err((name, needs)) => {
                left_out.push(LeftOut {
                    name,
                    reason: format!("{needs}; this machine has {}", request.uuids.len()),
                });
            }
        }
    }
    // Some generated masks may be among the listed ones.
    let most = if request.generate == 0 {
        0
    } else {
        request.generate + known.len()
    };
    let forms = mask::generate_masks(request.seed, most, request.uuids.len()).into_iter();
    let forms = forms.map(|template| Form {
        mask: Some(template),
        order: None,
        note: String::new(),
    });
    let new = forms.filter_map(|form| mask_item(form, GENERATED, request.uuids).ok());
    let new = new
        .filter(|item| known.insert(item.row.key.clone()))
        .take(request.generate);
    items.extend(new.map(|item| Item {
        repeat: Some(request.repeat_generated),
        ..item
    }));
    Ok(SurveyQuestions::Listed(items, left_out))
}

impl KindRow for MaskRow {
    const KIND: SurveyKind = SurveyKind::Mask;

    fn question(&self) -> (String, Option<String>) {
        let mask = self
            .mask
            .as_ref()
            .map_or("unset".to_string(), |mask| format!("{mask:?}"));
        let order = self
            .order
            .as_ref()
            .map(|order| format!(" with order {order:?}"));
        (mask + &order.unwrap_or_default(), None)
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    // The same text refers to other GPUs on a machine with more of them.
    fn asked_as(&self) -> String {
        format!("{} {:?}", self.predicted.status, self.predicted.gpus)
    }

    // Two versions of the rule are not a difference between two drivers: every survey is compared with the current
    // rule.
    fn derived_facts(&self, machine: &Machine) -> Vec<(&'static str, serde_json::Value)> {
        let today = self.by_todays_rule(&gpu_uuids(machine));
        vec![
            ("predicted", json!(today.predicted)),
            ("as_predicted", json!(today.as_predicted)),
        ]
    }

    fn has_facts(&self) -> bool {
        self.as_predicted.is_some()
    }

    fn is_unexpected(&self) -> bool {
        self.as_predicted == Some(false)
    }
}

/// Returns the question about a mask, with these UUIDs in NVML order.
///
/// # Errors
/// Returns the mask if there are too few GPUs for it.
fn mask_item(form: Form, group: &str, uuids: &[String]) -> Result<Item, (String, MissingGpus)> {
    let Form { mask, order, note } = form;
    let filled = mask
        .as_ref()
        .map(|template| template.fill_uuids(uuids))
        .transpose();
    let mask = mask.map(|template| template.text().to_string());
    let filled = filled.map_err(|needs| (mask.clone().unwrap_or_default(), needs))?;
    let predicted = predict_mask(filled.as_deref(), order.as_deref(), uuids);
    let set = [
        ("CUDA_VISIBLE_DEVICES", filled),
        ("CUDA_DEVICE_ORDER", order.clone()),
    ];
    let case = Case {
        name: TRAP.to_string(),
        does: "the mask, then cuInit".to_string(),
        env: set
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_string(), value?)))
            .collect(),
        steps: vec![
            Step::call("cuInit", "init"),
            Step::call("cuDeviceGetCount", "count"),
        ],
        probes: true,
        ..Case::default()
    };
    let (name, question) = (
        "survey-mask/mask".to_string(),
        "Which GPUs does this mask show?".to_string(),
    );
    let row = MaskRow {
        group: group.to_string(),
        mask,
        order,
        note,
        predicted,
        ..MaskRow::default()
    };
    let scenario = scenario(name, question, None, Vec::new(), vec![case]);
    Ok(Item {
        sets: vec![group.to_string()],
        ..Item::new(row, scenario, MaskRow::with)
    })
}

/// Returns the rows with predictions of the current rule, for the machine of the survey.
pub fn by_todays_rule(document: &SurveyDocument) -> Vec<MaskRow> {
    let uuids = gpu_uuids(&document.machine);
    document
        .rows_of::<MaskRow>()
        .iter()
        .map(|row| row.by_todays_rule(&uuids))
        .collect()
}

fn gpu_uuids(machine: &Machine) -> Vec<String> {
    machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect()
}

impl MaskRow {
    /// Returns the row with the prediction of the current rule, on a machine with these UUIDs in NVML order.
    /// Measurements are kept, and a row whose mask cannot be parsed is unchanged.
    fn by_todays_rule(&self, uuids: &[String]) -> MaskRow {
        let filled = self
            .mask
            .as_ref()
            .map(|mask| Template::parse(mask).ok()?.fill_uuids(uuids).ok());
        match filled {
            Some(None) => self.clone(),
            filled => {
                let predicted =
                    predict_mask(filled.flatten().as_deref(), self.order.as_deref(), uuids);
                MaskRow {
                    as_predicted: self.agrees_with(&predicted),
                    predicted,
                    ..self.clone()
                }
            }
        }
    }

    fn with(mut self, answered: &SurveyAnswer<'_>) -> MaskRow {
        let observations = answered.case_observations(TRAP);
        let plan = answered.report.plan.as_ref();
        let seen: Vec<MaskSeen> = observations
            .iter()
            .filter_map(|shown| MaskSeen::from_observation(shown, plan?, answered))
            .collect();
        self.standing = RowAttempts::from_report(answered.report);
        self.status = self
            .standing
            .agreed("status", seen.iter().map(|seen| seen.status.clone()));
        self.count = self
            .standing
            .agreed("count", seen.iter().map(|seen| seen.count))
            .flatten();
        self.gpus = self
            .standing
            .agreed("gpus", seen.iter().map(|seen| seen.gpus.clone()))
            .flatten();
        self.as_predicted = self.agrees_with(&self.predicted);
        self
    }

    fn agrees_with(&self, predicted: &Predicted) -> Option<bool> {
        let (status, gpus) = (self.status.as_ref()?, self.gpus.as_ref()?);
        let counted = self.count == u32::try_from(gpus.len()).ok();
        Some(*status == predicted.status && *gpus == predicted.gpus && counted)
    }
}

fn predict_mask(mask: Option<&str>, order: Option<&str>, uuids: &[String]) -> Predicted {
    let answer = mask::parse(mask, Some(order.unwrap_or("PCI_BUS_ID")), uuids);
    Predicted {
        status: answer.status.name().to_string(),
        gpus: answer
            .gpus
            .iter()
            .filter_map(|gpu| u32::try_from(*gpu).ok())
            .collect(),
    }
}

struct MaskSeen {
    status: String,
    count: Option<u32>,
    gpus: Option<Vec<u32>>,
}

impl MaskSeen {
    fn from_observation(
        shown: &Observation,
        plan: &Plan,
        answered: &SurveyAnswer<'_>,
    ) -> Option<MaskSeen> {
        let init = shown.step("init")?.status.as_ref()?;
        let counted = shown.step("count")?;
        if init.code != 0 {
            return Some(MaskSeen {
                status: status_name(init),
                count: Some(0),
                gpus: Some(Vec::new()),
            });
        }
        let count = match counted.values.get("count") {
            Some(Value::Int(count)) => u32::try_from(*count).ok(),
            _ => None,
        };
        // A MIG instance is not among NVML's GPUs.
        let gpus = counted.visible.as_ref().and_then(|list| {
            list.iter()
                .map(|name: &String| {
                    let uuid = plan
                        .gpus
                        .get(name.strip_prefix("gpu")?.parse::<usize>().ok()?)?;
                    u32::try_from(
                        answered
                            .scene
                            .gpus
                            .iter()
                            .position(|gpu| gpu.uuid == *uuid)?,
                    )
                    .ok()
                })
                .collect()
        });
        Some(MaskSeen {
            status: status_name(init),
            count,
            gpus,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(generate: usize, gpus: usize) -> (Vec<String>, Vec<LeftOut>) {
        let uuid = |gpu: usize| format!("GPU-{gpu}{gpu}111111-2222-3333-4444-555555555555");
        let uuids: Vec<String> = (0..gpus).map(uuid).collect();
        let request = SurveyRequest {
            uuids: &uuids,
            visible_gpus: 1,
            seed: 5,
            generate,
            repeat_generated: 1,
            exported: &|| Vec::new(),
        };
        let Ok(SurveyQuestions::Listed(items, left_out)) = questions(&request) else {
            panic!("a list")
        };
        assert!(
            items
                .iter()
                .all(|item| item.repeat.is_some() == item.sets.contains(&GENERATED.to_string()))
        );
        (
            items.into_iter().map(|item| item.row.key).collect(),
            left_out,
        )
    }

    #[test]
    fn as_many_masks_are_generated_as_were_wanted_on_top_of_the_listed_ones() {
        let (listed, generated) = (keys(0, 2).0, keys(500, 2).0);
        assert_eq!(generated.len(), listed.len() + 500);
        assert_eq!(
            generated.iter().collect::<BTreeSet<_>>().len(),
            generated.len(),
            "none is asked twice"
        );
        assert_eq!(generated[..listed.len()], listed[..]);
    }

    #[test]
    fn a_mask_is_as_predicted_if_status_count_and_the_very_gpus_are() {
        let seen = |status: &str, count: u32, gpus: &[u32]| MaskRow {
            status: Some(status.to_string()),
            count: Some(count),
            gpus: Some(gpus.to_vec()),
            ..MaskRow::default()
        };
        let predicted = Predicted {
            status: "CUDA_SUCCESS".to_string(),
            gpus: vec![1, 0],
        };
        assert_eq!(
            seen("CUDA_SUCCESS", 2, &[1, 0]).agrees_with(&predicted),
            Some(true)
        );
        assert_eq!(
            seen("CUDA_SUCCESS", 2, &[0, 1]).agrees_with(&predicted),
            Some(false),
            "in another order"
        );
        assert_eq!(
            seen("CUDA_SUCCESS", 2, &[2, 3]).agrees_with(&predicted),
            Some(false),
            "other GPUs, as many"
        );
        assert_eq!(
            seen("CUDA_SUCCESS", 1, &[1, 0]).agrees_with(&predicted),
            Some(false),
            "the count is another"
        );
        assert_eq!(
            seen("CUDA_ERROR_NO_DEVICE", 2, &[1, 0]).agrees_with(&predicted),
            Some(false)
        );
        let unknown = MaskRow {
            gpus: None,
            ..seen("CUDA_SUCCESS", 2, &[1, 0])
        };
        assert_eq!(unknown.agrees_with(&predicted), None);
    }

    #[test]
    fn what_names_more_gpus_than_there_are_is_left_out_with_the_number() {
        let (all, left_out) = keys(0, 8);
        assert!(left_out.is_empty(), "{left_out:?}");
        for gpus in [1, 2] {
            let (some, left_out) = keys(0, gpus);
            assert_eq!(some.len() + left_out.len(), all.len());
            let has = format!("; this machine has {gpus}");
            let is_said = |reason: &str| {
                reason.ends_with(&has)
                    && ["2", "7", "8"].iter().any(|number| reason.contains(number))
            };
            assert!(
                !left_out.is_empty() && left_out.iter().all(|left| is_said(&left.reason)),
                "{left_out:?}"
            );
        }
    }
}

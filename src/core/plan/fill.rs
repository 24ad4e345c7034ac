//! Fills in the variables of a file: `${gpus}` and `${gpu0}`, `${gpu1}`, ….

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{self as calls, ParamKind};

use crate::sample::Gpu;
use crate::scenario::{Check, Matcher, Operand, Scalar, Step};
use crate::source::reader::split_placeholder;
use crate::verdict::Reason;

use super::Unmet;

pub(super) struct Filler<'a> {
    /// The UUIDs of [`super::Plan::gpus`], in that order.
    pub(super) gpus: &'a [String],
    /// The machine's GPUs, with their PCI addresses.
    pub(super) inventory: &'a [Gpu],
}

impl Filler<'_> {
    /// Returns a text with its templates filled in. Other braces stay as they are: the loader rejects unknown names, so
    /// they are meant literally.
    pub(super) fn text(&self, text: &str) -> Result<String, Unmet> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, name, behind)) = split_placeholder(rest) {
            filled.push_str(before);
            match self.placeholder_value(name)? {
                Some(meaning) => filled.push_str(&meaning),
                None => filled.push_str(&format!("${{{name}}}")),
            }
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn placeholder_value(&self, name: &str) -> Result<Option<String>, Unmet> {
        if name == "gpus" {
            return Ok(Some(self.gpus.len().to_string()));
        }
        let (gpu, form) = name.split_once(':').unwrap_or((name, ""));
        let Some(place) = gpu
            .strip_prefix("gpu")
            .and_then(|digits| digits.parse::<usize>().ok())
        else {
            return Ok(None);
        };
        let Some(uuid) = self.gpus.get(place) else {
            return Err(Unmet {
                reason: Reason::TooFewGpus,
                detail: format!(
                    "the scenario uses gpu{place}, but the machine has {} GPUs",
                    self.gpus.len()
                ),
                lacks: format!("{} GPUs", place + 1),
            });
        };
        let known = self.inventory.iter().find(|gpu| gpu.uuid == *uuid);
        let (fact, meaning) = match form {
            "pci" => ("PCI address", known.and_then(|gpu| gpu.pci_bus_id.clone())),
            "device" => {
                let minor = known.and_then(|gpu| gpu.device_minor);
                (
                    "minor number",
                    minor.map(|minor| format!("/dev/nvidia{minor}")),
                )
            }
            form => return Ok(in_form(uuid, form)),
        };
        match meaning {
            Some(meaning) => Ok(Some(meaning)),
            None => Err(Unmet {
                reason: Reason::System,
                detail: format!("machine: NVML does not report the {fact} of gpu{place}"),
                lacks: format!("the {fact} of a GPU"),
            }),
        }
    }

    pub(super) fn fill_environment(&self, env: &mut BTreeMap<String, String>) -> Result<(), Unmet> {
        for value in env.values_mut() {
            *value = self.text(value)?;
        }
        Ok(())
    }

    pub(super) fn step(&self, step: &Step) -> Result<Step, Unmet> {
        let row = calls::find(&step.call);
        let mut filled = step.clone();
        for (name, value) in &mut filled.args {
            let kind = row
                .and_then(|row| row.params.iter().find(|param| param.name == name))
                .map(|param| param.kind);
            *value = self.fill_argument(kind, value)?;
        }
        Ok(filled)
    }

    /// Returns an argument with its templates filled in. If C takes an integer, the text becomes one, so that the
    /// worker need not parse it.
    fn fill_argument(&self, kind: Option<ParamKind>, value: &Scalar) -> Result<Scalar, Unmet> {
        Ok(match value {
            Scalar::Int(value) => Scalar::Int(*value),
            Scalar::Text(text) => {
                let filled = self.text(text)?;
                let wants_integer = match kind {
                    Some(
                        ParamKind::I32
                        | ParamKind::U32
                        | ParamKind::U64
                        | ParamKind::Bytes
                        | ParamKind::Constant(_)
                        | ParamKind::Location
                        | ParamKind::In(_),
                    ) => true,
                    Some(ParamKind::Arguments) => filled != *text,
                    _ => false,
                };
                match parse_integer(&filled) {
                    Some(number) if wants_integer => Scalar::Int(number),
                    _ => Scalar::Text(filled),
                }
            }
            Scalar::List(values) => Scalar::List(
                values
                    .iter()
                    .map(|value| self.fill_argument(kind, value))
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    pub(super) fn fill_checks(&self, checks: &[Check]) -> Result<Vec<Check>, Unmet> {
        checks.iter().map(|check| self.check(check)).collect()
    }

    fn check(&self, check: &Check) -> Result<Check, Unmet> {
        let mut filled = check.clone();
        filled
            .facts
            .fill_matchers(|matcher| self.fill_matcher(matcher))?;
        Ok(filled)
    }

    fn fill_matcher(&self, matcher: &mut Matcher) -> Result<(), Unmet> {
        for operand in matcher.operands_mut() {
            if let Operand::Text(text) = operand {
                let filled = self.text(text)?;
                *operand = parse_integer(&filled).map_or(Operand::Text(filled), Operand::Int);
            }
        }
        Ok(())
    }
}

/// Returns a UUID in one of the forms that templates have; `None` for an unknown form.
fn in_form(uuid: &str, form: &str) -> Option<String> {
    match form {
        "" => Some(uuid.to_string()),
        // `GPU-` and eight digits: enough to distinguish GPUs.
        "short" => Some(uuid.chars().take(12).collect()),
        "upper" => Some(uuid.to_uppercase()),
        "bare" => Some(uuid.trim_start_matches("GPU-").to_string()),
        _ => None,
    }
}

fn parse_integer(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture::machine;

    fn filled(text: &str) -> Result<String, Unmet> {
        Filler {
            gpus: &["GPU-a".into(), "GPU-b".into()],
            inventory: &machine(1).gpus,
        }
        .text(text)
    }

    #[test]
    fn templates_are_filled_in_wherever_they_stand() {
        assert_eq!(filled("${gpu1},${gpu0}").unwrap(), "GPU-b,GPU-a");
        assert_eq!(filled("${gpus}").unwrap(), "2");
        assert_eq!(
            filled("${gpu1:upper} ${gpu0:bare} ${gpu0:lower}").unwrap(),
            "GPU-B a ${gpu0:lower}"
        );
        assert_eq!(
            in_form("GPU-4e5d494c-0001", "short").unwrap(),
            "GPU-4e5d494c"
        );
        assert_eq!(filled("plain").unwrap(), "plain");
        assert_eq!(filled("${home} ${gpu} ${").unwrap(), "${home} ${gpu} ${");
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_unmet_need() {
        assert_eq!(filled("${gpu2}").unwrap_err().reason, Reason::TooFewGpus);
    }

    #[test]
    fn fact_that_nvml_does_not_report_is_an_unmet_need() {
        for text in ["${gpu1:pci}", "${gpu1:device}"] {
            assert_eq!(filled(text).unwrap_err().reason, Reason::System, "{text}");
        }
    }

    #[test]
    fn integers_become_integers_only_where_c_wants_one() {
        let gpus = ["GPU-a".to_string()];
        let filler = Filler {
            gpus: &gpus,
            inventory: &[],
        };
        let step = |call: &str, name: &str| Step {
            call: call.into(),
            args: [(name.to_string(), Scalar::Text("${gpus}".into()))].into(),
            bind: None,
            on: None,
            from: None,
            label: call.into(),
            line: 1,
        };
        assert_eq!(
            filler.step(&step("cudaSetDevice", "device")).unwrap().args["device"],
            Scalar::Int(1)
        );
        assert_eq!(
            filler.step(&step("setenv", "value")).unwrap().args["value"],
            Scalar::Text("1".into())
        );
    }

    #[test]
    fn operands_become_integers_and_references_stay() {
        let gpus = ["GPU-a".to_string(), "GPU-b".to_string()];
        let reference = Operand::Value {
            label: "count".into(),
            name: "count".into(),
        };
        let mut check = Check::default();
        check.facts.value = [
            (
                "count".to_string(),
                Matcher::equal_to(Operand::Text("${gpus}".into())),
            ),
            (
                "uuid".to_string(),
                Matcher::equal_to(Operand::Text("${gpu1}".into())),
            ),
            ("again".to_string(), Matcher::equal_to(reference.clone())),
        ]
        .into();
        let filled = Filler {
            gpus: &gpus,
            inventory: &[],
        }
        .fill_checks(&[check])
        .unwrap();
        assert_eq!(
            filled[0].facts.value["count"],
            Matcher::equal_to(Operand::Int(2))
        );
        assert_eq!(
            filled[0].facts.value["uuid"],
            Matcher::equal_to(Operand::Text("GPU-b".into()))
        );
        assert_eq!(filled[0].facts.value["again"], Matcher::equal_to(reference));
    }
}

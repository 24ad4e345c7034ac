//! The named masks of `scenarios/surveys/mask.toml`.

use serde::Deserialize;

use super::template::Template;

/// A value of `CUDA_VISIBLE_DEVICES`, and a value of `CUDA_DEVICE_ORDER`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// `CUDA_VISIBLE_DEVICES`; `None` if it is not set.
    pub mask: Option<Template>,
    /// `CUDA_DEVICE_ORDER`; `None` if it is not set.
    pub order: Option<String>,
    /// The reason why the form is of interest, or a common belief about it.
    pub note: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FormsFile {
    group: Vec<FormsGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FormsGroup {
    title: String,
    forms: Vec<Form>,
}

/// Returns the built-in forms, each with the title of its group, in the order of the file. Empty if the file is not
/// valid, which a test excludes.
pub fn mask_forms() -> Vec<(String, Form)> {
    let file: FormsFile =
        toml::from_str(cuda_pitfalls_scenarios::survey("mask")).unwrap_or_default();
    let mut all = Vec::new();
    for group in file.group {
        for form in group.forms {
            all.push((group.title.clone(), form));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::{InitStatus, parse};

    #[test]
    fn the_file_that_comes_with_the_program_is_valid() {
        let file: FormsFile = toml::from_str(cuda_pitfalls_scenarios::survey("mask")).unwrap();
        assert!(
            file.group
                .iter()
                .all(|group| !group.title.trim().is_empty())
        );
        assert!(file.group.iter().all(|group| !group.forms.is_empty()));
        let forms = mask_forms();
        let mut known = std::collections::HashSet::new();
        for (group, form) in &forms {
            let asked = (form.mask.as_ref().map(Template::text), &form.order);
            assert!(known.insert(asked), "{group}: {asked:?} is asked twice");
            assert!(!form.note.trim().is_empty(), "{group}: {asked:?}");
            assert!(
                form.order
                    .as_ref()
                    .is_none_or(|order| !order.contains('\0'))
            );
        }
        assert!(forms.len() >= 100, "{}", forms.len());
        let two = [
            "GPU-11111111-2222-3333-4444-555555555555",
            "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
        ];
        let two = two.map(String::from);
        let mut seen = std::collections::BTreeMap::new();
        for (group, form) in &forms {
            assert!(
                !form.note.ends_with('.') && form.note.chars().count() <= 100,
                "{group}: {}",
                form.note
            );
            // Most forms are for two GPUs, as most machines with several GPUs have at least two.
            let Ok(mask) = form
                .mask
                .as_ref()
                .map(|mask| mask.fill_uuids(&two))
                .transpose()
            else {
                continue;
            };
            let answer = parse(mask.as_deref(), form.order.as_deref(), &two);
            *seen.entry((answer.status, answer.gpus.len())).or_insert(0) += 1;
        }
        for kind in [
            (InitStatus::NoDevice, 0),
            (InitStatus::InvalidDevice, 0),
            (InitStatus::Success, 1),
            (InitStatus::Success, 2),
        ] {
            assert!(
                seen.get(&kind).is_some_and(|count| *count >= 10),
                "{kind:?}: {seen:?}"
            );
        }
    }

    #[test]
    fn unknown_keys_and_stand_ins_are_refused() {
        for (form, says) in [
            ("{ mask = \"0\" }", "missing field `note`"),
            ("{ masks = \"0\", note = \"n\" }", "unknown field `masks`"),
            ("{ mask = \"<uid0>\", note = \"n\" }", "at byte 0"),
        ] {
            let source = format!("[[group]]\ntitle = \"A\"\nforms = [{form}]\n");
            let error = toml::from_str::<FormsFile>(&source).err().unwrap();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}

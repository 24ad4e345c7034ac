//! The masks that are asked about by name: `scenarios/surveys/mask.toml`, read strictly.

use serde::Deserialize;
use toml::Spanned;

use super::template::Template;
use crate::catalogue::Invalid;
use crate::scenario::Diagnostic;

const FILE: &str = "scenarios/surveys/mask.toml";
const SOURCE: &str = cuda_pitfalls_scenarios::MASKS;

/// A value of `CUDA_VISIBLE_DEVICES`, and a value of `CUDA_DEVICE_ORDER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// `CUDA_VISIBLE_DEVICES`; `None` if it is not set.
    pub mask: Option<Template>,
    /// `CUDA_DEVICE_ORDER`; `None` if it is not set.
    pub order: Option<String>,
    /// Why the form is of interest, or what people believe about it.
    pub note: String,
}

/// The forms that come with the program, each with the title of its group, in the order of the file.
///
/// # Errors
/// Every error of the file. A test reads the file, so an error is a bug.
pub fn forms() -> Result<Vec<(String, Form)>, Invalid> {
    read(FILE, SOURCE).map_err(|diagnostics| Invalid {
        path: FILE.to_string(),
        source: SOURCE.to_string(),
        diagnostics,
    })
}

/// The file as it is written. Unknown keys are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FormsFile {
    group: Vec<FormsGroup>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FormsGroup {
    title: Spanned<String>,
    forms: Spanned<Vec<Spanned<RawForm>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawForm {
    mask: Option<Spanned<String>>,
    order: Option<Spanned<String>>,
    note: Spanned<String>,
}

/// Parses the text of a file into forms, or into its errors, in order.
fn read(file: &str, source: &str) -> Result<Vec<(String, Form)>, Vec<Diagnostic>> {
    let (mut found, mut errors): (Vec<(String, Form)>, Vec<Misplaced>) = (Vec::new(), Vec::new());
    let parsed = toml::from_str(source).unwrap_or_else(|error: toml::de::Error| {
        errors.push((error.span().unwrap_or(0..0), error.message().to_string()));
        FormsFile { group: Vec::new() }
    });
    for group in parsed.group {
        if group.title.get_ref().trim().is_empty() {
            errors.push((group.title.span(), "a group needs its title".to_string()));
        }
        if group.forms.get_ref().is_empty() {
            errors.push((group.forms.span(), "a group without forms".to_string()));
        }
        for raw in group.forms.into_inner() {
            let span = raw.span();
            match form(raw.into_inner()) {
                Ok(form)
                    if found
                        .iter()
                        .any(|(_, it)| (&it.mask, &it.order) == (&form.mask, &form.order)) =>
                {
                    errors.push((span, "this is asked twice".to_string()));
                }
                Ok(form) => found.push((group.title.get_ref().clone(), form)),
                Err(error) => errors.push(error),
            }
        }
    }
    let errors = errors.into_iter().map(|(span, message)| Diagnostic {
        file: file.into(),
        span,
        message,
        help: None,
        context: None,
    });
    let errors: Vec<Diagnostic> = errors.collect();
    if errors.is_empty() {
        Ok(found)
    } else {
        Err(errors)
    }
}

/// What is wrong, and where.
type Misplaced = (std::ops::Range<usize>, String);

fn form(raw: RawForm) -> Result<Form, Misplaced> {
    if raw.note.get_ref().trim().is_empty() {
        return Err((
            raw.note.span(),
            "a note says why the form is of interest".to_string(),
        ));
    }
    if let Some(order) = raw
        .order
        .as_ref()
        .filter(|order| order.get_ref().contains('\0'))
    {
        return Err((
            order.span(),
            "no environment variable can hold a NUL".to_string(),
        ));
    }
    let mask = raw.mask.map(|mask| {
        Template::parse(mask.get_ref()).map_err(|error| (mask.span(), error.to_string()))
    });
    Ok(Form {
        mask: mask.transpose()?,
        order: raw.order.map(Spanned::into_inner),
        note: raw.note.into_inner(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::{InitStatus, parse};

    fn errors(source: &str) -> Vec<String> {
        read("m.toml", source)
            .unwrap_err()
            .into_iter()
            .map(|error| error.render(source, false))
            .collect()
    }

    #[test]
    fn the_file_that_comes_with_the_program_is_valid() {
        let forms = forms().unwrap_or_else(|invalid| {
            let lines: Vec<String> = invalid
                .diagnostics
                .iter()
                .map(|diagnostic| diagnostic.render(&invalid.source, false))
                .collect();
            panic!("{}", lines.join("\n"))
        });
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
            let Ok(mask) = form.mask.as_ref().map(|mask| mask.fill(&two)).transpose() else {
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
    fn a_form_may_have_one_value_or_both_or_neither() {
        let source = "[[group]]\ntitle = \"A\"\nforms = [\n{ note = \"n\" },\n{ mask = \"\", note = \"n\" },\n\
                      { order = \"x\", note = \"n\" },\n{ mask = \"<uuid1>\", order = \"x\", note = \"n\" },\n]\n";
        let found = read("m.toml", source).unwrap();
        let texts: Vec<_> = found
            .iter()
            .map(|(_, it)| (it.mask.as_ref().map(Template::text), it.order.as_deref()))
            .collect();
        assert_eq!(
            texts,
            [
                (None, None),
                (Some(""), None),
                (None, Some("x")),
                (Some("<uuid1>"), Some("x"))
            ]
        );
        assert!(found.iter().all(|(group, _)| group == "A"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let group = |forms: &str| format!("[[group]]\ntitle = \"A\"\nforms = [\n{forms}\n]\n");
        for (source, says) in [
            (group("{ mask = \"0\" }"), "missing field `note`"),
            (
                group("{ masks = \"0\", note = \"n\" }"),
                "unknown field `masks`",
            ),
            (group("{ mask = \"0\", note = \" \" }"), "a note says why"),
            (group("{ mask = \"<uid0>\", note = \"n\" }"), "at byte 0"),
            (group("{ order = \"\\u0000\", note = \"n\" }"), "NUL"),
        ] {
            let errors = errors(&source);
            assert!(
                errors.len() == 1 && errors[0].contains(says) && errors[0].contains("m.toml:4"),
                "{errors:?}"
            );
        }
        let twice = errors(&group(
            "{ mask = \"0\", note = \"n\" },\n{ mask = \"0\", note = \"m\" }",
        ));
        assert!(
            twice[0].contains("asked twice") && twice[0].contains("m.toml:5"),
            "{twice:?}"
        );
        assert!(errors(&group(""))[0].contains("without forms"));
        assert!(
            errors("[[group]]\ntitle = \"\"\nforms = [{ note = \"n\" }]\n")[0]
                .contains("its title")
        );
        assert!(errors("group = 1")[0].contains("m.toml:1"));
    }
}

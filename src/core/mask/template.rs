//! Masks as templates: the UUIDs of GPUs are written by index.
//!
//! A UUID belongs to one machine, but a page of answers is for all machines. So a mask is a text in which `<` begins a
//! placeholder that is filled in on the machine:
//!
//! | written | filled in with |
//! | --- | --- |
//! | `<uuid0>` | the UUID of GPU 0, `GPU-` and 36 characters |
//! | `<UUID0>` | the same, its digits in upper case |
//! | `<bare0>` | the same without its `GPU-` |
//! | `<flat0>` | the same without its hyphens, except for the hyphen of `GPU-` |
//! | `<<` | the character `<` |
//!
//! A colon may follow, with the part that is written. It is a number of characters, including those of `GPU-` if
//! present (`<uuid0:12>` has eight digits). `unique` is the fewest characters that no other GPU's UUID begins with, at
//! least one digit. `shared` is one character less, which fits more than one GPU.

use std::fmt;

use serde::Deserialize;
use thiserror::Error;

use crate::text::counts::counted;

/// A mask with placeholders.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Gpu {
        place: usize,
        form: UuidForm,
        length: Length,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UuidForm {
    Uuid,
    Capitals,
    Bare,
    Flat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Whole,
    Letters(usize),
    Unique,
    Shared,
}

/// The error in the text of a template.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}, at byte {at}")]
pub struct TemplateError {
    /// The location, as an offset in bytes.
    pub at: usize,
    /// The error.
    pub message: String,
}

/// The machine has too few GPUs for a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("needs {}", counted(*gpus, "GPU"))]
pub struct MissingGpus {
    /// Number of GPUs that the template needs.
    pub gpus: usize,
}

const GPU: &str = "GPU-";

/// A higher GPU number in a template is a typing error.
const MOST_GPUS: usize = 64;

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// Returns an error if the text has an unknown placeholder, or a character that no environment variable can hold.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        if let Some(at) = text.find('\0') {
            return Err(TemplateError {
                at,
                message: "an environment variable cannot contain a NUL".to_string(),
            });
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            push(&mut pieces, before);
            if let Some(after) = after.strip_prefix('<') {
                push(&mut pieces, "<");
                rest = after;
                continue;
            }
            let at = text.len() - after.len() - 1;
            let (inside, after) = after.split_once('>').ok_or_else(|| TemplateError {
                at,
                message: "`<` begins a placeholder; write `<<` for the character".to_string(),
            })?;
            pieces.push(stand_in(inside, at)?);
            rest = after;
        }
        push(&mut pieces, rest);
        Ok(Template {
            text: text.to_string(),
            pieces,
        })
    }

    /// Returns the text of the template.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of GPUs that a machine must have for the template.
    pub fn needs(&self) -> usize {
        let gpus = self.pieces.iter().map(|piece| match piece {
            Piece::Text(_) => 0,
            Piece::Gpu { place, .. } => place + 1,
        });
        gpus.max().unwrap_or(0)
    }

    /// Returns the mask on a machine with these UUIDs.
    ///
    /// # Errors
    /// Returns an error if `uuids` has fewer UUIDs than the template needs.
    pub fn fill_uuids(&self, uuids: &[String]) -> Result<String, MissingGpus> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => Some(text.clone()),
            Piece::Gpu {
                place,
                form,
                length,
            } => fill_placeholder(uuids, *place, *form, *length),
        });
        pieces
            .collect::<Option<String>>()
            .ok_or(MissingGpus { gpus: self.needs() })
    }
}

impl TryFrom<String> for Template {
    type Error = TemplateError;

    fn try_from(text: String) -> Result<Template, TemplateError> {
        Template::parse(&text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

pub(super) fn escape_brackets(text: &str) -> String {
    text.replace('<', "<<")
}

fn push(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(last)) => last.push_str(text),
        _ => pieces.push(Piece::Text(text.to_string())),
    }
}

/// Parses the text between `<` and `>`, which begins at byte `at` of the template.
fn stand_in(inside: &str, at: usize) -> Result<Piece, TemplateError> {
    parse_stand_in(inside).map_err(|why| TemplateError {
        at,
        message: format!("`<{inside}>`: {why}"),
    })
}

/// An error between `<` and `>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum StandInError<'t> {
    #[error("a placeholder begins with `uuid`, `UUID`, `bare` or `flat`")]
    Form,
    #[error("expected the number of a GPU after `{0}`")]
    Number(&'t str),
    #[error("expected a number of characters, `unique` or `shared` after `:`")]
    Length,
}

fn parse_stand_in(inside: &str) -> Result<Piece, StandInError<'_>> {
    let (gpu, length) = match inside.split_once(':') {
        Some((gpu, length)) => (gpu, Some(length)),
        None => (inside, None),
    };
    let (form, place) = gpu.split_at_checked(4).unwrap_or((gpu, ""));
    let form = match form {
        "uuid" => UuidForm::Uuid,
        "UUID" => UuidForm::Capitals,
        "bare" => UuidForm::Bare,
        "flat" => UuidForm::Flat,
        _ => return Err(StandInError::Form),
    };
    let place = number(place)
        .filter(|place| *place < MOST_GPUS)
        .ok_or(StandInError::Number(gpu.get(..4).unwrap_or(gpu)))?;
    let length = match length {
        None => Length::Whole,
        Some("unique") => Length::Unique,
        Some("shared") => Length::Shared,
        Some(letters) => match number(letters) {
            Some(letters) if letters > 0 => Length::Letters(letters),
            _ => {
                return Err(StandInError::Length);
            }
        },
    };
    Ok(Piece::Gpu {
        place,
        form,
        length,
    })
}

/// Parses a number without leading zeros.
fn number(digits: &str) -> Option<usize> {
    let has_zeros = digits.starts_with('0') && digits != "0";
    if has_zeros || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn fill_placeholder(
    uuids: &[String],
    place: usize,
    form: UuidForm,
    length: Length,
) -> Option<String> {
    let text = form.written(uuids.get(place)?);
    let letters = match length {
        Length::Whole => text.len(),
        Length::Letters(letters) => letters,
        Length::Unique => form.unique_length(uuids, place),
        Length::Shared => form.unique_length(uuids, place).saturating_sub(1),
    };
    Some(text.chars().take(letters).collect())
}

impl UuidForm {
    fn written(self, uuid: &str) -> String {
        let digits = uuid.strip_prefix(GPU).unwrap_or(uuid);
        match self {
            UuidForm::Uuid => uuid.to_string(),
            UuidForm::Capitals => format!("{GPU}{}", digits.to_ascii_uppercase()),
            UuidForm::Bare => digits.to_string(),
            UuidForm::Flat => format!("{GPU}{}", digits.replace('-', "")),
        }
    }

    /// Returns the fewest characters that distinguish a GPU's UUID from all others.
    fn unique_length(self, uuids: &[String], place: usize) -> usize {
        let Some(own) = uuids.get(place).map(|uuid| self.written(uuid)) else {
            return 0;
        };
        let others = uuids
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place)
            .map(|(_, uuid)| self.written(uuid));
        let alike = others.map(|other| {
            own.bytes()
                .zip(other.bytes())
                .take_while(|(own, other)| own == other)
                .count()
        });
        alike
            .max()
            .unwrap_or(0)
            .max(if self == UuidForm::Bare { 0 } else { GPU.len() })
            + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuids() -> Vec<String> {
        [
            "GPU-ab12cd34-0000-1111-2222-333344445555",
            "GPU-ab9f0000-6666-7777-8888-99990000aaaa",
        ]
        .map(String::from)
        .into()
    }

    fn filled(text: &str) -> String {
        Template::parse(text).unwrap().fill_uuids(&uuids()).unwrap()
    }

    #[test]
    fn every_stand_in_is_filled_in() {
        assert_eq!(
            filled("<uuid0>"),
            "GPU-ab12cd34-0000-1111-2222-333344445555"
        );
        assert_eq!(filled("<uuid1:12>,x"), "GPU-ab9f0000,x");
        assert_eq!(filled("<UUID1:12>"), "GPU-AB9F0000");
        assert_eq!(filled("gpu-<bare0:8>"), "gpu-ab12cd34");
        assert_eq!(filled("<flat0>"), "GPU-ab12cd34000011112222333344445555");
        assert_eq!(filled("<uuid0:99>"), filled("<uuid0>"));
        assert_eq!(filled("0, 1"), "0, 1");
        assert_eq!(filled(""), "");
    }

    #[test]
    fn unique_is_as_short_as_can_be_and_shared_is_one_less() {
        assert_eq!(filled("<uuid0:unique>,<uuid0:shared>"), "GPU-ab1,GPU-ab");
        assert_eq!(filled("<UUID1:unique>,<bare1:unique>"), "GPU-AB9,ab9");
        let one = &uuids()[..1];
        assert_eq!(
            Template::parse("<uuid0:unique>,<uuid0:shared>")
                .unwrap()
                .fill_uuids(one)
                .unwrap(),
            "GPU-a,GPU-"
        );
    }

    #[test]
    fn the_letter_that_opens_can_be_written() {
        assert_eq!(filled("<<uuid0>"), "<uuid0>");
        assert_eq!(filled("a<<<<b>"), "a<<b>");
        assert_eq!(filled("<<<uuid0:4>"), "<GPU-");
        let text = "<<<uuid0>> <";
        assert_eq!(filled(&escape_brackets(text)), text);
    }

    #[test]
    fn too_few_gpus_are_said_and_can_be_asked_for() {
        let template = Template::parse("<uuid0>,<uuid3:8>").unwrap();
        assert_eq!(template.needs(), 4);
        assert_eq!(
            template.fill_uuids(&uuids()).unwrap_err().to_string(),
            "needs 4 GPUs"
        );
        assert_eq!(Template::parse("0,1").unwrap().needs(), 0);
        assert_eq!(
            Template::parse("<uuid0>")
                .unwrap()
                .fill_uuids(&[])
                .unwrap_err()
                .to_string(),
            "needs 1 GPU"
        );
    }

    #[test]
    fn what_is_no_template_is_refused_with_its_place() {
        for (text, at, says) in [
            ("0,<", 2, "`<<` for the character"),
            ("<uuid>", 0, "the number of a GPU"),
            ("<uuid01>", 0, "the number of a GPU"),
            ("<uuid64>", 0, "the number of a GPU"),
            ("<uuid+1>", 0, "the number of a GPU"),
            ("<uuid0>,<uid1>", 8, "begins with `uuid`"),
            ("é<Uuid0>", 2, "begins with `uuid`"),
            ("<ééé>", 0, "begins with `uuid`"),
            ("<uuid0:>", 0, "after `:`"),
            ("<uuid0:0>", 0, "after `:`"),
            ("<uuid0:some>", 0, "after `:`"),
            ("0\0", 1, "NUL"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }
}

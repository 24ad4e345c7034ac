//! The file of a kind: `scenarios/surveys/kinds/<kind>.toml` contains its page, and the words for its facts.
//!
//! A comparison compares the facts that the file lists, and a page has the tables that it describes. So a kind needs
//! code only for facts that its rows do not contain.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::SurveyKind;
use super::facts::FactRow;
use super::python::without_line;

/// Texts of a kind of survey.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KindFile {
    /// The title of its page.
    pub title: String,
    /// Paragraphs at the beginning of the page.
    pub opening: String,
    /// The options of `survey` that only some kinds take.
    options: Vec<String>,
    /// Attempts of each case, unless set on the command line; if absent, the common default.
    pub repeat: Option<u32>,
    /// `true` if its rows can be used to compare versions of libcudart.
    pub compares_versions: bool,
    /// Name of the further content that its pages derive from its rows, in addition to their facts.
    pub rows: String,
    /// Facts that machines of a fleet are compared by, in order: a fact, and its name in a fleet report.
    pub answers: Vec<[String; 2]>,
    /// The fact that has the memory of each GPU, which a fleet compares; empty for none.
    pub bytes: String,
    /// Facts that must be equal in two rows so that facts with `compared = "alike"` can be compared.
    alike: Vec<String>,
    /// The facts of the kind, in the order in which they are compared.
    pub fact: Vec<FactForm>,
    /// The sections of its page.
    pub section: Vec<SectionForm>,
}

/// A fact: its name, and whether it is compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FactForm {
    /// Field in a row; `died.by` is a field of a field. If the first field is a list, each of its entries has the fact.
    pub name: String,
    /// Name in comparisons and above columns; `{before}` is another field of an entry of a list. A column without words
    /// is not displayed, and keeps rows separate that are otherwise equal.
    pub words: String,
    /// Format of the value.
    pub form: ValueForm,
    /// Rule for comparing it; if absent, it is not compared.
    pub compared: Option<Compared>,
    /// Text for null in a comparison; if absent, the fact is unknown in that case.
    pub absent: Option<String>,
    /// `true` if it may be missing: two rows are equal in the fact if one of them does not have it, and a table has no
    /// column for it if none of its rows has it.
    pub optional: bool,
    /// Text for null on a page.
    pub unknown: String,
    /// Text for an empty list on a page.
    pub none: String,
    /// Texts for words of documents on a page.
    pub said: BTreeMap<String, String>,
    /// `true` if the value is code.
    pub code: bool,
}

/// Format of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueForm {
    /// Unchanged.
    #[default]
    Plain,
    /// GPUs by their indices.
    Gpus,
    /// Amounts of memory, which include some noise.
    Memory,
    /// A place in a program. Its line number differs between versions that behave the same.
    Place,
    /// The spread of a time.
    Time,
    /// The spread of a size.
    Size,
    /// Number of rows that were combined.
    Count,
}

/// Rule for comparing a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Always.
    Always,
    /// In rows that are alike.
    Alike,
    /// In rows that are not alike.
    Otherwise,
    /// Property of the question rather than a fact: rows that differ in it cannot be compared.
    Asked,
}

/// A section of a page.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SectionForm {
    /// Title; `{rows}` stands for the number of its rows, and `{machine}` for the machine of its document.
    pub title: String,
    /// Paragraph before the table.
    pub text: String,
    /// Name of content that its kind generates by itself; if omitted, the section is the table of all matching rows.
    pub made: String,
    /// Conditions for rows: `fact`, `!fact`, `fact=value` or `fact!=value`.
    #[serde(rename = "where")]
    pub conditions: Vec<String>,
    /// The facts in the table's columns.
    pub columns: Vec<String>,
    /// Facts to sort by. Rows that are equal in all other columns become one row with all their values of these facts.
    pub joined: Vec<String>,
    /// Two facts: each value of the first one gets a column with the values of the second one.
    pub across: Option<[String; 2]>,
    /// Separator between joined values; if omitted, a comma.
    pub between: Option<String>,
    /// A fact: each of its values gets a section with the value as its title.
    pub each: String,
    /// `true` if the section is generated for each document separately.
    pub per_document: bool,
    /// `true` if the section is too long for a terminal.
    pub only_on_pages: bool,
}

impl SurveyKind {
    /// Returns the file of the kind, with the facts that every kind has. It is empty if it cannot be parsed; a test
    /// rules that out.
    pub fn kind_file(self) -> &'static KindFile {
        static FILES: LazyLock<BTreeMap<SurveyKind, KindFile>> = LazyLock::new(|| {
            let common = read("common").unwrap_or_default().fact;
            let kinds = SurveyKind::all()
                .iter()
                .map(|kind| (*kind, read(kind.name()).unwrap_or_default()));
            kinds
                .map(|(kind, file)| {
                    (
                        kind,
                        KindFile {
                            fact: [file.fact, common.clone()].concat(),
                            ..file
                        },
                    )
                })
                .collect()
        });
        static EMPTY: LazyLock<KindFile> = LazyLock::new(KindFile::default);
        FILES.get(&self).unwrap_or(&EMPTY)
    }
}

fn read(name: &str) -> Result<KindFile, toml::de::Error> {
    toml::from_str(cuda_pitfalls_scenarios::kind(name).unwrap_or_default())
}

impl KindFile {
    /// Returns `true` if facts that depend on what the process saw can be compared in these rows.
    pub fn are_alike(&self, a: &FactRow, b: &FactRow) -> bool {
        self.alike.iter().all(|name| a.fact(name) == b.fact(name))
    }

    /// Returns `true` if it takes an option of `survey`.
    pub fn takes(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// Returns the fact in a field. A fact that is not in the file is named after the field.
    pub fn fact(&self, name: &str) -> FactForm {
        let known = self.fact.iter().find(|fact| fact.name == name).cloned();
        known.unwrap_or_else(|| FactForm {
            name: name.to_string(),
            words: name.to_string(),
            ..FactForm::default()
        })
    }
}

impl FactForm {
    /// Returns a value in the form for comparisons: a place without its line number, which differs between versions
    /// that behave the same.
    pub fn comparable_value(&self, value: &Value) -> Value {
        match value {
            Value::String(at) if self.form == ValueForm::Place => without_line(at).into(),
            other => other.clone(),
        }
    }

    /// Returns the values of the fact in a row, each with its words: a single one, or one for each entry of a list.
    pub fn values<'r>(&self, row: &'r FactRow) -> Vec<(String, &'r Value)> {
        match self
            .name
            .split_once('.')
            .map(|(list, field)| (row.fact(list), field))
        {
            Some((Value::Array(entries), field)) => {
                let each = entries.iter().map(|entry| {
                    (
                        self.words_of(entry),
                        entry.get(field).unwrap_or(&Value::Null),
                    )
                });
                each.collect()
            }
            _ => vec![(self.words.clone(), row.fact(&self.name))],
        }
    }

    fn words_of(&self, entry: &Value) -> String {
        let fields = entry.as_object().into_iter().flatten();
        let texts =
            fields.filter_map(|(name, value)| Some((format!("{{{name}}}"), value.as_str()?)));
        texts.fold(self.words.clone(), |words, (name, value)| {
            words.replace(&name, value)
        })
    }
}

impl SectionForm {
    /// Returns `true` if a row belongs in the section.
    pub fn has(&self, row: &FactRow) -> bool {
        self.conditions.iter().all(|condition| row.has(condition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read_and_names_each_fact_once() {
        for name in SurveyKind::all()
            .iter()
            .map(|kind| kind.name())
            .chain(["common"])
        {
            let file = read(name).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            let names: std::collections::BTreeSet<&str> =
                file.fact.iter().map(|fact| fact.name.as_str()).collect();
            assert!(
                !names.is_empty() && names.len() == file.fact.len(),
                "{name}"
            );
            assert_eq!(file.section.is_empty(), name == "common");
            let common = read("common").expect("a file").fact;
            for column in file.section.iter().flat_map(|form| &form.columns) {
                assert!(
                    file.fact
                        .iter()
                        .chain(&common)
                        .any(|fact| fact.name == *column),
                    "{name}: {column}"
                );
            }
        }
    }
}

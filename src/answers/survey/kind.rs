//! What the file of a kind says: `scenarios/surveys/kinds/<kind>.toml` has its page, and the words of its facts.
//!
//! A comparison compares the facts that the file names, and a page has the tables that it describes. So a kind needs
//! no code for either, but for what its rows do not say by themselves.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::SurveyKind;
use super::facts::FactRow;
use super::python::without_line;

/// A kind of survey in words.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KindFile {
    /// The title of its page.
    pub title: String,
    /// The paragraphs with which its page begins.
    pub opening: String,
    /// The options of `survey` that only some kinds take.
    options: Vec<String>,
    /// Attempts of each case, unless the command line says otherwise; if absent as for all.
    pub repeat: Option<u32>,
    /// Whether versions of libcudart can be compared by its rows.
    pub compares_versions: bool,
    /// What its pages make of its rows beside their facts, by name.
    pub rows: String,
    /// What machines of a fleet are compared by, in order: a fact, and what a fleet calls it.
    pub answers: Vec<[String; 2]>,
    /// The fact that has the memory of each GPU, which a fleet compares; empty for none.
    pub bytes: String,
    /// The facts that two rows must have in common so that facts with `compared = "alike"` can be compared.
    alike: Vec<String>,
    /// Its facts, in the order in which they are compared.
    pub fact: Vec<FactForm>,
    /// The sections of its page.
    pub section: Vec<SectionForm>,
}

/// A fact: what it is called, and whether it is compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FactForm {
    /// Its field in a row; `died.by` is a field of a field. If the first field is a list, each of its entries has the fact.
    pub name: String,
    /// What it is called in comparisons and above columns; `{before}` is another field of an entry of a list. A column
    /// without words is not shown, and keeps rows apart that are alike otherwise.
    pub words: String,
    /// How its value is read.
    pub form: ValueForm,
    /// Whether it is compared; not at all if it is absent.
    pub compared: Option<Compared>,
    /// What a comparison says for null; without it the fact is unknown then.
    pub absent: Option<String>,
    /// Whether it may be missing: rows of which one has no such fact are alike, and a table of which no row has it has
    /// no column for it.
    pub optional: bool,
    /// What a page says for null.
    pub unknown: String,
    /// What a page says for a list without entries.
    pub none: String,
    /// What a page says for words of documents.
    pub said: BTreeMap<String, String>,
    /// Whether it is code.
    pub code: bool,
}

/// How a value is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueForm {
    /// As it is.
    #[default]
    Plain,
    /// GPUs by their numbers.
    Gpus,
    /// Amounts of memory, of which some is noise.
    Memory,
    /// A place in a program, whose line differs between versions that behave alike.
    Place,
    /// The spread of a time.
    Time,
    /// The spread of a size.
    Size,
    /// How many rows were joined.
    Count,
}

/// When a fact is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Always.
    Always,
    /// In rows that are alike.
    Alike,
    /// In rows that are not.
    Otherwise,
    /// It is no fact but what was asked: rows in which it differs cannot be compared.
    Asked,
}

/// A section of a page.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SectionForm {
    /// Its title; `{rows}` is how many rows it has, and `{machine}` the machine of its document.
    pub title: String,
    /// A paragraph in front of its table.
    pub text: String,
    /// What its kind makes by itself, by name; without it the section is the table of all rows that fit.
    pub made: String,
    /// What rows must be: `fact`, `!fact`, `fact=value` or `fact!=value`.
    #[serde(rename = "where")]
    pub conditions: Vec<String>,
    /// The facts in its columns.
    pub columns: Vec<String>,
    /// Facts in whose order rows that are alike in all other columns become one, which has all their values.
    pub joined: Vec<String>,
    /// A fact and another one: for each value of the one there is a column, which has the other one.
    pub across: Option<[String; 2]>,
    /// What stands between joined values, if it is no comma.
    pub between: Option<String>,
    /// A fact: for each of its values there is a section, which has the value for its title.
    pub each: String,
    /// Whether it is made of each document by itself.
    pub per_document: bool,
    /// Whether it is too long for a terminal.
    pub only_on_pages: bool,
}

impl SurveyKind {
    /// The file of the kind, with the facts that every kind has. It is empty if it cannot be read, which a test
    /// excludes.
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
    /// Whether facts that depend on what the process saw can be compared in these rows.
    pub fn are_alike(&self, a: &FactRow, b: &FactRow) -> bool {
        self.alike.iter().all(|name| a.fact(name) == b.fact(name))
    }

    /// Whether it takes an option of `survey`.
    pub fn takes(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// The fact in a field. One that the file does not name has the field's name.
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
    /// A value as it is compared: a place has no line, which differs between versions that behave alike.
    pub fn comparable_value(&self, value: &Value) -> Value {
        match value {
            Value::String(at) if self.form == ValueForm::Place => without_line(at).into(),
            other => other.clone(),
        }
    }

    /// The values of the fact in a row, each with its words: one, or one of each entry of a list.
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
    /// Whether a row belongs in the section.
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

//! Parameters: their values, their combinations, and how they are filled into the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::diagnostic::suggest_name;
use super::reader::{Reader, is_gpu, split_placeholder};
use crate::scenario::Scalar;

/// Maximum number of instances: more would occupy a GPU for hours.
const MOST_INSTANCES: usize = 64;

/// The forms that a placeholder may request for a GPU, such as `${gpu1:device}`.
const GPU_FORMS: [&str; 5] = ["short", "upper", "bare", "pci", "device"];

/// The keys of a file whose values may contain parameters.
const FILLED: [&str; 3] = ["cases", "effect", "expect"];

struct Parameter<'a> {
    name: String,
    values: Vec<ParameterValue<'a>>,
}

struct ParameterValue<'a> {
    scalar: Scalar,
    /// The value as the file has it.
    written: Spanned<DeValue<'a>>,
}

/// The parameters of a file, in its order.
#[derive(Default)]
pub(super) struct Parameters<'a> {
    list: Vec<Parameter<'a>>,
    /// `true` if the parameters have errors, so that the result of filling them in is unknown.
    pub(super) are_wrong: bool,
}

/// A value of each parameter.
pub(super) struct Combination<'p> {
    values: Vec<(&'p str, &'p ParameterValue<'p>)>,
    are_wrong: bool,
}

impl<'a> Parameters<'a> {
    /// Returns the parameters of a file. If they have errors, reports them and returns no parameters.
    pub(super) fn read(reader: &mut Reader<'_>, file: &DeValue<'a>) -> Parameters<'a> {
        let Some(table) = file.get("parameters") else {
            return Parameters::default();
        };
        let before = reader.errors.len();
        let mut parameters = Parameters::default();
        let Some(entries) = table.get_ref().as_table() else {
            reader.error(&table.span(), "expected a table of lists", None);
            parameters.are_wrong = true;
            return parameters;
        };
        for (name, written) in entries {
            let scalars: Option<Vec<Spanned<Scalar>>> = reader.read_typed(written.clone());
            let Some(scalars) = scalars else {
                continue;
            };
            check_parameter(reader, name, written, &scalars);
            let nodes = written.get_ref().as_array().into_iter().flatten();
            let mut values = Vec::new();
            for (scalar, written) in scalars.into_iter().zip(nodes) {
                values.push(ParameterValue {
                    scalar: scalar.into_inner(),
                    written: written.clone(),
                });
            }
            let name = name.get_ref().to_string();
            parameters.list.push(Parameter { name, values });
        }
        parameters.list.sort_by_key(|parameter: &Parameter<'_>| {
            let first = parameter.values.first();
            first.map_or(0, |value| value.written.span().start)
        });
        let mut values = parameters
            .list
            .iter()
            .map(|parameter| parameter.values.len());
        let count = values.try_fold(1usize, usize::checked_mul);
        if count.is_none_or(|count| count > MOST_INSTANCES) {
            let message = format!("these parameters have more than {MOST_INSTANCES} combinations");
            reader.error(&table.span(), message, None);
        }
        if reader.errors.len() == before {
            return parameters;
        }
        Parameters {
            list: Vec::new(),
            are_wrong: true,
        }
    }

    /// Returns the values of a parameter; `None` for an unknown name.
    pub(super) fn values(&self, name: &str) -> Option<Vec<&Scalar>> {
        let parameter = self.list.iter().find(|parameter| parameter.name == name)?;
        Some(parameter.values.iter().map(|value| &value.scalar).collect())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|parameter| parameter.name.as_str())
    }

    /// Returns every combination; the last parameter changes fastest. Without parameters, returns one empty
    /// combination.
    pub(super) fn combinations(&self) -> Vec<Combination<'_>> {
        let mut all = vec![Vec::new()];
        for Parameter { name, values } in &self.list {
            let mut longer = Vec::new();
            for done in &all {
                for value in values {
                    let mut next: Vec<_> = done.clone();
                    next.push((name.as_str(), value));
                    longer.push(next);
                }
            }
            all = longer;
        }
        let are_wrong = self.are_wrong;
        all.into_iter()
            .map(|values| Combination { values, are_wrong })
            .collect()
    }

    /// Returns the parameters as [`crate::scenario::Scenario`] stores them.
    pub(super) fn to_list(&self) -> Vec<(String, Vec<Scalar>)> {
        let mut list = Vec::new();
        for Parameter { name, values } in &self.list {
            let values = values.iter().map(|value| value.scalar.clone());
            list.push((name.clone(), values.collect()));
        }
        list
    }
}

/// Reports the errors in the name and the values of a parameter.
fn check_parameter(
    reader: &mut Reader<'_>,
    key: &Spanned<DeString<'_>>,
    written: &Spanned<DeValue<'_>>,
    scalars: &[Spanned<Scalar>],
) {
    let name = key.get_ref();
    let in_form = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !in_form {
        let message = format!("`{name}` is not a valid name for a parameter");
        let help = Some("use lower-case letters, digits and `_`".to_string());
        reader.error(&key.span(), message, help);
    } else if is_planned(name) {
        let help = Some("choose another name".to_string());
        reader.error(
            &key.span(),
            format!("`{name}` is reserved, because the plan fills it in"),
            help,
        );
    }
    if scalars.is_empty() {
        reader.error(&written.span(), "a parameter needs values", None);
    }
    for (index, scalar) in scalars.iter().enumerate() {
        check_scalar(reader, scalar.get_ref(), &scalar.span());
        if scalars[..index].contains(scalar) {
            reader.error(&scalar.span(), format!("`{scalar}` is listed twice"), None);
        }
    }
}

/// Checks that a value is text or an integer, and that only templates of the plan occur in the text.
pub(super) fn check_scalar(reader: &mut Reader<'_>, scalar: &Scalar, place: &Range<usize>) {
    match scalar {
        Scalar::Int(_) => {}
        Scalar::Text(text) => {
            let none = Combination {
                values: Vec::new(),
                are_wrong: false,
            };
            none.fill_text(reader, text, place);
        }
        Scalar::List(_) => {
            reader.error(place, "expected text or an integer, found a list", None);
        }
    }
}

/// Returns `true` if the plan, which knows the machine, fills in `${name}`.
fn is_planned(name: &str) -> bool {
    let (gpu, form) = name.split_once(':').unwrap_or((name, "short"));
    name == "gpus" || (is_gpu(gpu) && GPU_FORMS.contains(&form))
}

impl<'p> Combination<'p> {
    /// Returns the values as [`crate::scenario::Instance`] stores them.
    pub(super) fn values(&self) -> BTreeMap<String, Scalar> {
        let mut values = BTreeMap::new();
        for (name, value) in &self.values {
            values.insert(name.to_string(), value.scalar.clone());
        }
        values
    }

    pub(super) fn instance_name(&self, scenario: &str) -> String {
        if self.values.is_empty() {
            return scenario.to_string();
        }
        let mut values = Vec::new();
        for (name, value) in &self.values {
            values.push(format!("{name}={}", value.scalar));
        }
        format!("{scenario}[{}]", values.join(","))
    }

    /// Puts values in place of `${parameter}`.
    pub(super) fn fill_file(&self, reader: &mut Reader<'_>, file: &mut DeValue<'p>) {
        reader.filled.clear();
        let DeValue::Table(table) = file else {
            return;
        };
        for key in FILLED {
            if let Some(value) = table.get_mut(key) {
                self.fill_value(reader, value);
            }
        }
    }

    fn fill_value(&self, reader: &mut Reader<'_>, value: &mut Spanned<DeValue<'p>>) {
        let place = value.span();
        match value.get_mut() {
            DeValue::String(text) if text.contains("${") => {
                if let Some(parameter) = self.find_whole(text) {
                    reader.filled.push((place, parameter.written.span()));
                    *value.get_mut() = parameter.written.get_ref().clone();
                } else {
                    *text = Cow::Owned(self.fill_text(reader, text, &place));
                }
            }
            DeValue::Array(values) => {
                for value in values.iter_mut() {
                    self.fill_value(reader, value);
                }
            }
            DeValue::Table(table) => self.fill_table(reader, table),
            _ => {}
        }
    }

    /// Puts values in place of `${parameter}` in a table, in keys too.
    fn fill_table(&self, reader: &mut Reader<'_>, table: &mut DeTable<'p>) {
        for (mut key, mut value) in std::mem::take(table) {
            self.fill_value(reader, &mut value);
            let place = key.span();
            let text = key.get_mut();
            if text.contains("${") {
                let filled = match self.find_whole(text) {
                    Some(parameter) => {
                        reader
                            .filled
                            .push((place.clone(), parameter.written.span()));
                        parameter.scalar.to_string()
                    }
                    None => self.fill_text(reader, text, &place),
                };
                *text = Cow::Owned(filled);
            }
            if table.contains_key(&key) {
                reader.error(
                    &place,
                    format!("`{}` is written twice", key.get_ref()),
                    None,
                );
            }
            table.insert(key, value);
        }
    }

    /// Returns the value of a parameter, if the text is only its placeholder.
    fn find_whole(&self, text: &str) -> Option<&'p ParameterValue<'p>> {
        let name = text.strip_prefix("${")?.strip_suffix('}')?;
        self.find_value(name)
    }

    fn find_value(&self, name: &str) -> Option<&'p ParameterValue<'p>> {
        let (_, value) = self.values.iter().find(|(known, _)| *known == name)?;
        Some(value)
    }

    fn fill_text(&self, reader: &mut Reader<'_>, text: &str, place: &Range<usize>) -> String {
        if self.are_wrong {
            // The errors of the parameters are reported, but no errors about the places where they are filled in.
            reader.unfilled.push(place.clone());
            return text.to_string();
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, name, behind)) = split_placeholder(rest) {
            filled.push_str(before);
            rest = behind;
            if let Some(value) = self.find_value(name) {
                filled.push_str(&value.scalar.to_string());
                continue;
            }
            if !is_planned(name) {
                let names = self.values.iter().map(|(name, _)| *name);
                let help = suggest_name(name, names.chain(["gpus", "gpu0"]));
                reader.error(place, format!("unknown parameter `${{{name}}}`"), help);
                reader.unfilled.push(place.clone());
            }
            filled.push_str(&format!("${{{name}}}"));
        }
        if rest.contains("${") {
            reader.error(place, "`${` without `}`", None);
        }
        filled.push_str(rest);
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load::tree::{Data, Node};

    fn read_file(source: &str) -> (Reader<'_>, Spanned<DeValue<'_>>) {
        let mut reader = Reader::new("test.toml", source, &[]);
        let file = reader.parse_table("a test", 1 << 10).unwrap();
        (reader, file)
    }

    #[test]
    fn combinations_come_in_the_order_of_the_file() {
        let (mut reader, file) = read_file("parameters = { b = [\"x\", \"y\"], a = [1, 2] }");
        let parameters = Parameters::read(&mut reader, file.get_ref());
        let names: Vec<String> = parameters
            .combinations()
            .iter()
            .map(|c| c.instance_name("s"))
            .collect();
        assert_eq!(
            names,
            ["s[b=x,a=1]", "s[b=x,a=2]", "s[b=y,a=1]", "s[b=y,a=2]"]
        );
    }

    #[test]
    fn no_parameters_make_one_instance_with_the_scenarios_name() {
        let parameters = Parameters::default();
        let all = parameters.combinations();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].instance_name("s"), "s");
    }

    #[test]
    fn a_text_that_is_one_parameter_takes_its_type_and_others_its_text() {
        let source =
            "parameters = { n = [7] }\ncases = { \"${n}\" = [\"${n}\", \"n=${n} of ${gpus}\"] }";
        let (mut reader, mut file) = read_file(source);
        let parameters = Parameters::read(&mut reader, file.get_ref());
        parameters.combinations()[0].fill_file(&mut reader, file.get_mut());
        let file: Node = reader.read_typed(file).unwrap();
        let filled = file.entries()[1].value.entries();
        assert_eq!(filled[0].key.text, "7");
        let Data::List(nodes) = &filled[0].value.data else {
            panic!("{filled:?}")
        };
        assert_eq!(nodes[0].data, Data::Int(7));
        assert_eq!(nodes[1].data, Data::Text("n=7 of ${gpus}".to_string()));
        assert!(reader.errors.is_empty());
    }

    #[test]
    fn too_many_combinations_are_refused_before_they_are_made() {
        let values: Vec<String> = (0..65).map(|n| n.to_string()).collect();
        let list = format!("[{}]", values.join(","));
        let source = format!(
            "parameters = {{ a = {list}, b = {list}, c = {list}, d = {list}, e = {list} }}"
        );
        let mut reader = Reader::new("test.toml", &source, &[]);
        let file = reader.parse_table("a test", 1 << 12).unwrap();
        let parameters = Parameters::read(&mut reader, file.get_ref());
        assert!(parameters.are_wrong);
        assert_eq!(reader.errors.len(), 1);
    }
}

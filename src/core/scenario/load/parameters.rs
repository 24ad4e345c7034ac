//! Parameters: their values, their combinations, and how they are filled into the tree.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::diagnostic::suggest_name;
use super::reader::{Reader, is_gpu};
use super::tree::{Data, Node, SourceSpan, TreeEntry, TreeKey};
use crate::scenario::Scalar;

/// More instances would occupy a GPU for hours.
const MOST_INSTANCES: usize = 64;

/// Other forms in which a template may write a GPU.
const GPU_FORMS: [&str; 5] = ["short", "upper", "bare", "pci", "device"];

struct Parameter {
    name: String,
    values: Vec<(Scalar, Range<usize>)>,
}

#[derive(Default)]
pub(super) struct Parameters(Vec<Parameter>);

pub(super) struct Combination<'p>(Vec<(&'p str, &'p Scalar, &'p Range<usize>)>);

impl Parameters {
    pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<Parameters> {
        let before = reader.errors.len();
        let mut parameters = Parameters::default();
        for entry in reader.table(node)? {
            parameters.0.extend(parse_parameter(reader, entry));
        }
        let count = parameters
            .0
            .iter()
            .try_fold(1usize, |n, parameter| n.checked_mul(parameter.values.len()));
        if count.is_none_or(|count| count > MOST_INSTANCES) {
            let message = format!("these parameters have more than {MOST_INSTANCES} combinations");
            reader.error(&node.place, message, None);
        }
        (reader.errors.len() == before).then_some(parameters)
    }

    /// The values of a parameter; `None` for an unknown name.
    pub(super) fn values(&self, name: &str) -> Option<impl Iterator<Item = &Scalar>> {
        let parameter = self.0.iter().find(|parameter| parameter.name == name)?;
        Some(parameter.values.iter().map(|(value, _)| value))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|parameter| parameter.name.as_str())
    }

    /// Every combination; the last parameter changes fastest. Without parameters, one empty combination.
    pub(super) fn combinations(&self) -> Vec<Combination<'_>> {
        let mut all = vec![Combination(Vec::new())];
        for Parameter { name, values } in &self.0 {
            let mut longer = Vec::new();
            for done in &all {
                for (value, span) in values {
                    let mut next = done.0.clone();
                    next.push((name.as_str(), value, span));
                    longer.push(Combination(next));
                }
            }
            all = longer;
        }
        all
    }

    /// The parameters as [`crate::scenario::Scenario`] stores them.
    pub(super) fn into_list(self) -> Vec<(String, Vec<Scalar>)> {
        let mut list = Vec::new();
        for Parameter { name, values } in self.0 {
            list.push((name, values.into_iter().map(|(value, _)| value).collect()));
        }
        list
    }
}

fn parse_parameter(
    reader: &mut Reader<'_>,
    TreeEntry { key, value }: &TreeEntry,
) -> Option<Parameter> {
    let name = &key.text;
    let in_form = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !in_form {
        let help = Some("use lower-case letters, digits and `_`".to_string());
        reader.error(
            &key.place,
            format!("`{name}` is not a valid name for a parameter"),
            help,
        );
    } else if is_planned(name) {
        reader.error(
            &key.place,
            format!("`{name}` is filled in by the plan"),
            Some("choose another name".to_string()),
        );
    }
    let nodes = reader.list(value)?;
    if nodes.is_empty() {
        reader.error(&value.place, "a parameter needs values", None);
    }
    let mut values: Vec<(Scalar, Range<usize>)> = Vec::new();
    for node in nodes {
        let Some(scalar) = parse_scalar(reader, node) else {
            continue;
        };
        if values.iter().any(|(known, _)| *known == scalar) {
            reader.error(&node.place, format!("`{scalar}` is listed twice"), None);
        }
        values.push((scalar, node.place.span.clone()));
    }
    Some(Parameter {
        name: name.clone(),
        values,
    })
}

/// Reads text or an integer. Only templates of the plan may occur in the text.
pub(super) fn parse_scalar(reader: &mut Reader<'_>, node: &Node) -> Option<Scalar> {
    match &node.data {
        Data::Int(value) => Some(Scalar::Int(*value)),
        Data::Text(text) => {
            let text = Combination(Vec::new()).fill_text(reader, text, &node.place);
            Some(Scalar::Text(text))
        }
        _ => reader.reject_type(node, "text or an integer"),
    }
}

/// Marks every text and key that contains a parameter, so that no error is reported about it.
pub(super) fn leave_unfilled(reader: &mut Reader<'_>, entries: &[TreeEntry]) {
    with_parameters(entries, &mut |_, place| {
        reader.unfilled.push(place.span.clone())
    });
}

/// Shows every key and text that contains a parameter.
fn with_parameters(entries: &[TreeEntry], each: &mut dyn FnMut(&str, &SourceSpan)) {
    for TreeEntry { key, value } in entries {
        if key.text.contains("${") {
            each(&key.text, &key.place);
        }
        with_parameters_in(value, each);
    }
}

fn with_parameters_in(node: &Node, each: &mut dyn FnMut(&str, &SourceSpan)) {
    match &node.data {
        Data::Text(text) if text.contains("${") => each(text, &node.place),
        Data::List(nodes) => nodes.iter().for_each(|node| with_parameters_in(node, each)),
        Data::Table(entries) => with_parameters(entries, each),
        _ => {}
    }
}

/// Whether the plan, which knows the machine, fills in `${name}`.
fn is_planned(name: &str) -> bool {
    let (gpu, form) = name.split_once(':').unwrap_or((name, "short"));
    name == "gpus" || (is_gpu(gpu) && GPU_FORMS.contains(&form))
}

impl Combination<'_> {
    /// The values as [`crate::scenario::Instance`] stores them.
    pub(super) fn values(&self) -> BTreeMap<String, Scalar> {
        self.0
            .iter()
            .map(|(name, value, _)| (name.to_string(), (*value).clone()))
            .collect()
    }

    pub(super) fn instance_name(&self, scenario: &str) -> String {
        if self.0.is_empty() {
            return scenario.to_string();
        }
        let values: Vec<String> = self
            .0
            .iter()
            .map(|(name, value, _)| format!("{name}={value}"))
            .collect();
        format!("{scenario}[{}]", values.join(","))
    }

    /// The entries with values in place of `${parameter}`. Without parameters they are borrowed: most files have
    /// none, and copying their trees would be most of the work of reading them.
    pub(super) fn filled<'n>(
        &self,
        reader: &mut Reader<'_>,
        entries: &'n [TreeEntry],
    ) -> Cow<'n, [TreeEntry]> {
        if !self.0.is_empty() {
            return Cow::Owned(self.fill_entries(reader, entries));
        }
        with_parameters(entries, &mut |text, place| {
            drop(self.fill_text(reader, text, place))
        });
        Cow::Borrowed(entries)
    }

    /// The node with values in place of `${parameter}`, like [`Self::filled`].
    pub(super) fn filled_node<'n>(&self, reader: &mut Reader<'_>, node: &'n Node) -> Cow<'n, Node> {
        if !self.0.is_empty() {
            return Cow::Owned(self.fill(reader, node));
        }
        with_parameters_in(node, &mut |text, place| {
            drop(self.fill_text(reader, text, place))
        });
        Cow::Borrowed(node)
    }

    /// The tree with values in place of `${parameter}`.
    fn fill(&self, reader: &mut Reader<'_>, node: &Node) -> Node {
        let place = node.place.clone();
        let data = match &node.data {
            Data::Text(text) => {
                if let Some((value, span)) = self.whole(text) {
                    let data = match value {
                        Scalar::Int(value) => Data::Int(*value),
                        value => Data::Text(value.to_string()),
                    };
                    return Node {
                        data,
                        place: SourceSpan {
                            span: span.clone(),
                            used: Some(place.span),
                        },
                    };
                }
                Data::Text(self.fill_text(reader, text, &place))
            }
            Data::List(nodes) => {
                Data::List(nodes.iter().map(|node| self.fill(reader, node)).collect())
            }
            Data::Table(entries) => Data::Table(self.fill_entries(reader, entries)),
            data => data.clone(),
        };
        Node { data, place }
    }

    /// The entries of a table with values in place of `${parameter}`, in keys too.
    pub(super) fn fill_entries(
        &self,
        reader: &mut Reader<'_>,
        entries: &[TreeEntry],
    ) -> Vec<TreeEntry> {
        let mut filled: Vec<TreeEntry> = Vec::new();
        for TreeEntry { key, value } in entries {
            let place = key.place.clone();
            let key = match self.whole(&key.text) {
                Some((value, span)) => TreeKey {
                    text: value.to_string(),
                    place: SourceSpan {
                        span: span.clone(),
                        used: Some(place.span),
                    },
                },
                None => TreeKey {
                    text: self.fill_text(reader, &key.text, &place),
                    place,
                },
            };
            if filled.iter().any(|known| known.key.text == key.text) {
                reader.error(&key.place, format!("`{}` is written twice", key.text), None);
            }
            let value = self.fill(reader, value);
            filled.push(TreeEntry { key, value });
        }
        filled
    }

    /// The value of a parameter, if the text consists of it alone.
    fn whole(&self, text: &str) -> Option<(&Scalar, &Range<usize>)> {
        let name = text.strip_prefix("${")?.strip_suffix('}')?;
        self.find(name)
    }

    fn find(&self, name: &str) -> Option<(&Scalar, &Range<usize>)> {
        self.0
            .iter()
            .find(|(known, _, _)| *known == name)
            .map(|(_, value, span)| (*value, *span))
    }

    fn fill_text(&self, reader: &mut Reader<'_>, text: &str, place: &SourceSpan) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                reader.error(place, "`${` without `}`", None);
                return text.to_string();
            };
            match self.find(name) {
                Some((value, _)) => filled.push_str(&value.to_string()),
                None => {
                    if !is_planned(name) {
                        let names = self
                            .0
                            .iter()
                            .map(|(name, _, _)| *name)
                            .chain(["gpus", "gpu0"]);
                        let help = suggest_name(name, names);
                        reader.error(place, format!("unknown parameter `${{{name}}}`"), help);
                        reader.unfilled.push(place.span.clone());
                    }
                    filled.push_str(&format!("${{{name}}}"));
                }
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load::tree::entries;

    fn read(source: &str) -> (Option<Parameters>, Reader<'_>, Vec<TreeEntry>) {
        let table = toml::de::DeTable::parse(source).unwrap();
        let entries = entries(table.get_ref());
        let mut reader = Reader::new("test.toml", source, &[]);
        let parameters = Parameters::read(&mut reader, &entries[0].value);
        (parameters, reader, entries)
    }

    #[test]
    fn combinations_come_in_the_order_of_the_file() {
        let (parameters, _, _) = read("parameters = { b = [\"x\", \"y\"], a = [1, 2] }");
        let parameters = parameters.unwrap();
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
            "parameters = { n = [7] }\nuse = { \"${n}\" = [\"${n}\", \"n=${n} of ${gpus}\"] }";
        let (parameters, mut reader, entries) = read(source);
        let parameters = parameters.unwrap();
        let filled = parameters.combinations()[0].fill(&mut reader, &entries[1].value);
        let Data::Table(filled) = filled.data else {
            panic!("{filled:?}")
        };
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
        let (parameters, reader, _) = read(&source);
        assert!(parameters.is_none());
        assert_eq!(reader.errors.len(), 1);
    }
}

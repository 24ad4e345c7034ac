//! Checks: what must hold at a step, or of how the worker ended.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{Call, Library, Output, SIGNALS, status};

use super::cases::{Found, Scope};
use super::conditions;
use super::diagnostic::suggest;
use super::matchers;
use super::parameters::Parameters;
use super::reader::{Reader, get, is_gpu};
use super::tree::{Data, Entry, Node, Place};
use crate::scenario::{Check, Class, ExitCheck, GpuList};

/// The keys that state a fact about a step.
const FACTS: [&str; 11] = [
    "status",
    "value",
    "visible",
    "contexts",
    "current",
    "initialised",
    "memory",
    "used_bytes",
    "grown_bytes",
    "peak_bytes",
    "process_bytes",
];
/// The other keys of a check.
const OTHERS: [&str; 5] = ["at", "exit", "when", "because", "evidence"];

/// Reads a list of checks that must make sense in each of these cases.
pub(super) fn checks(reader: &mut Reader<'_>, node: &Node, scopes: &[&Scope], parameters: &Parameters) -> Vec<Check> {
    let nodes = reader.list(node).unwrap_or_default();
    nodes.iter().filter_map(|node| Checks { reader, scopes, parameters }.check(node)).collect()
}

struct Checks<'r, 'a> {
    reader: &'r mut Reader<'a>,
    scopes: &'r [&'r Scope],
    parameters: &'r Parameters,
}

impl Checks<'_, '_> {
    fn check(&mut self, node: &Node) -> Option<Check> {
        let keys: Vec<&str> = OTHERS.into_iter().chain(FACTS).collect();
        let entries = self.reader.table_of(node, &keys)?;
        let (at, exit) = (get(entries, "at"), get(entries, "exit"));
        let fact = entries.iter().find(|entry| FACTS.contains(&entry.key.text.as_str()));
        match (at, exit) {
            (Some(_), Some(exit)) => {
                let help = Some("`exit` is about the whole attempt; write two checks".to_string());
                self.reader.error(&exit.place, "a check has `at` or `exit`, not both", help);
            }
            (None, Some(_)) => {
                if let Some(Entry { key, .. }) = fact {
                    let help = Some("name one with `at` in a check of its own".to_string());
                    self.reader.error(&key.place, format!("`{}` is about a step", key.text), help);
                }
            }
            (None, None) => {
                let help = Some("name a step by its label, or say how the worker ended".to_string());
                self.reader.error(&node.place, "a check needs `at` or `exit`", help);
            }
            (Some(_), None) if fact.is_none() => {
                let help = Some(format!("add one of {}", FACTS.map(|fact| format!("`{fact}`")).join(", ")));
                self.reader.error(&node.place, "this check says nothing about the step", help);
            }
            (Some(_), None) => {}
        }
        let kinds = at.map(|node| self.at(node)).unwrap_or_default();
        let mut check = Check { line: self.reader.line(&node.place), ..Check::default() };
        check.at = at.and_then(|node| self.reader.text(node)).unwrap_or_default().to_string();
        check.exit = exit.and_then(|node| self.exit(node));
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "status" => check.status = self.status(value, &kinds),
                "value" => check.value = self.values(value, &kinds),
                "visible" => check.visible = self.gpus(value),
                "contexts" => check.contexts = self.gpus(value),
                "current" => check.current = self.current(value),
                "initialised" => check.initialised = self.reader.boolean(value),
                "memory" => check.memory = self.by_gpu(value, |checks, node| checks.classes(node)),
                "used_bytes" => check.used_bytes = self.by_gpu(value, |checks, node| checks.bytes(node)),
                "grown_bytes" => check.grown_bytes = self.by_gpu(value, |checks, node| checks.bytes(node)),
                "peak_bytes" => check.peak_bytes = self.by_gpu(value, |checks, node| checks.bytes(node)),
                "process_bytes" => check.process_bytes = self.by_gpu(value, |checks, node| checks.bytes(node)),
                "when" => check.when = conditions::when(self.reader, value, self.parameters),
                "because" => check.because = self.reader.sentence(value).unwrap_or_default(),
                "evidence" => check.evidence = self.reader.sentence(value).unwrap_or_default(),
                _ => {}
            }
        }
        Some(check)
    }

    /// The rows of the step in each case, as far as they are known.
    fn at(&mut self, node: &Node) -> Vec<&'static Call> {
        let Some(label) = self.reader.text(node) else { return Vec::new() };
        self.label(label, &node.place)
    }

    fn label(&mut self, label: &str, place: &Place) -> Vec<&'static Call> {
        let mut kinds = Vec::new();
        for scope in self.scopes {
            match scope.find(label) {
                Found::Step(kind) => kinds.extend(kind),
                Found::Ambiguous => {
                    let message = format!("`{label}` is ambiguous: several steps of `{}` make this call", scope.case);
                    self.reader.error(place, message, Some("label it: `label = \"…\"` beside the call".to_string()));
                }
                Found::Nothing => {
                    let message = format!("no step of `{}` has the label `{label}`", scope.case);
                    self.reader.error(place, message, suggest(label, scope.labels()));
                }
            }
        }
        kinds
    }

    fn status(&mut self, node: &Node, kinds: &[&Call]) -> Vec<String> {
        let mut names = Vec::new();
        let mut all_known = true;
        for node in self.reader.one_or_more(node) {
            let name = self.reader.text(node);
            match name {
                Some(name) if status::is_known(name) => names.push(name.to_string()),
                Some(name) => {
                    self.reader.error(&node.place, format!("unknown status `{name}`"), suggest(name, status::names()));
                    all_known = false;
                }
                None => all_known = false,
            }
        }
        for kind in kinds {
            if all_known && !names.is_empty() && !names.iter().any(|name| can_return(kind, name)) {
                let message = format!("`{}` is a call of {} and never returns this", kind.name, kind.library.name());
                self.reader.error(&node.place, message, None);
            }
        }
        names
    }

    fn values(&mut self, node: &Node, kinds: &[&Call]) -> BTreeMap<String, crate::scenario::Matcher> {
        let mut values = BTreeMap::new();
        for Entry { key, value } in self.reader.table(node).unwrap_or_default() {
            for kind in kinds {
                let names = values_of(kind);
                if !names.contains(&key.text.as_str()) {
                    let help = suggest(&key.text, names).or(Some("it returns none".to_string()));
                    let message = format!("`{}` returns no value `{}`", kind.name, key.text);
                    self.reader.error(&key.place, message, help);
                }
            }
            let matcher = matchers::matcher(self.reader, value, matchers::Of::Anything);
            self.references(value);
            values.extend(matcher.map(|matcher| (key.text.clone(), matcher)));
        }
        values
    }

    fn bytes(&mut self, node: &Node) -> Option<crate::scenario::Matcher> {
        let matcher = matchers::matcher(self.reader, node, matchers::Of::Bytes);
        self.references(node);
        matcher
    }

    /// Holds every `"@label.name"` of a matcher against the steps.
    fn references(&mut self, node: &Node) {
        let bounds = match &node.data {
            Data::Table(entries) => entries.iter().map(|entry| &entry.value).collect(),
            _ => vec![node],
        };
        for node in bounds {
            let Data::Text(text) = &node.data else { continue };
            let Some((label, name)) = matchers::reference(text) else { continue };
            for kind in self.label(label, &node.place) {
                let names = values_of(kind);
                if !names.contains(&name) {
                    let message = format!("`{}` returns no value `{name}`", kind.name);
                    self.reader.error(&node.place, message, suggest(name, names));
                }
            }
        }
    }

    fn gpus(&mut self, node: &Node) -> Option<GpuList> {
        match &node.data {
            Data::Text(word) if word == "all" => Some(GpuList::All),
            Data::Text(word) if word == "none" => Some(GpuList::None),
            Data::List(nodes) => {
                let named = nodes.iter().filter_map(|node| self.gpu(node)).collect();
                Some(GpuList::Named(named))
            }
            _ => {
                let help = Some("such as `[\"gpu0\"]`".to_string());
                self.reader.error(&node.place, "expected `\"all\"`, `\"none\"` or a list of GPUs", help);
                None
            }
        }
    }

    fn gpu(&mut self, node: &Node) -> Option<String> {
        let name = self.reader.text(node)?;
        self.gpu_name(name, &node.place, false).then(|| name.to_string())
    }

    fn gpu_name(&mut self, name: &str, place: &Place, others: bool) -> bool {
        let good = is_gpu(name) || (others && name == "others");
        if !good {
            let or_others = if others { ", or `others`" } else { "" };
            let help = Some(format!("GPUs are called `gpu0` to `gpu63`{or_others}"));
            self.reader.error(place, format!("`{name}` is no name of a GPU"), help);
        }
        good
    }

    fn current(&mut self, node: &Node) -> Option<String> {
        match &node.data {
            Data::Text(word) if word == "none" => Some(word.clone()),
            _ => self.gpu(node),
        }
    }

    fn by_gpu<T>(&mut self, node: &Node, read: impl Fn(&mut Self, &Node) -> Option<T>) -> BTreeMap<String, T> {
        let mut map = BTreeMap::new();
        for Entry { key, value } in self.reader.table(node).unwrap_or_default() {
            self.gpu_name(&key.text, &key.place, true);
            map.extend(read(self, value).map(|value| (key.text.clone(), value)));
        }
        map
    }

    fn classes(&mut self, node: &Node) -> Option<Vec<Class>> {
        let all = [Class::None, Class::Touch, Class::Context, Class::Allocation];
        let mut classes = Vec::new();
        for node in self.reader.one_or_more(node) {
            let word = self.reader.word(node, "class", &all.map(Class::name))?;
            classes.extend(all.into_iter().find(|class| class.name() == word));
        }
        Some(classes)
    }

    fn exit(&mut self, node: &Node) -> Option<ExitCheck> {
        match &node.data {
            Data::Text(word) if word == "deadline" => Some(ExitCheck::Deadline),
            Data::Text(word) if SIGNALS.value(word).is_some() => Some(ExitCheck::Signal(word.clone())),
            Data::Text(word) => {
                let names = SIGNALS.values.iter().map(|(name, _)| *name).chain(["deadline"]);
                let help = suggest(word, names).or(Some("an exit code, a signal or `deadline`".to_string()));
                self.reader.error(&node.place, format!("`{word}` is no way to end"), help);
                None
            }
            _ => self.reader.integer(node, 0..=255).and_then(|code| i32::try_from(code).ok()).map(ExitCheck::Code),
        }
    }
}

/// The names of what a call gives back.
fn values_of(kind: &Call) -> Vec<&'static str> {
    let names = |(name, output)| match output {
        Output::Struct(layout) => layout.fields.iter().map(|field| field.name).collect(),
        _ => vec![name],
    };
    kind.outputs().flat_map(names).collect()
}

/// Whether a status can come from the library of a call, by the prefixes that C gives them.
fn can_return(kind: &Call, name: &str) -> bool {
    let of_its_own = |prefix: &str| name.starts_with(prefix) || name.starts_with("SIM_");
    match kind.library {
        Library::Driver => of_its_own("CUDA_"),
        Library::Runtime => of_its_own("cuda"),
        Library::Nvml => of_its_own("NVML_"),
        Library::Nvrtc => of_its_own("NVRTC_"),
        Library::Cublas => of_its_own("CUBLAS_"),
        Library::Cufft => of_its_own("CUFFT_"),
        Library::Nccl => of_its_own("nccl"),
        Library::Libc | Library::Harness => name == "OK" || name.starts_with('E'),
    }
}

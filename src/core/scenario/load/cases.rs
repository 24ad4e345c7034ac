//! Cases and their steps.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use cuda_pitfalls_calls::{
    self as calls, ACTOR, Call, CallLibrary, DRIVER_COPY, Effect, LIBRARY_COPY,
};

use super::arguments::{Arguments, Bound, Names, may_have_value, may_name, nearest_bound};
use super::diagnostic::{did_you_mean, suggest_name};
use super::reader::{Reader, get, is_name};
use super::tree::{Node, TreeEntry, TreeKey};
use crate::fact::CheckedStep;
use crate::python::{LINE, LINE_MESSAGE, LINE_TEXT, LINE_VALUE, LINE_VARIES, STEPS};
use crate::scenario::file::{CaseFile, GpusFile};
use crate::scenario::{Case, Gpus, Hazard, Python, Scalar, Step};

const MOST_STEPS: usize = 256;

/// The keys of a step other than its call.
const BESIDE: [&str; 5] = ["label", "on", "from", LINE_VALUE, LINE_VARIES];

/// Maximum size of a Python line, in bytes. Longer code is a program, and belongs in a module.
const MOST_LINE_BYTES: usize = 16 << 10;

/// A library that a process can have a private copy of.
struct Copied {
    library: CallLibrary,
    /// The argument of `dlopen`.
    file: &'static str,
    /// The type of the copy's name.
    handle: &'static str,
}

const COPIED: [Copied; 2] = [
    Copied {
        library: CallLibrary::Driver,
        file: "libcuda.so.1",
        handle: DRIVER_COPY,
    },
    Copied {
        library: CallLibrary::Runtime,
        file: "libcudart.so",
        handle: LIBRARY_COPY,
    },
];

/// Settings of the file for all of its cases.
pub(super) struct Common<'c> {
    pub(super) gpus: Gpus,
    pub(super) needed_gpus: u32,
    pub(super) hazards: &'c [Hazard],
}

/// The steps of a case, by the names that checks can use.
pub(super) struct Scope {
    pub(super) case: String,
    steps: Vec<Named>,
    /// `true` if every step could be read. If not, a missing label may belong to a step with an error.
    complete: bool,
}

struct Named {
    label: String,
    /// The location of the label if it was written, rather than derived from the call.
    written: Option<Range<usize>>,
    row: Option<CheckedStep>,
}

pub(super) enum FoundStep {
    /// A step; its row, unless the step has an error.
    Step(Option<CheckedStep>),
    /// Several steps.
    Ambiguous,
    /// No step.
    Nothing,
}

impl Scope {
    pub(super) fn find(&self, label: &str) -> FoundStep {
        match self.steps.iter().find(|step| step.label == label) {
            Some(step) if step.written.is_none() && self.is_repeated(label) => FoundStep::Ambiguous,
            Some(step) if step.written.is_none() && label.contains('#') => FoundStep::Ambiguous,
            Some(step) => FoundStep::Step(step.row.clone()),
            None if self.complete => FoundStep::Nothing,
            None => FoundStep::Step(None),
        }
    }

    /// Returns the labels that a check may use.
    pub(super) fn usable_labels(&self) -> impl Iterator<Item = &str> {
        self.steps
            .iter()
            .map(|step| step.label.as_str())
            .filter(|label| matches!(self.find(label), FoundStep::Step(_)))
    }

    fn is_repeated(&self, call: &str) -> bool {
        let second = format!("{call}#2");
        self.steps.iter().any(|step| step.label == second)
    }
}

/// Reads `[cases.<name>]` except for its expectations, which need the returned [`Scope`].
pub(super) fn read_case(
    reader: &mut Reader<'_>,
    key: &Spanned<String>,
    file: &CaseFile,
    common: &Common<'_>,
) -> (Case, Scope) {
    let name = key.get_ref();
    let is_plain = name
        .bytes()
        .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
    if name.is_empty() || !is_plain {
        let help = Some("use lower-case letters, digits, `_` and `-`".to_string());
        let message = format!("`{name}` is not a valid name for a case");
        reader.error(&key.span(), message, help);
    }
    let masked = file.gpus.as_ref();
    let gpus = masked
        .and_then(|gpus| check_gpus(reader, gpus, common.needed_gpus))
        .unwrap_or(common.gpus);
    let in_python = file.python.is_some();
    let mut env = BTreeMap::new();
    for (variable, value) in &file.env {
        if !may_name(reader, variable.get_ref(), &variable.span(), in_python) {
            continue;
        }
        may_have_value(reader, variable.get_ref(), value.get_ref(), &value.span());
        env.insert(variable.get_ref().clone(), value.get_ref().clone());
    }
    let (steps, scope) = read_steps(reader, name, &file.steps, common.hazards, in_python);
    if gpus != Gpus::All
        && let Some(mask) = file.env.get("CUDA_VISIBLE_DEVICES")
    {
        let help = Some(
            "write `gpus = \"all\"`: such a case starts without the harness's mask".to_string(),
        );
        reader.error(
            &mask.span(),
            "`CUDA_VISIBLE_DEVICES` has no effect here: the mask of `gpus` replaces it",
            help,
        );
    }
    let python = file.python.as_ref().map(|python| Python {
        needs: python.needs.clone(),
    });
    let case = Case {
        name: name.clone(),
        does: file.does.0.clone(),
        gpus,
        env,
        probes: file.probes,
        python,
        steps,
        expect: Vec::new(),
    };
    (case, scope)
}

/// Checks that a mask uses no more GPUs than the scenario needs.
pub(super) fn check_gpus(
    reader: &mut Reader<'_>,
    gpus: &Spanned<GpusFile>,
    needed: u32,
) -> Option<Gpus> {
    let GpusFile::Masked(masked) = *gpus.get_ref() else {
        return Some(Gpus::All);
    };
    if masked > needed {
        let help = Some(format!("write `needs = {{ gpus = {masked} }}`"));
        let message = format!("{masked} GPUs, but the scenario needs only {needed}");
        return reader.reject(&gpus.span(), message, help);
    }
    Some(Gpus::Masked(masked))
}

/// Reads the steps of a case; returns them, and the names that checks can use for them.
pub(super) fn read_steps(
    reader: &mut Reader<'_>,
    case: &str,
    written: &Spanned<Vec<Node>>,
    hazards: &[Hazard],
    in_python: bool,
) -> (Vec<Step>, Scope) {
    let nodes = written.get_ref();
    if nodes.is_empty() {
        reader.error(&written.span(), "a case needs steps", None);
    } else if nodes.len() > MOST_STEPS {
        let message = format!("more than {MOST_STEPS} steps");
        reader.error(&written.span(), message, None);
    }
    let scope = Scope {
        case: case.to_string(),
        steps: Vec::new(),
        complete: nodes.len() <= MOST_STEPS,
    };
    let (names, calls) = (Names::new(), BTreeMap::new());
    let mut steps = Steps {
        reader,
        hazards,
        in_python,
        names,
        calls,
        scope,
        steps: Vec::new(),
    };
    // A list that is too long was reported. Suggesting corrections for each of thousands of steps would take minutes.
    for node in nodes.iter().take(MOST_STEPS) {
        if steps.step(node).is_none() {
            steps.scope.complete = false;
        }
    }
    steps.compare_labels();
    (steps.steps, steps.scope)
}

struct Steps<'r, 'a> {
    reader: &'r mut Reader<'a>,
    hazards: &'r [Hazard],
    in_python: bool,
    names: Names,
    /// Number of steps without a label for each call.
    calls: BTreeMap<String, u32>,
    scope: Scope,
    steps: Vec<Step>,
}

impl Steps<'_, '_> {
    /// Reads a step; `None` if not even its call and label are known.
    fn step(&mut self, node: &Node) -> Option<()> {
        let entries = self.reader.table(node)?;
        let TreeEntry { key, value } = self.call(node, entries)?;
        if key.text == LINE {
            return self.line(node, entries, key, value);
        }
        let kind = calls::find(&key.text);
        if kind.is_none() && !self.reader.is_full() {
            let message = format!("unknown step `{}`", key.text);
            let near = suggest_name(&key.text, calls::all().map(|kind| kind.name));
            let help = near.or_else(|| Some("scenarios/steps.md lists them all".to_string()));
            self.reader.error(&key.place, message, help);
        }
        self.check_allowed(key, kind, entries);
        let arguments = self.reader.table(value).unwrap_or_default();
        let args = kind.map(|kind| {
            let Steps {
                reader,
                names,
                hazards,
                in_python,
                ..
            } = self;
            let mut reader = Arguments {
                reader,
                names,
                hazards,
                in_python: *in_python,
            };
            reader.read(key, kind, arguments, entries)
        });
        let on = get(entries, "on").and_then(|node| self.on(node));
        self.in_order(node, &key.text, on.as_deref());
        let from = get(entries, "from").and_then(|node| self.from(node, kind));
        let bind = self.bind_name(key, kind, arguments, entries);
        self.push(
            node,
            entries,
            &key.text,
            kind.map(CheckedStep::Call),
            |label, line| Step {
                call: key.text.clone(),
                args: args.unwrap_or_default(),
                bind,
                on,
                from,
                label,
                line,
            },
        )
    }

    fn line(
        &mut self,
        node: &Node,
        entries: &[TreeEntry],
        key: &TreeKey,
        value: &Node,
    ) -> Option<()> {
        if !self.in_python {
            let help = Some("write `python = { needs = [\"torch\"] }` in the case".to_string());
            self.reader.error(
                &key.place,
                "a case with Python lines must state their needs",
                help,
            );
        }
        let mut args = BTreeMap::new();
        if let Some(text) = self.line_text(value) {
            args.insert(LINE_TEXT.to_string(), Scalar::Text(text));
        }
        let name = self.line_value(entries);
        if let Some(name) = &name {
            args.insert(LINE_VALUE.to_string(), Scalar::Text(name.clone()));
        }
        if self.line_varies(entries) {
            args.insert(LINE_VARIES.to_string(), Scalar::Int(1));
        }
        if let Some(node) = get(entries, "from") {
            self.reader
                .error(&node.place, "a Python line is not a library call", None);
        }
        let on = get(entries, "on").and_then(|node| self.on(node));
        let row = CheckedStep::Line { value: name };
        let call = key.text.clone();
        self.push(node, entries, LINE, Some(row), |label, line| Step {
            call,
            args,
            bind: None,
            on,
            from: None,
            label,
            line,
        })
    }

    fn line_text(&mut self, value: &Node) -> Option<String> {
        let text = self.reader.sentence(value)?;
        if text.len() > MOST_LINE_BYTES {
            let message = format!(
                "a Python line can have at most {} KiB",
                MOST_LINE_BYTES >> 10
            );
            self.reader.error(&value.place, message, None);
        }
        if text.contains('\0') {
            self.reader
                .error(&value.place, "a Python line cannot contain a NUL", None);
        }
        Some(text)
    }

    /// Returns the name that a line gives to its value.
    fn line_value(&mut self, entries: &[TreeEntry]) -> Option<String> {
        let node = get(entries, LINE_VALUE)?;
        let name = self.reader.name(node, "value")?;
        if name == LINE_MESSAGE {
            let help = Some("choose another name".to_string());
            self.reader.error(
                &node.place,
                format!("`{name}` is the text of an exception"),
                help,
            );
        }
        Some(name.to_string())
    }

    /// Returns `true` if the value of a line may differ from attempt to attempt.
    fn line_varies(&mut self, entries: &[TreeEntry]) -> bool {
        let Some(node) = get(entries, LINE_VARIES) else {
            return false;
        };
        if self.reader.read_boolean(node) != Some(true) {
            return false;
        }
        if get(entries, LINE_VALUE).is_none() {
            let help = Some(format!("write `{LINE_VALUE} = \"…\"` next to it"));
            self.reader.error(
                &node.place,
                format!("`{LINE_VARIES}` requires `{LINE_VALUE}`"),
                help,
            );
        }
        true
    }

    /// Reports a call that cannot be a step of this case: in a case of Python lines, a call that Python cannot make.
    fn check_allowed(&mut self, key: &TreeKey, kind: Option<&'static Call>, entries: &[TreeEntry]) {
        for entry in entries
            .iter()
            .filter(|entry| [LINE_VALUE, LINE_VARIES].contains(&entry.key.text.as_str()))
        {
            let help = Some(format!(
                "the values of a call have names; check them with `value = {{ … }}` at `{}`",
                key.text
            ));
            self.reader.error(
                &entry.key.place,
                format!("`{}` belongs next to `{LINE}`", entry.key.text),
                help,
            );
        }
        if self.in_python && kind.is_some() && !STEPS.contains(&key.text.as_str()) {
            let message = format!("`{}` cannot be a step of a case of Python lines", key.text);
            let help = format!(
                "write it as a line: `{{ {LINE} = \"import ctypes; …\" }}`, or leave out `python`"
            );
            self.reader.error(&key.place, message, Some(help));
        }
    }

    fn push(
        &mut self,
        node: &Node,
        entries: &[TreeEntry],
        call: &str,
        row: Option<CheckedStep>,
        step: impl FnOnce(String, u32) -> Step,
    ) -> Option<()> {
        let written = get(entries, "label");
        let label = written.and_then(|node| {
            Some((
                self.reader.name(node, "label")?.to_string(),
                node.place.clone(),
            ))
        });
        // A check may refer to the unknown call.
        let unreadable = if written.is_some() {
            label.is_none()
        } else {
            row.is_none()
        };
        let (label, written) = match label {
            Some((label, place)) => (label, Some(place)),
            None => (self.numbered_label(call), None),
        };
        let line = self.reader.line(&node.place);
        self.scope.steps.push(Named {
            label: label.clone(),
            written,
            row,
        });
        self.steps.push(step(label, line));
        (!unreadable).then_some(())
    }

    fn call<'n>(&mut self, node: &Node, entries: &'n [TreeEntry]) -> Option<&'n TreeEntry> {
        let others: Vec<&TreeEntry> = entries
            .iter()
            .filter(|e| !BESIDE.contains(&e.key.text.as_str()))
            .collect();
        let Some(call) = others
            .iter()
            .find(|entry| is_call(entry))
            .or(others.first())
            .copied()
        else {
            let help = if self.in_python {
                format!("write a Python line, such as `{{ {LINE} = \"import torch\" }}`")
            } else {
                "write a call by its C name, such as `{ cuInit = {} }`".to_string()
            };
            let help = Some(help);
            return self.reader.reject(&node.place, "a step needs a call", help);
        };
        for other in others
            .into_iter()
            .filter(|other| other.key.place != call.key.place)
        {
            let TreeKey { text, place } = &other.key;
            let kind = calls::find(&call.key.text);
            if is_call(other) {
                self.reader.error_with(
                    place,
                    "a step can make only one call",
                    &call.key.place,
                    "the first call",
                );
            } else if text == "as"
                || kind.is_some_and(|kind| kind.input_params().any(|param| param.name == text))
            {
                let help = Some(format!("write `{} = {{ {text} = … }}`", call.key.text));
                self.reader.error(
                    place,
                    format!("`{text}` belongs inside the table of the call"),
                    help,
                );
            } else {
                self.reader.error(
                    place,
                    format!("unknown key `{text}`"),
                    suggest_name(text, BESIDE.into_iter().chain(["as"])),
                );
            }
        }
        Some(call)
    }

    /// Returns the label of a step that does not set a label: its call, with a number from the second time on.
    fn numbered_label(&mut self, call: &str) -> String {
        let count = self.calls.entry(call.to_string()).or_insert(0);
        *count += 1;
        if *count == 1 {
            call.to_string()
        } else {
            format!("{call}#{count}")
        }
    }

    fn on(&mut self, node: &Node) -> Option<String> {
        let name = self.reader.text(node)?;
        let Some(bound) = self.names.get(name) else {
            let help = match nearest_bound(&self.names, name, |bound: &Bound| {
                bound.handle == Some(ACTOR)
            }) {
                Some(near) => did_you_mean(near),
                None => format!("start it first: `{{ pthread_create = {{ as = \"{name}\" }} }}`"),
            };
            let message = format!("no earlier step starts `{name}`");
            return self.reader.reject(&node.place, message, Some(help));
        };
        if bound.handle.is_some_and(|handle| handle != ACTOR) {
            let message = format!("`{name}` is not a thread, process or exit handler");
            self.reader
                .error_with(&node.place, message, &bound.place, "bound here");
            return None;
        }
        Some(name.to_string())
    }

    /// Checks that exit handlers run after the process leaves, and that nothing else does.
    fn in_order(&mut self, node: &Node, call: &str, on: Option<&str>) {
        let handler = on
            .and_then(|on| self.names.get(on))
            .is_some_and(|bound| bound.has(Effect::AddsExitHandler));
        let left = self
            .steps
            .iter()
            .any(|step| step.has(Effect::Exits) && (step.on.is_none() || handler));
        if handler && !left {
            let help = Some("write `{ exit = {} }` before the first step of a handler".to_string());
            self.reader
                .error(&node.place, "an exit handler runs after `exit`", help);
        } else if left && !handler {
            self.reader.error(
                &node.place,
                format!("`{call}` comes after `exit`, where only exit handlers run"),
                None,
            );
        }
    }

    /// Reads the name of the private copy of a library that makes the call.
    fn from(&mut self, node: &Node, kind: Option<&'static Call>) -> Option<String> {
        let name = self.reader.text(node)?;
        let kind = kind?;
        let mut copied = COPIED.iter();
        let Some(copied) = copied.find(|copied| copied.library == kind.library) else {
            let library = kind.library.name();
            let message = format!(
                "`{}` is a call of {library}, and only libcuda and libcudart are copied",
                kind.name
            );
            return self.reader.reject(&node.place, message, None);
        };
        let Some(bound) = self.names.get(name) else {
            let help = format!(
                "open it first: `{{ dlopen = {{ file = \"{}\", as = \"{name}\" }} }}`",
                copied.file
            );
            let message = format!("no earlier step binds `{name}`");
            return self.reader.reject(&node.place, message, Some(help));
        };
        if bound.handle.is_some_and(|handle| handle != copied.handle) {
            let message = format!("`{name}` is not a copy of {}", copied.library.name());
            self.reader
                .error_with(&node.place, message, &bound.place, "bound here");
            return None;
        }
        Some(name.to_string())
    }

    /// Returns the type of the value that `as` binds. If a library is opened, the type depends on the file.
    fn bound_type(
        &mut self,
        kind: &'static Call,
        arguments: &[TreeEntry],
        place: &Range<usize>,
    ) -> Option<&'static str> {
        if !kind.has(Effect::OpensLibrary) {
            return kind.bound_handle();
        }
        let file = get(arguments, "file").and_then(|node| self.reader.text(node))?;
        let copied = COPIED.iter().find(|copied| copied.file == file);
        if copied.is_none() {
            let message = format!(
                "only libcuda and libcudart can be copied, and `{file}` is another library"
            );
            self.reader.error(
                place,
                message,
                Some("leave out `as` to open it".to_string()),
            );
        }
        copied.map(|copied| copied.handle)
    }

    fn bind_name(
        &mut self,
        key: &TreeKey,
        kind: Option<&'static Call>,
        arguments: &[TreeEntry],
        beside: &[TreeEntry],
    ) -> Option<String> {
        let handle = kind.and_then(Call::bound_handle);
        // An `as` next to the call was already reported; its name is still bound.
        let Some(entry) = arguments
            .iter()
            .chain(beside)
            .find(|entry| entry.key.text == "as")
        else {
            if handle == Some(ACTOR) {
                let help = Some(format!("write `{} = {{ as = \"B\" }}`", key.text));
                self.reader.error(
                    &key.place,
                    format!("`{}` needs `as`, for later steps to name", key.text),
                    help,
                );
            }
            return None;
        };
        if kind.is_some() && handle.is_none() {
            let message = format!("`{}` returns nothing that `as` could bind", key.text);
            return self.reader.reject(&entry.key.place, message, None);
        }
        let name = self.reader.name(&entry.value, "handle")?.to_string();
        let place = entry.value.place.clone();
        let handle = kind.and_then(|kind| self.bound_type(kind, arguments, &entry.key.place));
        if name == "NULL" || name == "main" {
            let help = Some("choose another name".to_string());
            return self
                .reader
                .reject(&place, format!("`{name}` is reserved"), help);
        }
        let bound = Bound {
            handle,
            call: key.text.clone(),
            place,
        };
        self.take_name(name, bound)
    }

    fn take_name(&mut self, name: String, bound: Bound) -> Option<String> {
        if let Some(before) = self.names.get(&name)
            && let (Some(earlier), Some(later)) = (before.handle, bound.handle)
            // A pointer may be freed and its name used again, but the name of a thread identifies it.
            && (earlier != later || earlier == ACTOR)
        {
            let message = format!("`{name}` is already taken");
            self.reader
                .error_with(&bound.place, message, &before.place, "first here");
            return None;
        }
        self.names.insert(name.clone(), bound);
        Some(name)
    }

    fn compare_labels(&mut self) {
        let mut seen: BTreeMap<&str, &Range<usize>> = BTreeMap::new();
        for step in &self.scope.steps {
            let Some(place) = &step.written else { continue };
            if let Some(first) = seen.insert(&step.label, place) {
                self.reader.error_with(
                    place,
                    format!("two steps have the label `{}`", step.label),
                    first,
                    "first here",
                );
            }
            if self.calls.contains_key(&step.label) && is_name(&step.label) {
                let message = format!(
                    "the label `{}` is also the call of a step without a label",
                    step.label
                );
                self.reader
                    .error(place, message, Some("choose another label".to_string()));
            }
        }
    }
}

fn is_call(entry: &TreeEntry) -> bool {
    entry.key.text == LINE || calls::find(&entry.key.text).is_some()
}

//! Reading the arguments of a call by its parameters.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use cuda_pitfalls_calls::{
    self as calls, ACTOR, BUILT_IN_STREAMS, Call, Constants, Effect, Param, ParamKind, UINT64_MAX,
};

use super::diagnostic::{did_you_mean, nearest_name, suggest_name};
use super::reader::{Reader, get};
use super::tree::{Data, Node, TreeEntry, TreeKey};
use crate::refusal::{self, Refused};
use crate::scenario::{Hazard, Scalar, environment};

/// Maximum allocation without a hazard that announces it, in bytes.
const MOST_BYTES: i64 = 1 << 30;

/// A name that an earlier step bound with `as`.
pub(super) struct Bound {
    /// The type of handle; `None` if the step that binds it has an error.
    pub(super) handle: Option<&'static str>,
    pub(super) call: String,
    pub(super) place: Range<usize>,
}

impl Bound {
    /// Returns `true` if the call that binds it has an effect.
    pub(super) fn has(&self, effect: Effect) -> bool {
        calls::find(&self.call).is_some_and(|call| call.has(effect))
    }
}

/// The names that the steps of a case have bound so far.
pub(super) type Names = BTreeMap<String, Bound>;

pub(super) struct Arguments<'r, 'a> {
    pub(super) reader: &'r mut Reader<'a>,
    pub(super) names: &'r Names,
    pub(super) hazards: &'r [Hazard],
    pub(super) in_python: bool,
}

impl Arguments<'_, '_> {
    /// Returns the inputs of a call, without `as`. An input that was written `beside` the call was already reported, so
    /// it is not reported as missing.
    pub(super) fn read(
        &mut self,
        key: &TreeKey,
        call: &Call,
        entries: &[TreeEntry],
        beside: &[TreeEntry],
    ) -> BTreeMap<String, Scalar> {
        self.check_hazard(key, call);
        let mut args = BTreeMap::new();
        for entry in entries {
            if entry.key.text == "as" {
                continue;
            }
            let Some(param) = call
                .input_params()
                .find(|param| param.name == entry.key.text)
            else {
                self.unknown(call, &entry.key);
                continue;
            };
            if let Some(value) = self.value(call, param, &entry.value) {
                args.insert(param.name.to_string(), value);
            }
        }
        self.check_required(key, call, entries, beside);
        if let Some(Scalar::Text(name)) = args.get("name")
            && call.has(Effect::NamesVariable)
            && let Some(Scalar::Text(text)) = args.get("value")
            && let Some(value) = get(entries, "value")
        {
            may_have_value(self.reader, name, text, &value.place);
        }
        let refused = args.get(refusal::WHAT).map(ToString::to_string);
        let refuses = refused.is_some_and(|refused| refused != refusal::NOTHING);
        if call.has(Effect::Refuses) && refuses && get(entries, refusal::ERROR).is_none() {
            let help = Some("write `with = \"EPERM\"`, or another error".to_string());
            self.reader.error(
                &key.place,
                format!("`{}` needs `{}`", call.name, refusal::ERROR),
                help,
            );
        }
        args
    }

    fn check_hazard(&mut self, key: &TreeKey, call: &Call) {
        if !call.has(Effect::StartsMps) || self.hazards.contains(&Hazard::Mps) {
            return;
        }
        let help = Some("write `hazards = [\"mps\"]`: the user must then allow it".to_string());
        self.reader.error(
            &key.place,
            format!("`{}` needs the hazard `mps`", call.name),
            help,
        );
    }

    fn check_required(
        &mut self,
        key: &TreeKey,
        call: &Call,
        entries: &[TreeEntry],
        beside: &[TreeEntry],
    ) {
        for param in call.input_params() {
            let is_given = get(entries, param.name).is_some() || get(beside, param.name).is_some();
            if param.default.is_some() || is_given || self.reader.is_misspelled(entries, param.name)
            {
                continue;
            }
            let help = Some(format!("write `{} = {{ {} = … }}`", call.name, param.name));
            self.reader.error(
                &key.place,
                format!("`{}` needs `{}`", call.name, param.name),
                help,
            );
        }
    }

    fn unknown(&mut self, call: &Call, key: &TreeKey) {
        let TreeKey { text, place } = key;
        let message = format!("`{}` has no argument `{text}`", call.name);
        let help = match call
            .params
            .iter()
            .find(|param| param.name == text)
            .map(|param| param.kind)
        {
            Some(ParamKind::Fixed(value)) => {
                Some(format!("`{text}` is always {value}; leave it out"))
            }
            Some(_) => Some(format!(
                "`{text}` is returned by the call; check it with `value`"
            )),
            None if matches!(text.as_str(), "label" | "on") => Some(format!(
                "`{text}` belongs next to the call, not inside its table"
            )),
            None => suggest_name(text, call.input_params().map(|param| param.name))
                .or(Some("it takes no arguments".to_string())),
        };
        self.reader.error(place, message, help);
    }

    fn value(&mut self, call: &Call, param: &Param, node: &Node) -> Option<Scalar> {
        match param.kind {
            ParamKind::I32 => self.parse_integer(node, i64::from(i32::MIN)..=i64::from(i32::MAX)),
            ParamKind::U32 => self.parse_integer(node, 0..=i64::from(u32::MAX)),
            ParamKind::U64 => self.parse_integer(node, 0..=i64::MAX),
            ParamKind::Bytes => self.bytes(param, node),
            ParamKind::Text if param.name == "name" && call.has(Effect::NamesVariable) => {
                variable(self.reader, node, self.in_python)
            }
            ParamKind::Text if param.name == refusal::WHAT && call.has(Effect::Refuses) => {
                self.refused(node)
            }
            ParamKind::Text => self
                .reader
                .text(node)
                .map(|text| Scalar::Text(text.to_string())),
            ParamKind::Constant(constants) => self.parse_constant(constants, node),
            ParamKind::Handle(kind) | ParamKind::FatBinary(kind) => {
                self.handle(param, Some(kind), node)
            }
            ParamKind::Ptx => self
                .reader
                .word(node, "kernel file", self.reader.kernels)
                .map(|name| Scalar::Text(name.to_string())),
            ParamKind::Arguments => self.list(param, node),
            ParamKind::Actor | ParamKind::Pid => self.parse_actor(call, node),
            ParamKind::Dim3 => self.parse_integer(node, 1..=i64::from(i32::MAX)),
            ParamKind::Location if matches!(&node.data, Data::Text(text) if text == "host") => {
                Some(Scalar::Text("host".to_string()))
            }
            ParamKind::Location => self.parse_integer(node, 0..=63),
            ParamKind::In(template) if template.width == 8 => self.word(node),
            ParamKind::In(_) => self.parse_integer(node, 0..=i64::from(u32::MAX)),
            ParamKind::Block(kind, _) => self.handle(param, Some(kind), node),
            // Parameters of these kinds are not inputs.
            ParamKind::Fixed(_) | ParamKind::Out(_) => None,
        }
    }

    /// Parses an integer, or `${gpus}`, the number of GPUs, which only the plan knows.
    fn parse_integer(&mut self, node: &Node, range: RangeInclusive<i64>) -> Option<Scalar> {
        match &node.data {
            Data::Text(text) if text == "${gpus}" => Some(Scalar::Text(text.clone())),
            _ => self.reader.read_integer(node, range).map(Scalar::Int),
        }
    }

    fn bytes(&mut self, param: &Param, node: &Node) -> Option<Scalar> {
        let bytes = self.reader.bytes(node)?;
        let announced = self
            .hazards
            .iter()
            .any(|hazard| matches!(hazard, Hazard::Bigmem | Hazard::Oversubscribe));
        // The limit of a pool takes no memory by itself.
        if bytes > MOST_BYTES && !announced && param.name != "keep_bytes" {
            let help = Some("write `hazards = [\"bigmem\"]`, or ask for less".to_string());
            return self.reader.reject(
                &node.place,
                "more than 1 GiB needs the hazard `bigmem`",
                help,
            );
        }
        Some(Scalar::Int(bytes))
    }

    /// Parses a 64-bit number of bytes that allocates nothing by itself.
    fn word(&mut self, node: &Node) -> Option<Scalar> {
        if matches!(&node.data, Data::Text(text) if text == UINT64_MAX) {
            return Some(Scalar::Int(-1));
        }
        self.reader.bytes(node).map(Scalar::Int)
    }

    fn parse_constant(&mut self, constants: &Constants, node: &Node) -> Option<Scalar> {
        if let Data::Int(value) = node.data {
            return Some(Scalar::Int(value));
        }
        let names: Vec<&str> = constants.values.iter().map(|(name, _)| *name).collect();
        let name = self.reader.word(node, constants.name, &names)?;
        Some(Scalar::Text(name.to_string()))
    }

    fn handle(&mut self, param: &Param, wanted: Option<&str>, node: &Node) -> Option<Scalar> {
        if matches!(node.data, Data::Int(_)) {
            let help = Some(
                "write a name that an earlier step bound with `as`, or `\"NULL\"`".to_string(),
            );
            return self.reader.reject(
                &node.place,
                "expected the name of a handle, found an integer",
                help,
            );
        }
        let name = self.reader.text(node)?;
        if name == "NULL" || (wanted == Some("stream") && BUILT_IN_STREAMS.value(name).is_some()) {
            return Some(Scalar::Text(name.to_string()));
        }
        let Some(bound) = self.names.get(name) else {
            self.report_unbound(name, node, |bound| {
                wanted.is_none() || bound.handle == wanted
            });
            return None;
        };
        let fits = match (bound.handle, wanted) {
            (Some(bound), Some(wanted)) => bound == wanted,
            (Some(bound), None) => bound != ACTOR,
            (None, _) => true,
        };
        if !fits {
            let message = format!(
                "`{name}` is {}, and `{}` takes {}",
                with_article(bound.handle.unwrap_or("handle")),
                param.name,
                with_article(wanted.unwrap_or("handle")),
            );
            self.reader
                .error_with(&node.place, message, &bound.place, "bound here");
            return None;
        }
        Some(Scalar::Text(name.to_string()))
    }

    fn report_unbound(&mut self, name: &str, node: &Node, fits: impl Fn(&Bound) -> bool) {
        let help = match nearest_bound(self.names, name, fits) {
            Some(near) => did_you_mean(near),
            None => format!("write `as = \"{name}\"` in the call that returns it"),
        };
        self.reader.error(
            &node.place,
            format!("no earlier step binds `{name}`"),
            Some(help),
        );
    }

    fn parse_actor(&mut self, call: &Call, node: &Node) -> Option<Scalar> {
        let name = self.reader.text(node)?;
        let Some(bound) = self.names.get(name) else {
            self.report_unbound(name, node, |bound| bound.handle == Some(ACTOR));
            return None;
        };
        let mut makers: Vec<&str> = Vec::new();
        for maker in calls::all() {
            let fits = if call.has(Effect::JoinsThread) {
                maker.has(Effect::StartsThread)
            } else {
                maker.starts_process()
            };
            if fits {
                makers.push(maker.name);
            }
        }
        if bound.handle.is_some() && !makers.contains(&bound.call.as_str()) {
            let makers = format!("`{}`", makers.join("` or `"));
            let message = format!(
                "`{}` takes a name bound by {makers}; `{name}` is bound by `{}`",
                call.name, bound.call
            );
            self.reader
                .error_with(&node.place, message, &bound.place, "bound here");
            return None;
        }
        Some(Scalar::Text(name.to_string()))
    }

    /// Returns the file or system call that a filter denies. The device file of a GPU is a template, which only the
    /// plan fills in.
    fn refused(&mut self, node: &Node) -> Option<Scalar> {
        let text = self.reader.text(node)?;
        if !text.starts_with("${")
            && let Err(error) = text.parse::<Refused>()
        {
            let help = "write a path such as \"/dev/nvidiactl\", a system call such as \"eventfd2\", \"${gpu0:device}\", or \"nothing\"";
            return self
                .reader
                .reject(&node.place, error.to_string(), Some(help.to_string()));
        }
        Some(Scalar::Text(text.to_string()))
    }

    fn list(&mut self, param: &Param, node: &Node) -> Option<Scalar> {
        let mut values = Vec::new();
        for node in self.reader.list(node)? {
            values.push(match node.data {
                Data::Int(value) => Scalar::Int(value),
                _ => self.handle(param, None, node)?,
            });
        }
        Some(Scalar::List(values))
    }
}

/// Returns the most similar name that is bound to a suitable value.
pub(super) fn nearest_bound<'n>(
    names: &'n Names,
    name: &str,
    fits: impl Fn(&Bound) -> bool,
) -> Option<&'n str> {
    let mut fitting = Vec::new();
    for (known, bound) in names {
        if fits(bound) {
            fitting.push(known.as_str());
        }
    }
    nearest_name(name, fitting)
}

/// Returns the name of an environment variable that a scenario may use.
pub(super) fn variable(reader: &mut Reader<'_>, node: &Node, in_python: bool) -> Option<Scalar> {
    let name = reader.text(node)?;
    may_name(reader, name, &node.place, in_python).then(|| Scalar::Text(name.to_string()))
}

/// Returns `true` if a scenario may use this environment variable; otherwise reports an error.
pub(super) fn may_name(
    reader: &mut Reader<'_>,
    name: &str,
    place: &Range<usize>,
    in_python: bool,
) -> bool {
    let known = environment::in_scenarios().any(|known| known == name)
        || (in_python && environment::is_of_a_framework(name));
    if !known {
        let message = format!("a scenario cannot name the environment variable `{name}`");
        reader.error(
            place,
            message,
            suggest_name(name, environment::in_scenarios()),
        );
    }
    known
}

/// Reports a value that a scenario may not give to this environment variable.
pub(super) fn may_have_value(
    reader: &mut Reader<'_>,
    name: &str,
    value: &str,
    place: &Range<usize>,
) {
    let allowed =
        environment::values(name).filter(|allowed| !allowed.iter().any(|known| known == value));
    if let Some(allowed) = allowed {
        let help = Some(format!("it can be {}", allowed.join(" or ")));
        reader.error(
            place,
            format!("a scenario cannot set `{name}` to this"),
            help,
        );
    }
}

fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}

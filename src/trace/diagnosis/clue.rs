//! Clues: facts of a trace that rules ask about. Each kind has a closed list of attributes with types.

use std::collections::BTreeMap;

use serde_json::Value;

use self::Type::{Bytes, Count, Duration, Flag, List, Text};
use crate::Stack;
use cuda_pitfalls_core::text::units;

/// A kind of clue.
#[derive(Debug, PartialEq, Eq)]
pub struct ClueKind {
    /// Its name in rules.
    pub name: &'static str,
    /// Which facts get a clue of this kind.
    pub about: &'static str,
    /// Its attributes, beside [`COMMON`].
    pub attributes: &'static [Attribute],
}

/// An attribute of a kind of clue.
#[derive(Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name in rules.
    pub name: &'static str,
    /// The type of its value.
    pub of: Type,
    /// What it says.
    pub about: &'static str,
}

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// True or false.
    Flag,
    /// A number.
    Count,
    /// A number of bytes.
    Bytes,
    /// A time in nanoseconds.
    Duration,
    /// Text.
    Text,
    /// Several texts. A condition holds if one of them is as asked.
    List,
}

/// One fact of a trace. An unknown attribute has no value, so no condition on it holds.
#[derive(Clone, Debug)]
pub(super) struct Clue<'a> {
    pub(super) kind: &'static ClueKind,
    values: BTreeMap<&'static str, Value>,
    pub(super) pid: u32,
    /// The events that show it, by index; the first is where it went wrong.
    pub(super) events: Vec<usize>,
    /// When it went wrong.
    pub(super) t_ns: u64,
    /// The stack of the first event, then those of other events that explain it.
    pub(super) stacks: Vec<&'a Stack>,
    /// The UUID of the GPU that is concerned.
    pub(super) gpu: Option<String>,
    /// The memory that it takes.
    pub(super) bytes: Option<i64>,
}

const fn attribute(name: &'static str, of: Type, about: &'static str) -> Attribute {
    Attribute { name, of, about }
}

/// The attributes of every clue.
pub const COMMON: &[Attribute] = &[
    attribute(
        "line",
        Text,
        "the user's own line, such as `train.py:12`, or the process where it is not known",
    ),
    attribute("call", Text, "the C function that was called"),
    attribute(
        "through",
        Text,
        "the function that the user's line called, such as `torch.cuda.is_available`",
    ),
    attribute("pid", Count, "the process"),
];

/// Every kind of clue.
pub const KINDS: &[ClueKind] = &[
    ClueKind {
        name: "variable-written",
        about: "each write or removal of a variable that CUDA reads",
        attributes: &[
            attribute("name", Text, "the variable"),
            attribute("value", Text, "what it was set to, or `(unset)`"),
            attribute("latched", Text, "what it was at `cuInit`, or `(unset)`"),
            attribute(
                "read_by_cuinit",
                Flag,
                "whether `cuInit` reads it, and nothing reads it again",
            ),
            attribute(
                "after_init",
                Flag,
                "whether `cuInit` had succeeded in this process",
            ),
            attribute(
                "after_context",
                Flag,
                "whether the process had made a context",
            ),
            attribute(
                "changes",
                Flag,
                "whether it would have meant something else at that time",
            ),
            attribute(
                "reaches_child",
                Flag,
                "whether a process that was started later initialised with this value",
            ),
            attribute("late", Duration, "the time since `cuInit`"),
            attribute(
                "in_package",
                Flag,
                "whether the package that wrote it made the `cuInit` before it too",
            ),
        ],
    },
    ClueKind {
        name: "context-made",
        about: "each context that was made",
        attributes: &[
            attribute("gpu", Text, "the GPU, by its index in NVML order"),
            attribute("ordinal", Count, "the GPU, as the process counts"),
            attribute("bytes", Bytes, "the memory that it took"),
            attribute("primary", Flag, "whether it is the primary context"),
            attribute(
                "used",
                Flag,
                "whether the process launched, copied or allocated anything on that GPU",
            ),
            attribute(
                "elsewhere",
                Flag,
                "whether the process had a context on another GPU before",
            ),
            attribute(
                "only",
                Flag,
                "whether the process made contexts on this GPU alone",
            ),
            attribute(
                "own",
                Text,
                "the ordinal of a GPU that the process did work on, or `N`",
            ),
            attribute("own_gpu", Text, "that GPU by its index, or `another GPU`"),
            attribute(
                "leaves_guard",
                Flag,
                "whether it was made in the `__exit__` or the destructor of a device guard",
            ),
            attribute(
                "goes_back",
                Flag,
                "whether the user's line lies before that of the context made before it, in the same function",
            ),
            attribute(
                "unselected_thread",
                Flag,
                "whether a thread made it that had selected no device, while another one had made a context on another GPU; \
                 and no thread works on both",
            ),
            attribute(
                "host_memory_follows",
                Flag,
                "whether the thread's next call asks for page-locked host memory",
            ),
            attribute(
                "illegal_address",
                Flag,
                "whether the process used this GPU afterwards, and a call then returned CUDA_ERROR_ILLEGAL_ADDRESS",
            ),
            attribute(
                "fault_line",
                Text,
                "where in the program that call was, or the process",
            ),
            attribute("fault_call", Text, "that call"),
        ],
    },
    ClueKind {
        name: "process-contexts",
        about: "each process that made a context",
        attributes: &[
            attribute("visible", Count, "how many GPUs it could see"),
            attribute("used", Count, "on how many GPUs it did work"),
            attribute(
                "unused",
                List,
                "the GPUs on which it has a context and did no work",
            ),
            attribute("several", Flag, "whether it could see more than one GPU"),
            attribute(
                "on_every",
                Flag,
                "whether it has a context on every GPU that it can see",
            ),
            attribute(
                "at_once",
                Flag,
                "whether no GPU was used between its first context and its last",
            ),
            attribute(
                "bytes",
                Bytes,
                "the memory of contexts on GPUs on which it did no work",
            ),
            attribute(
                "own",
                Text,
                "the ordinal of a GPU that it did work on, or `N`",
            ),
        ],
    },
    ClueKind {
        name: "gpu-shared",
        about: "each GPU on which processes that one process started have contexts at the same time, and do work",
        attributes: &[
            attribute("gpu", Text, "the GPU, by its index in NVML order"),
            attribute("processes", Count, "how many processes"),
            attribute(
                "visible",
                Count,
                "how many GPUs each of them could see, at least",
            ),
            attribute(
                "one_each",
                Flag,
                "whether each, and each that was started with them, could have had a GPU of its own",
            ),
            attribute(
                "others_idle",
                Flag,
                "whether no process of the program has a context on a GPU that all of them see",
            ),
            attribute(
                "bytes",
                Bytes,
                "the memory of the contexts that might have been elsewhere",
            ),
        ],
    },
    ClueKind {
        name: "forked",
        about: "each child that was forked after `cuInit`",
        attributes: &[
            attribute("parent", Count, "the process that forked"),
            attribute("contexts", Count, "how many contexts the parent had"),
            attribute(
                "init_line",
                Text,
                "where in the program the parent initialised CUDA",
            ),
            attribute(
                "init_through",
                Text,
                "the function that the user's line called there",
            ),
            attribute(
                "refused",
                Flag,
                "whether a driver call of the child returned an error",
            ),
            attribute("refused_call", Text, "the first call that did"),
            attribute(
                "refused_line",
                Text,
                "where in the program that was, or the process",
            ),
            attribute("status", Text, "the status that it returned"),
        ],
    },
    ClueKind {
        name: "forked-unseen",
        about: "each line at which a process of Python forked after `cuInit`, and no call of a child was seen to be refused",
        attributes: &[
            attribute(
                "children",
                Text,
                "the children, such as `pid 12` or `4 processes`",
            ),
            attribute(
                "init_line",
                Text,
                "where in the program CUDA was initialised",
            ),
            attribute(
                "init_through",
                Text,
                "the function that the user's line called there",
            ),
            attribute(
                "would_show",
                Flag,
                "whether the program would not have ended with 0 if a child had been refused and nobody had caught the \
                 error: PyTorch's DataLoader raises in the parent what a worker raises",
            ),
        ],
    },
    ClueKind {
        name: "limit-set",
        about: "each limit that was set, or was to be set",
        attributes: &[
            attribute("limit", Text, "its name in `CUlimit`"),
            attribute("value", Bytes, "the value"),
            attribute(
                "after_launch",
                Flag,
                "whether the process had launched a kernel on this GPU",
            ),
            attribute("refused", Flag, "whether the call returned an error"),
            attribute("status", Text, "what it returned"),
        ],
    },
    ClueKind {
        name: "initialised",
        about: "each process that initialised CUDA",
        attributes: &[
            attribute(
                "contexts",
                Count,
                "how many contexts it made until it ended",
            ),
            attribute(
                "mask",
                Text,
                "`CUDA_VISIBLE_DEVICES` at that time, or `(unset)`",
            ),
            attribute(
                "order",
                Text,
                "`CUDA_DEVICE_ORDER` at that time, or `(unset)`",
            ),
            attribute("failed", Flag, "whether `cuInit` returned an error"),
            attribute(
                "models_differ",
                Flag,
                "whether the machine has GPUs of different models",
            ),
            attribute(
                "mask_has_numbers",
                Flag,
                "whether the mask names GPUs by number",
            ),
            attribute(
                "other_gpus",
                Flag,
                "whether these numbers mean other GPUs in NVML order",
            ),
            attribute(
                "meant",
                List,
                "the GPUs that the numbers mean in NVML order",
            ),
            attribute("got", List, "the GPUs that the process got"),
            attribute("entries", List, "what became of each entry of the mask"),
            attribute(
                "loses",
                Flag,
                "whether an entry, or the order, names what there is not",
            ),
            attribute(
                "on_purpose",
                Flag,
                "whether the mask is one of those that people hide all GPUs with",
            ),
            attribute(
                "parent",
                Count,
                "the nearest process above it that had initialised CUDA before",
            ),
            attribute("parents_gpus", List, "the GPUs that this one sees"),
            attribute(
                "parents_number",
                Flag,
                "whether the mask has numbers of its GPUs, and gives another one",
            ),
            attribute(
                "reordered",
                Flag,
                "whether the process sees several of its GPUs in another order, which is not one that begins with another GPU \
                 for each of several processes",
            ),
        ],
    },
    ClueKind {
        name: "memory-of-init",
        about: "each process whose `cuInit` took memory on GPUs on which it then made no context",
        attributes: &[
            attribute("gpus", List, "these GPUs"),
            attribute("bytes", Bytes, "the memory on all of them"),
        ],
    },
    ClueKind {
        name: "mask-overwritten",
        about: "each process that wrote `CUDA_VISIBLE_DEVICES` several times before it was read",
        attributes: &[
            attribute(
                "values",
                List,
                "the values that neither the process nor a child of it read",
            ),
            attribute("latched", Text, "the value that it read"),
            attribute(
                "by_line",
                Text,
                "where in the program that value was written, or the process",
            ),
            attribute("other_thread", Flag, "whether another thread wrote it"),
        ],
    },
    ClueKind {
        name: "variable-misspelt",
        about: "each variable that nothing is known to read and that is spelt nearly as one that is read",
        attributes: &[
            attribute("name", Text, "the variable"),
            attribute("value", Text, "its value"),
            attribute("meant", Text, "the variable that it is like"),
            attribute(
                "latched",
                Text,
                "the other value that this one had at `cuInit`, or `(unset)`",
            ),
        ],
    },
];

impl ClueKind {
    /// The attribute of a name.
    pub fn find_attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.all().find(|attribute| attribute.name == name)
    }

    fn all(&self) -> impl Iterator<Item = &'static Attribute> {
        self.attributes.iter().chain(COMMON)
    }

    /// The names of all its attributes.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all().map(|attribute| attribute.name)
    }
}

impl Type {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Flag => "true or false",
            Type::Count => "number",
            Type::Bytes => "bytes",
            Type::Duration => "time",
            Type::Text => "text",
            Type::List => "list",
        }
    }

    pub(super) fn has(self, value: &Value) -> bool {
        match self {
            Type::Flag => value.is_boolean(),
            Type::Count | Type::Bytes | Type::Duration => value.is_number(),
            Type::Text => value.is_string(),
            Type::List => value.is_array(),
        }
    }
}

impl Attribute {
    /// A value of this attribute in words.
    pub fn words(&self, value: &Value) -> String {
        match (self.of, value) {
            (Type::Bytes, _) => units::bytes(value.as_i64().unwrap_or(i64::MAX).unsigned_abs()),
            (Type::Duration, _) => {
                units::format_duration(value.as_i64().unwrap_or(i64::MAX).unsigned_abs())
            }
            (_, Value::String(text)) => text.clone(),
            (_, Value::Array(list)) => list
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(", "),
            (_, value) => value.to_string(),
        }
    }
}

impl<'a> Clue<'a> {
    /// A clue without attributes. None if no kind has this name.
    pub(super) fn new(kind: &str, pid: u32, t_ns: u64) -> Option<Clue<'a>> {
        let kind = KINDS.iter().find(|known| known.name == kind);
        debug_assert!(kind.is_some(), "there is no such kind of clue");
        let clue = |kind| Clue {
            kind,
            values: BTreeMap::new(),
            pid,
            events: Vec::new(),
            t_ns,
            stacks: Vec::new(),
            gpu: None,
            bytes: None,
        };
        kind.map(clue).map(|clue| clue.with("pid", u64::from(pid)))
    }

    /// The clue with a value; without one for null, which is not known.
    pub(super) fn with(mut self, name: &str, known: impl Into<Value>) -> Clue<'a> {
        let value = known.into();
        if value.is_null() {
            return self;
        }
        let attribute = self.kind.find_attribute(name);
        debug_assert!(
            attribute.is_some_and(|attribute| attribute.of.has(&value)),
            "{} has no `{name}` of this type",
            self.kind.name
        );
        if let Some(attribute) = attribute {
            self.values.insert(attribute.name, value);
        }
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The texts that tell this clue from others of its rule. Numbers and times do not count: they differ between two
    /// iterations of one loop.
    pub(super) fn distinguishing_texts(&self) -> Vec<Value> {
        self.values
            .values()
            .filter(|value| matches!(value, Value::String(_) | Value::Array(_)))
            .cloned()
            .collect()
    }

    /// A sentence with each `{attribute}` replaced by its value.
    pub(super) fn fill_template(&self, template: &str) -> String {
        let mut text = String::new();
        for part in parts(template) {
            match part {
                Part::Words(words) => text.push_str(words),
                Part::Placeholder(name) => {
                    let Some(attribute) = self.kind.find_attribute(name) else {
                        continue;
                    };
                    match self.get(name) {
                        Some(value) => text.push_str(&attribute.words(value)),
                        None if attribute.of == Type::Bytes => text.push_str("memory not read"),
                        None => text.push_str("not known"),
                    }
                }
            }
        }
        text
    }
}

pub(super) enum Part<'t> {
    /// Literal text.
    Words(&'t str),
    /// The name between braces.
    Placeholder(&'t str),
}

/// The parts of a sentence. An unmatched brace, or a pair around something that is not a name, is literal text.
pub(super) fn parts(template: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let inside = after.split_once('}');
        match inside.filter(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        }) {
            Some((name, behind)) => {
                parts.extend([Part::Words(before), Part::Placeholder(name)]);
                rest = behind;
            }
            None => {
                let end = before.len() + 1;
                parts.push(Part::Words(rest.get(..end).unwrap_or(rest)));
                rest = after;
            }
        }
    }
    parts.push(Part::Words(rest));
    parts
}

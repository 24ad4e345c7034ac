//! The functions of the forwarding libcuda as Rust: one wrapper for each libcuda call in the tables, generated from its
//! entry in `shim/calls.txt`.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, ParamKind};

/// The work of a wrapper in addition to passing the call on.
#[derive(Clone, Debug, PartialEq)]
enum Wrapping {
    Special,
    Use(String),
    Told(String),
    Noisy,
    Question,
    Switch,
    Plain,
}

/// The code of a wrapper for a trace that attributes memory, in parts.
#[derive(Clone, Debug, Default)]
struct MemoryUse {
    held: Option<String>,
    gives_back: Option<String>,
    around: Option<String>,
}

/// Variants of a name for the default stream of each thread.
const VARIANTS: [&str; 3] = ["", "_ptsz", "_ptds"];

/// The error in a line of `shim/calls.txt`.
#[derive(Debug)]
enum InvalidLine {
    UnknownWord,
    UnknownTime,
    NoNumber,
    /// A way or a kind is missing.
    NoKind,
    /// A function is listed a second time.
    Twice(#[allow(dead_code, reason = "it is printed")] String),
}

/// The libcuda functions as `shim/calls.txt` and the tables of calls describe them, by name.
struct ListedCalls {
    ways: BTreeMap<String, Wrapping>,
    lacking: BTreeSet<String>,
    memory_uses: BTreeMap<String, MemoryUse>,
    /// Number of words of each function's arguments.
    words: BTreeMap<String, usize>,
}

/// A function that is passed on.
struct Wrapper {
    name: String,
    words: usize,
    way: Wrapping,
    memory_use: MemoryUse,
}

/// Returns the complete file, and the names of its functions as a Rust array, from the text of `shim/calls.txt`.
///
/// # Panics
/// Panics if a line is not valid. Cargo shows the message.
pub(crate) fn source(text: &str) -> (String, String) {
    let mut listed = ListedCalls::from_tables();
    for (index, line) in text.lines().enumerate() {
        if let Err(invalid) = listed.add_line(line) {
            panic!("shim/calls.txt, line {}: {invalid:?}", index + 1);
        }
    }
    let wrappers = listed.wrappers();
    let names: Vec<&str> = wrappers
        .iter()
        .map(|wrapper| wrapper.name.as_str())
        .collect();
    let file = wrappers_file(&wrappers) + &lacking_functions(&listed.lacking);
    (file, format!("{names:?}"))
}

impl ListedCalls {
    fn from_tables() -> ListedCalls {
        let mut words = BTreeMap::new();
        for call in calls::all() {
            if let Some(count) = words_of(call)
                && call.library == CallLibrary::Driver
            {
                words.insert(call.name.to_owned(), count);
            }
        }
        ListedCalls {
            ways: BTreeMap::new(),
            lacking: BTreeSet::new(),
            memory_uses: BTreeMap::new(),
            words,
        }
    }

    fn add_line(&mut self, line: &str) -> Result<(), InvalidLine> {
        let mut parts = line.split_whitespace();
        let Some(first) = parts.next() else {
            return Ok(());
        };
        let way = match first {
            comment if comment.starts_with('#') => return Ok(()),
            "special" => Wrapping::Special,
            "noisy" => Wrapping::Noisy,
            "question" => Wrapping::Question,
            "switch" => Wrapping::Switch,
            "use" => Wrapping::Use(parts.next().ok_or(InvalidLine::NoKind)?.to_owned()),
            "told" => Wrapping::Told(parts.next().ok_or(InvalidLine::NoKind)?.to_owned()),
            "lacking" => {
                self.lacking.extend(parts.map(str::to_owned));
                return Ok(());
            }
            "more" => {
                let count = parts.next().and_then(|count| count.parse().ok());
                let count = count.ok_or(InvalidLine::NoNumber)?;
                self.words
                    .extend(parts.map(|name| (name.to_owned(), count)));
                return Ok(());
            }
            "held" | "gives_back" | "around" => return self.add_memory_use(first, parts),
            _ => return Err(InvalidLine::UnknownWord),
        };
        for name in parts {
            if self.ways.insert(name.to_owned(), way.clone()).is_some() {
                return Err(InvalidLine::Twice(name.to_owned()));
            }
        }
        Ok(())
    }

    fn add_memory_use<'t>(
        &mut self,
        word: &str,
        mut parts: impl Iterator<Item = &'t str>,
    ) -> Result<(), InvalidLine> {
        let how = parts.next().ok_or(InvalidLine::NoKind)?;
        let code = match word {
            "around" => around(how).ok_or(InvalidLine::UnknownTime)?,
            _ => how.to_owned(),
        };
        for name in parts {
            let known = self.memory_uses.entry(name.to_owned()).or_default();
            let part = match word {
                "held" => &mut known.held,
                "gives_back" => &mut known.gives_back,
                _ => &mut known.around,
            };
            if part.replace(code.clone()).is_some() {
                return Err(InvalidLine::Twice(name.to_owned()));
            }
        }
        Ok(())
    }

    /// Returns all wrappers, in the order of their names.
    fn wrappers(&self) -> Vec<Wrapper> {
        let mut names: BTreeSet<&String> = self.words.keys().collect();
        for (name, way) in &self.ways {
            // A special function may have a struct that no number of words describes.
            if *way == Wrapping::Special {
                names.insert(name);
            }
        }
        for name in self.ways.keys().chain(self.memory_uses.keys()) {
            assert!(
                names.contains(name),
                "shim/calls.txt: the tables of calls do not have {name}"
            );
        }
        let mut wrappers = Vec::new();
        for name in names {
            let way = self.ways.get(name).unwrap_or(&Wrapping::Plain);
            let variants: &[&str] = match way {
                Wrapping::Use(_) => &VARIANTS,
                _ => &VARIANTS[..1],
            };
            for variant in variants {
                let variant = format!("{name}{variant}");
                assert!(
                    !self.lacking.contains(&variant),
                    "shim/calls.txt: {variant} is wrapped, so it cannot be missing"
                );
                wrappers.push(Wrapper {
                    name: variant,
                    words: self.words.get(name).copied().unwrap_or(0),
                    way: way.clone(),
                    memory_use: self.memory_uses.get(name).cloned().unwrap_or_default(),
                });
            }
        }
        wrappers
    }
}

/// Returns the moment at which memory is read around a call, as Rust.
fn around(when: &str) -> Option<String> {
    if when == "every" {
        return Some("Every".to_owned());
    }
    let (what, argument) = when.split_once(':')?;
    let variant = match what {
        "value" => "Value",
        "launch" => "Launch",
        _ => return None,
    };
    Some(format!("{variant}(a{})", argument.parse::<usize>().ok()?))
}

/// Returns the functions that exist only for a driver that lacks them.
fn lacking_functions(names: &BTreeSet<String>) -> String {
    let mut out =
        "/// What a driver may lack, beside the wrapped functions.\npub static LACKING: &[(&str, Lacking)] = &[\n"
            .to_owned();
    for name in names {
        out += &format!("    (\"{name}\", {name}),\n");
    }
    out += "];\n/// A function that returns a status whatever it is given.\npub type Lacking = unsafe extern \"C\" fn() -> u32;\n";
    for name in names {
        out += &format!(
            "
/// # Safety
/// Any arguments are allowed: they are not read.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn {name}() -> u32 {{
    crate::returned::lacking()
}}
"
        );
    }
    out
}

/// Returns the names that follow a word, as a Rust array, for the tracer, which removes them from its copy.
#[allow(dead_code, reason = "the check of the library has no tracer")]
pub(crate) fn names(text: &str, word: &str) -> String {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    format!("{names:?}")
}

/// Returns the number of words of a function's arguments; `None` if a struct is passed in memory.
fn words_of(call: &Call) -> Option<usize> {
    let is_in_memory = call.params.iter().any(|param| {
        matches!(param.kind, ParamKind::Block(_, bytes) if bytes > 16)
            && !param.c_type.contains('*')
    });
    (!is_in_memory).then_some(call.params.len())
}

fn wrappers_file(all: &[Wrapper]) -> String {
    let mut out = format!("pub const COUNT: usize = {};\n", all.len());
    out += "pub static NAMES: [&str; COUNT] = [\n";
    for Wrapper { name, .. } in all {
        out += &format!("    \"{name}\\0\",\n");
    }
    out += "];\n/// Whether a function is a question that is wrapped only where all calls are counted.\n";
    let questions: Vec<String> = all
        .iter()
        .map(|one| (one.way == Wrapping::Question).to_string())
        .collect();
    out += &format!(
        "pub static QUESTIONS: [bool; COUNT] = [{}];\n",
        questions.join(", ")
    );
    out +=
        "/// Our functions, in the order of [`NAMES`].\npub struct Ours(pub [*const (); COUNT]);\n";
    out += "// SAFETY: addresses of functions, which are never written.\nunsafe impl Sync for Ours {}\n";
    out += "pub static OURS: Ours = Ours([\n";
    for Wrapper { name, way, .. } in all {
        let path = if *way == Wrapping::Special {
            "crate::special::"
        } else {
            ""
        };
        out += &format!("    {path}{name} as *const (),\n");
    }
    out += "]);\n";
    out += INDEX;
    for (index, one) in all.iter().enumerate() {
        if one.way != Wrapping::Special {
            out += &wrapper(index, one);
        }
    }
    out
}

/// Looks a name up while the library is compiled.
const INDEX: &str = "
/// Returns the index of a function.
pub const fn index(name: &str) -> usize {
    let mut at = 0;
    while at < COUNT {
        let (known, wanted) = (NAMES[at].as_bytes(), name.as_bytes());
        if known.len() == wanted.len() + 1 {
            let mut same = 0;
            while same < wanted.len() && known[same] == wanted[same] {
                same += 1;
            }
            if same == wanted.len() {
                return at;
            }
        }
        at += 1;
    }
    panic!(\"no such function\")
}
";

fn wrapper(index: usize, wrapper: &Wrapper) -> String {
    let Wrapper {
        name,
        words,
        way,
        memory_use,
    } = wrapper;
    let parameters: Vec<String> = (0..*words).map(|at| format!("a{at}: usize")).collect();
    let arguments: Vec<String> = (0..*words).map(|at| format!("a{at}")).collect();
    let (parameters, arguments) = (parameters.join(", "), arguments.join(", "));
    let types = vec!["usize"; *words].join(", ");
    let (mut before, mut is_free) = (String::new(), "");
    if let Wrapping::Told(kind) = way {
        before = format!("let number = crate::special::before_told({index}, \"{kind}\");");
        if kind == "module" {
            // Memory is read for each reported load, too.
            is_free = "if number > 0 { 0 } else ";
        }
    }
    let around = memory_use.around.as_deref().unwrap_or("First");
    let (under_way, held) = match &memory_use.held {
        Some(held) => held_code(index, held, &arguments),
        None => ("", String::new()),
    };
    let (mut returned, mut given_back) = (String::new(), "");
    if let Some(way) = &memory_use.gives_back {
        let second = if *words > 1 { "a1" } else { "0" };
        returned = format!(
            "let returned = crate::memory::give_back(crate::memory::GivesBack::{way}, a0, {second});"
        );
        given_back = "crate::memory::returned(status, returned);\n    ";
    }
    let after = after_code(index, way);
    format!(
        "
/// # Safety
/// As for the function of the driver.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn {name}({parameters}) -> u32 {{
    {before}
    let around = {is_free}{{ crate::memory::before({index}, crate::memory::Around::{around}) }};
    {returned}
    {under_way}
    let status = match crate::returned::status({index}) {{
        Some(status) => status,
        // SAFETY: every argument is passed on as it came, in the register or word that it came in.
        None => unsafe {{
            let real: unsafe extern \"C\" fn({types}) -> u32 = std::mem::transmute(crate::original::function({index}));
            real({arguments})
        }},
    }};
    crate::special::{after};
    {held}{given_back}crate::memory::after({index}, around);
    status
}}
"
    )
}

/// Returns the statement that counts a call, as Rust.
fn after_code(index: usize, way: &Wrapping) -> String {
    match way {
        Wrapping::Use(usage) => {
            let (first, rest) = usage.split_at(1);
            let first = first.to_uppercase();
            format!("after_use({index}, status, crate::counts::GpuWork::{first}{rest})")
        }
        Wrapping::Told(kind) => format!("after_told({index}, status, \"{kind}\", number)"),
        Wrapping::Switch => format!("after_switch({index}, status)"),
        Wrapping::Noisy | Wrapping::Question => format!("after({index}, status, true)"),
        Wrapping::Plain | Wrapping::Special => format!("after({index}, status, false)"),
    }
}

/// Returns the code before and after a call that allocates memory, as Rust.
fn held_code(index: usize, held: &str, arguments: &str) -> (&'static str, String) {
    let taken = format!(
        "if crate::memory::is_taken(status) {{
        // SAFETY: the call succeeded.
        unsafe {{ crate::memory::{held}({index}, &[{arguments}]) }};
    }}
    "
    );
    // A synchronization may take long, and these others allocate no memory that the page has.
    if matches!(held, "synced" | "graph" | "retained" | "mapped") {
        return ("", taken);
    }
    (
        "let under_way = crate::memory::CallUnderWay::begin();",
        taken + "drop(under_way);\n    ",
    )
}

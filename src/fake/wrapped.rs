//! The functions of the forwarding libcuda as Rust: one wrapper for each call of libcuda that the
//! tables have, by what `shim/calls.txt` says about it.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, ParamKind};

/// What a wrapper does beside passing the call on.
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

/// What a wrapper does for a trace that says whose memory is: the parts of its code.
#[derive(Clone, Debug, Default)]
struct OfMemory {
    held: Option<String>,
    gives_back: Option<String>,
    around: Option<String>,
}

/// Variants of a name for the default stream of each thread.
const VARIANTS: [&str; 3] = ["", "_ptsz", "_ptds"];

fn wrong(index: usize, why: &str) -> String {
    format!("shim/calls.txt, line {}: {why}", index + 1)
}

/// The whole file, and the names of its functions as a Rust array, from the text of `shim/calls.txt`.
pub(crate) fn source(text: &str) -> Result<(String, String), String> {
    let mut ways: BTreeMap<String, Wrapping> = BTreeMap::new();
    let mut lacking: BTreeSet<String> = BTreeSet::new();
    let mut of_memory: BTreeMap<String, OfMemory> = BTreeMap::new();
    let mut words: BTreeMap<String, usize> = calls::all()
        .filter(|call| call.library == CallLibrary::Driver)
        .filter_map(|call| Some((call.name.to_owned(), words_of(call)?)))
        .collect();
    for (index, line) in text.lines().enumerate() {
        let mut parts = line.split_whitespace();
        let way = match parts.next() {
            None => continue,
            Some(comment) if comment.starts_with('#') => continue,
            Some("special") => Wrapping::Special,
            Some("noisy") => Wrapping::Noisy,
            Some("question") => Wrapping::Question,
            Some("switch") => Wrapping::Switch,
            Some("use") => Wrapping::Use(
                parts
                    .next()
                    .ok_or_else(|| wrong(index, "a way is missing"))?
                    .to_owned(),
            ),
            Some("lacking") => {
                lacking.extend(parts.map(str::to_owned));
                continue;
            }
            Some("told") => Wrapping::Told(
                parts
                    .next()
                    .ok_or_else(|| wrong(index, "a kind is missing"))?
                    .to_owned(),
            ),
            Some("more") => {
                let count = parts
                    .next()
                    .and_then(|count| count.parse().ok())
                    .ok_or_else(|| wrong(index, "a number is missing"))?;
                words.extend(parts.map(|name| (name.to_owned(), count)));
                continue;
            }
            Some(word @ ("held" | "gives_back" | "around")) => {
                let how = parts
                    .next()
                    .ok_or_else(|| wrong(index, "a way is missing"))?;
                let around = if word == "around" {
                    around(how).ok_or_else(|| wrong(index, "an unknown time"))?
                } else {
                    String::new()
                };
                for name in parts {
                    let known = of_memory.entry(name.to_owned()).or_default();
                    let (part, code) = match word {
                        "held" => (&mut known.held, how.to_owned()),
                        "gives_back" => (&mut known.gives_back, how.to_owned()),
                        _ => (&mut known.around, around.clone()),
                    };
                    if part.replace(code).is_some() {
                        return Err(wrong(index, &format!("{name} is listed twice")));
                    }
                }
                continue;
            }
            Some(_) => return Err(wrong(index, "an unknown word")),
        };
        for name in parts {
            if ways.insert(name.to_owned(), way.clone()).is_some() {
                return Err(wrong(index, &format!("{name} is listed twice")));
            }
        }
    }
    // A special function may have a struct that no number of words describes.
    let special = ways
        .iter()
        .filter(|(_, way)| **way == Wrapping::Special)
        .map(|(name, _)| name.clone());
    let names: BTreeSet<String> = words.keys().cloned().chain(special).collect();
    if let Some(unknown) = ways
        .keys()
        .chain(of_memory.keys())
        .find(|name| !names.contains(*name))
    {
        return Err(format!(
            "shim/calls.txt: the tables of calls do not have {unknown}"
        ));
    }
    let mut all: Vec<Wrapper> = Vec::new();
    for name in names {
        let way = ways.get(&name).cloned().unwrap_or(Wrapping::Plain);
        let words = words.get(&name).copied().unwrap_or(0);
        let of_memory = of_memory.remove(&name).unwrap_or_default();
        let variants: &[&str] = if matches!(way, Wrapping::Use(_)) {
            &VARIANTS
        } else {
            &VARIANTS[..1]
        };
        all.extend(variants.iter().map(|variant| Wrapper {
            name: format!("{name}{variant}"),
            words,
            way: way.clone(),
            of_memory: of_memory.clone(),
        }));
    }
    if let Some(twice) = all
        .iter()
        .map(|one| &one.name)
        .find(|name| lacking.contains(*name))
    {
        return Err(format!(
            "shim/calls.txt: {twice} is wrapped and cannot be lacking"
        ));
    }
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let file = file(&all) + &lacking_functions(&lacking);
    Ok((file, format!("{names:?}")))
}

/// A function that is passed on.
struct Wrapper {
    name: String,
    words: usize,
    way: Wrapping,
    of_memory: OfMemory,
}

/// When memory is read around a call, as Rust.
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

/// The functions that are there only for a driver that lacks them.
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
/// Takes no argument into account.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn {name}() -> u32 {{
    crate::returned::lacking()
}}
"
        );
    }
    out
}

/// The names that stand behind a word, for the tracer, which takes them out of its copy: a Rust array.
#[allow(dead_code, reason = "the check of the library has no tracer")]
pub(crate) fn names(text: &str, word: &str) -> String {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    format!("{names:?}")
}

/// How many words a function takes; none if a struct is passed in memory.
fn words_of(call: &Call) -> Option<usize> {
    let is_in_memory = call.params.iter().any(|param| {
        matches!(param.kind, ParamKind::Block(_, bytes) if bytes > 16)
            && !param.c_type.contains('*')
    });
    (!is_in_memory).then_some(call.params.len())
}

fn file(all: &[Wrapper]) -> String {
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
/// The index of a function.
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

fn wrapper(
    index: usize,
    Wrapper {
        name,
        words,
        way,
        of_memory,
    }: &Wrapper,
) -> String {
    let parameters: Vec<String> = (0..*words).map(|at| format!("a{at}: usize")).collect();
    let arguments: Vec<String> = (0..*words).map(|at| format!("a{at}")).collect();
    let types = vec!["usize"; *words].join(", ");
    let after = match way {
        Wrapping::Use(usage) => {
            let (first, rest) = usage.split_at(1);
            format!(
                "after_use({index}, status, crate::counts::GpuWork::{}{rest})",
                first.to_uppercase()
            )
        }
        Wrapping::Told(kind) => format!("after_told({index}, status, \"{kind}\", number)"),
        Wrapping::Switch => format!("after_switch({index}, status)"),
        Wrapping::Noisy | Wrapping::Question => format!("after({index}, status, true)"),
        Wrapping::Plain | Wrapping::Special => format!("after({index}, status, false)"),
    };
    let before = match way {
        Wrapping::Told(kind) => {
            format!("let number = crate::special::before_told({index}, \"{kind}\");")
        }
        _ => String::new(),
    };
    let around = of_memory.around.as_deref().unwrap_or("First");
    // What is told of a load has memory read, too.
    let is_told = matches!(way, Wrapping::Told(kind) if kind == "module");
    let is_free = if is_told {
        "if number > 0 { 0 } else "
    } else {
        ""
    };
    let (mut taken, mut under_way) = (String::new(), "");
    let mut returned = String::new();
    let arguments = arguments.join(", ");
    if let Some(held) = &of_memory.held {
        // A synchronisation may take long, and these others take no memory that the page has.
        if !matches!(held.as_str(), "synced" | "graph" | "retained" | "mapped") {
            under_way = "let under_way = crate::memory::CallUnderWay::begin();";
        }
        taken += &format!(
            "if crate::memory::is_taken(status) {{
        // SAFETY: the call succeeded.
        unsafe {{ crate::memory::{held}({index}, &[{arguments}]) }};
    }}
    "
        );
        if !under_way.is_empty() {
            taken += "drop(under_way);
    ";
        }
    }
    if let Some(way) = &of_memory.gives_back {
        let second = if *words > 1 { "a1" } else { "0" };
        returned = format!(
            "let returned = crate::memory::give_back(crate::memory::GivesBack::{way}, a0, {second});"
        );
        taken += "crate::memory::returned(status, returned);
    ";
    }
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
    {taken}crate::memory::after({index}, around);
    status
}}
",
        parameters = parameters.join(", "),
    )
}

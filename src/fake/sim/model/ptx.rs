//! Parses the PTX text of a module: its variables, its kernels, and the effects of simple kernels.
//!
//! Kernels are not run. A kernel that goes straight through and stores constants is read to its end; for any other,
//! only its frame and its parameters are known.

use crate::model::behaviour::VARIABLES_BYTES;
use crate::model::status::{ASSERT, ILLEGAL_ADDRESS, LAUNCH_FAILED};
use std::collections::BTreeMap;

/// The content of a module's text.
#[derive(Debug, Default)]
pub struct PtxImage {
    pub kernels: Vec<PtxEntry>,
    pub variables: Vec<Variable>,
    pub uses_heap: bool,
    pub uses_printf: bool,
    pub uses_assert: bool,
}

/// A variable of a module in device memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    pub name: String,
    pub bytes: u64,
}

/// A kernel as its text describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxEntry {
    pub name: String,
    pub params: usize,
    /// The local memory of a thread.
    pub frame_bytes: u64,
    pub work: Work,
}

/// The effect of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// The kernel ends without an error.
    Ends,
    /// The kernel stops with an error.
    Fails(u32),
    /// The kernel prints.
    Prints,
    /// The kernel reads the clock until the number of nanoseconds in its only argument has passed.
    Spins,
    /// A kernel that this parser does not understand.
    Unclear,
}

impl PtxImage {
    /// Reads PTX text; `None` for any other text.
    pub fn read(text: &str) -> Option<Self> {
        let text = without_comments(text);
        if !has_word(&text, ".version") {
            return None;
        }
        Some(Self {
            kernels: text.split(".entry").skip(1).map(entry).collect(),
            variables: variables(&text),
            uses_heap: has_word(&text, "malloc") || has_word(&text, "free"),
            uses_printf: has_word(&text, "vprintf"),
            uses_assert: has_word(&text, "__assertfail"),
        })
    }

    /// Returns the memory of its variables that do not fit into the block that modules share.
    pub fn large_variables_bytes(&self) -> u64 {
        let large = self
            .variables
            .iter()
            .filter(|variable| variable.bytes > VARIABLES_BYTES);
        large
            .map(|variable| variable.bytes.next_multiple_of(VARIABLES_BYTES))
            .sum()
    }

    /// Returns `true` if any variable lies in that block.
    pub fn has_small_variables(&self) -> bool {
        self.variables
            .iter()
            .any(|variable| variable.bytes <= VARIABLES_BYTES)
    }

    /// Returns a kernel by its name.
    pub fn kernel(&self, name: &str) -> Option<&PtxEntry> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// Returns the variables outside functions.
fn variables(text: &str) -> Vec<Variable> {
    text.split(';')
        .filter(|statement| has_word(statement, ".global") && !statement.contains(".entry"))
        .filter_map(parse_variable)
        .collect()
}

fn parse_variable(statement: &str) -> Option<Variable> {
    let declared = &statement[statement.rfind(".global")?..];
    let declared = declared.split('=').next()?;
    let last = declared.split_whitespace().next_back()?;
    let (name, count) = match last.split_once('[') {
        Some((name, count)) => (name, count.trim_end_matches(']').parse().ok()?),
        None => (last, 1),
    };
    let width = declared.split_whitespace().find_map(width)?;
    Some(Variable {
        name: name.to_owned(),
        bytes: width * count,
    })
}

/// Returns the bytes of a type such as `.u64`.
fn width(word: &str) -> Option<u64> {
    let bits = ["u", "s", "b", "f"]
        .iter()
        .find_map(|kind| word.strip_prefix('.')?.strip_prefix(kind));
    bits?.parse::<u64>().ok().map(|bits| bits / 8)
}

/// Parses the text after `.entry`.
fn entry(rest: &str) -> PtxEntry {
    let name: String = rest
        .trim_start()
        .chars()
        .take_while(|c| is_name(*c))
        .collect();
    let (head, body) = rest.split_once('{').unwrap_or((rest, ""));
    let body = &body[..end_of_block(body)];
    let frames = body
        .split(';')
        .filter(|statement| has_word(statement, ".local"));
    let frame_bytes = frames.filter_map(|statement| {
        statement
            .split_once('[')?
            .1
            .split_once(']')?
            .0
            .parse::<u64>()
            .ok()
    });
    let params = head.matches(".param").count();
    PtxEntry {
        name,
        params,
        frame_bytes: frame_bytes.sum(),
        work: if body.contains("%globaltimer") && params == 1 {
            Work::Spins
        } else {
            work(body)
        },
    }
}

fn end_of_block(body: &str) -> usize {
    let mut depth = 1;
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    body.len()
}

/// The known value of a register.
#[derive(Clone, Copy)]
enum RegisterValue {
    Number,
    VariableAddress,
    Other,
}

fn value_of(registers: &BTreeMap<&str, RegisterValue>, name: &str) -> RegisterValue {
    if let Some(known) = registers.get(name) {
        return *known;
    }
    if name.parse::<u64>().is_ok() {
        return RegisterValue::Number;
    }
    if name.starts_with('%') {
        RegisterValue::Other
    } else {
        RegisterValue::VariableAddress
    }
}

/// Parses the body of a kernel, which is unclear if it branches or does anything that is not simple.
fn work(body: &str) -> Work {
    if has_word(body, "vprintf") {
        return Work::Prints;
    }
    let mut registers: BTreeMap<&str, RegisterValue> = BTreeMap::new();
    for statement in body.split(';') {
        let statement = statement.trim_matches(|c: char| c.is_whitespace() || c == '{' || c == '}');
        let (operation, operands) = statement
            .split_once(char::is_whitespace)
            .unwrap_or((statement, ""));
        let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
        match operation {
            "" | ".reg" | ".param" | ".local" | ".shared" => {}
            "ret" => return Work::Ends,
            "trap" => return Work::Fails(LAUNCH_FAILED),
            "call.uni" if statement.contains("__assertfail") => return Work::Fails(ASSERT),
            // The content of the device heap is not modeled; its memory is, with the context.
            "call.uni" if has_word(statement, "malloc") || has_word(statement, "free") => {}
            _ if operation.starts_with("st.param") => {}
            _ if operation.starts_with("ld.param") => {
                registers.insert(operands[0], RegisterValue::Other);
            }
            _ if operation.starts_with("mov.") || operation.starts_with("cvta.") => {
                let [to, from] = operands[..] else {
                    return Work::Unclear;
                };
                registers.insert(to, value_of(&registers, from));
            }
            _ if operation.starts_with("st.global") || operation.starts_with("red.global.add") => {
                match operands.iter().find_map(|operand| address_in(operand)) {
                    Some(name) => match value_of(&registers, name) {
                        RegisterValue::Number => return Work::Fails(ILLEGAL_ADDRESS),
                        RegisterValue::VariableAddress => {}
                        RegisterValue::Other => return Work::Unclear,
                    },
                    None => return Work::Unclear,
                }
            }
            _ => return Work::Unclear,
        }
    }
    Work::Unclear
}

/// Returns the name between the brackets of an operand such as `[%rd1]`.
fn address_in(operand: &str) -> Option<&str> {
    operand.strip_prefix('[')?.strip_suffix(']')
}

/// Returns the text without its line comments and its block comments.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, after) = rest.split_at(at);
        kept.push_str(before);
        let end = match after.as_bytes().get(1) {
            Some(b'/') => after.find('\n').unwrap_or(after.len()),
            Some(b'*') => after.find("*/").map_or(after.len(), |end| end + 2),
            _ => {
                kept.push('/');
                1
            }
        };
        rest = &after[end..];
    }
    kept.push_str(rest);
    kept
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns `true` if a word is in the text, but not as a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(file: &str) -> Vec<(String, Work)> {
        let path = format!(
            "{}/../../../../scenarios/kernels/{file}.ptx",
            env!("CARGO_MANIFEST_DIR")
        );
        let image = PtxImage::read(&std::fs::read_to_string(path).unwrap()).unwrap();
        image
            .kernels
            .into_iter()
            .map(|kernel| (kernel.name, kernel.work))
            .collect()
    }

    #[test]
    fn failures_are_seen_where_they_are_plain() {
        let found: BTreeMap<String, Work> = kernels("fault").into_iter().collect();
        assert_eq!(found["harmless"], Work::Ends);
        assert_eq!(found["wild"], Work::Fails(ILLEGAL_ADDRESS));
        assert_eq!(found["assert"], Work::Fails(ASSERT));
        assert_eq!(found["trap"], Work::Fails(LAUNCH_FAILED));
        for unclear in ["misaligned", "shared", "space", "exhaust"] {
            assert_eq!(found[unclear], Work::Unclear, "{unclear}");
        }
        assert!(
            kernels("heap")
                .iter()
                .all(|(_, work)| *work == Work::Unclear)
        );
    }

    #[test]
    fn variables_and_frames_are_counted() {
        let text = ".version 6.0\n.visible .global .align 8 .u64 n = 7;\n.global .align 1 .b8 t[3] = {1, 2, 0};\n\
            .visible .entry deep(.param .u64 a, .param .u64 b)\n{ .local .align 8 .b8 cells[3072]; ld.local.u64 %r, [cells]; }";
        let image = PtxImage::read(text).unwrap();
        let n = Variable {
            name: "n".to_owned(),
            bytes: 8,
        };
        assert_eq!(
            image.variables,
            [
                n,
                Variable {
                    name: "t".to_owned(),
                    bytes: 3,
                }
            ]
        );
        let deep = image.kernel("deep").unwrap();
        assert_eq!((deep.params, deep.frame_bytes), (2, 3072));
        assert!(PtxImage::read("no ptx").is_none());
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("call malloc, (x)", "malloc"));
        assert!(!has_word("call my_malloc", "malloc"));
        assert_eq!(without_comments("a // b\nc /* d */ e / f"), "a \nc  e / f");
    }
}

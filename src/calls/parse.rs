//! Parsing prototypes, and how parameters are passed according to their C types.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::call::{Call, EarlierPrototype, Effect, Param, Returns};
use crate::constants::Constants;
use crate::kind::{Output, ParamKind};
use crate::library::CallLibrary;
use crate::structs::{InputStruct, Layout};
use crate::table::{TableError, Wrong, each_line, name, number, parse_small, read, version};

/// The way in which a value of a C type is passed.
#[derive(Clone, Copy)]
enum Way {
    Int,
    Uint,
    Number,
    Bytes,
    Varying,
    Float,
    Uuid,
    Text(usize),
    Handle(&'static str),
    Word(&'static str),
    Block(&'static str, usize),
    Struct(&'static str),
    Constant(&'static Constants),
    Dim3,
    Location,
    Ptx,
    FatBinary(&'static str),
    Arguments,
    Actor,
    Pid,
}

impl Way {
    fn read(text: &'static str) -> Result<Way, TableError> {
        let simple = match text {
            "int" => Way::Int,
            "uint" => Way::Uint,
            "number" => Way::Number,
            "bytes" => Way::Bytes,
            "varying" => Way::Varying,
            "float" => Way::Float,
            "uuid" => Way::Uuid,
            "text" => Way::Text(0),
            "dim3" => Way::Dim3,
            "location" => Way::Location,
            "ptx" => Way::Ptx,
            "arguments" => Way::Arguments,
            "actor" => Way::Actor,
            "pid" => Way::Pid,
            _ => return Way::with_name(text),
        };
        Ok(simple)
    }

    fn with_name(text: &'static str) -> Result<Way, TableError> {
        if let Some(set) = Constants::find(text) {
            return Ok(Way::Constant(set));
        }
        let unknown = TableError::Word(text, "is not a way to pass a parameter");
        if let Some(of) = text.strip_prefix("fat binary ") {
            return Ok(Way::FatBinary(of));
        }
        match text.split_once(' ').ok_or(unknown)? {
            ("text", bytes) => Ok(Way::Text(parse_small(bytes)?)),
            ("handle", of) => Ok(Way::Handle(of)),
            ("word", of) => Ok(Way::Word(of)),
            ("struct", of) => Ok(Way::Struct(of)),
            ("block", rest) => {
                let (bytes, of) = rest.split_once(' ').ok_or(unknown)?;
                Ok(Way::Block(of, parse_small(bytes)?))
            }
            _ => Err(unknown),
        }
    }

    fn input_kind(self) -> Option<ParamKind> {
        Some(match self {
            Way::Int => ParamKind::I32,
            Way::Uint => ParamKind::U32,
            Way::Number => ParamKind::U64,
            Way::Bytes => ParamKind::Bytes,
            Way::Text(0) => ParamKind::Text,
            Way::Handle(of) => ParamKind::Handle(of),
            Way::Block(of, bytes) => ParamKind::Block(of, bytes),
            Way::Struct(of) => ParamKind::In(InputStruct::find(of)?),
            Way::Constant(set) => ParamKind::Constant(set),
            Way::Dim3 => ParamKind::Dim3,
            Way::Location => ParamKind::Location,
            Way::Ptx => ParamKind::Ptx,
            Way::FatBinary(of) => ParamKind::FatBinary(of),
            Way::Arguments => ParamKind::Arguments,
            Way::Actor => ParamKind::Actor,
            Way::Pid => ParamKind::Pid,
            Way::Varying | Way::Float | Way::Uuid | Way::Text(_) | Way::Word(_) => return None,
        })
    }

    fn output(self) -> Option<Output> {
        Some(match self {
            Way::Int | Way::Constant(_) => Output::I32,
            Way::Uint => Output::U32,
            Way::Number | Way::Bytes => Output::U64,
            Way::Varying => Output::Varying,
            Way::Float => Output::F32,
            Way::Uuid => Output::Uuid,
            Way::Text(bytes) => Output::Text(bytes),
            Way::Handle(of) => Output::Handle(of),
            Way::Word(of) => Output::Word(of),
            Way::Block(of, bytes) => Output::Blob(of, bytes),
            Way::Struct(of) => Output::Struct(Layout::find(of)?),
            _ => return None,
        })
    }
}

/// Returns the ways of C types.
fn c_type_ways() -> &'static HashMap<&'static str, Way> {
    static WAYS: LazyLock<HashMap<&'static str, Way>> =
        LazyLock::new(|| read("types.txt", parse_types(include_str!("tables/types.txt"))));
    &WAYS
}

fn parse_types(text: &'static str) -> Result<HashMap<&'static str, Way>, Wrong> {
    let sets = Constants::all()
        .iter()
        .flat_map(|set| set.types.iter().map(|of| (*of, Way::Constant(set))));
    let mut ways: HashMap<&str, Way> = sets.collect();
    each_line(text, |_, said| {
        let (way, types) = said
            .split_once(": ")
            .ok_or(TableError::Line("expected `way: C types`"))?;
        let way = Way::read(way)?;
        for of in types.split(", ") {
            if ways.insert(of, way).is_some() {
                return Err(TableError::Word(of, "already has a way"));
            }
        }
        Ok(())
    })?;
    Ok(ways)
}

/// Returns the way of a C type. `const` is ignored, and `struct` and `enum` are allowed.
fn way_of(c_type: &str) -> Option<Way> {
    let bare = c_type.strip_prefix("const ").unwrap_or(c_type);
    let bare = bare
        .strip_prefix("struct ")
        .or(bare.strip_prefix("enum "))
        .unwrap_or(bare);
    c_type_ways().get(bare).copied()
}

/// Returns the way of the type that a pointer points to.
fn way_of_pointee(c_type: &str) -> Option<Way> {
    way_of(c_type.strip_suffix('*')?.trim_end())
}
/// Parses the calls of a table.
pub(crate) fn calls(text: &'static str) -> Result<Vec<Call>, Wrong> {
    let mut calls: Vec<Call> = Vec::new();
    let mut library = None;
    each_line(text, |indented, said| {
        if let Some(name) = said.strip_prefix("library ") {
            let found = CallLibrary::ALL
                .into_iter()
                .find(|library| library.name() == name);
            library = Some(found.ok_or(TableError::Word(name, "is not a library"))?);
        } else if indented {
            let call = calls
                .last_mut()
                .ok_or(TableError::Line("an earlier prototype without its call"))?;
            call.earlier = Some(parse_earlier(said)?);
        } else {
            let library = library.ok_or(TableError::Line("a call outside any library"))?;
            calls.push(call(library, said)?);
        }
        Ok(())
    })?;
    Ok(calls)
}

/// Parses `until 12.9 (C types)`.
fn parse_earlier(said: &'static str) -> Result<EarlierPrototype, TableError> {
    let expected = TableError::Line("expected `until version (C types)`");
    let (until, types) = said
        .strip_prefix("until ")
        .and_then(|rest| rest.strip_suffix(')')?.split_once(" ("))
        .ok_or(expected)?;
    Ok(EarlierPrototype {
        until: version(until)?,
        types: types.split(", ").collect(),
    })
}

fn call(library: CallLibrary, said: &'static str) -> Result<Call, TableError> {
    let (before, rest) = said
        .split_once('(')
        .ok_or(TableError::Line("expected `name(parameters): sentence`"))?;
    let (inside, rest) = rest
        .split_once(')')
        .ok_or(TableError::Line("the parenthesis is not closed"))?;
    let (known, summary) = rest
        .split_once(": ")
        .ok_or(TableError::Line("expected a colon and a sentence"))?;
    let (name_of, returns) = match before.strip_prefix("const char *") {
        Some(name) => (name, Returns::Text),
        None => (before, Returns::Status),
    };
    let mut call = Call {
        name: name(name_of)?,
        library,
        summary,
        params: Vec::new(),
        returns,
        since: None,
        until: None,
        earlier: None,
        effects: Vec::new(),
    };
    if !inside.is_empty() {
        call.params = inside
            .split(',')
            .map(|said| parse_param(said.trim()))
            .collect::<Result<_, _>>()?;
    }
    for word in known
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        match word.split_once(' ') {
            Some(("since", since)) => call.since = Some(version(since)?),
            Some(("until", until)) => call.until = Some(version(until)?),
            _ => {
                let effect = Effect::WORDS.iter().find(|(known, _)| *known == word);
                call.effects
                    .push(effect.ok_or(TableError::Word(word, "is not an effect"))?.1);
            }
        }
    }
    Ok(call)
}

fn parse_param(said: &'static str) -> Result<Param, TableError> {
    let (older, said) = said
        .strip_prefix("older ")
        .map_or((false, said), |rest| (true, rest));
    let (said, value) = match said.split_once('=') {
        Some((said, value)) => (said.trim_end(), Some(number(value)?)),
        None => (said, None),
    };
    let (said, always, default) = match said.strip_suffix(':') {
        Some(said) => (said.trim_end(), value, None),
        None => (said, None, value),
    };
    let (said, way) = match said.split_once(':') {
        Some((said, way)) => (said, Some(Way::read(way.trim())?)),
        None => (said, None),
    };
    let (mode, declared) = match said.split_once(' ') {
        Some((mode @ ("out" | "zeroed" | "rest"), declared)) => (mode, declared),
        _ => ("", said),
    };
    let start = declared
        .bytes()
        .rposition(|byte| byte == b' ' || byte == b'*')
        .map_or(0, |at| at + 1);
    let (c_type, name) = (declared[..start].trim_end(), name(&declared[start..])?);
    let kind = match (mode, always) {
        ("" | "rest", Some(value)) if way.is_none() => Some(ParamKind::Fixed(value as u64)),
        (_, Some(_)) => {
            return Err(TableError::Word(name, "with a value takes nothing else"));
        }
        ("", None) => way.or_else(|| way_of(c_type)).and_then(Way::input_kind),
        ("out", None) => written(way, c_type).map(ParamKind::Out),
        ("zeroed", None) => written(way, c_type).filter(is_all_zero).map(ParamKind::Out),
        _ => None,
    };
    let kind = kind.ok_or(TableError::CType(name, c_type))?;
    match (mode, c_type.is_empty(), &kind, default) {
        ("rest", false, ..) => Err(TableError::Word(
            name,
            "is the rest of a parameter, so it cannot have a C type",
        )),
        ("" | "out" | "zeroed", true, ..) => Err(TableError::Word(name, "has no C type")),
        ("out", false, ..) if c_type.starts_with("const ") && !c_type.ends_with("**") => {
            Err(TableError::Word(name, "is written by the callee but const"))
        }
        (_, _, ParamKind::Out(_), Some(_)) => Err(TableError::Word(
            name,
            "is written by the callee but has a default",
        )),
        _ => Ok(Param {
            name,
            c_type,
            older,
            kind,
            default,
        }),
    }
}

/// Returns the output that a function writes to an address of this C type.
fn written(way: Option<Way>, c_type: &str) -> Option<Output> {
    if !c_type.ends_with('*') {
        return None;
    }
    match way {
        Some(way) => way.output(),
        // The type that a `void *` points to is unknown.
        None if c_type.ends_with("void *") => None,
        None => way_of(c_type)
            .and_then(Way::output)
            .or_else(|| way_of_pointee(c_type).and_then(Way::output)),
    }
}

fn is_all_zero(output: &Output) -> bool {
    matches!(output, Output::Struct(layout) if layout.preset.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(said: &'static str) -> String {
        call(CallLibrary::Driver, said).expect_err(said).to_string()
    }

    #[test]
    fn the_c_type_says_how_a_parameter_is_passed() {
        let call = call(
            CallLibrary::Driver,
            "f(out CUcontext *c, const char *t, size_t n = 4, int z := 0x10): Does.",
        );
        let call = call.expect("a call");
        let kinds: Vec<&ParamKind> = call.params.iter().map(|param| &param.kind).collect();
        assert!(
            matches!(
                kinds[..],
                [
                    ParamKind::Out(Output::Handle("context")),
                    ParamKind::Text,
                    ParamKind::Bytes,
                    ParamKind::Fixed(16)
                ]
            ),
            "{kinds:?}"
        );
        assert_eq!(
            (call.params[0].c_type, call.params[2].default),
            ("CUcontext *", Some(4))
        );
    }

    #[test]
    fn what_is_known_of_a_call_stands_before_the_colon() {
        let call = call(
            CallLibrary::Runtime,
            "const char *f(int x: pid) since 12.3, until 12.9, forks: Does.",
        )
        .unwrap();
        assert_eq!(
            (call.since, call.until, call.returns),
            (Some(12030), Some(12090), Returns::Text)
        );
        assert!(
            call.has(Effect::Forks)
                && call.starts_process()
                && matches!(call.params[0].kind, ParamKind::Pid)
        );
    }

    #[test]
    fn what_is_wrong_in_a_line_is_said() {
        assert!(why("f(CUcontxt c): Does.").contains("`c`: it is unknown how to pass `CUcontxt`"));
        assert!(why("f(out void *p): Does.").contains("unknown"));
        assert!(why("f(int x: itn): Does.").contains("`itn` is not a way"));
        assert!(why("f(int x := two): Does.").contains("`two` is not a number"));
        assert!(why("f(int x: pid := 2): Does.").contains("nothing else"));
        assert!(why("f(out const CUcontext *c): Does.").contains("const"));
        assert!(why("f(zeroed nvmlMemory_v2_t *m): Does.").contains("unknown"));
        assert!(why("f(x): Does.").contains("no C type") || why("f(x): Does.").contains("unknown"));
        assert!(why("f() since: Does.").contains("`since` is not an effect"));
        assert!(why("f() since 12: Does.").contains("not a version"));
        assert!(why("f(int x) Does.").contains("colon"));
        assert!(why("f(int x: Does.").contains("not closed"));
        assert_eq!(
            calls("library libcuda\n\nf(int x): Does.\ng(int): Does.")
                .unwrap_err()
                .0,
            4
        );
        assert!(
            calls("f(): Does.")
                .unwrap_err()
                .1
                .to_string()
                .contains("outside any library")
        );
        assert!(
            calls("library libcuba")
                .unwrap_err()
                .1
                .to_string()
                .contains("`libcuba` is not a library")
        );
    }
}

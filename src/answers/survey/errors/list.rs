//! The places, statuses and lines of `scenarios/surveys/errors.toml`, read strictly.

use super::{Returned, suffix};
use crate::survey::python::{PythonLine, line};
use cuda_pitfalls_calls as calls;
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::source::reader::Reader;
use cuda_pitfalls_core::source::tree::{Node, SourceSpan};

const PATH: &str = "scenarios/surveys/errors.toml";
const SOURCE: &str = cuda_pitfalls_scenarios::FAILURES;
const MOST_BYTES: usize = 1 << 20;

/// A place and its statuses.
struct Place {
    name: String,
    calls: Vec<String>,
    statuses: Vec<u32>,
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorList {
    /// Each line with every call passed on, and then with each status at each place.
    pub lines: Vec<PythonLine>,
}

/// The list that comes with the program.
///
/// # Errors
/// The errors of the list, with their places.
pub fn built_in() -> Result<ErrorList, Invalid> {
    read(PATH, SOURCE)
}

/// Parses a list; errors name `path`.
pub(super) fn read(path: &str, source: &str) -> Result<ErrorList, Invalid> {
    Invalid::or_read(path, source, list)
}

fn list(reader: &mut Reader<'_>) -> Option<ErrorList> {
    let entries = reader.top("a list of errors", MOST_BYTES)?;
    reader.known_keys(&entries, &["place", "line"]);
    let places = reader.required(&entries, "place", &SourceSpan::at(0..0), "a list of errors")?;
    let places: Vec<Place> = reader.one_or_more(places).iter().filter_map(|node| place(reader, node)).collect();
    let lines = reader.required(&entries, "line", &SourceSpan::at(0..0), "a list of errors")?;
    let lines: Vec<PythonLine> = reader.one_or_more(lines).iter().filter_map(|node| line(reader, node)).collect();
    let mut all = Vec::new();
    for line in lines {
        let failing = places.iter().flat_map(|place| {
            let returned = |code: &u32| Returned::new(&place.name, &place.calls, *code);
            place.statuses.iter().map(returned).collect::<Vec<_>>()
        });
        let failing: Vec<PythonLine> = failing
            .map(|returned| PythonLine {
                id: format!("{}{}", line.id, suffix(&returned)),
                returned: Some(returned),
                ..line.clone()
            })
            .collect();
        all.push(line);
        all.extend(failing);
    }
    Some(ErrorList { lines: all })
}

fn place(reader: &mut Reader<'_>, node: &Node) -> Option<Place> {
    let entries = reader.table_of(node, &["name", "calls", "statuses"])?;
    let name = reader.required(entries, "name", &node.place, "a place");
    let name = name.and_then(|node| reader.sentence(node))?;
    let named = reader.required(entries, "calls", &node.place, "a place")?;
    let mut made = Vec::new();
    for node in reader.list(named)? {
        let call = reader.sentence(node)?;
        // Older names of a call are not in the tables.
        let base = call.split("_v").next().unwrap_or(&call);
        if !calls::all().any(|known| known.name == call || known.name.split("_v").next() == Some(base)) {
            reader.error(&node.place, format!("`{call}` is no call of libcuda or NVML"), None);
        }
        made.push(call);
    }
    let statuses = reader.required(entries, "statuses", &node.place, "a place")?;
    let statuses = reader.list(statuses)?.iter().filter_map(|node| reader.integer(node, 0..=100_000));
    let statuses = statuses.filter_map(|code| u32::try_from(code).ok()).collect();
    Some(Place { name, calls: made, statuses })
}

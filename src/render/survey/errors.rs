//! `survey errors`: what frameworks make of an error of the driver.

use super::python::interpreters;
use super::section::Section;
use super::{NamedSurvey, disagreements, documents, left_out};
use cuda_pitfalls_answers::survey::document::{Row, SurveyDocument};
use cuda_pitfalls_answers::survey::errors::{Effect, ErrorRow};
use cuda_pitfalls_calls::CallLibrary;
use cuda_pitfalls_core::text::counts::{grouped, tally};
use cuda_pitfalls_core::text::escape::shorten;

pub(super) const OPENING: &str = "\
Each line ran in a fresh interpreter with a libcuda or an NVML that returned one status from one place on, and passed \
every other call on to the real one. No GPU was at fault: what is shown is what the framework makes of the status. The control is \
the same line with every call passed on; a line that did not come to the place is left out.

- **silent**: the line went on with another value, such as the CPU, and raised nothing. Its warnings of Python's are below; \
in documents before 1.4 they were not recorded, and what it logs is in none.
- **works**: the line did what it does without the error.
- Places: `count` is cuDeviceGetCount, `context` what makes the first context, `allocation` and `launch` the first of \
each; `driver version` is not an error but an older version that the driver says it has, and `NVML counts` another number of \
GPUs.";

/// A message is cut to this many bytes.
const LONGEST: usize = 240;

pub(super) fn sections(sources: &[NamedSurvey]) -> Vec<Section> {
    let documents: Vec<&SurveyDocument<ErrorRow>> = documents(sources);
    let mut sections = vec![interpreters(&documents)];
    for (source, document) in sources.iter().zip(&documents) {
        let rows: Vec<&ErrorRow> = document.rows.iter().filter(|row| !row.is_control()).collect();
        let title = |text: &str| source.title(text, sources.len());
        sections.push(silent(title("Goes on without an exception"), &rows, document));
        for (library, name) in [(CallLibrary::Driver, "libcuda"), (CallLibrary::Nvml, "NVML")] {
            let is_of = |row: &&&ErrorRow| row.returned.as_ref().is_some_and(|returned| returned.library() == library);
            let rows: Vec<&ErrorRow> = rows.iter().filter(is_of).copied().collect();
            sections.push(effects(title(&format!("What each line makes of each status of {name}")), &rows, document));
        }
        sections.push(messages(title("Messages"), &rows, document));
        sections.push(warnings(title("Warnings"), &rows));
        sections.push(code(title("Lines"), &rows));
        sections.push(unmeasured(title("Not measured"), &rows));
    }
    sections.push(disagreements(documents.iter().flat_map(|document| &document.rows)));
    sections.push(left_out(documents.iter().flat_map(|document| &document.left_out)));
    sections
}

/// The lines that go on with another value, by place.
fn silent(title: String, rows: &[&ErrorRow], document: &SurveyDocument<ErrorRow>) -> Section {
    let is_silent = |row: &&&ErrorRow| row.effect(&document.rows) == Some(Effect::Silent);
    let each = rows.iter().filter(is_silent).filter_map(|row| {
        let returned = row.returned.as_ref()?;
        Some(((row.line.clone(), returned.place.clone(), row.value.clone().unwrap_or_default()), returned.code))
    });
    let row = |((line, place, value), codes): ((String, String, String), Vec<u32>)| {
        vec![line, place, codes.iter().map(u32::to_string).collect::<Vec<_>>().join(", "), value]
    };
    Section::new(title, &["line", "place", "statuses", "value"], grouped(each).into_iter().map(row).collect(), &[3])
}

/// The effect of each status at each place, line by line.
fn effects(title: String, rows: &[&ErrorRow], document: &SurveyDocument<ErrorRow>) -> Section {
    let places = tally(rows.iter().filter_map(|row| Some(row.returned.as_ref()?.place.as_str())));
    let each = rows.iter().filter_map(|row| {
        let (returned, effect) = (row.returned.as_ref()?, row.effect(&document.rows)?);
        let said = match effect {
            Effect::Nothing => "works".to_string(),
            Effect::Silent => "silent".to_string(),
            Effect::Raises => row.raised.as_ref().map(|raised| raised.kind.clone()).unwrap_or_default(),
            Effect::Dies => row.left.clone().unwrap_or_default(),
        };
        Some(((&row.line, returned.code, &returned.status), (&returned.place, said)))
    });
    let header: Vec<&str> = ["line", "status"].into_iter().chain(places.iter().map(|(place, _)| *place)).collect();
    let rows = grouped(each).into_iter().map(|((line, code, status), said)| {
        let cell =
            |place: &str| said.iter().rev().find(|(known, _)| known.as_str() == place).map(|(_, said)| said.clone());
        let cells = places.iter().map(|(place, _)| cell(place).unwrap_or_default());
        // What is no status has its number in its words.
        let status = if status.contains(' ') { status.clone() } else { format!("{code} {status}") };
        [line.clone(), status].into_iter().chain(cells).collect()
    });
    Section::new(title, &header, rows.collect(), &[])
}

/// Each message once, with who says it and for which statuses.
fn messages(title: String, rows: &[&ErrorRow], document: &SurveyDocument<ErrorRow>) -> Section {
    let raising = rows.iter().filter(|row| row.effect(&document.rows) == Some(Effect::Raises));
    let each = raising.filter_map(|row| {
        let (raised, returned) = (row.raised.as_ref()?, row.returned.as_ref()?);
        let message = shorten(&format!("{}: {}", raised.kind, raised.message), LONGEST);
        Some((message, (row.line.clone(), format!("{} {}", returned.place, returned.code))))
    });
    texts(title, "message", each)
}

/// Each warning once, with who gives it and for which statuses.
fn warnings(title: String, rows: &[&ErrorRow]) -> Section {
    let each = rows.iter().flat_map(|row| {
        let at = match &row.returned {
            Some(returned) => format!("{} {}", returned.place, returned.code),
            None => "without an error".to_string(),
        };
        row.warned.iter().map(move |warning| (shorten(warning, LONGEST), (row.line.clone(), at.clone())))
    });
    texts(title, "warning", each)
}

/// Each text once, with the lines that say it and where they do.
fn texts(title: String, what: &str, each: impl Iterator<Item = (String, (String, String))>) -> Section {
    let row = |(text, said): (String, Vec<(String, String)>)| {
        let by_line = grouped(said).into_iter().map(|(line, at)| format!("{line} ({})", at.join(", ")));
        vec![text, by_line.collect::<Vec<_>>().join("; ")]
    };
    Section::new(title, &[what, "said by (place and status)"], grouped(each).into_iter().map(row).collect(), &[0])
}

/// What the names of the lines stand for.
fn code(title: String, rows: &[&ErrorRow]) -> Section {
    let controls = rows.iter().filter(|row| row.returned.is_none());
    let row = |row: &&ErrorRow| {
        let env = row.env.iter().map(|(name, value)| format!("{name}={value}"));
        let code = row.before.iter().cloned().chain([row.ask.trim().to_string()]);
        vec![row.line.clone(), env.chain(code).collect::<Vec<_>>().join("\n"), row.value.clone().unwrap_or_default()]
    };
    Section::new(title, &["line", "code", "value without an error"], controls.map(row).collect(), &[1, 2])
}

fn unmeasured(title: String, rows: &[&ErrorRow]) -> Section {
    let each = rows.iter().filter_map(|row| {
        let why = row.standing.unmeasured.as_ref()?;
        Some(((row.line.clone(), why.detail.clone()), ()))
    });
    let row = |((line, why), count): ((String, String), Vec<()>)| vec![line, count.len().to_string(), why];
    Section::new(title, &["line", "rows", "why"], grouped(each).into_iter().map(row).collect(), &[])
}

//! A fleet as tables in Parquet, for databases that have years of audits to search.
//!
//! Text is as the document has it: nothing that reads a table shows it to anybody. Every column may be null, and
//! the columns `audit` are the same in every table, so that the tables of many audits can be read as one.

use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use cuda_pitfalls_answers::fleet::{Fleet, Key, What};

use super::words;

/// Rows that are in memory at once.
const ROWS: usize = 1 << 16;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
enum Cell<'a> {
    Text(&'a str),
    Own(String),
    Integer(i64),
    Flag(bool),
    Null,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Text,
    Integer,
    Flag,
    /// Microseconds since 1970, UTC.
    Time,
}

type Rows<'a> = Box<dyn Iterator<Item = Vec<Cell<'a>>> + 'a>;

/// One table of a fleet.
pub struct Table<'a> {
    /// Its name, and that of its file.
    pub name: &'static str,
    columns: &'static [(&'static str, Holds)],
    rows: Rows<'a>,
}

/// The columns of `machines`.
const MACHINES: &[(&str, Holds)] = &[
    ("audit", Holds::Time),
    ("machine", Holds::Text),
    ("labels_json", Holds::Text),
    ("gpu_count", Holds::Integer),
    ("gpu_uuids", Holds::Text),
    ("reports", Holds::Text),
    ("started_at", Holds::Time),
    ("partial", Holds::Flag),
    ("unexpected_verdicts", Holds::Integer),
    ("missing", Holds::Flag),
];

/// The columns of `questions`.
const QUESTIONS: &[(&str, Holds)] =
    &[("audit", Holds::Time), ("question", Holds::Text), ("asks", Holds::Text), ("page", Holds::Text)];

/// The columns of `outcomes`.
const OUTCOMES: &[(&str, Holds)] = &[
    ("audit", Holds::Time),
    ("gpus", Holds::Text),
    ("driver", Holds::Text),
    ("libcudart", Holds::Text),
    ("mig", Holds::Flag),
    ("shared", Holds::Flag),
    ("group_machines", Holds::Integer),
    ("question", Holds::Text),
    ("outcome", Holds::Integer),
    ("verdict", Holds::Text),
    ("facts", Holds::Text),
    ("machines", Holds::Integer),
];

/// The columns of `answers`.
const ANSWERS: &[(&str, Holds)] = &[
    ("audit", Holds::Time),
    ("machine", Holds::Text),
    ("gpus", Holds::Text),
    ("driver", Holds::Text),
    ("libcudart", Holds::Text),
    ("mig", Holds::Flag),
    ("shared", Holds::Flag),
    ("question", Holds::Text),
    ("outcome", Holds::Integer),
    ("verdict", Holds::Text),
];

/// The columns of `differences`.
const DIFFERENCES: &[(&str, Holds)] = &[
    ("audit", Holds::Time),
    ("rank", Holds::Integer),
    ("differs_in", Holds::Text),
    ("machine", Holds::Text),
    ("gpus", Holds::Text),
    ("driver", Holds::Text),
    ("libcudart", Holds::Text),
    ("mig", Holds::Flag),
    ("shared", Holds::Flag),
    ("question", Holds::Text),
    ("of", Holds::Text),
    ("usual", Holds::Text),
    ("these", Holds::Text),
    ("usual_machines", Holds::Integer),
    ("these_machines", Holds::Integer),
    ("usual_median_bytes", Holds::Integer),
    ("these_median_bytes", Holds::Integer),
    ("cause", Holds::Integer),
];

/// All tables of a fleet.
pub fn tables(fleet: &Fleet) -> Vec<Table<'_>> {
    let questions = fleet.questions.iter().map(move |question| {
        let page = question.page.as_deref().map_or(Cell::Null, Cell::Text);
        vec![audit(fleet), Cell::Text(&question.name), Cell::Text(&question.question), page]
    });
    vec![
        Table { name: "machines", columns: MACHINES, rows: Box::new(machines(fleet)) },
        Table { name: "questions", columns: QUESTIONS, rows: Box::new(questions) },
        Table { name: "outcomes", columns: OUTCOMES, rows: Box::new(outcomes(fleet)) },
        Table { name: "answers", columns: ANSWERS, rows: Box::new(answers(fleet)) },
        Table { name: "differences", columns: DIFFERENCES, rows: differences(fleet) },
    ]
}

/// When the latest merged run began: what tells one audit from another.
fn audit(fleet: &Fleet) -> Cell<'_> {
    fleet.input.to.as_deref().map_or(Cell::Null, time)
}

fn time(text: &str) -> Cell<'_> {
    text.parse::<jiff::Timestamp>().map_or(Cell::Null, |at| Cell::Integer(at.as_microsecond()))
}

fn integer<'a>(count: usize) -> Cell<'a> {
    i64::try_from(count).map_or(Cell::Null, Cell::Integer)
}

fn of_key(key: Option<&Key>) -> [Cell<'_>; 5] {
    match key {
        Some(key) => [
            Cell::Text(&key.gpus),
            Cell::Text(&key.driver),
            Cell::Text(&key.libcudart),
            Cell::Flag(key.mig),
            Cell::Flag(key.shared),
        ],
        None => [const { Cell::Null }; 5],
    }
}

/// Machines of which a report was merged, and then those that are missing.
fn machines(fleet: &Fleet) -> impl Iterator<Item = Vec<Cell<'_>>> {
    let merged = fleet.machines.iter().map(move |machine| {
        vec![
            audit(fleet),
            Cell::Text(&machine.name),
            Cell::Own(serde_json::to_string(&machine.labels).unwrap_or_default()),
            integer(machine.gpus.len()),
            Cell::Own(machine.gpus.join(" ")),
            Cell::Own(machine.reports.join("\n")),
            time(&machine.started_at),
            Cell::Flag(machine.partial),
            integer(machine.unexpected),
            Cell::Flag(false),
        ]
    });
    let missing = fleet.expected.iter().flat_map(|expected| &expected.missing).map(move |name| {
        let mut row = vec![audit(fleet), Cell::Text(name)];
        row.resize(9, Cell::Null);
        row.push(Cell::Flag(true));
        row
    });
    merged.chain(missing)
}

fn outcomes(fleet: &Fleet) -> impl Iterator<Item = Vec<Cell<'_>>> {
    fleet.groups.iter().flat_map(move |group| {
        group.usual.iter().flat_map(move |usual| {
            usual.outcomes.iter().enumerate().map(move |(place, outcome)| {
                let mut row = vec![audit(fleet)];
                row.extend(of_key(Some(&group.key)));
                row.extend([
                    integer(group.machines.len()),
                    question(fleet, usual.question),
                    integer(place),
                    Cell::Text(outcome.kind.name()),
                    Cell::Own(outcome.facts.iter().map(words::sentence).collect::<Vec<_>>().join("\n")),
                    integer(outcome.machines),
                ]);
                row
            })
        })
    })
}

fn question(fleet: &Fleet, place: usize) -> Cell<'_> {
    fleet.questions.get(place).map_or(Cell::Null, |question| Cell::Text(&question.name))
}

/// What each machine showed: the outcome by its place in the table of outcomes, null for no answer. A question that a
/// machine was not asked has no row.
fn answers(fleet: &Fleet) -> impl Iterator<Item = Vec<Cell<'_>>> {
    let mut others: HashMap<(usize, usize), HashMap<usize, usize>> = HashMap::new();
    for difference in &fleet.differences {
        if let What::Outcome { outcome, .. } = difference.what {
            let of = others.entry((difference.group, difference.question)).or_default();
            of.extend(difference.machines.iter().map(|machine| (*machine, outcome)));
        }
    }
    let others = Rc::new(others);
    fleet.groups.iter().enumerate().flat_map(move |(place, group)| {
        let others = Rc::clone(&others);
        group.usual.iter().flat_map(move |usual| {
            let others = others.get(&(place, usual.question)).cloned().unwrap_or_default();
            let silent: std::collections::HashSet<usize> = usual.no_answer.iter().copied().collect();
            let absent: std::collections::HashSet<usize> = usual.not_asked.iter().copied().collect();
            let asked = group.machines.iter().filter(move |machine| !absent.contains(machine));
            asked.map(move |machine| {
                let shown = (!silent.contains(machine)).then(|| others.get(machine).copied().unwrap_or(0));
                let outcome = shown.and_then(|shown| usual.outcomes.get(shown));
                let mut row = vec![audit(fleet), Cell::Text(words::name(fleet, *machine))];
                row.extend(of_key(Some(&group.key)));
                row.push(question(fleet, usual.question));
                row.push(shown.map_or(Cell::Null, integer));
                row.push(outcome.map_or(Cell::Null, |outcome| Cell::Text(outcome.kind.name())));
                row
            })
        })
    })
}

/// A row for each machine of each difference.
fn differences(fleet: &Fleet) -> Rows<'_> {
    let told = words::told(fleet).into_iter().enumerate();
    let causes = words::numbers(fleet);
    Box::new(told.flat_map(move |(place, one)| {
        let [usual, these] = match &one.difference.what {
            What::Bytes { usual, these, .. } => [usual, these].map(|it| Cell::Integer(it.median_bytes)),
            _ => [Cell::Null, Cell::Null],
        };
        let join = |part: fn(&words::Side) -> &String| {
            Cell::Own(one.sides.iter().map(part).cloned().collect::<Vec<_>>().join("\n"))
        };
        let key = of_key(fleet.groups.get(one.difference.group).map(|group| &group.key));
        let rest = [
            question(fleet, one.difference.question),
            join(|side| &side.of),
            join(|side| &side.usual),
            join(|side| &side.these),
            integer(one.difference.usual_machines),
            integer(one.these()),
            usual,
            these,
            causes.get(&place).map_or(Cell::Null, |number| integer(*number)),
        ];
        one.machines.into_iter().map(move |machine| {
            let mut row = vec![audit(fleet), integer(place + 1), Cell::Text(one.rank.name()), Cell::Text(machine)];
            row.extend(key.iter().cloned());
            row.extend(rest.iter().cloned());
            row
        })
    }))
}

/// Writes a table as Parquet and hands the writer back.
///
/// # Errors
/// What the writer said, in words.
pub fn write<W: Write + Send>(table: Table<'_>, out: W) -> Result<W, String> {
    parquet(table, out).map_err(|error| error.to_string())
}

fn parquet<W: Write + Send>(mut table: Table<'_>, out: W) -> Result<W, ParquetError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema(&table)?), Arc::new(properties))?;
    loop {
        let rows: Vec<Vec<Cell<'_>>> = table.rows.by_ref().take(ROWS).collect();
        if rows.is_empty() {
            break;
        }
        let mut group = writer.next_row_group()?;
        for (place, (_, holds)) in table.columns.iter().enumerate() {
            let Some(mut column) = group.next_column()? else { break };
            let cells = || rows.iter().map(|row| row.get(place).unwrap_or(&Cell::Null));
            let levels: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Null)).collect();
            match holds {
                Holds::Text => {
                    let values: Vec<ByteArray> = cells().filter_map(text).map(ByteArray::from).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
                }
                Holds::Integer | Holds::Time => {
                    let values: Vec<i64> = cells().filter_map(number).collect();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                Holds::Flag => {
                    let values: Vec<bool> = cells().filter_map(flag).collect();
                    column.typed::<BoolType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
    }
    writer.into_inner()
}

fn text<'a>(cell: &'a Cell<'_>) -> Option<&'a str> {
    match cell {
        Cell::Text(text) => Some(text),
        Cell::Own(text) => Some(text),
        _ => None,
    }
}

fn number(cell: &Cell<'_>) -> Option<i64> {
    if let Cell::Integer(number) = cell { Some(*number) } else { None }
}

fn flag(cell: &Cell<'_>) -> Option<bool> {
    if let Cell::Flag(flag) = cell { Some(*flag) } else { None }
}

fn schema(table: &Table<'_>) -> Result<Type, ParquetError> {
    let column = |(name, holds): &(&str, Holds)| {
        let (physical, logical) = match holds {
            Holds::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Holds::Integer => (Physical::INT64, None),
            Holds::Flag => (Physical::BOOLEAN, None),
            Holds::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        };
        let built = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        built.with_logical_type(logical).build().map(Arc::new)
    };
    let fields = table.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(table.name).with_fields(fields).build()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};

    use super::super::fixture::{fleet, hostile, large};
    use super::*;

    /// The rows of a table, read back.
    fn rows(fleet: &Fleet, name: &str) -> Vec<Row> {
        let table = tables(fleet).into_iter().find(|table| table.name == name).unwrap();
        let written = write(table, Vec::new()).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&written).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }

    fn field(row: &Row, name: &str) -> Field {
        row.get_column_iter().find(|(column, _)| *column == name).map(|(_, field)| field.clone()).unwrap()
    }

    fn text_of(row: &Row, name: &str) -> String {
        if let Field::Str(text) = field(row, name) { text } else { panic!("{name} of {row}") }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let fleet = fleet();
        let machines = rows(&fleet, "machines");
        assert_eq!(machines.len(), 7, "six merged and one missing");
        assert_eq!(text_of(&machines[2], "machine"), "node-3");
        assert_eq!(text_of(&machines[2], "labels_json"), r#"{"node":"node-3","rack":"r0"}"#);
        assert_eq!(field(&machines[2], "started_at"), Field::TimestampMicros(1_795_196_969_000_000));
        assert_eq!(
            [&machines[5], &machines[6]].map(|row| field(row, "missing")),
            [Field::Bool(false), Field::Bool(true)]
        );
        assert_eq!(field(&machines[6], "gpu_count"), Field::Null);
        let questions = rows(&fleet, "questions");
        assert_eq!(text_of(&questions[0], "page"), "pitfalls/context/set-device-is-eager.md");
        assert_eq!(field(&questions[1], "page"), Field::Null);
        let differences = rows(&fleet, "differences");
        assert_eq!(differences.len(), 4);
        assert_eq!(
            [text_of(&differences[0], "machine"), text_of(&differences[0], "differs_in")],
            ["node-3", "verdict"]
        );
        assert_eq!(field(&differences[3], "these_median_bytes"), Field::Long(530 << 20));
        assert_eq!(field(&differences[0], "these_median_bytes"), Field::Null);
    }

    #[test]
    fn every_answer_of_every_machine_has_a_row() {
        let fleet = fleet();
        let answers = rows(&fleet, "answers");
        assert_eq!(answers.len(), 5 * 4 + 1);
        let of = |machine: &str, question: &str| {
            let found = |row: &&Row| text_of(row, "machine") == machine && text_of(row, "question") == question;
            let row = answers.iter().find(found).unwrap();
            (field(row, "outcome"), field(row, "verdict"))
        };
        let shown = |place, verdict: &str| (Field::Long(place), Field::Str(verdict.to_owned()));
        assert_eq!(of("node-1", "context/set-device-is-eager"), shown(0, "reproduced"));
        assert_eq!(of("node-3", "context/set-device-is-eager"), shown(1, "not_reproduced"));
        assert_eq!(of("node-4", "survey calls: cudaMalloc"), (Field::Null, Field::Null));
        let large = large(3000, 40);
        let asked: usize = large.groups.iter().flat_map(|group| &group.usual).map(|usual| usual.not_asked.len()).sum();
        assert_eq!(rows(&large, "answers").len(), 3000 * 40 - asked, "in several groups of rows");
        assert_eq!(
            rows(&large, "outcomes").len(),
            large.groups.iter().flat_map(|it| &it.usual).map(|it| it.outcomes.len()).sum::<usize>()
        );
    }

    #[test]
    fn hostile_text_is_data() {
        let fleet = hostile();
        for table in tables(&fleet) {
            let columns = table.columns.len();
            for row in rows(&fleet, table.name) {
                assert_eq!(row.len(), columns, "{}", table.name);
            }
        }
        assert_eq!(text_of(&rows(&fleet, "questions")[0], "question"), super::super::fixture::EVIL);
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        for fleet in [fleet(), hostile()] {
            for table in tables(&fleet) {
                let columns = table.columns.len();
                assert!(table.rows.into_iter().all(|row| row.len() == columns), "{}", table.name);
            }
        }
    }
}

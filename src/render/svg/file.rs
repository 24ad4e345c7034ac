//! Pictures as SVG files, for pages in Markdown: bars of memory, a map of cells, and a chart. They load nothing, follow
//! the reader's dark mode, and are drawn for a width of 400 pixels.

use std::fmt::Write as _;

use super::{Axis, Chart, part_ratio, steps};
use cuda_pitfalls_core::text::escape::{escape_html, shorten_text};
use cuda_pitfalls_core::text::units;

const WIDTH: f64 = 400.0;
/// What is between a picture and its edge.
const EDGE: f64 = 8.0;
/// A style, and what of it differs in dark mode.
type Style = (&'static str, &'static str);
const TEXT: Style = (
    "text{font:11px system-ui,sans-serif;fill:#1f2328}.b{font-weight:600}.e{text-anchor:end}.d{fill:#59636e}\
     .c{font:10px ui-monospace,monospace}.p{fill:#fff}",
    "text{fill:#e6edf3}.d{fill:#9198a1}.p{fill:#0d1117}",
);
const BARS: Style = (
    ".g0{fill:#0969da}.g1{fill:#bc4c00}.g2{fill:#8250df}.g3{fill:#1a7f37}",
    ".g0{fill:#4493f8}.g1{fill:#f0883e}.g2{fill:#ab7df8}.g3{fill:#3fb950}",
);
const LINES: Style = (
    "path{fill:none;stroke-width:2}.g0{stroke:#0969da}.g1{stroke:#bc4c00;stroke-dasharray:5 2}.g2{stroke:#8250df}\
     .g3{stroke:#1a7f37}.axis,.mark{stroke:#8c959f;stroke-width:1}.mark{stroke-dasharray:2 3}",
    ".g0{stroke:#4493f8}.g1{stroke:#f0883e}.g2{stroke:#ab7df8}.g3{stroke:#3fb950}",
);
const CELLS: Style = (
    ".l{font:10px ui-monospace,monospace;text-anchor:middle}.hi{fill:#ffb77c}.mid{fill:#c7d9ff}.low{fill:#e6eaef}\
     .out{fill:none;stroke:#c8d1da}",
    ".hi{fill:#8a4600}.mid{fill:#1f4b8f}.low{fill:#2a313c}.out{stroke:#3d444d}",
);

/// The file: what it shows in words, its height and style, and what is drawn.
fn file(title: &str, about: &str, height: f64, (light, dark): Style, drawn: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-labelledby=\"t d\">\n<title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n\
         <style>{}{light}@media(prefers-color-scheme:dark){{{}{dark}}}</style>\n\
         <rect class=\"p\" width=\"{WIDTH}\" height=\"{height}\"/>\n{drawn}</svg>\n",
        escape_html(title),
        escape_html(about),
        TEXT.0,
        TEXT.1
    )
}

fn text(out: &mut String, class: &str, (x, y): (f64, f64), words: &str) {
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    let _ = writeln!(
        out,
        "<text{class} x=\"{x:.0}\" y=\"{y:.0}\">{}</text>",
        escape_html(words)
    );
}

/// The memory of each GPU after steps of one case, for [`draw_bars`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseMemory {
    /// The case in a word.
    pub name: String,
    /// What it does.
    pub does: String,
    /// Steps, each with the change in bytes by GPU.
    pub steps: Vec<(String, Vec<(String, i64)>)>,
}

/// The least that the longest bar stands for, in bytes: what `cuInit` takes must not look like a context.
const LEAST_SCALE: u64 = 16 << 20;

/// Bars of memory, one case beside the other on one scale.
pub fn draw_bars(title: &str, cases: &[CaseMemory], note: &str) -> String {
    let all = cases
        .iter()
        .flat_map(|case| &case.steps)
        .flat_map(|(_, memory)| memory);
    let most = all
        .map(|(_, bytes)| bytes.unsigned_abs())
        .chain([LEAST_SCALE])
        .max()
        .unwrap_or(LEAST_SCALE);
    let mut paths: [String; 4] = Default::default();
    let wide = (WIDTH - EDGE) / cases.len().max(1) as f64 - EDGE;
    let (mut out, mut about, mut height) = (String::new(), Vec::new(), 0.0f64);
    let top = 10.0 + 14.0 * cases.len() as f64;
    for (case, column) in cases.iter().zip(0u8..) {
        let x = EDGE + f64::from(column) * (wide + EDGE);
        let does = format!("{}: {}", case.name, case.does);
        text(
            &mut out,
            "",
            (EDGE, 16.0 + 14.0 * f64::from(column)),
            &shorten_text(&does, 60),
        );
        text(&mut out, "b", (x, top + 12.0), &case.name);
        let mut y = top + 28.0;
        for (step, memory) in &case.steps {
            text(
                &mut out,
                "c",
                (x, y),
                &shorten_text(step, (wide / 6.1) as usize),
            );
            for (gpu, bytes) in memory {
                y += 14.0;
                text(&mut out, "d", (x, y), gpu);
                let long = (wide - 74.0) * part_ratio(bytes.unsigned_abs() as f64, most as f64);
                let colour = usize::from(gpu.bytes().last().unwrap_or_default()) % 4;
                if let Some(path) = paths.get_mut(colour).filter(|_| *bytes != 0) {
                    let _ = write!(
                        path,
                        "M{:.0} {:.0}h{:.1}v9H{0:.0}z",
                        x + 32.0,
                        y - 8.0,
                        long.max(1.0)
                    );
                }
                text(&mut out, "", (x + 36.0 + long, y), &format_mib(*bytes));
            }
            y += 18.0;
        }
        height = height.max(y);
        about.extend(case.steps.last().map(|(step, memory)| {
            let memory: Vec<String> = memory
                .iter()
                .map(|(gpu, bytes)| format!("{gpu} {}", format_mib(*bytes)))
                .collect();
            format!("{}: after {step} {} MiB.", case.name, memory.join(", "))
        }));
    }
    for (path, colour) in paths.iter().zip(0u8..).filter(|(path, _)| !path.is_empty()) {
        let _ = writeln!(out, "<path class=\"g{colour}\" d=\"{path}\"/>");
    }
    for line in note.lines() {
        height += 14.0;
        text(
            &mut out,
            "d",
            (EDGE, height - 10.0),
            &shorten_text(line, 72),
        );
    }
    file(title, &about.join(" "), height, BARS, &out)
}

/// A size in MiB as a number: small ones with two places.
fn format_mib(bytes: i64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    let words = if mib.abs() < 10.0 {
        format!("{mib:.2}")
    } else {
        format!("{mib:.0}")
    };
    let words = if words.contains('.') {
        words.trim_end_matches('0').trim_end_matches('.')
    } else {
        &words
    };
    words.replace('-', "−")
}

/// What a cell of a [`map`] says: its sign, and how much it matters, which is its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapCell {
    /// One character.
    pub sign: char,
    /// Its colour: `hi`, `mid`, `low`, or `out` for what is not known.
    pub class: &'static str,
}

/// Rows of cells below versions, for [`map`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapPart {
    /// What stands above it.
    pub title: String,
    /// The versions, oldest first.
    pub versions: Vec<String>,
    /// Rows, each with a cell for each version that has one, and its name.
    pub rows: Vec<(Vec<Option<MapCell>>, String)>,
}

impl MapPart {
    /// Only the rows whose cells differ in colour.
    pub fn of_changed(
        title: &str,
        versions: Vec<String>,
        rows: impl Iterator<Item = (Vec<Option<MapCell>>, String)>,
    ) -> MapPart {
        let rows = rows.filter(|(cells, _)| {
            let mut known = cells.iter().flatten();
            known
                .next()
                .is_some_and(|first| known.any(|other| other.class != first.class))
        });
        MapPart {
            title: title.to_owned(),
            versions,
            rows: rows.collect(),
        }
    }
}

/// A map: cells of a colour and a sign, by version. `legend` has what each says.
pub fn map(title: &str, about: &str, legend: &[(MapCell, &str)], parts: &[MapPart]) -> String {
    const CELL: f64 = 12.0;
    let (mut out, mut y) = (String::new(), 16.0);
    text(&mut out, "b", (EDGE, y), title);
    for (cell, words) in legend {
        y += 16.0;
        row(&mut out, CELL, y - 9.0, &[Some(*cell)]);
        text(&mut out, "d", (EDGE + CELL + 6.0, y), words);
    }
    for part in parts {
        let tall = 6.0 * part.versions.iter().map(String::len).max().unwrap_or(0) as f64;
        y += 24.0;
        text(&mut out, "b", (EDGE, y), &part.title);
        y += tall + 6.0;
        for (version, column) in part.versions.iter().zip(0u8..) {
            let x = EDGE + CELL * (f64::from(column) + 0.8);
            let _ = writeln!(
                out,
                "<text class=\"d\" transform=\"translate({x:.1} {y:.0})rotate(-90)\">{}</text>",
                escape_html(version)
            );
        }
        y += 4.0;
        let after = EDGE + CELL * part.versions.len() as f64 + 4.0;
        for (cells, name) in &part.rows {
            row(&mut out, CELL, y, cells);
            text(
                &mut out,
                "c",
                (after, y + 10.0),
                &shorten_text(name, ((WIDTH - after) / 6.1) as usize),
            );
            y += CELL + 2.0;
        }
    }
    file(title, about, y + EDGE, CELLS, &out)
}

/// The cells of one row. Those of one colour are one path.
fn row(out: &mut String, cell: f64, y: f64, cells: &[Option<MapCell>]) {
    let x = |column: usize| EDGE + cell * column as f64;
    for class in ["hi", "mid", "low", "out"] {
        let own = cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| cell.is_some_and(|cell| cell.class == class));
        let path: String = own
            .map(|(column, _)| format!("M{} {y}h{1}v{cell}h-{1}z", x(column), cell - 1.0))
            .collect();
        if !path.is_empty() {
            let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }
    let known = cells
        .iter()
        .enumerate()
        .filter_map(|(column, cell)| Some((column, (*cell)?)));
    let (at, signs): (Vec<String>, String) = known
        .map(|(column, known)| (format!("{}", x(column) + cell / 2.0 - 0.5), known.sign))
        .unzip();
    let _ = writeln!(
        out,
        "<text class=\"l\" x=\"{}\" y=\"{}\">{}</text>",
        at.join(" "),
        y + 9.5,
        escape_html(&signs)
    );
}

/// A chart, with the name of each mark on a line of its own.
pub fn draw_curve(chart: &Chart, note: &str) -> String {
    const LEFT: f64 = 66.0;
    const TALL: f64 = 110.0;
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let high = points().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let axis = Axis::new(
        chart.span_ns,
        points()
            .map(|(t, _)| *t)
            .chain(chart.marks.iter().map(|(t, _)| *t)),
    );
    let x = |t: u64| LEFT + (WIDTH - EDGE - LEFT) * axis.axis_position(t);
    let top = 26.0 + 15.0 * chart.marks.len() as f64;
    let y = |bytes: i64| top + TALL - TALL * part_ratio(bytes as f64, high as f64);
    let (base, mut out) = (top + TALL, String::new());
    text(&mut out, "b", (EDGE, 16.0), &chart.title);
    let _ = writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {base}H{WIDTH}\"/>");
    text(&mut out, "d", (EDGE, top + 9.0), &units::format_delta(high));
    text(&mut out, "d", (EDGE, base), "0 MiB");
    for ((t, name), line) in chart.marks.iter().zip(0u8..) {
        let at = 34.0 + 15.0 * f64::from(line);
        let _ = writeln!(
            out,
            "<path class=\"mark\" d=\"M{:.0} {:.0}V{base}\"/>",
            x(*t),
            at - 8.0
        );
        text(&mut out, "", (x(*t) + 4.0, at), name);
    }
    for line in &chart.lines {
        let path = steps(&line.points, chart.span_ns, x, y);
        let _ = writeln!(out, "<path class=\"g{}\" d=\"{path}\"/>", line.colour % 4);
    }
    let mut at = LEFT;
    for line in &chart.lines {
        let _ = writeln!(
            out,
            "<path class=\"g{}\" d=\"M{at} {:.0}h20\"/>",
            line.colour % 4,
            base + 16.0
        );
        text(&mut out, "", (at + 26.0, base + 20.0), &line.name);
        at += 40.0 + 7.0 * line.name.len() as f64;
    }
    let took = units::format_duration(chart.span_ns.1.saturating_sub(chart.span_ns.0));
    let _ = writeln!(
        out,
        "<text class=\"d e\" x=\"{:.0}\" y=\"{:.0}\">{took}</text>",
        WIDTH - EDGE,
        base + 20.0
    );
    text(&mut out, "d", (EDGE, base + 38.0), note);
    let marks: Vec<&str> = chart.marks.iter().map(|(_, name)| name.as_str()).collect();
    file(
        &chart.title,
        &format!("In order of time: {}. {note}", marks.join("; ")),
        base + 46.0,
        LINES,
        &out,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}]0;x\u{7}<img>&\"";

    fn assert_inert(svg: &str) {
        assert!(
            svg.contains("&lt;i") && !svg.contains("<img") && !svg.contains(['\u{1b}', '\u{7}']),
            "{svg}"
        );
        assert!(
            svg.contains("prefers-color-scheme:dark")
                && !svg.contains("NaN")
                && !svg.contains("inf"),
            "{svg}"
        );
    }

    #[test]
    fn every_text_is_escaped() {
        let text = HOSTILE.to_owned();
        let memory = vec![(text.clone(), i64::MIN), ("gpu1".to_owned(), 527 << 20)];
        let case = CaseMemory {
            name: text.clone(),
            does: text.clone(),
            steps: vec![(text.clone(), memory)],
        };
        assert_inert(&draw_bars(HOSTILE, &[case], HOSTILE));
        let cell = MapCell {
            sign: '<',
            class: "hi",
        };
        let part = MapPart {
            title: text.clone(),
            versions: vec![text.clone()],
            rows: vec![(vec![Some(cell)], text)],
        };
        assert_inert(&map(HOSTILE, HOSTILE, &[(cell, HOSTILE)], &[part]));
        let (name, points) = (
            HOSTILE.to_owned(),
            vec![(0, i64::MIN), (u64::MAX, i64::MAX)],
        );
        let lines = vec![super::super::ChartLine {
            name: name.clone(),
            colour: 9,
            points,
        }];
        let chart = Chart {
            title: name.clone(),
            span_ns: (0, u64::MAX),
            lines,
            marks: vec![(7, name)],
            ..Chart::default()
        };
        assert_inert(&draw_curve(&chart, HOSTILE));
    }

    #[test]
    fn bars_are_on_one_scale_and_small_ones_stay_small() {
        let case = |bytes| CaseMemory {
            steps: vec![("a".into(), vec![("gpu0".into(), bytes)])],
            ..CaseMemory::default()
        };
        let svg = draw_bars("", &[case(527 << 20), case(0)], "");
        assert!(
            svg.contains("<path class=\"g0\" d=\"M40 72h114.0v9H40z\"/>"),
            "{svg}"
        );
        assert!(
            draw_bars("", &[case(3407872)], "").contains("h63.0v9"),
            "a fifth of the width"
        );
    }
}

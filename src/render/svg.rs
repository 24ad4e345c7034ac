//! A chart of memory over time, as inline SVG: a line of steps per GPU.
//!
//! Colours are classes (`g0` to `g7`), so that the page sets them for dark mode.

use std::fmt::Write as _;

use crate::text::escape::html;
use crate::text::units;

/// What is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// What the chart shows, for readers who do not see it.
    pub title: String,
    /// The ends of the time axis, in nanoseconds.
    pub span_ns: (u64, u64),
    /// A line per GPU.
    pub lines: Vec<Line>,
    /// Moments to mark, with a short name each.
    pub marks: Vec<(u64, String)>,
}

/// One GPU's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The GPU's name.
    pub name: String,
    /// Its place in the palette.
    pub colour: usize,
    /// When it changed, and to what; in order of time.
    pub points: Vec<(u64, i64)>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 26.0;

/// The chart as one `<svg>` element.
pub fn draw(chart: &Chart) -> String {
    let values = chart.lines.iter().flat_map(|line| &line.points).map(|(_, bytes)| *bytes);
    let (low, high) = values.fold((0, 0), |(low, high): (i64, i64), value| (low.min(value), high.max(value)));
    let (from, to) = chart.span_ns;
    let x =
        |t: u64| LEFT + (WIDTH - LEFT - RIGHT) * share(t.saturating_sub(from) as f64, to.saturating_sub(from) as f64);
    let y = |bytes: i64| {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share(bytes as f64 - low as f64, high as f64 - low as f64)
    };
    let title = html(&chart.title);
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title>\n"
    );
    let mut levels = vec![low, 0, high];
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        let at = y(level);
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            units::delta(level),
        );
    }
    marks(&mut out, chart, x);
    for line in &chart.lines {
        let _ = writeln!(
            out,
            "<path class=\"g{}\" d=\"{}\"><title>{}</title></path>",
            line.colour % 8,
            steps(&line.points, (from, to), x, y),
            html(&line.name)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{0:.1}\">0</text><text x=\"{1:.1}\" y=\"{0:.1}\" text-anchor=\"end\">{2}</text>\n</svg>",
        HEIGHT - 8.0,
        WIDTH - RIGHT,
        units::duration(to.saturating_sub(from)),
    );
    out
}

/// Lines across the chart where steps began. Names that would run into the one before are left out.
fn marks(out: &mut String, chart: &Chart, x: impl Fn(u64) -> f64) {
    let mut free = 0.0;
    for (t, name) in &chart.marks {
        let at = x(*t);
        let _ = write!(
            out,
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>",
            HEIGHT - BOTTOM
        );
        if at >= free {
            let _ = write!(out, "<text x=\"{at:.1}\" y=\"{:.1}\">{}</text>", TOP - 6.0, html(name));
            free = at + 8.0 * (name.chars().count() as f64 + 1.0);
        }
        out.push('\n');
    }
}

/// A line of steps. Points that fall on the same column are drawn as one stroke from the lowest to
/// the highest, so that the path stays short however often memory changed.
pub(super) fn steps(
    points: &[(u64, i64)],
    (from, to): (u64, u64),
    x: impl Fn(u64) -> f64,
    y: impl Fn(i64) -> f64,
) -> String {
    let mut out = String::new();
    let mut columns: Vec<(f64, i64, i64, i64)> = Vec::new();
    for (t, bytes) in points {
        let column = x((*t).clamp(from, to)).round();
        match columns.last_mut() {
            Some((at, low, high, last)) if *at == column => {
                (*low, *high, *last) = ((*low).min(*bytes), (*high).max(*bytes), *bytes);
            }
            _ => columns.push((column, *bytes, *bytes, *bytes)),
        }
    }
    for (place, (at, low, high, last)) in columns.iter().enumerate() {
        let _ = match place {
            0 => write!(out, "M{at} {:.1}", y(*low)),
            _ => write!(out, "H{at}V{:.1}", y(*low)),
        };
        if high != low {
            let _ = write!(out, "V{:.1}V{:.1}", y(*high), y(*last));
        }
    }
    if !columns.is_empty() {
        let _ = write!(out, "H{}", x(to));
    }
    out
}

/// A part of a whole, and the start where there is no whole.
pub(super) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(u64, i64)>) -> Chart {
        let line = Line { name: "<gpu0>".to_owned(), colour: 9, points };
        Chart {
            title: "\"memory\"".to_owned(),
            span_ns: (100, 200),
            lines: vec![line],
            marks: vec![(150, "1".to_owned())],
        }
    }

    #[test]
    fn memory_is_drawn_in_steps() {
        let svg = draw(&chart(vec![(100, 0), (150, 530 << 20)]));
        assert!(svg.contains("<path class=\"g1\" d=\"M74 154.0H391V22.0H708\">"), "{svg}");
        assert!(svg.contains(">+530 MiB</text>"), "{svg}");
    }

    #[test]
    fn a_burst_of_changes_is_one_stroke() {
        let svg = draw(&chart((0..100_000).map(|n| (150, n % 7)).collect()));
        assert!(svg.len() < 2_000, "{}", svg.len());
    }

    #[test]
    fn odd_figures_and_names_do_no_harm() {
        let svg = draw(&chart(vec![(0, i64::MIN), (u64::MAX, i64::MAX)]));
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<gpu0>"), "{svg}");
        let empty = draw(&Chart::default());
        assert!(empty.starts_with("<svg") && empty.ends_with("</svg>\n") && !empty.contains("NaN"), "{empty}");
    }
}

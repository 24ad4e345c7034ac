//! A chart of memory over time, as inline SVG with its texts outside the drawing. It shows a stepped line for each GPU,
//! or stacked areas, one for each owner. Colors are classes (`g0` to `g8`), so the page can set them for dark mode.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::html::page::element;
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::escape_html;
use cuda_pitfalls_core::text::units;

/// Content of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// Description of the chart, for readers who do not see it.
    pub title: String,
    /// The ends of the time axis, in nanoseconds. Long periods without events are cut out of it.
    pub span_ns: (u64, u64),
    /// A line per GPU.
    pub lines: Vec<ChartLine>,
    /// Stacked areas, from the bottom up: each ends at its points and begins at those of the one before.
    pub areas: Vec<ChartLine>,
    /// Minimum upper end of the scale, so that charts on one page share it.
    pub reach: i64,
    /// Moments to mark, with a short name each.
    pub marks: Vec<(u64, String)>,
}

/// Memory of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartLine {
    /// The GPU's name.
    pub name: String,
    /// The place of its color in the palette.
    pub colour: usize,
    /// Time and new value of each change, in order of time.
    pub points: Vec<(u64, i64)>,
}

/// The drawing's width in its own units; it is stretched to the page's width, but its lines and texts are not.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;
/// Number of colors in the style sheet.
const COLORS: usize = 9;
/// Minimum widths of a chart, in pixels: on a desktop page, and on a phone.
const WIDE: f64 = 520.0;
const NARROW: f64 = 190.0;
/// The width of a character of a mark, and of the gap between two marks.
const CHARACTER: f64 = 8.0;

/// Returns the chart as one `<figure>`. Texts are HTML outside the drawing, so that they are legible at every width.
pub fn draw_chart(chart: &Chart) -> String {
    let scaled = ScaledChart::new(chart);
    let mut out = format!(
        "<figure class=\"chart\" role=\"img\" aria-label=\"{}\">\n",
        escape_html(&chart.title)
    );
    write_marks(&mut out, chart, |t| scaled.x(t));
    scaled.write_levels(&mut out);
    scaled.write_drawing(&mut out);
    scaled.axis.write_ticks(&mut out);
    if let Some(words) = scaled.axis.left_out() {
        let _ = writeln!(
            out,
            "<div class=\"span\"><span>left out: {words}</span></div>"
        );
    }
    out.push_str("</figure>\n");
    let mut keys = String::new();
    for line in &chart.lines {
        keys += &color_key(line);
    }
    out + &element("p", "dim", &keys)
}

/// A chart with the scales of its axes.
struct ScaledChart<'c> {
    chart: &'c Chart,
    axis: Axis,
    /// The ends of the memory axis, in bytes.
    low: i64,
    high: i64,
}

impl<'c> ScaledChart<'c> {
    fn new(chart: &'c Chart) -> ScaledChart<'c> {
        let (mut low, mut high) = (0, chart.reach);
        let mut stamps: Vec<u64> = chart.marks.iter().map(|(t, _)| *t).collect();
        for (t, bytes) in chart
            .areas
            .iter()
            .chain(&chart.lines)
            .flat_map(|line| &line.points)
        {
            (low, high) = (low.min(*bytes), high.max(*bytes));
            stamps.push(*t);
        }
        let axis = Axis::new(chart.span_ns, stamps.into_iter());
        ScaledChart {
            chart,
            axis,
            low,
            high,
        }
    }

    fn x(&self, t: u64) -> f64 {
        WIDTH * self.axis.axis_position(t)
    }

    fn y(&self, bytes: i64) -> f64 {
        let low = self.low as f64;
        HEIGHT - HEIGHT * part_ratio(bytes as f64 - low, self.high as f64 - low)
    }

    /// Returns the amounts of memory that have a line, from the lowest up.
    fn levels(&self) -> Vec<i64> {
        let mut levels = vec![self.low, 0, self.high];
        levels.sort_unstable();
        levels.dedup();
        levels
    }

    fn write_levels(&self, out: &mut String) {
        out.push_str("<div class=\"levels\">");
        for level in self.levels() {
            // The total of areas is not a change.
            let size = if self.chart.areas.is_empty() {
                units::format_delta(level)
            } else {
                units::bytes(level.unsigned_abs())
            };
            let top = self.y(level);
            let _ = write!(out, "<span style=\"top:{top:.1}%\">{size}</span>");
        }
        out.push_str("</div>\n");
    }

    fn write_drawing(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
        );
        for level in self.levels() {
            let y = self.y(level);
            let _ = writeln!(out, "<path class=\"axis\" d=\"M0 {y:.1}H{WIDTH}\"/>");
        }
        for (t, _) in &self.chart.marks {
            let x = self.x(*t);
            let _ = writeln!(out, "<path class=\"mark\" d=\"M{x:.1} 0V{HEIGHT}\"/>");
        }
        for (start, end) in &self.axis.cuts {
            let (start, end) = (self.x(*start), self.x(*end));
            let _ = writeln!(
                out,
                "<path class=\"cut\" d=\"M{start:.1} 0H{end:.1}V{HEIGHT}H{start:.1}Z\"/>"
            );
        }
        // Each area covers the lower part of those above it.
        for area in self.chart.areas.iter().rev() {
            let first = match area.points.first() {
                Some((t, _)) => self.x(*t).round(),
                None => 0.0,
            };
            let closed = format!("V{:.1}H{first}Z", self.y(0));
            self.write_steps(out, area, "area ", &closed);
        }
        for line in &self.chart.lines {
            self.write_steps(out, line, "", "");
        }
        out.push_str("</svg>\n");
    }

    /// Writes the steps of a line or an area; `end` closes the path of an area.
    fn write_steps(&self, out: &mut String, line: &ChartLine, class: &str, end: &str) {
        let _ = writeln!(
            out,
            "<path class=\"{class}g{}\" d=\"{}{end}\"><title>{}</title></path>",
            line.colour % COLORS,
            steps(
                &line.points,
                self.chart.span_ns,
                |t| self.x(t),
                |bytes| self.y(bytes)
            ),
            escape_html(&line.name)
        );
    }
}

/// Returns the legend entry of a color: a piece of the drawing, and its name.
fn color_key(line: &ChartLine) -> String {
    let colour = format!(
        "<svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"g{}\" d=\"M0 4H24\"/></svg>",
        line.colour % COLORS
    );
    element(
        "span",
        "key",
        &format!("{colour} {}", escape_html(&line.name)),
    )
}

/// Maximum number of periods that are left out of an axis, and the part of the drawing that each of them takes.
const MOST_CUTS: usize = 3;
const CUT: f64 = 0.04;

/// Width of a tick's label on a phone, as a part of the axis.
const TICK_ROOM: f64 = 0.14;

/// Returns the first of 1, 2, 5, 10, 20, … nanoseconds that is no shorter than `least`.
fn tick_step(least: f64) -> u64 {
    let power = 10_f64.powf(least.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= least);
    step.unwrap_or(10.0 * power) as u64
}

/// A time axis. A period without events that is longer than twice all the rest is drawn as a narrow band.
pub(super) struct Axis {
    span: (u64, u64),
    /// Periods that are left out, in order of time.
    pub(super) cuts: Vec<(u64, u64)>,
    /// Total duration of the periods that are kept, in nanoseconds.
    kept: f64,
}

impl Axis {
    pub(super) fn new(span: (u64, u64), stamps: impl Iterator<Item = u64>) -> Axis {
        let stamps = stamps
            .map(|t| t.clamp(span.0, span.1.max(span.0)))
            .chain([span.0, span.1]);
        let stamps: BTreeSet<u64> = stamps.collect();
        let mut gaps: Vec<(u64, u64)> = stamps
            .iter()
            .copied()
            .zip(stamps.iter().skip(1).copied())
            .collect();
        gaps.sort_by_key(|(start, end)| std::cmp::Reverse(end - start));
        let mut rest = span.1.saturating_sub(span.0);
        // One of the last two times is always the longer one.
        gaps.truncate(gaps.len().saturating_sub(2).min(MOST_CUTS));
        let longer = gaps.iter().take_while(|(start, end)| {
            let others = rest - (end - start);
            let is_longer = (end - start) / 2 > others;
            rest = if is_longer { others } else { rest };
            is_longer
        });
        let cuts = longer.count();
        gaps.truncate(cuts);
        gaps.sort_unstable();
        Axis {
            span,
            cuts: gaps,
            kept: rest as f64,
        }
    }

    /// Returns the position of a time on the axis, from 0 to 1.
    pub(super) fn axis_position(&self, t: u64) -> f64 {
        let (mut at, band) = (t.saturating_sub(self.span.0) as f64, CUT * self.kept);
        for (start, end) in self.cuts.iter().filter(|(start, _)| t > *start) {
            let (whole, gone) = ((end - start) as f64, (t.min(*end) - start) as f64);
            at += part_ratio(gone, whole) * band - gone;
        }
        part_ratio(at, self.kept + band * self.cuts.len() as f64)
    }

    /// Writes the ends of the axis and round times between them, as far as their labels have room.
    pub(super) fn write_ticks(&self, out: &mut String) {
        let (start, end) = (self.span.0, self.span.1.max(self.span.0));
        let step = tick_step(self.kept / 5.0);
        let (unit, name) = match end - start {
            0..1_000_000 => (1e3, "µs"),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let decimals = (unit / step as f64).log10().ceil().max(1.0) as usize;
        let mut ticks = vec![(0.0, 0)];
        let mut from = start;
        for (cut, resume) in self.cuts.iter().chain([&(end, end)]) {
            for number in (from - start).div_ceil(step)..=(cut - start) / step {
                let since_start = number.saturating_mul(step);
                let at = self.axis_position(start.saturating_add(since_start));
                let last = ticks.last().map_or(0.0, |(last, _)| *last);
                if at - last >= TICK_ROOM && 1.0 - at >= TICK_ROOM {
                    ticks.push((at, since_start));
                }
            }
            from = *resume;
        }
        ticks.push((1.0, end - start));
        out.push_str("<div class=\"ticks\">");
        for (at, since_start) in ticks {
            let (left, time) = (100.0 * at, since_start as f64 / unit);
            let decimals = if since_start == 0 { 0 } else { decimals };
            let _ = write!(
                out,
                "<span style=\"left:{left:.1}%\">{time:.decimals$} {name}</span>"
            );
        }
        out.push_str("</div>\n");
    }

    /// Returns the periods that are left out, as text; `None` if nothing is.
    pub(super) fn left_out(&self) -> Option<String> {
        (!self.cuts.is_empty()).then(|| {
            listed(
                self.cuts.iter().map(|(start, end): &(u64, u64)| {
                    let (long, at) = (
                        units::format_duration(end - start),
                        units::format_duration(start.saturating_sub(self.span.0)),
                    );
                    format!("{long} from {at} on")
                }),
                "",
            )
        })
    }
}

/// Writes the names of the marks above the drawing. A name that would overlap the previous one is left out, on a narrow
/// page by its class.
fn write_marks(out: &mut String, chart: &Chart, x: impl Fn(u64) -> f64) {
    out.push_str("<div class=\"marks\">");
    let (mut free, mut free_if_narrow) = (0.0, 0.0);
    for (t, name) in &chart.marks {
        let at = part_ratio(x(*t), WIDTH);
        let length = CHARACTER * (name.chars().count() as f64 + 1.0);
        if at * WIDE < free {
            continue;
        }
        free = at * WIDE + length;
        let is_far = at * NARROW < free_if_narrow;
        if !is_far {
            free_if_narrow = at * NARROW + length;
        }
        let class = if is_far { " class=\"if-wide\"" } else { "" };
        let _ = write!(
            out,
            "<span{class} style=\"left:{:.1}%\">{}</span>",
            at * 100.0,
            escape_html(name)
        );
    }
    out.push_str("</div>\n");
}

/// Returns the path of a line of steps. Points on the same column are drawn as one stroke from the lowest to the
/// highest, so that the path stays short however often memory changed.
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

/// Returns the ratio of a part to the whole; 0 if the whole is 0.
pub(super) fn part_ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(u64, i64)>) -> Chart {
        let line = ChartLine {
            name: "<gpu0>".to_owned(),
            colour: 10,
            points,
        };
        Chart {
            title: "\"memory\"".to_owned(),
            span_ns: (100, 200),
            lines: vec![line],
            marks: vec![(150, "1".to_owned())],
            ..Chart::default()
        }
    }

    #[test]
    fn memory_is_drawn_in_steps() {
        let svg = draw_chart(&chart(vec![(100, 0), (150, 530 << 20)]));
        assert!(
            svg.contains("<path class=\"g1\" d=\"M0 100.0H500V0.0H1000\">"),
            "{svg}"
        );
        assert!(
            svg.contains("<span style=\"top:0.0%\">+530 MiB</span>"),
            "{svg}"
        );
        assert!(svg.contains("<span style=\"left:50.0%\">1</span>"), "{svg}");
    }

    #[test]
    fn areas_lie_upon_each_other_below_the_lines_and_reach_as_high_as_others_do() {
        let mut chart = chart(vec![(100, 300 << 20)]);
        let area = |name: &str, colour, mib: i64| ChartLine {
            name: name.to_owned(),
            colour,
            points: vec![(100, mib << 20)],
        };
        chart.areas = vec![area("a", 0, 100), area("<b>", 2, 250)];
        chart.reach = 400 << 20;
        let svg = draw_chart(&chart);
        let at = |what: &str| svg.find(what).unwrap_or_else(|| panic!("{what}: {svg}"));
        let upper =
            at("<path class=\"area g2\" d=\"M0 37.5H1000V100.0H0Z\"><title>&lt;b&gt;</title>");
        let lower = at("<path class=\"area g0\" d=\"M0 75.0H1000V100.0H0Z\">");
        assert!(
            upper < lower && lower < at("<path class=\"g1\" d=\"M0 25.0H1000\">"),
            "{svg}"
        );
        assert!(
            svg.contains("<span style=\"top:0.0%\">400 MiB</span>"),
            "{svg}"
        );
    }

    #[test]
    fn a_time_that_is_longer_than_twice_the_rest_is_a_band_and_what_is_left_keeps_its_lengths() {
        let axis = Axis::new(
            (0, 1_010_300),
            [100, 200, 300, 1_000_300, 1_010_300].into_iter(),
        );
        assert_eq!(axis.cuts, [(300, 1_000_300), (1_000_300, 1_010_300)]);
        let at = [0, 100, 200, 300, 500_300, 1_000_300, 1_010_300]
            .map(|t| (1080.0 * axis.axis_position(t)).round());
        assert_eq!(at, [0.0, 333.0, 667.0, 1000.0, 1020.0, 1040.0, 1080.0]);
        assert_eq!(
            axis.left_out().unwrap(),
            "1 ms from 300 ns on, 10 µs from 1 ms on"
        );
        assert!(
            Axis::new((0, 100), [50, 99].into_iter()).cuts.is_empty(),
            "a half is kept"
        );
        let svg = draw_chart(&Chart {
            marks: Vec::new(),
            ..chart(vec![(100, 0), (101, 7), (102, 0), (103, 7)])
        });
        assert!(
            svg.contains("<path class=\"cut\"") && svg.contains("<span>left out: "),
            "{svg}"
        );
    }

    #[test]
    fn ticks_are_round_and_keep_clear_of_cuts_and_ends() {
        let ticks = |span, stamps: &[u64]| {
            let mut out = String::new();
            Axis::new(span, stamps.iter().copied()).write_ticks(&mut out);
            let labels = out.split("%\">").skip(1);
            let labels = labels.filter_map(|rest| rest.split_once("</span>"));
            labels
                .map(|(label, _)| label.to_owned())
                .collect::<Vec<_>>()
        };
        let second = 1_000_000_000;
        assert_eq!(
            ticks((second, 9 * second), &[]),
            ["0 s", "2.0 s", "4.0 s", "6.0 s", "8.0 s"]
        );
        let cut = [second / 10, 100 * second, 101 * second];
        assert_eq!(
            ticks((0, 102 * second), &cut),
            ["0 s", "100.5 s", "101.0 s", "101.5 s", "102.0 s"]
        );
        assert_eq!(ticks((7, 7), &[]).len(), 2);
        assert!(ticks((0, u64::MAX), &[]).len() < 12);
    }

    #[test]
    fn marks_that_would_run_into_each_other_are_left_out() {
        let mut chart = chart(vec![(100, 0), (150, 1 << 20)]);
        chart.marks = [100, 101, 104, 150]
            .iter()
            .enumerate()
            .map(|(n, t)| (*t, (n + 1).to_string()))
            .collect();
        let svg = draw_chart(&chart);
        assert!(
            svg.contains(">1</span>") && !svg.contains(">2</span>"),
            "too near at every width: {svg}"
        );
        assert!(
            svg.contains("<span class=\"if-wide\" style=\"left:4.0%\">3</span>"),
            "{svg}"
        );
        assert_eq!(
            svg.matches("<path class=\"mark\"").count(),
            4,
            "every step is marked"
        );
    }

    #[test]
    fn odd_figures_and_names_do_no_harm() {
        let svg = draw_chart(&chart(vec![(0, i64::MIN), (u64::MAX, i64::MAX)]));
        assert!(
            !svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<gpu0>"),
            "{svg}"
        );
        let empty = draw_chart(&Chart::default());
        assert!(
            empty.starts_with("<figure") && empty.contains("</figure>\n") && !empty.contains("NaN"),
            "{empty}"
        );
    }

    #[test]
    fn a_burst_of_changes_is_one_stroke() {
        let svg = draw_chart(&chart((0..100_000).map(|n| (150, n % 7)).collect()));
        assert!(svg.len() < 2_000, "{}", svg.len());
    }
}

//! How often each function was called, and what each process did on each GPU.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::more;
use crate::trace::place;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_trace::{CallCount, Trace, Uses};

/// The most rows of a table of counts.
const MOST_ROWS: usize = 150;

/// How often each function was called and each GPU was used.
pub(super) fn draw(out: &mut String, trace: &Trace) {
    if trace.counts.is_empty() {
        return;
    }
    let mut calls: BTreeMap<&str, CallCount> = BTreeMap::new();
    for (name, count) in trace.counts.iter().flat_map(|counts| &counts.calls) {
        let sum = calls.entry(name).or_default();
        sum.calls = sum.calls.saturating_add(count.calls);
        sum.errors = sum.errors.saturating_add(count.errors);
    }
    out.push_str("<h2>Counts</h2>\n");
    let uses: Vec<(u32, &String, &Uses)> =
        trace.counts.iter().flat_map(|counts| counts.gpus.iter().map(|(gpu, uses)| (counts.pid, gpu, uses))).collect();
    if !uses.is_empty() {
        out.push_str(
            "<div class=\"wide\"><table class=\"counts\">\n<caption>What each process did on each GPU</caption>\n\
             <thead><tr><th scope=\"col\">Process</th><th scope=\"col\">GPU</th><th scope=\"col\" class=\"n\">Launches</th>\
             <th scope=\"col\" class=\"n\">Copies</th><th scope=\"col\" class=\"n\">Allocations</th></tr></thead>\n<tbody>\n",
        );
        for (pid, gpu, uses) in uses.iter().take(MOST_ROWS) {
            let gpu = trace.gpu_index(Some(gpu)).map_or_else(|| place::short(gpu), |index| format!("GPU {index}"));
            let _ = writeln!(
                out,
                "<tr><td>{pid}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                html(&gpu),
                uses.launches,
                uses.copies,
                uses.allocations
            );
        }
        out.push_str("</tbody>\n</table></div>\n");
        more(out, uses.len(), MOST_ROWS, "rows");
    }
    if calls.is_empty() {
        return;
    }
    let mut rows: Vec<(&str, CallCount)> = calls.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(count.calls));
    let _ = writeln!(
        out,
        "<details><summary>{} of all processes</summary>\n<div class=\"wide\"><table class=\"counts\">\n\
         <caption>How often each function was called, and how often it returned an error</caption>\n\
         <thead><tr><th scope=\"col\">Function</th><th scope=\"col\" class=\"n\">Calls</th>\
         <th scope=\"col\" class=\"n\">Errors</th></tr></thead>\n<tbody>",
        counted(rows.len() as u64, "called function")
    );
    for (name, count) in rows.iter().take(MOST_ROWS) {
        let errors = if count.errors == 0 { String::new() } else { count.errors.to_string() };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{errors}</td></tr>",
            html(&place::short(name)),
            count.calls
        );
    }
    out.push_str("</tbody>\n</table></div>\n");
    more(out, rows.len(), MOST_ROWS, "functions");
    out.push_str("</details>\n");
}

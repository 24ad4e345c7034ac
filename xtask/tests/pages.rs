//! The pages in `docs/pitfalls/`: what they link to is there.

use std::path::{Path, PathBuf};

use cuda_pitfalls::catalogue;
use cuda_pitfalls::diagnosis::{ANY, rules};
use xtask::diagnoses;
use xtask::documents::{self, root};

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let scenarios = catalogue::select(&[]).expect("the scenarios that come with the program are valid");
    let measured = documents::measured(&scenarios).expect("the reports can be read");
    let made = documents::pages(&scenarios, &measured);
    let (mut dead, mut seen) = (Vec::new(), 0);
    for (page, text) in &made {
        let folder = Path::new(page).parent().expect("a page lies in a folder");
        // Code between fences may have what looks like a link.
        let prose: String = text.split("\n```").step_by(2).collect();
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { plain(&folder.join(file)) };
            let anchors = made.get(&target).is_none_or(|text| {
                let heading = format!("## {}\n", anchor.replace('-', " "));
                anchor.is_empty()
                    || text.contains(&format!("id=\"{anchor}\""))
                    || text.to_lowercase().contains(&heading)
            });
            if !(made.contains_key(&target) || root().join(&target).is_file()) || !anchors {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(seen > 1000, "only {seen} links");
}

#[test]
fn every_link_of_the_rules_leads_somewhere() {
    let page = rules_page();
    let headings: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with("## ") || line.starts_with("### "))
        .map(|line| line.trim_start_matches('#').trim().trim_matches('`').to_lowercase())
        .collect();
    let mut seen = 0;
    for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        match link.strip_prefix('#') {
            Some(anchor) => assert!(headings.iter().any(|heading| heading == anchor), "no heading for {link}"),
            None => assert!(root().join("docs").join(link).exists(), "{link} leads nowhere"),
        }
        seen += 1;
    }
    assert!(seen > 50, "only {seen} links");
}

fn rules_page() -> String {
    let scenarios = catalogue::select(&[]).expect("the scenarios that come with the program are valid");
    let measured = documents::measured(&scenarios).expect("the reports can be read");
    diagnoses::page(&documents::traced().expect("the traces can be read"), &measured)
}

/// A rule says where it was found or that it was not, and a workaround where it was run or that it was not: as the
/// committed traces and reports show it, and not as its file says.
#[test]
fn every_rule_says_where_it_was_found_and_every_workaround_where_it_was_run() {
    let page = rules_page();
    let traces = documents::traced().expect("the traces can be read");
    for rule in rules() {
        let heading = format!("\n## {}\n", rule.name);
        let section = page.split(&heading).nth(1).unwrap_or_else(|| panic!("{} has no section", rule.name));
        let section = section.split("\n## ").next().unwrap_or_default();
        let found = traces.iter().filter(|trace| trace.findings.iter().any(|finding| finding.rule == rule.name));
        let found: Vec<&str> = found.map(|trace| trace.name.as_str()).collect();
        assert_eq!(found.is_empty(), section.contains(diagnoses::NEVER_FOUND), "{}: {found:?}", rule.name);
        assert!(found.iter().all(|name| section.contains(&format!("[`{name}`]"))), "{}: {found:?}", rule.name);
        for (framework, _) in &rule.workaround {
            let name = if framework == ANY { "any program".to_owned() } else { format!("`{framework}`") };
            let row = section.lines().find(|line| line.starts_with(&format!("| {name} |"))).expect("a row");
            let run = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
            let names_where = run.starts_with("case `") || run.starts_with("traced: ");
            assert!(run == diagnoses::NOT_RUN || names_where, "{} in {framework}: {run}", rule.name);
            assert!(run == diagnoses::NOT_RUN || !rule.shown(framework).is_empty(), "{} in {framework}", rule.name);
        }
    }
}

/// A path without `..`.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain.to_string_lossy().into_owned()
}

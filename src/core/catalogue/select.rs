//! Choosing among scenarios by selectors, and excluding some of them.
//!
//! A selector is compared with these in order, and the first match counts: the name of a scenario or of an
//! instance, `all` or `essential`, a folder, a tag or a symptom, the last part of a name, a glob of a name or of last
//! parts, the first words of last parts. So a word that is both a folder and a tag selects the folder, and `torch` all
//! questions about torch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{
    Embedded, Outline, SelectError, Shard, embedded_files, essential, load_embedded, load_file,
    outline,
};
use crate::scenario::{self, Instance, Scenario};
use crate::text::escape::terminal;

/// The scenarios to take if no selector is given, or only selectors that exclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unselected {
    /// Every built-in scenario.
    All,
    /// The questions that users ask most; see [`essential`].
    Essential,
}

/// The selected scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The scenarios, in the order of the selectors, without duplicates, each with its selected instances.
    pub scenarios: Vec<Scenario>,
    /// Instances that were selected by an exact name: of the instance, of its scenario or of the file.
    pub by_name: BTreeSet<String>,
}

/// The scenarios that match one selector.
struct Meant {
    outlines: Vec<Outline>,
    /// `true` if the selector is the name of one scenario or instance.
    by_name: bool,
    /// The scenario, if the selector is the path of a user's file.
    file: Option<Scenario>,
}

/// The scenarios that match several selectors. Built-in files are not parsed yet.
#[derive(Default)]
struct Picked {
    picks: Vec<Pick>,
    by_name: BTreeSet<String>,
}

/// A scenario with the instances that were selected.
struct Pick {
    outline: Outline,
    /// The scenario, if it comes from a user's file.
    file: Option<Scenario>,
}

/// Returns the outlines of the scenarios that match the selectors; all outlines without selectors.
///
/// # Errors
/// Returns the errors of [`Selection::new`].
pub fn list(selectors: &[String], exclude: &[String]) -> Result<Vec<Outline>, SelectError> {
    let picked = Picked::new(selectors, exclude, Unselected::All)?;
    Ok(picked.picks.into_iter().map(|pick| pick.outline).collect())
}

impl Picked {
    fn new(
        selectors: &[String],
        exclude: &[String],
        unselected: Unselected,
    ) -> Result<Picked, SelectError> {
        let mut with: Vec<&str> = Vec::new();
        let mut without: Vec<&str> = Vec::new();
        for selector in selectors {
            match selector.strip_prefix('!') {
                Some(excluded) => without.push(excluded.trim_start_matches('!')),
                None => with.push(selector),
            }
        }
        without.extend(exclude.iter().map(String::as_str));
        if with.is_empty() {
            with.push(match unselected {
                Unselected::All => "all",
                Unselected::Essential => "essential",
            });
        }
        // A user's file can be read although other files are invalid.
        let is_only_files = without.is_empty() && with.iter().all(|selector| is_path(selector));
        let all = if is_only_files {
            Vec::new()
        } else {
            outline::all()?
        };
        let mut picked = Picked::default();
        let mut invalid = Vec::new();
        for selector in with {
            match match_selector(&all, selector) {
                Ok(meant) => picked.add(meant),
                Err(SelectError::Invalid(files)) => invalid.extend(files),
                Err(error) => return Err(error),
            }
        }
        if !invalid.is_empty() {
            return Err(SelectError::Invalid(invalid));
        }
        for selector in without {
            picked.leave_out(&match_selector(&all, selector)?);
        }
        if picked.picks.is_empty() {
            return Err(SelectError::Nothing);
        }
        Ok(picked)
    }

    fn add(
        &mut self,
        Meant {
            outlines,
            by_name,
            file,
        }: Meant,
    ) {
        let sha256 = file.as_ref().map(|file| &file.sha256);
        for outline in outlines {
            if by_name {
                self.by_name.extend(outline.instances.iter().cloned());
            }
            // Two files of the same name are two scenarios.
            let known = self.picks.iter_mut().find(|known| {
                known.outline.name == outline.name
                    && known.file.as_ref().map(|file| &file.sha256) == sha256
            });
            match known {
                Some(known) => {
                    for instance in outline.instances {
                        if !known.outline.instances.contains(&instance) {
                            known.outline.instances.push(instance);
                        }
                    }
                }
                None => self.picks.push(Pick {
                    outline,
                    file: file.clone(),
                }),
            }
        }
    }

    fn leave_out(&mut self, meant: &Meant) {
        for out in &meant.outlines {
            for pick in &mut self.picks {
                if pick.outline.name == out.name {
                    pick.outline
                        .instances
                        .retain(|instance| !out.instances.contains(instance));
                }
            }
        }
        self.picks.retain(|pick| !pick.outline.instances.is_empty());
    }

    fn read(self) -> Result<Vec<Scenario>, SelectError> {
        let mut named = BTreeSet::new();
        for pick in &self.picks {
            if pick.file.is_none() {
                named.insert(pick.outline.name.as_str());
            }
        }
        let mut files: Vec<Embedded> = embedded_files().collect();
        files.retain(|file| named.contains(file.name.as_str()));
        let mut read = BTreeMap::new();
        for scenario in load_embedded(&files)? {
            read.insert(scenario.name.clone(), scenario);
        }
        let mut scenarios = Vec::new();
        for pick in self.picks {
            let Some(mut scenario) = pick.file.or_else(|| read.remove(&pick.outline.name)) else {
                continue;
            };
            let mut all = std::mem::take(&mut scenario.instances);
            for name in &pick.outline.instances {
                let index = all.iter().position(|instance| instance.name == *name);
                scenario
                    .instances
                    .extend(index.map(|index| all.remove(index)));
            }
            scenarios.push(scenario);
        }
        Ok(scenarios)
    }
}

impl Selection {
    /// Returns the scenarios that match the selectors, without those excluded by `!` or by `exclude`.
    ///
    /// # Errors
    /// Returns an error if a selector matches nothing (the error has the most similar name), if a file cannot be read
    /// or is not valid, or if everything is excluded.
    pub fn new(
        selectors: &[String],
        exclude: &[String],
        unselected: Unselected,
    ) -> Result<Selection, SelectError> {
        let mut picked = Picked::new(selectors, exclude, unselected)?;
        let by_name = std::mem::take(&mut picked.by_name);
        Ok(Selection {
            scenarios: picked.read()?,
            by_name,
        })
    }

    /// Returns `true` if an instance was selected by an exact name.
    pub fn is_by_name(&self, instance: &Instance) -> bool {
        self.by_name.contains(&instance.name)
    }

    /// Returns the instances, in order.
    pub fn instances(&self) -> impl Iterator<Item = (&Scenario, &Instance)> {
        self.scenarios.iter().flat_map(|scenario| {
            scenario
                .instances
                .iter()
                .map(move |instance| (scenario, instance))
        })
    }

    /// Returns the instances of one shard; the complete selection if `shard` is `None`.
    #[must_use]
    pub fn keep_shard(mut self, shard: Option<Shard>) -> Selection {
        let Some(shard) = shard else { return self };
        let mut index = 0;
        for scenario in &mut self.scenarios {
            scenario.instances.retain(|_| {
                index += 1;
                shard.has(index - 1)
            });
        }
        self.scenarios
            .retain(|scenario| !scenario.instances.is_empty());
        self
    }
}

fn is_path(selector: &str) -> bool {
    (selector.ends_with(".toml") && !selector.contains(['*', '?'])) || Path::new(selector).is_file()
}

/// Returns the scenarios that match a selector, at least one.
fn match_selector(all: &[Outline], selector: &str) -> Result<Meant, SelectError> {
    if is_path(selector) {
        let file = load_file(selector)?;
        return Ok(Meant {
            outlines: vec![Outline::new(&file)],
            by_name: true,
            file: Some(file),
        });
    }
    if let Some(found) = by_name(all, selector)? {
        return Ok(Meant {
            outlines: vec![found],
            by_name: true,
            file: None,
        });
    }
    let outlines = match selector {
        "all" => all.to_vec(),
        "essential" => essential::essential_outlines(all),
        _ => by_word(all, selector)?,
    };
    if outlines.is_empty() {
        let (nearest, path) = (nearest_name(all, selector), Path::new(selector));
        return Err(match terminal(selector) {
            folder if path.is_dir() => SelectError::Selector(format!(
                "`{folder}` is a directory here, not a directory of scenarios; give its files instead"
            )),
            file if nearest.is_none()
                && selector.contains('/')
                && !selector.contains(['*', '?']) =>
            {
                SelectError::Selector(format!(
                    "`{file}` is not a file, and no scenario matches it; `cuda-pitfalls list` shows all"
                ))
            }
            _ => SelectError::Unknown {
                selector: selector.to_string(),
                nearest,
            },
        });
    }
    Ok(Meant {
        outlines,
        by_name: false,
        file: None,
    })
}

/// Returns the scenario or instance with this name, or with this last part of a name if only one has it.
fn by_name(all: &[Outline], selector: &str) -> Result<Option<Outline>, SelectError> {
    if let Some(found) = Outline::named(all, selector) {
        return Ok(Some(found));
    }
    if !with_word(all, selector).is_empty() {
        return Ok(None);
    }
    let mut with_stem = all.to_vec();
    with_stem.retain(|scenario| name_stem(&scenario.name) == selector);
    if with_stem.len() > 1 {
        let names: Vec<&str> = with_stem.iter().map(|found| found.name.as_str()).collect();
        return Err(SelectError::Selector(format!(
            "`{}` is ambiguous: `{}`",
            terminal(selector),
            terminal(&names.join("` or `"))
        )));
    }
    Ok(with_stem.pop())
}

/// Returns the scenarios of a directory, or else those with a tag or symptom.
fn with_word(all: &[Outline], selector: &str) -> Vec<Outline> {
    let folder = format!("{}/", selector.trim_end_matches('/'));
    let mut in_folder = all.to_vec();
    in_folder.retain(|scenario| scenario.name.starts_with(&folder));
    if !in_folder.is_empty() {
        return in_folder;
    }
    let mut tagged = Vec::new();
    for scenario in all {
        let mut words = scenario.tags.iter().chain(&scenario.symptoms);
        if words.any(|word| word.eq_ignore_ascii_case(selector)) {
            tagged.push(scenario.clone());
        }
    }
    tagged
}

fn by_word(all: &[Outline], selector: &str) -> Result<Vec<Outline>, SelectError> {
    let found = with_word(all, selector);
    if !found.is_empty() {
        return Ok(found);
    }
    if !selector.contains(['*', '?']) {
        let first_words = format!("{selector}-");
        let mut matched = all.to_vec();
        matched.retain(|scenario| name_stem(&scenario.name).starts_with(&first_words));
        return Ok(matched);
    }
    // In the name of an instance, brackets are not part of the pattern.
    let (as_given, literal) = (
        parse_pattern(selector, selector)?,
        parse_pattern(&selector.replace('[', "[[]"), selector)?,
    );
    let mut matched = all.to_vec();
    for scenario in &mut matched {
        if !as_given.matches(&scenario.name) && !as_given.matches(name_stem(&scenario.name)) {
            scenario
                .instances
                .retain(|instance| literal.matches(instance));
        }
    }
    matched.retain(|scenario| !scenario.instances.is_empty());
    Ok(matched)
}

fn parse_pattern(text: &str, selector: &str) -> Result<glob::Pattern, SelectError> {
    glob::Pattern::new(text).map_err(|error| {
        let (selector, why) = (terminal(selector), terminal(&error.to_string()));
        SelectError::Selector(format!("`{selector}` is not a valid glob: {why}"))
    })
}

fn name_stem(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, stem)| stem)
}

fn folder(name: &str) -> &str {
    name.split_once('/').map_or(name, |(folder, _)| folder)
}

fn nearest_name(all: &[Outline], selector: &str) -> Option<String> {
    let mut known = vec!["all", "essential"];
    for scenario in all {
        let stem = name_stem(&scenario.name);
        known.extend([&scenario.name, stem, folder(&scenario.name)]);
        known.extend(stem.split('-').next());
        known.extend(scenario.instances.iter().map(String::as_str));
        known.extend(scenario.tags.iter().map(String::as_str));
        known.extend(scenario.symptoms.iter().map(String::as_str));
    }
    if let Some(near) = scenario::nearest_name(selector, known) {
        return Some(near.to_string());
    }
    // A truncated name differs from the full one in many characters.
    let mut names = all.iter().map(|scenario| &scenario.name);
    names
        .find(|name| !selector.is_empty() && name.contains(selector))
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
    question = "Is it?"
    belief = "It is."
    tags = ["A01", "visibility", "memory"]
    no_control = "a test"
    effect = [ { exit = 0 } ]
    [parameters]
    q = [1, 2]
    [cases.trap]
    does = "nothing"
    steps = [ { mark = {} } ]
    "#;

    fn all() -> Vec<Outline> {
        ["context/first", "visibility/first", "visibility/second"]
            .map(|name| {
                Outline::new(&scenario::load_scenario(name, "test.toml", SOURCE, &[]).unwrap())
            })
            .to_vec()
    }

    fn instances(selector: &str) -> Result<Vec<String>, SelectError> {
        let meant = match_selector(&all(), selector)?;
        Ok(meant
            .outlines
            .into_iter()
            .flat_map(|outline| outline.instances)
            .collect())
    }

    fn names(selector: &str) -> Result<Vec<String>, SelectError> {
        let meant = match_selector(&all(), selector)?;
        Ok(meant
            .outlines
            .into_iter()
            .map(|outline| outline.name)
            .collect())
    }

    #[test]
    fn names_globs_tags_and_stems_select() {
        assert_eq!(names("context/first").unwrap(), ["context/first"]);
        assert_eq!(
            names("visibility/*").unwrap(),
            ["visibility/first", "visibility/second"]
        );
        assert_eq!(names("a01").unwrap().len(), 3);
        assert_eq!(
            names("memory").unwrap().len(),
            3,
            "no such folder here, so it is the tag"
        );
        assert_eq!(names("second").unwrap(), ["visibility/second"]);
        assert_eq!(names("all").unwrap().len(), 3);
    }

    #[test]
    fn first_words_and_globs_need_no_folder() {
        let all = [
            "framework/torch-import",
            "framework/torchvision",
            "framework/torch-rng",
        ]
        .map(|name| {
            Outline::new(&scenario::load_scenario(name, "test.toml", SOURCE, &[]).unwrap())
        });
        for (selector, found) in [
            ("torch", vec![0, 2]),
            ("torch-r", vec![]),
            ("torch*", vec![0, 1, 2]),
            ("*rng", vec![2]),
        ] {
            let names = by_word(&all, selector).unwrap();
            assert_eq!(
                names,
                found
                    .into_iter()
                    .map(|index| all[index].clone())
                    .collect::<Vec<_>>(),
                "{selector}"
            );
        }
    }

    #[test]
    fn a_folder_wins_over_a_tag_of_the_same_name() {
        for folder in ["visibility", "visibility/"] {
            assert_eq!(
                names(folder).unwrap(),
                ["visibility/first", "visibility/second"],
                "{folder}"
            );
        }
        assert_eq!(
            names("visibilit")
                .unwrap_err()
                .to_string()
                .split(';')
                .next(),
            Some("no scenario matches this selector: `visibilit`")
        );
    }

    #[test]
    fn an_instance_is_selected_alone_and_by_glob() {
        assert_eq!(
            instances("context/first[q=2]").unwrap(),
            ["context/first[q=2]"]
        );
        assert_eq!(instances("*[q=2]").unwrap().len(), 3);
        assert_eq!(
            instances("visibility/*[q=1]").unwrap(),
            ["visibility/first[q=1]", "visibility/second[q=1]"]
        );
        assert_eq!(
            instances("[cv]*/first").unwrap().len(),
            4,
            "a set of characters"
        );
        assert_eq!(instances("context/*").unwrap().len(), 2);
    }

    #[test]
    fn only_names_are_names() {
        for exact in ["context/first", "context/first[q=2]", "second"] {
            assert!(match_selector(&all(), exact).unwrap().by_name, "{exact}");
        }
        for other in [
            "visibility",
            "visibility/",
            "visibility/*",
            "a01",
            "all",
            "context/firs?",
            "*[q=2]",
        ] {
            assert!(!match_selector(&all(), other).unwrap().by_name, "{other}");
        }
    }

    #[test]
    fn what_selects_nothing_is_an_error_with_the_nearest_name() {
        let unknown = |selector: &str| names(selector).unwrap_err().to_string();
        assert_eq!(
            unknown("first"),
            "`first` is ambiguous: `context/first` or `visibility/first`"
        );
        let nearest =
            "no scenario matches this selector: `contxt/first`; did you mean `context/first`?";
        assert_eq!(unknown("contxt/first"), nearest);
        let cut = "no scenario matches this selector: `text/fi`; did you mean `context/first`?";
        assert_eq!(unknown("text/fi"), cut);
        assert!(unknown("contex").ends_with("did you mean `context`?"));
        assert!(unknown("essentiel").ends_with("did you mean `essential`?"));
        let nothing = "no scenario matches this selector: `nosuch/*`; `cuda-pitfalls list` shows the scenarios";
        assert_eq!(unknown("nosuch/*"), nothing);
        assert_eq!(
            unknown(""),
            "no scenario matches this selector: ``; `cuda-pitfalls list` shows the scenarios"
        );
        assert_eq!(
            unknown("**a").split(':').next(),
            Some("`**a` is not a valid glob")
        );
    }

    #[test]
    fn instances_of_several_selectors_come_together_and_can_be_left_out() {
        let mut picked = Picked::default();
        for selector in ["context/first[q=2]", "context/*"] {
            picked.add(match_selector(&all(), selector).unwrap());
        }
        assert_eq!(picked.picks.len(), 1);
        assert_eq!(
            picked.picks[0].outline.instances,
            ["context/first[q=2]", "context/first[q=1]"]
        );
        assert_eq!(
            picked.by_name.iter().collect::<Vec<_>>(),
            ["context/first[q=2]"]
        );
        picked.leave_out(&match_selector(&all(), "*[q=2]").unwrap());
        assert_eq!(picked.picks[0].outline.instances, ["context/first[q=1]"]);
        picked.leave_out(&match_selector(&all(), "context").unwrap());
        assert!(picked.picks.is_empty());
    }

    #[test]
    fn what_is_read_is_what_was_picked() {
        let selection = select(
            &[
                "context/first-call-makes-one[call=cudaStreamQuery]",
                "memory",
            ],
            &[],
            Unselected::All,
        )
        .unwrap();
        let names: Vec<&str> = selection
            .instances()
            .map(|(_, instance)| instance.name.as_str())
            .collect();
        assert_eq!(
            names[0],
            "context/first-call-makes-one[call=cudaStreamQuery]"
        );
        let memory = list(&["memory".to_string()], &[]).unwrap();
        let listed: Vec<&String> = memory
            .iter()
            .flat_map(|outline| &outline.instances)
            .collect();
        assert_eq!(names[1..].iter().collect::<Vec<_>>(), listed);
    }

    /// The index is a cache: files that it lacks, or that changed since, are read.
    #[test]
    fn outlines_are_those_of_the_files() {
        let scenarios = crate::catalogue::select_scenarios(&[]).unwrap();
        assert_eq!(
            list(&[], &[]).unwrap(),
            scenarios.iter().map(Outline::new).collect::<Vec<_>>()
        );
    }

    fn select(
        selectors: &[&str],
        exclude: &[&str],
        unselected: Unselected,
    ) -> Result<Selection, SelectError> {
        let [selectors, exclude] = [selectors, exclude]
            .map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
        Selection::new(&selectors, &exclude, unselected)
    }

    #[test]
    fn what_is_left_out_is_left_out_of_the_default_set_if_nothing_is_named() {
        let all = select(&[], &[], Unselected::All).unwrap();
        let memory = select(&["memory"], &[], Unselected::All).unwrap();
        let rest = select(&["!memory"], &[], Unselected::All).unwrap();
        assert_eq!(rest, select(&[], &["memory"], Unselected::All).unwrap());
        assert_eq!(
            memory.instances().count() + rest.instances().count(),
            all.instances().count()
        );
        let essential = select(&[], &[], Unselected::Essential).unwrap();
        assert_eq!(
            essential,
            select(&["essential"], &[], Unselected::All).unwrap()
        );
        assert!(essential.by_name.is_empty());
        let without = select(&["!memory"], &[], Unselected::Essential).unwrap();
        assert!(without.instances().count() < essential.instances().count());
        assert!(matches!(
            select(&["memory", "!memory"], &[], Unselected::All),
            Err(SelectError::Nothing)
        ));
        assert!(matches!(
            select(&["!nosuch"], &[], Unselected::All),
            Err(SelectError::Unknown { .. })
        ));
    }

    #[test]
    fn shards_of_everything_are_the_whole() {
        let whole = select(&[], &[], Unselected::All).unwrap();
        let mut union = BTreeSet::new();
        for shard in ["1/4", "2/4", "3/4", "4/4"] {
            let part = whole.clone().keep_shard(Shard::parse(shard));
            let part = instance_names(&part);
            assert!(part.len().abs_diff(whole.instances().count() / 4) <= 1);
            assert!(part.is_disjoint(&union));
            union.extend(part);
        }
        assert_eq!(union, instance_names(&whole));
    }

    fn instance_names(selection: &Selection) -> BTreeSet<String> {
        selection
            .instances()
            .map(|(_, instance)| instance.name.clone())
            .collect()
    }
}

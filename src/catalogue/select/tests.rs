use super::*;

const SOURCE: &str = r#"
question = "Is it?"
folklore = "It is."
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
    let load = |name: &str| Outline::of(&scenario::load(name, "test.toml", SOURCE, &[]).unwrap());
    ["context/first", "visibility/first", "visibility/second"].map(load).to_vec()
}

fn instances(selector: &str) -> Result<Vec<String>, String> {
    let meant = meant(&all(), selector).map_err(|error| error.to_string())?;
    Ok(meant.outlines.into_iter().flat_map(|outline| outline.instances).collect())
}

fn names(selector: &str) -> Result<Vec<String>, String> {
    let meant = meant(&all(), selector).map_err(|error| error.to_string())?;
    Ok(meant.outlines.into_iter().map(|outline| outline.name).collect())
}

#[test]
fn names_globs_tags_and_stems_select() {
    assert_eq!(names("context/first").unwrap(), ["context/first"]);
    assert_eq!(names("visibility/*").unwrap(), ["visibility/first", "visibility/second"]);
    assert_eq!(names("a01").unwrap().len(), 3);
    assert_eq!(names("memory").unwrap().len(), 3, "no such folder here, so it is the tag");
    assert_eq!(names("second").unwrap(), ["visibility/second"]);
    assert_eq!(names("all").unwrap().len(), 3);
}

#[test]
fn a_folder_wins_over_a_tag_of_the_same_name() {
    for folder in ["visibility", "visibility/"] {
        assert_eq!(names(folder).unwrap(), ["visibility/first", "visibility/second"], "{folder}");
    }
    assert_eq!(
        names("visibilit").unwrap_err().split(';').next(),
        Some("no scenario matches this selector: `visibilit`")
    );
}

#[test]
fn an_instance_is_selected_alone_and_by_glob() {
    assert_eq!(instances("context/first[q=2]").unwrap(), ["context/first[q=2]"]);
    assert_eq!(instances("*[q=2]").unwrap().len(), 3);
    assert_eq!(instances("visibility/*[q=1]").unwrap(), ["visibility/first[q=1]", "visibility/second[q=1]"]);
    assert_eq!(instances("[cv]*/first").unwrap().len(), 4, "a set of characters");
    assert_eq!(instances("context/*").unwrap().len(), 2);
}

#[test]
fn only_names_are_names() {
    let by_name = |selector: &str| meant(&all(), selector).unwrap().by_name;
    for exact in ["context/first", "context/first[q=2]", "second"] {
        assert!(by_name(exact), "{exact}");
    }
    for other in ["visibility", "visibility/", "visibility/*", "a01", "all", "context/firs?", "*[q=2]"] {
        assert!(!by_name(other), "{other}");
    }
}

#[test]
fn what_selects_nothing_is_an_error_with_the_nearest_name() {
    let unknown = |selector: &str| names(selector).unwrap_err();
    assert_eq!(unknown("first"), "`first` may be `context/first` or `visibility/first`");
    let nearest = "no scenario matches this selector: `contxt/first`; did you mean `context/first`?";
    assert_eq!(unknown("contxt/first"), nearest);
    let cut = "no scenario matches this selector: `text/fi`; did you mean `context/first`?";
    assert_eq!(unknown("text/fi"), cut);
    assert!(unknown("contex").ends_with("did you mean `context`?"));
    assert!(unknown("essentiel").ends_with("did you mean `essential`?"));
    let nothing = "no scenario matches this selector: `nosuch/*`; `cuda-pitfalls list` shows what there is";
    assert_eq!(unknown("nosuch/*"), nothing);
    assert_eq!(unknown(""), "no scenario matches this selector: ``; `cuda-pitfalls list` shows what there is");
    assert_eq!(unknown("**a").split(':').next(), Some("`**a` is no glob"));
}

#[test]
fn instances_of_several_selectors_come_together_and_can_be_left_out() {
    let mut picked = Picked::default();
    for selector in ["context/first[q=2]", "context/*"] {
        picked.add(meant(&all(), selector).unwrap());
    }
    assert_eq!(picked.picks.len(), 1);
    assert_eq!(picked.picks[0].outline.instances, ["context/first[q=2]", "context/first[q=1]"]);
    assert_eq!(picked.by_name.iter().collect::<Vec<_>>(), ["context/first[q=2]"]);
    picked.leave_out(&meant(&all(), "*[q=2]").unwrap());
    assert_eq!(picked.picks[0].outline.instances, ["context/first[q=1]"]);
    picked.leave_out(&meant(&all(), "context").unwrap());
    assert!(picked.picks.is_empty());
}

#[test]
fn what_is_read_is_what_was_picked() {
    let selection = of(&["context/first-call-makes-one[call=cudaStreamQuery]", "memory"], &[], Default::All).unwrap();
    let names: Vec<&str> = selection.instances().map(|(_, instance)| instance.name.as_str()).collect();
    assert_eq!(names[0], "context/first-call-makes-one[call=cudaStreamQuery]");
    let memory = list(&["memory".to_string()], &[]).unwrap();
    let listed: Vec<&String> = memory.iter().flat_map(|outline| &outline.instances).collect();
    assert_eq!(names[1..].iter().collect::<Vec<_>>(), listed);
}

/// The index is a cache: what it does not know, or knows otherwise, is read from the files.
#[test]
fn outlines_are_those_of_the_files() {
    let scenarios = crate::catalogue::select(&[]).unwrap();
    assert_eq!(list(&[], &[]).unwrap(), scenarios.iter().map(Outline::of).collect::<Vec<_>>());
}

fn of(selectors: &[&str], exclude: &[&str], default: Default) -> Result<Selection, SelectError> {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_string()).collect::<Vec<_>>();
    Selection::of(&owned(selectors), &owned(exclude), default)
}

#[test]
fn what_is_left_out_is_left_out_of_the_default_set_if_nothing_is_named() {
    let all = of(&[], &[], Default::All).unwrap();
    let memory = of(&["memory"], &[], Default::All).unwrap();
    let rest = of(&["!memory"], &[], Default::All).unwrap();
    assert_eq!(rest, of(&[], &["memory"], Default::All).unwrap());
    assert_eq!(memory.instances().count() + rest.instances().count(), all.instances().count());
    let essential = of(&[], &[], Default::Essential).unwrap();
    assert_eq!(essential, of(&["essential"], &[], Default::All).unwrap());
    assert!(essential.by_name.is_empty());
    let without = of(&["!memory"], &[], Default::Essential).unwrap();
    assert!(without.instances().count() < essential.instances().count());
    assert!(matches!(of(&["memory", "!memory"], &[], Default::All), Err(SelectError::Nothing)));
    assert!(matches!(of(&["!nosuch"], &[], Default::All), Err(SelectError::Unknown { .. })));
}

#[test]
fn shards_of_everything_are_the_whole() {
    let names = |selection: &Selection| selection.instances().map(|(_, one)| one.name.clone()).collect::<BTreeSet<_>>();
    let whole = of(&[], &[], Default::All).unwrap();
    let mut union = BTreeSet::new();
    for shard in ["1/4", "2/4", "3/4", "4/4"] {
        let part = whole.clone().shard(Some(shard.parse().unwrap()));
        let part = names(&part);
        assert!(part.len().abs_diff(whole.instances().count() / 4) <= 1);
        assert!(part.is_disjoint(&union));
        union.extend(part);
    }
    assert_eq!(union, names(&whole));
}

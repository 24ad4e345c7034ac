use super::*;
use crate::claim::fixture::{SOURCE, scenarios};
use cuda_pitfalls_core::scenario::Expected;

/// The errors of a file in which one text was replaced.
fn said(from: &str, to: &str) -> Vec<String> {
    assert!(SOURCE.contains(from), "{from}");
    let source = SOURCE.replacen(from, to, 1);
    match load("s7-test", "scenarios/claims/s7-test.toml", &source, &scenarios()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(|error| error.line(&source)).collect(),
    }
}

#[test]
fn a_file_is_read_whole() {
    let article = load("s7-test", "scenarios/claims/s7-test.toml", SOURCE, &scenarios()).unwrap();
    assert_eq!(
        (article.title.as_str(), article.source.as_str()),
        ("A title of ours", "“Ein Titel”, A. Nobody, 2025-05-23")
    );
    let [first, second, third] = &article.claims[..] else { panic!("{article:?}") };
    let Assessment::Tested(tested) = &first.row else { panic!("{first:?}") };
    assert!(tested.stated == Stated::Qualified && tested.condition == "with a newer runtime");
    assert_eq!(tested.shown_by[0].libcudart, Some(Range(">= 12.0".into())));
    assert_eq!(tested.shown_by[1].verdict, Expected::NotReproduced);
    assert_eq!(tested.numbers[1].fact, Printed::Exit);
    let Assessment::Tested(tested) = &second.row else { panic!("{second:?}") };
    assert_eq!(tested.shown_by[0].instances, ["context/query[q=a]", "context/query[q=b]"]);
    assert_eq!(tested.cause_shown_by[0].instances, ["context/query[q=a]"]);
    assert_eq!(third.row, Assessment::Untestable("no clock".to_owned()));
}

#[test]
fn what_is_not_a_key_is_named_with_its_place() {
    assert!(
        said("says = \"It is slow.\"", "says = \"It is slow.\"\nsay = 1")[0]
            .contains("s7-test.toml:32:1: unknown field")
    );
    assert!(said("shows =", "show =")[0].contains("unknown field `show`"));
    assert!(
        said("\"refuted\"", "\"wrong\"")[0].starts_with("scenarios/claims/s7-test.toml:24:11: unknown variant `wrong`")
    );
    assert!(said("fact = \"exit\"", "fact = \"exits\"")[0].contains("unknown fact `exits`"));
    assert!(said("\"2025-05-23\"", "\"May 2025\"")[0].contains("the day is written like"));
    assert!(said("author = \"A. Nobody\"\n", "").is_empty(), "not every text names its author");
    assert!(said("article =", "artikel =")[0].contains("unknown field `artikel`"));
}

#[test]
fn what_a_row_names_exists() {
    assert!(said("\"context/query[q=a]\"", "\"context/query[q=c]\"")[0].contains("there is no scenario"));
    assert!(
        said("\"context/guard\", case", "\"context/gard\", case")[0].contains("there is no scenario `context/gard`")
    );
    assert!(said("case = \"trap\", fact", "case = \"tarp\", fact")[0].contains("context/guard has no case `tarp`"));
    assert!(
        said("at = \"look\", fact = \"used_bytes\"", "at = \"lok\", fact = \"used_bytes\"")[0]
            .contains("is called `lok`")
    );
    let source = SOURCE.replace("says = \"after it\"", "says = \"  \"");
    let errors = load("s7-test", "a.toml", &source, &scenarios()).unwrap_err();
    assert!(errors[0].line(&source).ends_with("this is empty"), "{errors:?}");
}

#[test]
fn a_row_is_complete() {
    assert!(said("condition = \"with a newer runtime\"\n", "")[0].contains("needs its `condition`"));
    assert!(said("cause = \"they read a table\"\n", "")[0].contains("needs its real `cause`"));
    assert!(said("verdict = \"refuted\"", "verdict = \"confirmed\"")[0].contains("has no other cause"));
    assert!(said("verdict = \"refuted\"", "verdict = \"not_seen\"").is_empty(), "what was not seen has a cause");
    assert!(said("untestable = \"no clock\"", "")[0].contains("needs a `verdict`"));
    assert!(said("untestable", "verdict = \"confirmed\"\nuntestable")[0].contains("cannot be tested has no verdict"));
    assert!(said("id = \"S7-2\"", "id = \"S7-1\"")[0].contains("occurs twice"));
    assert!(said("id = \"S7-2\"", "id = \"S6-2\"")[0].contains("not of the form `S7-<number>`"));
    assert!(said(", is = [\"gpu0\"]", "")[0].contains("a fact needs"));
    assert!(said(">= 12.0", "12.0")[0].contains("write one of"));
}

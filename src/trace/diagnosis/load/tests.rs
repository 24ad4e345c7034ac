//! Files of rules that are wrong, and what is said of them.

use super::load_rule;
use crate::diagnosis::WorkaroundRun;

const GOOD: &str = r#"# It goes wrong, because of that.
title    = "a title"
severity = "note"
scenario = "visibility/mask-after-cuinit"
evidence = "reports/h200-x2"
when     = { clue = "context-made", ordinal = [0, 1], used = false, stack_has = "f" }
says     = "{line} takes {bytes}"
workaround = { any = "Do not." }
"#;

fn wrong(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let source = GOOD.replace(from, to);
    let errors = load_rule("a", "a.toml", &source).expect_err("this is wrong");
    let line = |error: &cuda_pitfalls_core::source::Diagnostic| {
        error.line(&source)
            + &error
                .help
                .as_ref()
                .map(|help| format!(" ({help})"))
                .unwrap_or_default()
    };
    errors.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_rule_is_read_as_it_is_written() {
    let rule = load_rule("a", "a.toml", GOOD).expect("a rule");
    assert_eq!(
        (rule.name.as_str(), rule.why.as_str()),
        ("a", "It goes wrong, because of that.")
    );
    assert_eq!(
        (
            rule.when.len(),
            rule.when[0].is.len(),
            rule.when[0].stack_has.len()
        ),
        (1, 2, 1)
    );
    assert_eq!(rule.when[0].workaround, None);
    let own = load_rule(
        "a",
        "a.toml",
        &GOOD.replace("\"f\"", "\"f\", workaround = \"Do this.\""),
    )
    .expect("a rule");
    assert_eq!(own.when[0].workaround.as_deref(), Some("Do this."));
}

#[test]
fn what_is_unknown_or_of_another_type_is_refused_at_its_place() {
    for (from, to, says) in [
        (
            "context-made",
            "context-mad",
            "6:21: unknown kind of clue `context-mad` (did you mean `context-made`?)",
        ),
        (
            "used =",
            "usd =",
            "6:55: a clue `context-made` has no attribute `usd` (did you mean `used`?)",
        ),
        (
            "{bytes}",
            "{byts}",
            "7:12: a clue `context-made` has no attribute `byts` (did you mean `bytes`?)",
        ),
        (
            "Do not.",
            "Not {late}.",
            "8:22: a clue `context-made` has no attribute `late`",
        ),
        (
            "\"f\"",
            "\"f\", workaround = \"Not {late}.\"",
            "6:99: a clue `context-made` has no attribute `late`",
        ),
        (
            "used = false",
            "used = \"no\"",
            "6:62: expected true or false, found text",
        ),
        (
            "[0, 1]",
            "[0, \"1\"]",
            "6:51: expected an integer, found text (write `1` without quotes)",
        ),
        (
            "\"note\"",
            "\"bad\"",
            "3:12: unknown severity `bad` (known: `pitfall`, `note`)",
        ),
        (
            "{bytes}",
            "{bytes",
            "7:12: a brace that does not enclose the name of an attribute",
        ),
        (
            "takes {bytes}",
            "is {used}",
            "7:12: `used` is true or false, which says nothing here",
        ),
    ] {
        assert_eq!(wrong(from, to), format!("a.toml:{says}"));
    }
    assert!(
        wrong("\"context-made\"", "\"xyz\"")
            .contains("(known: `variable-written`, `context-made`,")
    );
    assert_eq!(
        wrong("any =", "pytorch ="),
        "a.toml:8:14: `workaround` needs `any`\na.toml:8:16: unknown key `pytorch` (did you mean `torch`?)"
    );
}

#[test]
fn a_workaround_may_be_that_of_a_function_and_says_where_it_was_run() {
    let source = GOOD.replace(
        "any = \"Do not.\" }",
        "any = \"Do not.\", \"torch.cuda.init\" = \"Nor this.\" }\n\
         shown = { any = [\"context/a control\", \"reports/traces/programs/b.py\"] }",
    );
    let rule = load_rule("a", "a.toml", &source).expect("a rule");
    assert_eq!(rule.workaround("torch.cuda.init"), Some("Nor this."));
    let expected = [
        WorkaroundRun::Case("context/a".to_owned(), "control".to_owned()),
        WorkaroundRun::Program("b".to_owned()),
    ];
    assert_eq!(
        (rule.shown("any"), rule.shown("torch.cuda.init")),
        (&expected[..], &[][..])
    );
    let shown = |table: &str| {
        wrong(
            "workaround = { any = \"Do not.\" }",
            &format!("workaround = {{ any = \"Do not.\" }}\nshown = {table}"),
        )
    };
    assert!(shown("{ torch = \"context/a control\" }").contains("unknown key `torch`"));
    assert!(
        shown("{ any = \"context/a\" }").contains("is no case of a scenario and no traced program")
    );
    assert!(
        wrong("any = \"Do not.\"", "any = \"a\", \"pandas.read\" = \"b\"")
            .contains("unknown key `pandas.read`")
    );
}

#[test]
fn what_is_missing_is_said() {
    assert_eq!(
        wrong("title    = \"a title\"\n", ""),
        "a.toml:2:1: a rule needs `title`"
    );
    assert!(
        wrong("# It goes wrong, because of that.\n", "").contains("a rule begins with a comment")
    );
    assert!(wrong("clue = \"context-made\", ", "").contains("`when` needs `clue`"));
    assert!(wrong("reports/h200-x2", "h200-x2").contains("evidence is a folder below `reports/`"));
    assert!(wrong("workaround =", "workaround = {}\nother =").contains("unknown key `other`"));
}

use super::*;
use cuda_pitfalls_answers::claim::fixture::{answer, answers, articles, evidence};
use cuda_pitfalls_answers::claim::{Evidence, weigh};
use cuda_pitfalls_core::text::lines::WIDTH;

fn rendered(evidence: &Evidence, format: ClaimsFormat) -> String {
    let articles = articles();
    render(&weigh(&articles, evidence), evidence, format)
}

#[test]
fn a_claim_is_told_in_a_block() {
    let text = rendered(&evidence("measured", vec![answers()]), ClaimsFormat::Text);
    let block = "\
✓ S7-1  qualified (CUDA calls only)
        says      A guard makes a context.
        when      with a newer runtime
        framework not run: CUDA calls alone decide this
        shown by  context/guard with libcudart >= 12.0
                    reproduced, with contexts gpu0 (trap, at look), libcudart 13.0 in first
                  context/guard with libcudart < 12.0
                    not_reproduced, libcudart 11.8 in first
        numbers   context/guard
                    after it: gpu0 +527 MiB (trap, at look)
                    ended 0 (trap, at the end)
";
    assert!(text.contains(block), "{text}");
    for words in [
        "✓ S7-2  refuted (CUDA calls only)\n",
        "cause     they read a table\n",
        "– S7-3  cannot be tested here\n",
        "because   no clock\n",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let counts = "3 claims: 1 refuted (1 of them CUDA calls only), 1 qualified (1 of them CUDA calls only), 1 \
                  untestable. 2 of the 2 verdicts rest on CUDA calls only; lines of the frameworks that the articles \
                  are about decide the others\n";
    assert!(text.replace("\n", " ").trim_end().ends_with(counts.trim_end()), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH && line.trim_end() == line), "{text}");
}

#[test]
fn what_does_not_stand_is_no_verdict() {
    let mut all = answers();
    all[3] = answer("context/query[q=b]", "reproduced", "13.0");
    all.remove(1);
    let evidence = evidence("measured", vec![all]);
    let text = rendered(&evidence, ClaimsFormat::Text);
    assert!(text.contains("? S7-1  open: the row says “qualified”"), "{text}");
    assert!(text.contains("✗ S7-2  contradicted"), "{text}");
    assert!(text.contains("reproduced, where the row needs not_reproduced [q=b], libcudart 13.0 in first"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&rendered(&evidence, ClaimsFormat::Json)).unwrap();
    assert_eq!(json["claims"][1]["verdict"], "contradicted");
    assert_eq!(json["claims"][1]["row"], "refuted");
    assert_eq!(json["exit"]["name"], "unexpected");
}

#[test]
fn nothing_simulated_passes_for_a_verdict() {
    let evidence = evidence("simulated", vec![answers()]);
    for format in [ClaimsFormat::Text, ClaimsFormat::Json, ClaimsFormat::Markdown, ClaimsFormat::Html] {
        let out = rendered(&evidence, format);
        assert!(out.contains("simulated") && !out.contains("confirmed"), "{out}");
        assert!(!out.contains("✓"), "{out}");
    }
    let text = rendered(&evidence, ClaimsFormat::Text);
    assert!(text.contains("simulated: agrees with the row"), "{text}");
}

#[test]
fn the_document_has_what_was_promised() {
    let json: serde_json::Value =
        serde_json::from_str(&rendered(&evidence("measured", vec![answers()]), ClaimsFormat::Json)).unwrap();
    let first = &json["claims"][0];
    for key in ["article", "id", "says", "verdict", "condition", "cause", "cuda_calls_only", "shown_by", "numbers"] {
        assert!(first.get(key).is_some(), "{key}: {first:#}");
    }
    let support = &first["shown_by"][0];
    for key in ["scenario", "verdict", "expected", "machine", "libcudart", "report"] {
        assert!(support[key].is_string(), "{key}: {support:#}");
    }
    assert_eq!(first["numbers"][0]["readings"][0]["value"], 527_i64 << 20);
    assert_eq!(json["claims"][2]["untestable"], "no clock");
}

#[test]
fn the_page_links_scenarios_and_has_whole_rows() {
    let page = rendered(&evidence("measured", vec![answers()]), ClaimsFormat::Markdown);
    assert!(page.contains("[context/query\\[q=a\\]](pitfalls/context/query.md)"), "{page}");
    for line in page.lines().filter(|line| line.starts_with("| S7")) {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 6, "{line}");
    }
    let nothing = rendered(&Evidence::default(), ClaimsFormat::Markdown);
    assert!(nothing.contains("not measured here: the row says “qualified”"), "{nothing}");
}

#[test]
fn the_page_for_a_browser_loads_nothing_and_ends_with_its_machines() {
    let page = rendered(&evidence("measured", vec![answers()]), ClaimsFormat::Html);
    crate::html::page::assert_inert(&page);
    let (claims, machines) = page.split_once("<h2>Measured on</h2>").unwrap();
    assert!(
        claims.contains("<strong>qualified (CUDA calls only)</strong>") && machines.contains("<td>first</td>"),
        "{page}"
    );
}

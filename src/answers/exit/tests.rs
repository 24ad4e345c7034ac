//! Every combination of results, compared with an independent rule for the exit code.

use super::Exit;
use super::fixture::*;
use cuda_pitfalls_core::judge::fixture::{report, scenario};
use cuda_pitfalls_core::report::{Required, Requirement, ScenarioReport};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Reason};

/// Returns the exit code by the rules of docs/design, as a decision list over bits.
fn oracle(came: Came) -> i32 {
    let interrupted = came.to(SIGINT) || came.to(SIGTERM);
    let measured = [FINE, NO_EXPECTATION, UNEXPECTED, INCONCLUSIVE]
        .iter()
        .any(|&bit| came.to(bit));
    if came.to(HARNESS_ERROR) || (came.to(INCOMPLETE) && !interrupted && !came.to(STOPPED)) {
        return 70;
    }
    if came.to(UNSAFE) {
        return 6;
    }
    if interrupted {
        return if came.to(SIGINT) { 130 } else { 143 };
    }
    let missed = came.to(SKIPPED_BY_NAME) && !came.to(ALLOW_SKIP);
    match (
        came.to(UNEXPECTED),
        came.to(INCONCLUSIVE),
        missed,
        measured,
        came.to(REQUIREMENT_UNMET),
    ) {
        (true, ..) => 1,
        (_, true, ..) => 3,
        (_, _, true, ..) => 5,
        (_, _, _, false, _) | (.., true) => 4,
        // A stopped run has an unexpected verdict; one without is an internal error.
        _ if came.to(INCOMPLETE) => 70,
        _ => 0,
    }
}

#[test]
fn every_combination_has_the_code_that_a_second_oracle_gives() {
    let mut seen = std::collections::BTreeSet::new();
    for bits in 0..1u32 << BITS {
        let came = Came(bits);
        let found = Exit::from_report(&made(came).view()).code();
        assert_eq!(found, oracle(came), "{bits:015b}");
        seen.insert(found);
    }
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        [0, 1, 3, 4, 5, 6, 70, 130, 143]
    );
}

#[test]
fn an_empty_report_measured_nothing_and_a_partial_one_is_a_fault() {
    assert_eq!(
        Exit::from_report(&report(vec![], true).view()),
        Exit::NothingMeasured
    );
    assert_eq!(
        Exit::from_report(&report(vec![], false).view()),
        Exit::Internal
    );
}

#[test]
fn an_unkillable_worker_makes_the_host_unsafe_whoever_noted_it() {
    let mut fine = made(Came(1 << FINE));
    fine.scenarios[0].cases[0].attempts[0]
        .recording
        .exit
        .unkillable = true;
    assert_eq!(Exit::from_report(&fine.view()), Exit::HostUnsafe);
}

#[test]
fn the_worse_of_two_is_the_one_listed_first() {
    let order = Exit::WORST_FIRST.map(Exit::code);
    assert_eq!(order, [70, 74, 6, 130, 131, 143, 2, 1, 3, 5, 4, 0]);
    for (place, worse) in Exit::WORST_FIRST.into_iter().enumerate() {
        for other in Exit::WORST_FIRST.into_iter().skip(place) {
            assert_eq!(worse.worst(other), worse);
            assert_eq!(other.worst(worse), worse);
        }
    }
}

#[test]
fn meanings_are_clauses() {
    for exit in Exit::WORST_FIRST {
        assert!(!exit.meaning().ends_with('.') && !exit.name().is_empty());
        assert!(Exit::help().contains(exit.name()));
    }
}

#[test]
fn unmet_needs_count_only_for_named_scenarios() {
    use ExpectationMet::{AsExpected, NoExpectation};
    let fine = || scenario(Kind::Reproduced, None, AsExpected, 2);
    let code = |scenarios, selectors: &[&str]| {
        let mut report = report(scenarios, true);
        report.run.selectors = selectors
            .iter()
            .map(|selector| (*selector).to_string())
            .collect();
        Exit::from_report(&report.view())
    };
    let skipped = |reason| ScenarioReport {
        name: "test/other".into(),
        scenario: "test/other".into(),
        ..scenario(Kind::Skipped, Some(reason), NoExpectation, 0)
    };
    // Every reason why a scenario can be skipped.
    for word in [
        "no_nvml",
        "no_driver",
        "no_gpu",
        "no_libcuda",
        "no_libcudart",
        "too_few_gpus",
        "driver_version",
        "libcudart_version",
        "compute_capability",
        "no_peer_access",
        "restricted",
        "missing_symbol",
        "not_root",
        "hazard_not_allowed",
        "busy",
        "host_unsafe",
    ] {
        let reason: Reason = serde_json::from_value(word.into()).unwrap();
        for selectors in [
            &[][..],
            &["test"],
            &["test/*"],
            &["a-tag"],
            &["!test/third"],
        ] {
            let expected = match word {
                "host_unsafe" => Exit::HostUnsafe,
                "busy" => Exit::Skipped,
                _ => Exit::Ok,
            };
            assert_eq!(
                code(vec![fine(), skipped(reason)], selectors),
                expected,
                "{word} {selectors:?}"
            );
        }
        if !reason.is_need() {
            continue;
        }
        let named = || ScenarioReport {
            asked_by_name: true,
            ..skipped(reason)
        };
        let by_name = if reason.is_no_gpu() {
            Exit::Ok
        } else {
            Exit::Skipped
        };
        assert_eq!(
            code(vec![fine(), named()], &["test/other"]),
            by_name,
            "{word}"
        );
        let alone = if reason.is_no_gpu() {
            Exit::NothingMeasured
        } else {
            Exit::Skipped
        };
        assert_eq!(code(vec![named()], &["test/other"]), alone, "{word}");
        assert_eq!(
            code(vec![skipped(reason)], &["test"]),
            Exit::NothingMeasured,
            "{word}"
        );
    }
}

#[test]
fn unmodeled_scenario_counts_if_nothing_else_ran() {
    use ExpectationMet::{AsExpected, NoExpectation};
    let mut unknown = scenario(
        Kind::Inconclusive,
        Some(Reason::NotModelled),
        NoExpectation,
        1,
    );
    unknown.verdict.provenance = cuda_pitfalls_core::verdict::Provenance::Simulated;
    let fine = scenario(Kind::Reproduced, None, AsExpected, 2);
    assert_eq!(
        Exit::from_report(&report(vec![fine, unknown.clone()], true).view()),
        Exit::Ok
    );
    assert_eq!(
        Exit::from_report(&report(vec![unknown], true).view()),
        Exit::Inconclusive
    );
}

#[test]
fn answers_are_counted_in_the_report_as_it_is() {
    let mut report = made(Came(1 << FINE | 1 << NO_EXPECTATION | 1 << SKIPPED));
    report.run.require = vec![Requirement::new(Required::Answers, 3)];
    assert_eq!(Exit::from_report(&report.view()), Exit::NothingMeasured);
    assert_eq!(report.view().requirements()[0].found, Some(2));
    report.run.require = vec![Requirement::new(Required::Answers, 2)];
    assert_eq!(Exit::from_report(&report.view()), Exit::Ok);
}

/// The exit codes of surveys.
mod survey {
    use serde_json::{Value, json};

    use crate::exit::Exit;
    use crate::survey::fixture::{but, document};
    use crate::survey::{SurveyDocument, SurveyKind};

    fn row() -> Value {
        json!({"group": "Numbers", "mask": "0", "order": null, "status": "CUDA_SUCCESS", "count": 1, "gpus": [0],
               "predicted": {"status": "CUDA_SUCCESS", "gpus": [0]}, "as_predicted": true, "attempts": 3,
               "unmeasured": null})
    }

    fn unmeasured(reason: &str) -> Value {
        json!({"unmeasured": {"reason": reason, "detail": ""}, "attempts": 0, "as_predicted": null})
    }

    /// Returns the exit code of a survey with one good row and one with other fields, and with other fields in the
    /// document.
    fn ends(provenance: &str, of_row: Value, of_document: Value, of_survey: Value) -> Exit {
        let mut document = document(SurveyKind::Mask, &[row(), but(row(), of_row)], 1);
        document["provenance"] = provenance.into();
        document["survey"] = but(document["survey"].take(), of_survey);
        let document: SurveyDocument = serde_json::from_value(but(document, of_document)).unwrap();
        Exit::from_survey(&document)
    }

    #[test]
    fn what_a_row_came_to_is_what_the_survey_came_to() {
        let with = |fields: Value| ends("measured", fields, json!({}), json!({}));
        assert_eq!(with(json!({})), Exit::Ok);
        assert_eq!(with(json!({"as_predicted": false})), Exit::Unexpected);
        assert_eq!(
            with(json!({"disagreement": ["status"], "as_predicted": null})),
            Exit::Inconclusive
        );
        assert_eq!(
            with(json!({"count": null, "as_predicted": null})),
            Exit::Inconclusive,
            "its attempts do not tell"
        );
        assert_eq!(with(unmeasured("crashed")), Exit::Inconclusive);
        assert_eq!(
            with(unmeasured("missing_symbol")),
            Exit::Ok,
            "a library lacks the call, and that is the answer"
        );
    }

    #[test]
    fn a_document_that_contradicts_the_facts_of_a_row_is_refused() {
        let document = document(SurveyKind::Mask, &[row()], 1);
        assert!(SurveyDocument::parse(document.to_string().as_bytes()).is_ok());
        for name in ["is_control", "is_conclusive", "is_unexpected"] {
            let mut doctored = document.clone();
            doctored["rows"][0][name] = (document["rows"][0][name] == false).into();
            let refused = SurveyDocument::parse(doctored.to_string().as_bytes())
                .expect_err(name)
                .to_string();
            assert!(
                refused.contains("contradicts itself") && refused.contains(name),
                "{refused}"
            );
        }
    }

    #[test]
    fn unmodeled_scenario_is_inconclusive_only_on_gpus() {
        assert_eq!(
            ends(
                "simulated",
                unmeasured("not_modelled"),
                json!({}),
                json!({})
            ),
            Exit::Ok
        );
        assert_eq!(
            ends("measured", unmeasured("not_modelled"), json!({}), json!({})),
            Exit::Inconclusive
        );
        let partly = json!({"as_predicted": null, "invalid": {"not_modelled": 2}});
        assert_eq!(
            ends("simulated", partly.clone(), json!({}), json!({})),
            Exit::Ok
        );
        assert_eq!(
            ends("measured", partly, json!({}), json!({})),
            Exit::Inconclusive
        );
    }

    #[test]
    fn a_survey_that_did_not_come_to_its_end_is_no_success() {
        let partial = |interrupted: Value| {
            ends(
                "measured",
                json!({}),
                json!({"complete": false}),
                json!({"interrupted": interrupted}),
            )
        };
        assert_eq!(partial(json!("SIGINT")), Exit::Interrupted);
        assert_eq!(partial(json!("SIGQUIT")), Exit::Quit);
        assert_eq!(partial(json!("SIGTERM")), Exit::Terminated);
        assert_eq!(partial(Value::Null), Exit::Internal);
        let lost = json!({"host_unsafe": "a GPU was lost"});
        assert_eq!(
            ends("measured", json!({}), json!({"complete": false}), lost),
            Exit::HostUnsafe
        );
        assert_eq!(
            ends("measured", json!({}), json!({"rows": []}), json!({})),
            Exit::NothingMeasured
        );
    }
}

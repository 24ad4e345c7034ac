//! Synthetic environments and matrices.

use super::*;
use crate::compare::compare_matrices;
use crate::exit::Exit;
use crate::survey::Unmeasured;
use crate::survey::python::Raised;
use cuda_pitfalls_core::verdict::Reason;

fn seen(witness: DriverWitness, calls: Option<bool>) -> WitnessSeen {
    let at = calls
        .filter(|calls| *calls)
        .map(|_| "torch/cuda/__init__.py:180 is_available");
    serde_json::from_value(serde_json::json!({"witness": witness, "calls_cuinit": calls, "at": at}))
        .unwrap()
}

fn row(id: &str, seen: Vec<WitnessSeen>) -> ReleaseRow {
    ReleaseRow {
        id: id.to_string(),
        framework: "torch".to_string(),
        seen,
        ..ReleaseRow::default()
    }
}

fn state(seen: &[(DriverWitness, Option<bool>)]) -> LineState {
    row(
        "a",
        seen.iter()
            .map(|(witness, calls)| self::seen(*witness, *calls))
            .collect(),
    )
    .state(&[])
}

fn document(version: &str, rows: Vec<ReleaseRow>) -> EnvironmentDocument {
    let environment = ReleaseEnvironment {
        name: format!("torch {version}"),
        package: "torch".to_string(),
        version: version.to_string(),
        ..ReleaseEnvironment::default()
    };
    let schema = SchemaId::current(SCHEMA);
    let (version, commit) = ("0".to_string(), None);
    EnvironmentDocument {
        schema,
        version,
        commit,
        environment,
        witnesses: Vec::new(),
        rows,
        complete: true,
    }
}

#[test]
fn what_witnesses_show_is_one_answer() {
    use DriverWitness::{Fake, FakeWithNvml, Libcuda, LibcudaWithNvml};
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(
        state(&[(Libcuda, yes), (FakeWithNvml, yes)]),
        LineState::Yes
    );
    assert_eq!(state(&[(Libcuda, no), (FakeWithNvml, no)]), LineState::No);
    assert_eq!(
        state(&[(Libcuda, yes), (FakeWithNvml, no), (Fake, yes)]),
        LineState::WithoutNvml
    );
    assert_eq!(
        state(&[(Libcuda, no), (FakeWithNvml, yes), (Fake, no)]),
        LineState::WithNvml
    );
    assert_eq!(
        state(&[(Libcuda, no), (FakeWithNvml, yes), (Fake, yes)]),
        LineState::Disagree
    );
    assert_eq!(
        state(&[(Libcuda, yes), (FakeWithNvml, no), (LibcudaWithNvml, no)]),
        LineState::WithoutNvml
    );
    assert_eq!(
        state(&[(Libcuda, yes), (FakeWithNvml, no), (LibcudaWithNvml, yes)]),
        LineState::Yes
    );
    assert_eq!(state(&[(Fake, yes), (FakeWithNvml, yes)]), LineState::Yes);
    assert_eq!(
        state(&[(Libcuda, None), (FakeWithNvml, None)]),
        LineState::Initialised
    );
}

#[test]
fn a_line_after_cuinit_is_no_only_with_nvml() {
    use DriverWitness::{Fake, FakeWithNvml, Libcuda};
    let no = Some(false);
    assert_eq!(
        state(&[(Libcuda, None), (FakeWithNvml, no)]),
        LineState::NoWithNvml
    );
    assert_eq!(
        state(&[(Libcuda, no), (Fake, None), (FakeWithNvml, no)]),
        LineState::No
    );
    // A test without an NVML in addition is not a change, but a call is.
    let rows = |calls: Option<bool>| {
        let witnesses = [(Libcuda, calls), (FakeWithNvml, calls.or(no))];
        vec![row(
            "a",
            witnesses.map(|(who, calls)| seen(who, calls)).to_vec(),
        )]
    };
    let documents = [("1", None), ("2", no), ("3", None), ("4", Some(true))]
        .map(|(version, calls)| document(version, rows(calls)));
    let changes = Matrix::new(&documents).changes();
    let changes: Vec<_> = changes
        .iter()
        .map(|change| (change.was, change.is))
        .collect();
    assert_eq!(changes, [(LineState::NoWithNvml, LineState::Yes)]);
}

#[test]
fn missing_line_is_absent_early_error_is_unanswered() {
    for (absent, expected) in [(true, LineState::Absent), (false, LineState::Stopped)] {
        let raised = Some(Raised {
            kind: "AttributeError".into(),
            message: "no".into(),
            more: None,
            absent,
        });
        let both =
            [DriverWitness::Libcuda, DriverWitness::FakeWithNvml].map(|witness| WitnessSeen {
                raised: raised.clone(),
                ..seen(witness, Some(false))
            });
        assert_eq!(row("a", both.to_vec()).state(&[]), expected);
    }
    let needs = Unmeasured {
        reason: Reason::SetupRaised,
        detail: String::new(),
    };
    let unmeasured = WitnessSeen {
        unmeasured: Some(needs),
        ..seen(DriverWitness::Libcuda, None)
    };
    assert_eq!(
        row("a", vec![unmeasured.clone()]).state(&[]),
        LineState::Stopped
    );
    let needs = WitnessSeen {
        needs_gpu: true,
        ..unmeasured
    };
    assert_eq!(row("a", vec![needs]).state(&[]), LineState::NeedsGpu);
}

#[test]
fn line_is_read_with_its_documents_other_rows() {
    let of = |calls, before: &str, ask: &str, version, value: &str| {
        let shown = WitnessSeen {
            only_version: version,
            ..seen(DriverWitness::Libcuda, Some(calls))
        };
        let shown = WitnessSeen {
            value: Some(value.to_string()).filter(|value| !value.is_empty()),
            ..shown
        };
        let before = before
            .split('|')
            .filter(|line| !line.is_empty())
            .map(str::to_string)
            .collect();
        ReleaseRow {
            before,
            ask: ask.to_string(),
            ..row(ask, vec![shown])
        }
    };
    let document = [
        of(true, "", "import a.b", false, ""),
        of(false, "", "import c", true, ""),
        of(true, "", "from d import e", false, ""),
        of(false, "import a", "a.model()", false, "a.b.Model"),
        of(false, "", "get()", false, "x.cpu_backend.Backend"),
    ];
    for (before, ask, version, value, expected) in [
        // The code imports a module whose import calls `cuInit`, or has an object of such a module. A module whose name
        // only begins the same does not count.
        (
            "import x, a.b.c as m",
            "m.f()",
            false,
            "",
            LineState::Initialised,
        ),
        (
            "import x; from a.b import f",
            "f()",
            false,
            "",
            LineState::Initialised,
        ),
        (
            "from d import e, f",
            "f()",
            false,
            "",
            LineState::Initialised,
        ),
        (
            "import a|m = a.model()",
            "m.run()",
            false,
            "",
            LineState::Initialised,
        ),
        (
            "import a.bc|from d import f",
            "f()",
            false,
            "",
            LineState::No,
        ),
        // The query of the driver's version came from an import that does nothing else, from the line's own code, or
        // from an unknown place.
        ("import c", "c.f()", true, "", LineState::No),
        (
            "import y",
            "y.cuDriverGetVersion()",
            true,
            "",
            LineState::No,
        ),
        ("import y", "y.f()", true, "", LineState::Unknown),
        (
            "import y",
            "run(y).exit_code",
            false,
            "1",
            LineState::Stopped,
        ),
        ("import y", "run(y).exit_code", false, "0", LineState::No),
        (
            "",
            "get().is_available()",
            false,
            "True",
            LineState::Undecided,
        ),
        (
            "",
            "get('cpu')",
            false,
            "x.cpu_backend.Backend",
            LineState::No,
        ),
    ] {
        assert_eq!(
            of(false, before, ask, version, value).state(&document),
            expected,
            "{before}: {ask}"
        );
    }
    // If a document records the earlier calls, no other row is needed.
    for (called, expected) in [(true, LineState::Initialised), (false, LineState::No)] {
        let mut told = of(false, "import y", "y.f()", true, "");
        told.seen[0].called_before = Some(called);
        assert_eq!(told.state(&document), expected);
    }
}

#[test]
fn a_third_witness_is_asked_where_two_differ() {
    let differ = row(
        "a",
        vec![
            seen(DriverWitness::Libcuda, Some(true)),
            seen(DriverWitness::FakeWithNvml, Some(false)),
        ],
    );
    let agree = row(
        "a",
        vec![
            seen(DriverWitness::Libcuda, Some(true)),
            seen(DriverWitness::FakeWithNvml, Some(true)),
        ],
    );
    assert!(differ.is_open() && !agree.is_open());
}

#[test]
fn versions_are_in_the_order_of_pep_440() {
    let row = |calls| vec![row("a", vec![seen(DriverWitness::Libcuda, Some(calls))])];
    let documents = [
        document("2.10.0", row(true)),
        document("2.9.1", row(false)),
        document("2.10.0rc1", row(false)),
    ];
    let matrix = Matrix::new(&documents);
    let names: Vec<&str> = matrix
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names, ["torch 2.9.1", "torch 2.10.0rc1", "torch 2.10.0"]);
    let changes = matrix.changes();
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].before, changes[0].after), (1, 2));
    assert_eq!(
        (changes[0].was, changes[0].is),
        (LineState::No, LineState::Yes)
    );
}

#[test]
fn a_version_without_an_answer_is_passed_over() {
    let of = |version, calls| {
        document(
            version,
            vec![row("a", vec![seen(DriverWitness::Libcuda, calls)])],
        )
    };
    let matrix = Matrix::new(&[of("1", Some(false)), of("2", None), of("3", Some(true))]);
    let changes = matrix.changes();
    assert_eq!(
        (changes.len(), changes[0].before, changes[0].after),
        (1, 0, 2)
    );
}

#[test]
fn a_place_that_moved_within_its_function_is_no_difference() {
    let at = |version: &str, calls, line: u32| {
        let mut seen = seen(DriverWitness::Libcuda, Some(calls));
        seen.at = calls.then(|| format!("torch/cuda/__init__.py:{line} is_available"));
        Matrix::new(&[document(version, vec![row("a", vec![seen])])])
    };
    let compared = |b: &Matrix| compare_matrices([&at("1", true, 1), b], None).unwrap();
    assert_eq!(
        (
            compared(&at("1", true, 2)).same,
            compared(&at("1", true, 2)).exit()
        ),
        (1, Exit::Ok)
    );
    let change = compared(&at("1", false, 1)).changed.remove(0);
    let change = (
        change.name,
        change.changes[0].a.clone(),
        change.changes[0].b.clone(),
        change.changes[1].b.clone(),
    );
    assert_eq!(
        change,
        ("a".into(), "yes".into(), "no".into(), "nowhere".into())
    );
    assert_eq!(
        compared(&at("2", true, 2)).same,
        1,
        "another environment is compared if there is one on each side"
    );
    let other = compared(&Matrix::default());
    assert_eq!(
        (other.exit(), other.only_in_a.len(), other.only_in_b.len()),
        (Exit::NothingMeasured, 1, 0)
    );
}

#[test]
fn words_of_the_command_line_are_an_environment() {
    let request = EnvironmentRequest::parse("jax[cuda12]==0.5.0 numpy<2").expect("an environment");
    assert_eq!(
        (request.name().as_str(), request.version.as_str()),
        ("jax 0.5.0", "0.5.0")
    );
    assert_eq!(
        request.install_requirements(),
        ["jax[cuda12]==0.5.0", "numpy<2"]
    );
    assert_eq!(
        EnvironmentRequest::parse("torch")
            .expect("an environment")
            .name(),
        "torch"
    );
    for wrong in [
        "",
        "torch>=2",
        "torch==",
        "--index-url",
        "torch==2.9.1 --pre",
        "../torch",
        "a @ b",
    ] {
        assert!(EnvironmentRequest::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_list_says_what_is_wrong_and_where() {
    let wrong = |source: &str| {
        let invalid = read("list.toml", source).expect_err("it is wrong");
        invalid
            .diagnostics
            .iter()
            .map(|wrong| wrong.line(source))
            .collect::<Vec<_>>()
    };
    let one = "[[environment]]\npackage = \"torch\"\nversion = \"2\"\n";
    assert_eq!(
        wrong(&format!("{one}{one}")),
        ["list.toml:4:1: `torch 2` occurs twice"]
    );
    assert!(
        wrong(&format!("{one}pthon = \"3\"\n"))[0]
            .starts_with("list.toml:4:1: unknown field `pthon`")
    );
    assert_eq!(
        wrong("[[environment]]\npackage = \"--pre\"\nversion = \"2\"\n"),
        ["list.toml:1:1: invalid package `--pre==2`: expected NAME or NAME==VERSION"]
    );
}

#[test]
fn the_list_that_comes_with_the_program_is_valid() {
    let list = built_in().unwrap_or_else(|invalid| {
        let lines: Vec<String> = invalid
            .diagnostics
            .iter()
            .map(|wrong| wrong.line(&invalid.source))
            .collect();
        panic!("{lines:#?}")
    });
    assert!(!list.is_empty());
}

#[test]
fn paths_are_told_below_the_environment() {
    let message = "/tmp/x/environment/lib/a.so: no".to_string();
    let raised = Raised {
        kind: "ImportError".into(),
        message,
        more: None,
        absent: false,
    };
    let seen = WitnessSeen {
        raised: Some(raised),
        ..seen(DriverWitness::Fake, None)
    };
    let told = seen
        .below(std::path::Path::new("/tmp/x/environment"))
        .raised
        .map(|raised| raised.message);
    assert_eq!(told.as_deref(), Some("lib/a.so: no"));
}

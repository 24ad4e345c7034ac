use super::*;

fn row(
    line: &str,
    returned: Option<Returned>,
    value: Option<&str>,
    raised: Option<&str>,
) -> ErrorRow {
    ErrorRow {
        id: returned.as_ref().map_or_else(
            || line.to_string(),
            |returned| format!("{line}{}", name_suffix(returned)),
        ),
        framework: "torch".to_string(),
        line: line.to_string(),
        met: returned.as_ref().map(|_| true),
        returned,
        value: value.map(str::to_string),
        raised: raised.map(|kind| Raised {
            kind: kind.to_string(),
            message: String::new(),
            more: None,
            absent: false,
        }),
        standing: RowAttempts {
            attempts: 1,
            ..RowAttempts::default()
        },
        ..ErrorRow::default()
    }
}

fn init(code: u32) -> Option<Returned> {
    Some(Returned::new("cuInit", &["cuInit".to_string()], code))
}

#[test]
fn built_in_list_combines_lines_statuses_and_places() {
    let list = built_in();
    let controls: Vec<&PythonLine> = list.iter().filter(|line| line.returned.is_none()).collect();
    let of_init = |line: &&&PythonLine| {
        line.returned
            .as_ref()
            .is_some_and(|returned| returned.place == "cuInit")
    };
    let statuses = list.iter().filter(|line| of_init(&line)).count() / controls.len();
    assert!(statuses >= 12, "{statuses}");
    for place in ["count", "context"] {
        let of_place = list
            .iter()
            .filter(|line| line.returned.as_ref().is_some_and(|one| one.place == place));
        assert!(of_place.count() >= 12 * controls.len(), "{place}");
    }
    let ids: std::collections::BTreeSet<&String> = list.iter().map(|line| &line.id).collect();
    assert_eq!(ids.len(), list.len(), "a name is there twice");
    let frameworks: std::collections::BTreeSet<&String> =
        list.iter().map(|line| &line.framework).collect();
    assert!(frameworks.len() >= 4);
}

#[test]
fn the_list_names_calls_and_packages_that_there_are() {
    let file = list::FailureFile::read();
    for call in file.place.iter().flat_map(|place| &place.calls) {
        // Older names of a call are not in the tables.
        let base = |name: &str| name.split("_v").next().map(str::to_string);
        assert!(
            cuda_pitfalls_calls::all().any(|known| base(known.name) == base(call)),
            "{call}"
        );
    }
    for need in file.line.iter().flat_map(|line| &line.needs) {
        assert!(
            cuda_pitfalls_core::scenario::python::PackageRequirement::parse(need).is_ok(),
            "{need}"
        );
    }
}

#[test]
fn a_status_has_its_name_and_what_libcuda_is_told() {
    let returned = Returned::new(
        "context",
        &["cuCtxCreate_v2".to_string(), "cuCtxCreate".to_string()],
        46,
    );
    assert_eq!(returned.status, "CUDA_ERROR_DEVICE_UNAVAILABLE");
    assert_eq!(returned.told(), "cuCtxCreate_v2=46 cuCtxCreate=46");
    assert_eq!(
        Returned::new("driver version", &[], 11040).status,
        "CUDA 11.4"
    );
}

#[test]
fn the_effect_is_what_the_user_sees() {
    let control = row("a", None, Some("'cuda'"), None);
    let of = |row: ErrorRow| row.effect(std::slice::from_ref(&control));
    assert_eq!(
        of(row("a", init(999), Some("'cpu'"), None)),
        Some(ErrorEffect::Silent)
    );
    assert_eq!(
        of(row("a", init(999), Some("'cuda'"), None)),
        Some(ErrorEffect::Nothing)
    );
    assert_eq!(
        of(row("a", init(999), None, Some("RuntimeError"))),
        Some(ErrorEffect::Raises)
    );
    assert_eq!(
        of(ErrorRow {
            left: Some("SIGSEGV".to_string()),
            ..row("a", init(999), None, None)
        }),
        Some(ErrorEffect::Dies)
    );
    assert_eq!(
        of(ErrorRow {
            met: Some(false),
            ..row("a", init(999), Some("'cpu'"), None)
        }),
        None
    );
    assert_eq!(
        of(row("b", init(999), Some("'cpu'"), None)),
        None,
        "its control was not asked"
    );
}

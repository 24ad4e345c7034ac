// The result of a mask is compared with measurements (`tests/mask_vectors.rs`) and with the simulated driver's own rule
// (`tests/mask.rs`).

use super::*;

#[test]
fn names_and_numbers_are_those_of_cuda() {
    for status in [
        InitStatus::Success,
        InitStatus::NoDevice,
        InitStatus::InvalidDevice,
    ] {
        let known =
            crate::event::Status::named(cuda_pitfalls_calls::CallLibrary::Driver, status.code());
        assert_eq!(known.name.as_deref(), Some(status.name()));
        assert_eq!(serde_json::to_value(status).unwrap(), status.name());
    }
}

#[test]
fn what_stands_behind_a_number_is_said_to_be_ignored() {
    let gpus = [
        "GPU-11111111-2222-3333-4444-555555555555",
        "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    ];
    let gpus = gpus.map(String::from);
    let words = |mask: &str| {
        read(Some(mask), None, &gpus)
            .entries
            .iter()
            .map(|it| it.words(2))
            .collect::<Vec<_>>()
    };
    assert_eq!(words("1 2"), ["selects GPU 1; the rest, `2`, is ignored"]);
    assert_eq!(words("0;1"), ["selects GPU 0; the rest, `;1`, is ignored"]);
    assert_eq!(
        words("0-1,1"),
        ["selects GPU 0; the rest, `-1`, is ignored", "selects GPU 1"]
    );
    assert_eq!(
        words("GPU-11111111-2222-3333-4444-555555555555/0"),
        ["selects GPU 0; the rest, `/0`, is ignored"]
    );
    assert_eq!(words(" 1 "), ["selects GPU 1"]);
    assert_eq!(words("GPU-aa"), ["selects GPU 1"]);
}

#[test]
fn a_process_sees_one_instance_of_a_divided_gpu() {
    let gpus = [
        "GPU-11111111-2222-3333-4444-555555555555",
        "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    ];
    let gpus = gpus.map(String::from);
    let old = "GPU-11111111-2222-3333-4444-555555555555/1/0".to_owned();
    let instances = [
        vec!["0000aaaa-1".to_owned(), "0000bbbb-2".to_owned(), old],
        Vec::new(),
    ];
    let shown = |mask: Option<&str>| {
        let reading = read_divided(mask, None, &gpus, &instances);
        (
            reading.parsed.gpus,
            reading.entries.first().map(|entry| entry.fate),
        )
    };
    assert_eq!(shown(None), (vec![0], None));
    assert_eq!(
        shown(Some("MIG-0000bbbb-2,1")),
        (
            vec![0],
            Some(Fate::Instance {
                gpu: 0,
                instance: 1
            })
        )
    );
    let old = "MIG-GPU-11111111-2222-3333-4444-555555555555/1/0";
    assert_eq!(
        shown(Some(old)),
        (
            vec![0],
            Some(Fate::Instance {
                gpu: 0,
                instance: 2
            })
        )
    );
    assert_eq!(
        shown(Some("0")),
        (
            vec![0],
            Some(Fate::Instance {
                gpu: 0,
                instance: 0
            })
        )
    );
    assert_eq!(shown(Some("1")), (vec![1], Some(Fate::Names { gpu: 1 })));
    // The common prefix of two instances selects neither.
    assert_eq!(shown(Some("MIG-0000")).0, Vec::<usize>::new());
}

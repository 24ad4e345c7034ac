use super::*;

fn uuids() -> [String; 4] {
    ["aa00beef", "ab00beef", "b000beef", "c000beef"].map(|start| format!("GPU-{start}-0000-4000-8000-000000000000"))
}

const WHOLE: &str = "GPU-b000beef-0000-4000-8000-000000000000";

fn answer(mask: &str) -> Parsed {
    parse(Some(mask), None, &uuids())
}

/// The visible GPUs; the mask must show at least one.
fn seen(mask: &str) -> Vec<usize> {
    let answer = answer(mask);
    assert_eq!(answer.status, InitStatus::Success, "{mask:?}");
    answer.gpus
}

fn fails(status: InitStatus, masks: &[&str]) {
    for mask in masks {
        assert_eq!(answer(mask), Parsed { status, gpus: Vec::new() }, "{mask:?}");
    }
}

#[test]
fn the_lower_half_of_64_bits_counts() {
    for mask in ["4294967296", "-4294967296", "4294967296,1", "8589934592", "000000000000000000000000000000"] {
        assert_eq!(seen(mask)[0], 0, "{mask:?}");
    }
    assert_eq!(seen("4294967297"), [1]);
    assert_eq!(seen("-4294967295"), [1]);
    assert_eq!(seen(&format!("{}2", "0".repeat(500))), [2]);
    fails(InitStatus::NoDevice, &["4294967295", "18446744073709551616", "9223372036854775807", "2147483648"]);
    fails(InitStatus::NoDevice, &[&"9".repeat(300)]);
    fails(InitStatus::InvalidDevice, &["0,4294967296"]);
    // As `strtoull`: unsigned, and an overflow gives the largest number, with either sign.
    assert_eq!(seen("-9223372036854775808,9223372036854775809"), [0, 1]);
    assert_eq!(seen("-18446744073709551615"), [1]);
    fails(InitStatus::NoDevice, &["18446744073709551615", "-18446744073709551616", &format!("-{}", "9".repeat(300))]);
}

#[test]
fn a_uuid_may_be_cut_short_while_it_fits_one_gpu() {
    assert_eq!(seen("GPU-c000beef,GPU-b,GPU-ab"), [3, 2, 1]);
    assert_eq!(seen("GPU-B000BEEF"), [2]);
    for mask in [
        "GPU-b,GPU-a,GPU-c",
        "GPU-b, GPU-c",
        "GPU-b,GPU-c ",
        "GPU-b,GPU-c/1/0",
        "GPU-b,1",
        "GPU-b,GPU-d",
        "GPU-b,MIG-GPU-c000beef/1/0",
        "GPU-b,",
    ] {
        assert_eq!(seen(mask), [2], "{mask:?}");
    }
    fails(
        InitStatus::NoDevice,
        &["GPU-", "GPU", "gpu-", "GPU-a", "b000beef", " GPU-b", "GPU-b000beef1", "GPU- b", "gpu-b", "GPU-b ", "GPU--"],
    );
    fails(InitStatus::NoDevice, &["MIG-GPU-b000beef/1/0", "MIG-00000000-0000-0000-0000-000000000000", "GPU-é"]);
    assert_eq!(parse(Some("GPU-"), None, &uuids()[..1]).status, InitStatus::NoDevice);
    assert_eq!(parse(Some("GPU-a"), None, &uuids()[..1]).gpus, [0]);
}

#[test]
fn hyphens_do_not_count_and_mig_is_as_good_as_gpu() {
    let flat = format!("GPU-{}", WHOLE[4..].replace('-', ""));
    for mask in [flat.as_str(), "GPU-b0-00-", "GPU--b--", &WHOLE.replace("GPU", "MIG")] {
        assert_eq!(seen(mask), [2], "{mask:?}");
    }
}

#[test]
fn names_and_numbers_are_those_of_cuda() {
    for status in [InitStatus::Success, InitStatus::NoDevice, InitStatus::InvalidDevice] {
        let known = crate::event::Status::named(cuda_pitfalls_calls::CallLibrary::Driver, status.code());
        assert_eq!(known.name.as_deref(), Some(status.name()));
        assert_eq!(serde_json::to_value(status).unwrap(), status.name());
    }
}

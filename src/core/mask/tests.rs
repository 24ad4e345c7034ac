use super::*;

fn uuids() -> [String; 4] {
    ["aa00beef", "ab00beef", "b000beef", "c000beef"].map(|start| format!("GPU-{start}-0000-4000-8000-000000000000"))
}

/// The UUID of the third GPU.
const WHOLE: &str = "GPU-b000beef-0000-4000-8000-000000000000";

/// The answer to a mask without `CUDA_DEVICE_ORDER`.
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
fn unset_is_all_and_empty_is_none() {
    assert_eq!(parse(None, None, &uuids()), Parsed { status: InitStatus::Success, gpus: vec![0, 1, 2, 3] });
    fails(InitStatus::NoDevice, &[""]);
    assert_eq!(parse(None, None, &[]).status, InitStatus::NoDevice);
}

#[test]
fn the_list_ends_at_the_first_bad_entry() {
    for mask in ["0,-1,1", "0,99,1", "0,x,1", "0,,1", "0,none", "0,GPU-b", "0,99,0", "0,,0"] {
        assert_eq!(seen(mask), [0], "{mask:?}");
    }
    assert_eq!(seen("2,1,4,0"), [2, 1]);
    fails(InitStatus::NoDevice, &["-1", "99,0", "-1,0", ",1,0", "all", "none", "void", "NoDevFiles", "4"]);
}

#[test]
fn numbers_are_read_loosely() {
    let same =
        ["1,0", "1, 0", " 1,0", "1 ,0", "1gpu,0cpu", "+1,-0", "01,00", "1,0,", "1,\t0\n", "1é,0", "\r\u{b}1,\u{c}0"];
    for mask in same {
        assert_eq!(seen(mask), [1, 0], "{mask:?}");
    }
    for mask in ["1;0", "1:0", "1 0", "1\n0"] {
        assert_eq!(seen(mask), [1], "{mask:?}");
    }
    assert_eq!(seen("0x1"), [0]);
    fails(InitStatus::NoDevice, &["+", "-", " ", "- 1", "+-1", "--1", "\u{a0}1", "１", "\"1\""]);
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
fn a_gpu_named_twice_is_an_error_of_its_own() {
    fails(InitStatus::InvalidDevice, &["0,0", "0,1,0", "0,+0", "0,00", "0x1,0", "0,1,2,1,99", "1gpu,1"]);
    fails(InitStatus::InvalidDevice, &["GPU-b,GPU-b000beef", "GPU-b000beef,GPU-B0", "GPU-b,GPU-b,x"]);
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
fn behind_a_whole_uuid_anything_may_follow() {
    for end in ["", " ", "\t", "x", "0", "-", " x", ";GPU-c", "/1/0", "é"] {
        assert_eq!(seen(&format!("{WHOLE}{end},GPU-c")), [2, 3], "{end:?}");
    }
    let short = &WHOLE[..WHOLE.len() - 1];
    fails(InitStatus::NoDevice, &[&format!("{short} "), &format!("{short}g"), &format!("{short}1")]);
}

#[test]
fn hyphens_do_not_count_and_mig_is_as_good_as_gpu() {
    let flat = format!("GPU-{}", WHOLE[4..].replace('-', ""));
    for mask in [flat.as_str(), "GPU-b0-00-", "GPU--b--", &WHOLE.replace("GPU", "MIG")] {
        assert_eq!(seen(mask), [2], "{mask:?}");
    }
}

#[test]
fn an_order_that_there_is_none_of_fails_whatever_the_mask_is() {
    for order in ["PCI_BUS", "pci_bus_id", "", "PCI_BUS_ID ", "fastest_first"] {
        for mask in [None, Some("0"), Some(""), Some("0,0")] {
            assert_eq!(
                parse(mask, Some(order), &uuids()),
                Parsed::failed(InitStatus::InvalidDevice),
                "{order:?} {mask:?}"
            );
        }
    }
    for order in ["PCI_BUS_ID", "FASTEST_FIRST"] {
        assert_eq!(parse(Some("1"), Some(order), &uuids()).gpus, [1]);
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

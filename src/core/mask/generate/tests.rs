use super::*;

fn filled(seed: u64, count: usize, gpus: usize) -> Vec<String> {
    let uuids = stand_ins(gpus);
    generate_masks(seed, count, gpus)
        .iter()
        .map(|template| template.fill_uuids(&uuids).unwrap())
        .collect()
}

#[test]
fn a_seed_gives_one_list_and_another_seed_another() {
    assert_eq!(generate_masks(1, 300, 2), generate_masks(1, 300, 2));
    assert_ne!(generate_masks(1, 300, 2), generate_masks(2, 300, 2));
    assert_eq!(generate_masks(1, 300, 2)[..100], generate_masks(1, 100, 2));
}

#[test]
fn as_many_as_asked_for_and_no_two_alike() {
    for gpus in [0, 1, 2, 8] {
        let masks = filled(3, 3000, gpus);
        assert_eq!(masks.len(), 3000, "{gpus} GPUs");
        assert_eq!(
            masks.iter().collect::<HashSet<_>>().len(),
            3000,
            "{gpus} GPUs"
        );
        assert!(
            masks
                .iter()
                .all(|mask| mask.len() <= MOST_BYTES && !mask.contains('\0'))
        );
    }
    assert!(generate_masks(1, 0, 2).is_empty());
}

#[test]
fn most_show_no_gpu_and_few_show_several() {
    for gpus in [1, 2, 4, 8] {
        let uuids = stand_ins(gpus);
        let mut shown = [0usize; 3];
        for mask in filled(4, 4000, gpus) {
            shown[parse(Some(&mask), None, &uuids).gpus.len().min(2)] += 1;
        }
        let wanted = if gpus == 1 {
            [2800, 1200, 0]
        } else {
            [2400, 1200, 400]
        };
        for (shown, wanted) in shown.iter().zip(wanted) {
            assert!(
                shown.abs_diff(wanted) <= 120,
                "{gpus} GPUs: {shown} of {wanted}"
            );
        }
    }
}

#[test]
fn every_part_of_the_grammar_comes_up() {
    let masks = filled(5, 4000, 2);
    let uuids = stand_ins(2);
    let count = |test: &dyn Fn(&str) -> bool| masks.iter().filter(|mask| test(mask)).count();
    let loose = |entry: &str| {
        entry.starts_with(|c: char| c.is_ascii_digit())
            && entry.ends_with(|c: char| c.is_ascii_alphabetic())
    };
    let twice = count(&|mask| parse(Some(mask), None, &uuids).status == InitStatus::InvalidDevice);
    let seen = [
        ("a GPU twice", twice),
        ("a whole UUID", count(&|mask| mask.contains(&uuids[1]))),
        (
            "a beginning alone",
            count(&|mask| {
                uuids
                    .iter()
                    .any(|uuid| uuid.starts_with(mask) && mask.len() < 40)
            }),
        ),
        (
            "capitals",
            count(&|mask| mask.contains(&uuids[0][4..].to_uppercase())),
        ),
        (
            "numbers after a UUID",
            count(&|mask| mask.starts_with("GPU-") && mask.ends_with(",0")),
        ),
        (
            "a UUID after a number",
            count(&|mask| mask.starts_with("0,GPU-") || mask.starts_with("1,GPU-")),
        ),
        ("a MIG token", count(&|mask| mask.contains("MIG-"))),
        (
            "an empty entry",
            count(&|mask| mask.contains(",,") || mask.ends_with(',') || mask.starts_with(',')),
        ),
        (
            "a sign",
            count(&|mask| mask.contains('+') || mask.starts_with('-')),
        ),
        (
            "a tab or a newline",
            count(&|mask| mask.contains(['\t', '\n', '\r', '\u{b}', '\u{c}'])),
        ),
        (
            "a control character",
            count(&|mask| mask.contains(|c: char| c.is_control() && !c.is_whitespace())),
        ),
        ("a letter beyond ASCII", count(&|mask| !mask.is_ascii())),
        ("2^32", count(&|mask| mask.contains("429496729"))),
        ("2^63", count(&|mask| mask.contains("92233720368547758"))),
        ("2^64", count(&|mask| mask.contains("184467440737095516"))),
        (
            "a long number",
            count(&|mask| mask.split(',').any(|entry| entry.len() > 100)),
        ),
        ("a long list", count(&|mask| mask.split(',').count() > 30)),
        (
            "a word",
            count(&|mask| mask.contains("all") || mask.contains("none")),
        ),
        (
            "something after the number",
            count(&|mask| mask.split(',').any(loose)),
        ),
        (
            "a blank before a UUID",
            count(&|mask| mask.starts_with(" GPU-") || mask.contains(", GPU-")),
        ),
        (
            "a blank behind a UUID",
            count(&|mask| uuids.iter().any(|uuid| mask.contains(&format!("{uuid} ")))),
        ),
    ];
    let rare: Vec<_> = seen.iter().filter(|(_, count)| *count < 8).collect();
    assert!(rare.is_empty(), "too few of {rare:?}");
}

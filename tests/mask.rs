//! Compares the library's rule for masks with that of the simulated driver, which was written independently.
//! `replay.rs` compares the simulated driver with every committed attempt.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls::mask::{self, Parsed};

use crate::machine::gpu::{SimulatedGpu, sample};
use crate::model;
use crate::model::mask::Unusable;

/// Returns equal GPUs with these UUIDs.
fn simulated(uuids: &[String]) -> Vec<SimulatedGpu> {
    uuids.iter().map(|uuid| sample::gpu(uuid, 1)).collect()
}

/// Returns the answer of the simulated driver.
fn told(mask: Option<&str>, order: Option<&str>, gpus: &[SimulatedGpu]) -> Parsed {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    let (mask, order) = (bytes(mask), bytes(order));
    let seen = model::mask::device_order(order.as_deref(), gpus)
        .and_then(|ordered| model::mask::visible(mask.as_deref(), &ordered, gpus));
    match seen {
        Ok(gpus) => Parsed {
            status: mask::InitStatus::Success,
            gpus,
        },
        Err(Unusable::ShowsNone) => Parsed {
            status: mask::InitStatus::NoDevice,
            gpus: Vec::new(),
        },
        Err(Unusable::NamesOneTwice | Unusable::UnknownOrder) => Parsed {
            status: mask::InitStatus::InvalidDevice,
            gpus: Vec::new(),
        },
    }
}

/// Compares the two rules, and counts answers.
#[derive(Default)]
struct Comparison {
    answers: BTreeMap<mask::InitStatus, usize>,
    differences: Vec<String>,
}

impl Comparison {
    fn compare(
        &mut self,
        mask: Option<&str>,
        order: Option<&str>,
        uuids: &[String],
        gpus: &[SimulatedGpu],
    ) {
        let (ours, theirs) = (mask::parse(mask, order, uuids), told(mask, order, gpus));
        if ours != theirs {
            self.differences.push(format!(
                "{mask:?} {order:?} on {uuids:?}: {ours:?}, simulated {theirs:?}"
            ));
        }
        *self.answers.entry(ours.status).or_default() += 1;
    }

    /// Fails on any difference, and if one of the three answers was given less often than this.
    fn assert_agreed(&self, least: usize) {
        let first: Vec<&String> = self.differences.iter().take(10).collect();
        assert!(
            first.is_empty(),
            "{} differences, such as {first:#?}",
            self.differences.len()
        );
        let statuses = [
            mask::InitStatus::Success,
            mask::InitStatus::NoDevice,
            mask::InitStatus::InvalidDevice,
        ];
        let rare = statuses
            .iter()
            .any(|status| self.answers.get(status).is_none_or(|count| *count < least));
        assert!(!rare, "{:?}", self.answers);
        println!("compared: {:?}", self.answers);
    }
}

/// Returns UUIDs that have exactly this number of first characters in common.
fn alike(gpus: usize, letters: usize) -> Vec<String> {
    const DIGITS: [char; 8] = ['3', 'a', '0', 'f', '7', 'c', '1', 'e'];
    let whole = "GPU-5be1e4a0-9d27-4c63-b8f2-06aa71c39d54";
    let uuid = |gpu: usize| -> String {
        let own = |(at, letter)| {
            if at == letters && letter != '-' {
                DIGITS[gpu]
            } else {
                letter
            }
        };
        whole.chars().enumerate().map(own).collect()
    };
    (0..gpus).map(uuid).collect()
}

#[test]
fn the_simulated_driver_reads_generated_masks_alike() {
    for gpus in [1, 2, 4, 8] {
        let mut comparison = Comparison::default();
        let templates = mask::generate_masks(20, 2500, gpus);
        assert_eq!(templates.len(), 2500);
        // Alike in nothing, in one digit, in eight and the hyphen, and in all but the last.
        for letters in [4, 5, 13, 39] {
            let uuids = alike(gpus, letters);
            assert_eq!(
                uuids.iter().collect::<BTreeSet<_>>().len(),
                gpus,
                "{uuids:?}"
            );
            let machine = simulated(&uuids);
            for template in &templates {
                let mask = template
                    .fill_uuids(&uuids)
                    .expect("it was generated for so many GPUs");
                comparison.compare(Some(&mask), None, &uuids, &machine);
            }
        }
        comparison.assert_agreed(1000);
    }
}

#[test]
fn the_simulated_driver_reads_every_short_mask_alike() {
    const LETTERS: [&str; 13] = [
        "0",
        "1",
        "9",
        "+",
        "-",
        ",",
        " ",
        "\n",
        "x",
        "GPU-",
        "a",
        "4294967296",
        "é",
    ];
    let uuids = ["GPU-a1", "GPU-b0"].map(String::from);
    let machine = simulated(&uuids);
    let mut comparison = Comparison::default();
    let mut masks = vec![String::new()];
    for _ in 0..4 {
        masks = masks
            .iter()
            .flat_map(|mask| LETTERS.map(|letter| format!("{mask}{letter}")))
            .collect();
        for mask in &masks {
            comparison.compare(Some(mask), None, &uuids, &machine);
        }
    }
    comparison.assert_agreed(100);
}

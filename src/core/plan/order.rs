//! The order of attempts: cases take turns, so that a slow drift of the machine affects all cases alike.

use crate::random::Random;

/// The fewest attempts of each case for an unexpected verdict. If fewer were planned, more are made.
pub const FEWEST: u32 = 3;

/// Returns case indices in the order in which attempts are made, `repeat` of each.
///
/// Attempts come in rounds of one attempt per case, and every second round runs backwards (ABBA for two cases). So in
/// every prefix the numbers of attempts per case differ by at most one, and a linear drift cancels within each pair of
/// rounds. `seed` decides which case starts a pair, so that a periodic disturbance cannot stay in step with one case.
pub fn order(cases: usize, repeat: u32, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut round: Vec<usize> = (0..cases).collect();
    let mut order = Vec::new();
    for turn in 0..repeat {
        if turn % 2 == 0 {
            round = draw_round(cases, &mut random);
        } else {
            round.reverse();
        }
        order.extend_from_slice(&round);
    }
    order
}

/// Returns the cases in file order, from a random start and in a random direction.
fn draw_round(cases: usize, random: &mut Random) -> Vec<usize> {
    let mut round: Vec<usize> = (0..cases).collect();
    let draw = random.next();
    let start = usize::try_from(draw >> 1)
        .unwrap_or(0)
        .checked_rem(cases)
        .unwrap_or(0);
    round.rotate_left(start);
    if draw & 1 == 1 {
        round.reverse();
    }
    round
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(order: &[usize], cases: usize) -> Vec<u32> {
        (0..cases)
            .map(|case| order.iter().filter(|&&ran| ran == case).count() as u32)
            .collect()
    }

    #[test]
    fn every_case_runs_as_often_as_asked_and_every_prefix_is_balanced() {
        for cases in 1..6 {
            for repeat in 0..9 {
                for seed in 0..50 {
                    let order = order(cases, repeat, seed);
                    assert_eq!(counts(&order, cases), vec![repeat; cases]);
                    for length in 0..order.len() {
                        let counts = counts(&order[..length], cases);
                        let (least, most) =
                            (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                        assert!(most - least <= 1, "{order:?} at {length}");
                    }
                }
            }
        }
    }

    #[test]
    fn pairs_of_rounds_are_mirrored() {
        for seed in 0..50 {
            for pair in order(3, 8, seed).chunks(6) {
                let mut mirrored = pair.to_vec();
                mirrored.reverse();
                assert_eq!(pair, mirrored);
            }
        }
    }

    #[test]
    fn a_seed_gives_one_order_and_either_case_may_start() {
        assert_eq!(order(2, 5, 7), order(2, 5, 7));
        let starts: Vec<usize> = (0..20)
            .filter_map(|seed| order(2, 5, seed).first().copied())
            .collect();
        assert!(starts.contains(&0) && starts.contains(&1));
    }

    #[test]
    fn no_case_and_no_repeat_are_no_attempts() {
        assert!(order(0, 5, 1).is_empty());
        assert!(order(3, 0, 1).is_empty());
    }
}

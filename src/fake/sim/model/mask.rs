//! The grammar of `CUDA_VISIBLE_DEVICES` and the order of devices, as pure functions.

use crate::machine::gpu::SimulatedGpu;

/// Returns the GPUs in CUDA's order, as NVML indices. Unequal GPUs are listed fastest first unless the exact name of
/// the PCI order is given.
pub fn device_order(order: Option<&[u8]>, gpus: &[SimulatedGpu]) -> Result<Vec<usize>, Unusable> {
    let mut ordered: Vec<usize> = (0..gpus.len()).collect();
    match order {
        Some(b"PCI_BUS_ID") => {}
        None | Some(b"FASTEST_FIRST") => ordered.sort_by_key(|index| gpus[*index].speed_rank),
        // No other value is ignored, not even an empty one (visibility/order-misspelt).
        Some(_) => return Err(Unusable::UnknownOrder),
    }
    Ok(ordered)
}

/// The reason why no device of a mask can be initialized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The mask shows no GPU, or the machine has no GPU.
    ShowsNone,
    /// The mask lists a GPU twice.
    NamesOneTwice,
    /// `CUDA_DEVICE_ORDER` has an unknown value.
    UnknownOrder,
}

/// Returns the visible GPUs, as NVML indices in the order in which CUDA numbers them. A number in the mask is an index
/// into `ordered`.
pub fn visible(
    mask: Option<&[u8]>,
    ordered: &[usize],
    gpus: &[SimulatedGpu],
) -> Result<Vec<usize>, Unusable> {
    let chosen = match mask {
        None => ordered.to_vec(),
        Some(mask) => selected_gpus(mask, ordered, gpus)?,
    };
    if chosen.is_empty() {
        Err(Unusable::ShowsNone)
    } else {
        Ok(chosen)
    }
}

/// Returns the GPUs that a mask selects before its first invalid entry.
fn selected_gpus(
    mask: &[u8],
    ordered: &[usize],
    gpus: &[SimulatedGpu],
) -> Result<Vec<usize>, Unusable> {
    let mut chosen = Vec::new();
    let mut by_uuid = None;
    for token in mask.split(|byte| *byte == b',') {
        let is_uuid = token.starts_with(b"GPU-") || token.starts_with(b"MIG-");
        // The first token decides the kind of the whole list.
        if *by_uuid.get_or_insert(is_uuid) != is_uuid {
            break;
        }
        // A GPU that is not counted, since its file may not be opened, cannot be selected either
        // (refused/mask-counts-what-is-left).
        let gpu = if is_uuid {
            by_prefix(token, gpus).filter(|gpu| ordered.contains(gpu))
        } else {
            ordinal(token).and_then(|index| ordered.get(index).copied())
        };
        // The list ends, without an error, at the first entry that is not a valid GPU.
        let Some(gpu) = gpu else { break };
        if chosen.contains(&gpu) {
            return Err(Unusable::NamesOneTwice);
        }
        chosen.push(gpu);
    }
    Ok(chosen)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Returns the number that a token starts with, parsed as `strtoull` would in base ten: whitespace, a sign, digits;
/// anything after them is ignored. A number that is too large becomes the largest, with either sign. Only the lower
/// half of the 64 bits counts (visibility/number-too-large).
fn ordinal(token: &[u8]) -> Option<usize> {
    let token = &token[token.iter().take_while(|byte| is_space(**byte)).count()..];
    let (negative, digits) = match token {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits: Vec<u8> = digits
        .iter()
        .copied()
        .take_while(u8::is_ascii_digit)
        .collect();
    if digits.is_empty() {
        return None;
    }
    let value = digits
        .iter()
        .try_fold(0u64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .map_or(u64::MAX, |value| {
            if negative {
                0u64.wrapping_sub(value)
            } else {
                value
            }
        });
    Some(value as u32 as usize)
}

/// Returns the only GPU whose UUID starts with the token's hex digits, in either case. Hyphens are ignored. Anything
/// may follow a complete UUID, nothing an abbreviated one. An ambiguous prefix selects no GPU, and neither does `GPU-`
/// alone, even with a single GPU (visibility/uuid-prefix-alone, and the survey of masks).
fn by_prefix(token: &[u8], gpus: &[SimulatedGpu]) -> Option<usize> {
    let wanted = nibbles(&token[4..]);
    let is_whole = wanted.len() == WHOLE_UUID;
    let stops_early = token[4..]
        .iter()
        .any(|byte| *byte != b'-' && !byte.is_ascii_hexdigit());
    if wanted.is_empty() || (stops_early && !is_whole) {
        return None;
    }
    let mut matching = (0..gpus.len())
        .filter(|index| nibbles(&gpus[*index].uuid.as_bytes()[4..]).starts_with(&wanted));
    let first = matching.next();
    if matching.next().is_some() {
        None
    } else {
        first
    }
}

/// Number of hex digits of a complete UUID.
const WHOLE_UUID: usize = 32;

/// Returns the values of the hex digits up to the first byte that is neither a digit nor a hyphen, and of at most as
/// many digits as a UUID has.
fn nibbles(text: &[u8]) -> Vec<u32> {
    let read = text
        .iter()
        .filter(|byte| **byte != b'-')
        .map_while(|byte| char::from(*byte).to_digit(16));
    read.take(WHOLE_UUID).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::gpu::sample;

    // `tests/mask.rs` compares the rest with the rule of the library.
    #[test]
    fn the_fastest_goes_first_unless_pci_order_is_asked_for() {
        let gpus = sample::gpus();
        assert_eq!(device_order(None, &gpus).unwrap(), [2, 0, 1, 3]);
        assert_eq!(
            device_order(Some(b"FASTEST_FIRST"), &gpus).unwrap(),
            [2, 0, 1, 3]
        );
        assert_eq!(
            device_order(Some(b"PCI_BUS_ID"), &gpus).unwrap(),
            [0, 1, 2, 3]
        );
        let order = device_order(None, &gpus).unwrap();
        assert_eq!(visible(Some(b"0"), &order, &gpus).unwrap(), [2]);
    }
}

//! Prints the GPUs that a process would see, by the library's rule for `CUDA_VISIBLE_DEVICES`, without a GPU.
//!
//! ```text
//! cargo run --example mask -- MASK UUID…
//! cargo run --example mask -- 1,7,0 $(nvidia-smi --query-gpu=uuid --format=csv,noheader)
//! ```

use std::process::ExitCode;

use cuda_pitfalls::mask::{self, InitStatus};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(mask) = arguments.next() else {
        eprintln!("mask: give a mask, and the UUIDs of the GPUs in the order of CUDA");
        return ExitCode::from(2);
    };
    print!("{}", answer(&mask, &arguments.collect::<Vec<_>>()));
    ExitCode::SUCCESS
}

/// Returns one line for each visible GPU, or the reason why no GPU is visible.
fn answer(mask: &str, uuids: &[String]) -> String {
    let parsed = mask::parse(
        Some(mask),
        std::env::var("CUDA_DEVICE_ORDER").ok().as_deref(),
        uuids,
    );
    match parsed.status {
        InitStatus::Success => {
            let seen = parsed.gpus.iter().enumerate();
            seen.filter_map(|(device, gpu)| {
                Some(format!("device {device} is {}\n", uuids.get(*gpu)?))
            })
            .collect()
        }
        failed => format!(
            "no GPU: cuInit returns {} ({})\n",
            failed.code(),
            failed.name()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_ends_at_the_first_bad_entry() {
        let uuids = ["GPU-aa", "GPU-ab"].map(String::from);
        assert_eq!(answer("1,7,0", &uuids), "device 0 is GPU-ab\n");
        assert_eq!(
            answer("0,0", &uuids),
            "no GPU: cuInit returns 101 (CUDA_ERROR_INVALID_DEVICE)\n"
        );
    }
}

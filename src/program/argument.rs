//! Parsing of argument values, and the errors for values that cannot be read.

use std::path::PathBuf;
use std::time::Duration;

use cuda_pitfalls_core::catalogue::Shard;
use cuda_pitfalls_core::report::{Required, Requirement};
use cuda_pitfalls_core::scenario::Hazard;
use cuda_pitfalls_core::source::size;
use cuda_pitfalls_core::text::counts::parse_digits;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::simulated;

/// Maximum number of masks that `--generate` accepts.
const MOST_GENERATED: usize = 100_000;

/// Errors for argument values that depend on what the program knows; each lists the valid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    /// No driver to run on.
    #[error("expected cuda, auto, sim or sim:MACHINE. Machines: {}, {} (`trace` and `sim` only)", simulated::machine_names().join(", "), simulated::NO_DEVICE)]
    On,
    /// No hazard.
    #[error("one of {}", Hazard::ALL.map(Hazard::name).join(", "))]
    Hazard,
    /// No requirement.
    #[error("{}, with N at least 1", Required::ALL.map(|what| format!("{}=N", what.name())).join(" or "))]
    Requirement,
    /// No label.
    #[error(
        "a name of letters, digits, `_`, `.` and `-` (at most {}), `=`, and a value (at most {} bytes), such as \
         node=gpu-17",
        LABEL_BYTES.0,
        LABEL_BYTES.1
    )]
    Label,
    /// No number of masks.
    #[error("a number of masks, at most {MOST_GENERATED}")]
    Generate,
}

/// Returns the path of a file to write. `-` is rejected, so that no file is called so by mistake: where text is read,
/// it is standard input.
pub(crate) fn file(text: &str) -> Result<PathBuf, &'static str> {
    match text {
        "-" => Err("`-` does not mean standard output here; write ./- for a file of this name"),
        text => Ok(text.into()),
    }
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86400),
        _ => None,
    };
    if let (Ok(number), Some(factor)) = (number.parse::<u64>(), factor)
        && let Some(seconds) = number.checked_mul(factor)
    {
        return Ok(Duration::from_secs(seconds));
    }
    Err("a number with s, m, h or d, such as 90s")
}

pub(crate) fn on(text: &str) -> Result<On, ArgumentError> {
    match text {
        "cuda" => Ok(On::Cuda),
        "auto" => Ok(On::Auto),
        "sim" => Ok(On::Sim(None)),
        _ => match text.strip_prefix("sim:") {
            Some(machine) if !machine.is_empty() => Ok(On::Sim(Some(machine.to_string()))),
            _ => Err(ArgumentError::On),
        },
    }
}

pub(crate) fn parse_hazard(text: &str) -> Result<Hazard, ArgumentError> {
    Hazard::ALL
        .into_iter()
        .find(|hazard| hazard.name() == text)
        .ok_or(ArgumentError::Hazard)
}

/// Returns the reason. An empty one is rejected, because it would excuse anything.
pub(crate) fn reason(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() {
        Err("a reason as text")
    } else {
        Ok(text.to_string())
    }
}

pub(crate) fn parse_requirement(text: &str) -> Result<Requirement, ArgumentError> {
    let Some((name, number)) = text.split_once('=') else {
        return Err(ArgumentError::Requirement);
    };
    let mut known = Required::ALL.into_iter();
    match (known.find(|what| what.name() == name), parse_digits(number)) {
        (Some(what), Some(wanted)) if wanted > 0 => Ok(Requirement::new(what, wanted)),
        _ => Err(ArgumentError::Requirement),
    }
}

/// The longest name and the longest value of a label, in bytes.
const LABEL_BYTES: (usize, usize) = (63, 255);

pub(crate) fn label(text: &str) -> Result<(String, String), ArgumentError> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(ArgumentError::Label);
    };
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
        && name.len() <= LABEL_BYTES.0;
    let is_value =
        (1..=LABEL_BYTES.1).contains(&value.len()) && !value.chars().any(char::is_control);
    if is_name && is_value {
        Ok((name.to_string(), value.to_string()))
    } else {
        Err(ArgumentError::Label)
    }
}

/// The longest nonce, in bytes.
const NONCE_BYTES: usize = 128;

pub(crate) fn parse_nonce(text: &str) -> Result<String, &'static str> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    let fits = (1..=NONCE_BYTES).contains(&text.len());
    if is_plain && fits {
        Ok(text.to_string())
    } else {
        Err("1 to 128 visible ASCII characters, without spaces")
    }
}

pub(crate) fn parse_mask_count(text: &str) -> Result<usize, ArgumentError> {
    match text.parse::<usize>() {
        Ok(count) if count <= MOST_GENERATED => Ok(count),
        _ => Err(ArgumentError::Generate),
    }
}

/// Returns the number of jobs, within a limit: more at once would only wait for each other.
pub(crate) fn parse_jobs(text: &str) -> Result<usize, &'static str> {
    match text.parse::<usize>() {
        Ok(jobs) if (1..=256).contains(&jobs) => Ok(jobs),
        _ => Err("a number from 1 to 256"),
    }
}

pub(crate) fn size(text: &str) -> Result<u64, &'static str> {
    let bytes = size::bytes(text)
        .ok()
        .and_then(|bytes| u64::try_from(bytes).ok());
    bytes
        .filter(|bytes| *bytes >= 1 << 20)
        .ok_or("a size with MiB or GiB, such as 24GiB")
}

pub(crate) fn parse_timeout(text: &str) -> Result<Duration, &'static str> {
    let limit = parse_duration(text)?;
    if limit.is_zero() {
        return Err("at least 1s");
    }
    Ok(limit)
}

pub(crate) fn versions(text: &str) -> Result<(String, String), &'static str> {
    let is_version =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    match text.split_once(',') {
        Some((a, b)) if is_version(a) && is_version(b) => Ok((a.to_string(), b.to_string())),
        _ => Err("two versions, such as 12.9,13.0"),
    }
}

pub(crate) fn parse_shard(text: &str) -> Result<Shard, &'static str> {
    Shard::parse(text).ok_or("a part and the number of parts, such as 1/4")
}

/// Returns the address if a page may link to it: it contains nothing that a browser would run.
pub(crate) fn address(text: &str) -> Result<String, &'static str> {
    let is_address = ["https://", "http://", "file:///", "/", "./", "../"]
        .iter()
        .any(|start| text.starts_with(start));
    match text {
        _ if !is_address => {
            Err("an address such as https://example.org/docs, or a path that begins with / or .")
        }
        _ if text.contains(|c: char| c.is_whitespace() || c.is_control()) => {
            Err("an address cannot contain spaces")
        }
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_strictly() {
        assert_eq!(
            label("node=gpu-17=b"),
            Ok(("node".to_string(), "gpu-17=b".to_string()))
        );
        for bad in [
            "node",
            "node=",
            "=x",
            "1node=x",
            "no de=x",
            "node=a\nb",
            &format!("{}=x", "n".repeat(64)),
        ] {
            assert!(
                label(bad)
                    .unwrap_err()
                    .to_string()
                    .contains("such as node=gpu-17"),
                "{bad}"
            );
        }
    }

    #[test]
    fn requirements_are_read_strictly() {
        assert_eq!(
            parse_requirement("gpus=2").unwrap(),
            Requirement::new(Required::Gpus, 2)
        );
        assert_eq!(
            parse_requirement("answers=150").unwrap(),
            Requirement::new(Required::Answers, 150)
        );
        for bad in [
            "gpus",
            "gpus=",
            "gpus=0",
            "gpus=-1",
            "gpus=+1",
            "gpus=2.5",
            "GPUs=2",
            "gpu=2",
            "=2",
            "gpus=2,answers=1",
        ] {
            assert_eq!(
                parse_requirement(bad).unwrap_err().to_string(),
                "gpus=N or answers=N, with N at least 1",
                "{bad}"
            );
        }
    }
}

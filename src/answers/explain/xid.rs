//! The Xids of the kernel's log, each as advice: `scenarios/xids.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::advice::{Advice, ErrorCause, ReadFor, advice_of_file};

/// An Xid: a number in the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    /// The number.
    pub code: u32,
    /// The name in the driver's header.
    pub name: String,
    /// Meaning of the Xid; empty if the driver does not print it.
    pub means: String,
    first: FirstStep,
    /// Message that lists the causes.
    #[serde(default)]
    pub(super) advice: Option<String>,
}

/// Immediate action that NVIDIA's catalog recommends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FirstStep {
    Unused,
    Unnamed,
    Log,
    Nothing,
    Program,
    Reset,
    Restart,
    Machine,
    Vendor,
    Power,
    Update,
    Nvlink,
}

impl FirstStep {
    const fn sentence(self) -> &'static str {
        match self {
            FirstStep::Unused => "Check the number and look for another Xid near it.",
            FirstStep::Unnamed | FirstStep::Log => {
                "Read the neighboring log lines; the catalog lists no action."
            }
            FirstStep::Nothing => "No immediate action is needed. Look for another Xid near it.",
            FirstStep::Program => {
                "Restart the program. If it recurs with one program, run it under compute-sanitizer; if with all programs, contact the vendor."
            }
            FirstStep::Reset => {
                "Reset the GPU while it is idle (`nvidia-smi -r -i N`), or restart the machine. If it recurs, contact the vendor."
            }
            FirstStep::Restart => "Restart the machine. If it recurs, contact the vendor.",
            FirstStep::Machine => "Restart the virtual machine. If it recurs, contact the vendor.",
            FirstStep::Vendor => "Contact the vendor.",
            FirstStep::Power => "Check that the power cables of the board are plugged in.",
            FirstStep::Update => {
                "Update the driver and the software of the virtual GPU on host and guest."
            }
            FirstStep::Nvlink => {
                "Look at `nvidia-smi nvlink -s` and `nvidia-smi nvlink -e`, then reset the GPUs of the link."
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct XidFile {
    catalog: String,
    header: String,
    read: ReadFor,
    xid: Vec<Xid>,
}

/// The Xids file. It is empty if it cannot be parsed; a test rules that out.
static XIDS: LazyLock<Vec<(Xid, Advice)>> = LazyLock::new(|| {
    let file: Option<XidFile> = toml::from_str(cuda_pitfalls_scenarios::XIDS).ok();
    file.map(|file| {
        file.xid
            .iter()
            .map(|xid| (xid.clone(), xid_advice(xid, &file)))
            .collect()
    })
    .unwrap_or_default()
});

/// Returns all Xids, each with its advice.
pub fn all_xids() -> &'static [(Xid, Advice)] {
    &XIDS
}

impl Xid {
    /// Returns its id in the store.
    pub fn id(&self) -> String {
        format!("xid/{}", self.code)
    }

    /// Returns `true` if current drivers print it.
    pub fn is_printed(&self) -> bool {
        self.first != FirstStep::Unused
    }

    /// Returns its meaning in a sentence.
    pub fn sentence(&self) -> String {
        let Xid {
            code, name, means, ..
        } = self;
        match self.first {
            FirstStep::Unused => {
                format!("Xid {code} is {name}, which current drivers do not print.")
            }
            _ => format!("Xid {code} is {name}: {means}."),
        }
    }
}

fn xid_advice(xid: &Xid, file: &XidFile) -> Advice {
    let shared = xid.advice.as_deref().and_then(advice_of_file);
    let source = if xid.first == FirstStep::Unnamed {
        &file.header
    } else {
        &file.catalog
    };
    let cause = if xid.means.is_empty() {
        "the number is reserved"
    } else {
        xid.means.as_str()
    };
    let read = ErrorCause::read(cause, source, &file.read);
    Advice {
        id: xid.id(),
        codes: Vec::new(),
        says: vec![format!("Xid {}", xid.code), xid.name.clone()],
        seen_in: Vec::new(),
        means: shared.map_or_else(
            || xid.sentence(),
            |shared| format!("{} {}", xid.sentence(), shared.means),
        ),
        causes: shared.map_or_else(|| vec![read], |shared| shared.causes.clone()),
        first: shared.map_or_else(
            || xid.first.sentence().to_owned(),
            |shared| shared.first.clone(),
        ),
        read_in: Vec::new(),
        read_on: None,
        doctor: false,
        harmless: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_xid_is_there_once_with_its_meaning() {
        assert!(all_xids().len() > 170);
        for (index, (xid, advice)) in all_xids().iter().enumerate() {
            assert_eq!(xid.code as usize, index + 1);
            assert_eq!(
                xid.means.is_empty(),
                xid.first == FirstStep::Unused,
                "{xid:?}"
            );
            assert!(
                advice
                    .causes
                    .iter()
                    .all(|cause| cause.is_measured() || cause.read.is_some()),
                "{advice:?}"
            );
            assert!(
                xid.advice.is_none() || advice.causes.len() + advice.first.len() > 1,
                "{xid:?}"
            );
        }
    }
}

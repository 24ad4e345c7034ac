//! Interpretation of the rows of one document. A single row does not show whether the code before its line had already
//! called `cuInit`, in which case the line does not call it again. For documents that do not record this, it is
//! inferred from other rows.

use std::collections::BTreeSet;

use super::row::{DriverWitness, LineState, ReleaseRow, WitnessSeen};
use cuda_pitfalls_core::verdict::Reason;

/// Answer of the witnesses of one type about `cuInit`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WitnessAnswer {
    Calls,
    DoesNot,
    /// The answer is unknown, for this reason.
    Open(LineState),
    NotAsked,
}

impl WitnessAnswer {
    /// Returns this answer, or the other one if only that is known.
    fn or_known(self, other: WitnessAnswer) -> WitnessAnswer {
        match (self, other) {
            (WitnessAnswer::Open(_), WitnessAnswer::Calls | WitnessAnswer::DoesNot)
            | (WitnessAnswer::NotAsked, _) => other,
            _ => self,
        }
    }
}

impl ReleaseRow {
    /// Returns the line's use of `cuInit`, from this row and the others of its document. Results with a libcuda, with
    /// and without an NVML, take precedence over those with a fake driver. Results with an NVML take precedence over
    /// those without, because a machine with GPUs has one.
    pub fn state(&self, document: &[ReleaseRow]) -> LineState {
        use LineState::{Initialised, Stopped};
        use WitnessAnswer::{Calls, DoesNot, NotAsked, Open};
        if self.seen.iter().any(WitnessSeen::is_absent) {
            return LineState::Absent;
        }
        let [libcuda, fake, libcuda_with_nvml, fake_with_nvml] = [
            DriverWitness::Libcuda,
            DriverWitness::Fake,
            DriverWitness::LibcudaWithNvml,
            DriverWitness::FakeWithNvml,
        ]
        .map(|witness| self.answer_by(witness, document));
        if matches!((libcuda, fake), (Calls, DoesNot) | (DoesNot, Calls)) {
            return LineState::Disagree;
        }
        let (without, with) = (
            libcuda.or_known(fake),
            libcuda_with_nvml.or_known(fake_with_nvml),
        );
        match (without, with) {
            (Calls, DoesNot | Open(Stopped)) => LineState::WithoutNvml,
            (DoesNot | Open(Stopped | Initialised), Calls) => LineState::WithNvml,
            (Calls, _) | (_, Calls) => LineState::Yes,
            // The line was not tried without an NVML.
            (Open(Initialised), DoesNot) => LineState::NoWithNvml,
            (_, DoesNot) | (DoesNot, NotAsked) => LineState::No,
            (_, Open(why)) | (Open(why), NotAsked) => why,
            (NotAsked, NotAsked) => LineState::Unknown,
        }
    }

    /// Returns whether the line calls `cuInit` with a witness.
    fn answer_by(&self, witness: DriverWitness, document: &[ReleaseRow]) -> WitnessAnswer {
        let Some(seen) = self.by(witness) else {
            return WitnessAnswer::NotAsked;
        };
        // An exit code other than 0, which the code may have handled itself.
        let is_exit_code = [".exit_code", ".returncode"]
            .iter()
            .any(|end| self.ask.trim_end().ends_with(end));
        let has_failed = is_exit_code && seen.value.as_ref().is_some_and(|code| code != "0");
        match (seen.calls_cuinit, &seen.unmeasured) {
            (Some(true), _) => WitnessAnswer::Calls,
            (None, _) if seen.needs_gpu => WitnessAnswer::Open(LineState::NeedsGpu),
            (None, Some(why)) if why.reason == Reason::SetupRaised => {
                WitnessAnswer::Open(LineState::Stopped)
            }
            (None, Some(_)) => WitnessAnswer::Open(LineState::Unknown),
            (None, None) => WitnessAnswer::Open(LineState::Initialised),
            (Some(false), _) if has_failed || seen.raised.is_some() || seen.left.is_some() => {
                WitnessAnswer::Open(LineState::Stopped)
            }
            (Some(false), _) => self
                .reason_to_doubt(seen, document)
                .map_or(WitnessAnswer::DoesNot, WitnessAnswer::Open),
        }
    }

    /// Returns the reason why a line might call `cuInit` although no call was observed.
    fn reason_to_doubt(&self, seen: &WitnessSeen, document: &[ReleaseRow]) -> Option<LineState> {
        let before = self.before.join("\n");
        // An object of a module also shows that the module was imported.
        let mut names = imported_modules(&before);
        names.extend(seen.value.clone());
        for row in document {
            if before.contains(&row.ask)
                && let Some(made) = row.by(seen.witness)
            {
                names.extend(made.value.clone());
            }
        }
        // The query of the driver's version came from the line's own code, from an import that does nothing else, or
        // from an unknown place.
        let mut is_told = self.ask.contains("DriverGetVersion");
        let mut import_calls = false;
        for row in document {
            if (row.env == self.env || seen.only_version)
                && row.imports_one_of(&names)
                && let Some(import) = row.by(seen.witness)
            {
                is_told |= import.only_version;
                import_calls |= import.calls_cuinit == Some(true);
            }
        }
        match seen.called_before {
            Some(true) => Some(LineState::Initialised),
            None if import_calls => Some(LineState::Initialised),
            _ if self.has_chosen_cpu(seen.witness, document) => Some(LineState::Undecided),
            None if seen.only_version && !before.is_empty() && !is_told => Some(LineState::Unknown),
            _ => None,
        }
    }

    /// Returns `true` if the row is a single import of one of these modules, or of a part or an object of one.
    fn imports_one_of(&self, names: &BTreeSet<String>) -> bool {
        if self.ask.contains([';', ',', '\n']) {
            return false;
        }
        let modules = imported_modules(&self.ask);
        let Some(module) = modules.last() else {
            return false;
        };
        let mut rests = names.iter().filter_map(|name| name.strip_prefix(module));
        rests.any(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns `true` if the value of the line, or of a part of it in another row, is an object on a CPU that the code
    /// does not name.
    fn has_chosen_cpu(&self, witness: DriverWitness, document: &[ReleaseRow]) -> bool {
        let mut code = self.before.iter().chain(self.env.values());
        if names_cpu(&self.ask) || code.any(|text| names_cpu(text)) {
            return false;
        }
        for row in document {
            if row.before == self.before
                && self.ask.contains(&row.ask)
                && let Some(seen) = row.by(witness)
                && seen.value.as_deref().is_some_and(names_cpu)
            {
                return true;
            }
        }
        false
    }
}

fn names_cpu(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(|word| word.eq_ignore_ascii_case("cpu"))
}

/// Returns the modules that code imports, and the names that it imports from them: `a.b` and `a.b.c` for `from a.b
/// import c`.
fn imported_modules(code: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for statement in code.split([';', '\n']).map(str::trim) {
        let (module, names) = match statement.strip_prefix("from ") {
            Some(rest) => rest.split_once(" import ").unwrap_or_default(),
            None => ("", statement.strip_prefix("import ").unwrap_or_default()),
        };
        for name in names.split(',') {
            if let Some(name) = name.split_whitespace().next() {
                let path = format!("{module}.{name}");
                all.insert(path.trim_start_matches('.').to_owned());
            }
        }
        if !module.is_empty() {
            all.insert(module.to_owned());
        }
    }
    all
}

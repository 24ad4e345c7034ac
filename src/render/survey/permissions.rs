//! The permissions that `survey needs` found to be required, as a seccomp profile.

use serde_json::json;

use super::super::Format;
use cuda_pitfalls_answers::survey::needs::{NeedsProgram, Permissions, needed_permissions};
use cuda_pitfalls_answers::survey::{SurveyDocument, SurveyKind};
use cuda_pitfalls_core::verdict::Provenance;

/// Returns the seccomp profile of the result of a needs survey; `None` for other surveys and formats.
pub(super) fn as_format(document: &SurveyDocument, format: Format) -> Option<String> {
    if document.kind != SurveyKind::Needs || format != Format::Oci {
        return None;
    }
    let needed = needed_permissions(&document.rows_of());
    Some(seccomp_profile(&needed, &head_lines(document, &needed)))
}

/// Returns the origin of the profile, and its limits.
fn head_lines(document: &SurveyDocument, needed: &Permissions) -> Vec<String> {
    let names = |programs: &[NeedsProgram]| {
        programs
            .iter()
            .map(|program| program.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let also = if needed.frameworks.is_empty() {
        String::new()
    } else {
        format!(", with {},", names(&needed.frameworks))
    };
    let mut said = vec![format!(
        "What libcuda, libcudart and NVML{also} need, on {} ({})",
        document.machine.summary(),
        document.header.id
    )];
    if !needed.lacks.is_empty() {
        said.push(format!(
            "INCOMPLETE: nothing was denied to {}, so their needs are missing here",
            names(&needed.lacks)
        ));
    }
    if document.provenance == Provenance::Simulated {
        said.push("SIMULATED: says nothing about real hardware".to_string());
    }
    said.push(
        match needed.verified {
            Some(true) => "Verified on this machine: with everything else denied by a filter, they behaved the same",
            Some(false) => "NOT ENOUGH: with everything else denied, they behaved differently",
            None => "Not verified: they were not run with everything else denied",
        }
        .to_string(),
    );
    let more = match needed.frameworks.as_slice() {
        [] => "A framework needs more",
        _ => "The files of the frameworks and of their interpreter are not listed",
    };
    said.push(format!(
        "{more}. What the C library needs to start a process is included"
    ));
    said
}

/// Returns `linux.seccomp` of the OCI runtime specification, which `docker run --security-opt seccomp=FILE` accepts.
fn seccomp_profile(needed: &Permissions, said: &[String]) -> String {
    let allowed: Vec<&String> = needed.system_calls.iter().collect();
    let mut rules = vec![json!({"names": allowed, "action": "SCMP_ACT_ALLOW"})];
    for (name, number) in [("EPERM", 1), ("ENOSYS", 38)] {
        let names: Vec<&String> = needed
            .refusable
            .iter()
            .filter(|(_, error)| *error == name)
            .map(|(call, _)| call)
            .collect();
        if !names.is_empty() {
            rules.push(json!({"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number}));
        }
    }
    // An unknown call is answered as by an older kernel, so that the C library uses another one.
    let profile = json!({
        "comment": said.join(". ") + ".",
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "syscalls": rules,
    });
    format!("{profile:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::survey::needs::NeedRow;
    use cuda_pitfalls_answers::survey::{SCHEMA, SurveyRow};
    use serde_json::Value;

    /// Returns a survey where `eventfd2` and the control device are needed, and `uname` may be denied with `EPERM`.
    fn survey(everything_else: &str) -> SurveyDocument {
        let row = |refused: Value, error: Value, status: &str| {
            json!({"program": "driver", "moment": "init", "refused": refused, "error": error, "met": true,
                   "statuses": [{"call": "cuInit", "status": status}], "gpus": [0], "died": null,
                   "attempts": 3, "unmeasured": null})
        };
        let (fine, fails) = ("CUDA_SUCCESS", "CUDA_ERROR_OPERATING_SYSTEM");
        let mut control = row(json!("nothing"), Value::Null, fine);
        control["asked"] = json!([{"during": "cuInit", "system_calls": {"eventfd2": 1, "uname": 1, "mmap": 5},
            "files": {"/dev/nvidiactl": {"calls": ["openat"], "exists": true, "written": true},
                      "/proc/self/task/*/comm": {"calls": ["openat"], "exists": true, "written": true}}}]);
        let rows: Vec<NeedRow> = serde_json::from_value(json!([
            control,
            row(json!("eventfd2"), json!("EPERM"), fails),
            row(json!("eventfd2"), json!("ENOSYS"), fails),
            row(json!("uname"), json!("EPERM"), fine),
            row(json!("uname"), json!("ENOSYS"), fails),
            row(json!("/dev/nvidiactl"), json!("EPERM"), fails),
            row(json!("/proc/self/task/*/comm"), json!("EACCES"), fails),
            row(json!("everything else"), json!("EPERM"), everything_else),
            row(json!("everything else and eventfd2"), json!("EPERM"), fails),
        ]))
        .expect("rows");
        let document = json!({
            "schema": {"name": SCHEMA, "major": 1, "minor": 0}, "kind": "needs", "provenance": "measured",
            "survey": {"id": "id", "version": "0", "started_at": "", "finished_at": null, "elapsed_ns": 1,
                       "attempts_ns": 1, "resumed": 0, "selectors": [], "on": "cuda", "repeat": 3, "repeat_generated": 1,
                       "seed": 1, "generate": 0, "visible_gpus": 1, "host_unsafe": null, "interrupted": null, "exit": null},
            "machine": crate::fixture::machine(), "rows": rows.iter().map(SurveyRow::new).collect::<Vec<_>>(), "complete": true,
        });
        serde_json::from_value(document).expect("a survey")
    }

    fn profile(everything_else: &str) -> Value {
        let profile = crate::survey::as_format(&survey(everything_else), Format::Oci, "x", 100);
        serde_json::from_str(&profile.expect("needs have it")).expect("JSON")
    }

    #[test]
    fn a_profile_allows_what_is_needed_and_nothing_that_may_be_refused() {
        let profile = profile("CUDA_SUCCESS");
        assert_eq!(profile["syscalls"][0]["names"], json!(["eventfd2", "mmap"]));
        assert_eq!(
            profile["syscalls"][1],
            json!({"names": ["uname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1})
        );
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    }

    #[test]
    fn a_profile_says_what_it_is_worth() {
        let profile = profile("CUDA_SUCCESS");
        let comment = profile["comment"].as_str().expect("a text");
        // The runtime and NVML were not tested.
        assert!(comment.contains("Not verified"), "{comment}");
        assert!(
            comment.contains("INCOMPLETE: nothing was denied to runtime, nvml"),
            "{comment}"
        );
        assert!(
            crate::survey::as_format(&survey("CUDA_SUCCESS"), Format::Junit, "x", 100).is_none()
        );
    }

    #[test]
    fn the_page_says_whether_the_least_suffices() {
        let page = |status: &str| {
            crate::survey::as_format(&survey(status), Format::Markdown, "x", 100).unwrap()
        };
        let fine = page("CUDA_SUCCESS");
        assert!(
            fine.contains("uname, except by ENOSYS") && fine.contains("yes: 1 of 3 break it"),
            "{fine}"
        );
        assert!(page("CUDA_ERROR_UNKNOWN").contains("no: something else is needed"));
    }
}

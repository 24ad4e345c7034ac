//! Messages in a text: error messages of CUDA, NVML and frameworks.
//!
//! The longest message that a line contains completely is the match: `operation not supported on global/shared address
//! space` is not `operation not supported`. A code in the same line takes precedence over the words. A `*` inside a
//! message stands for any characters of one word, such as a number or a name.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::advice::{advice_about, all_advice, known_errors, scenario_messages};
use super::error::{self, codes_in_line, is_about_cuda};
use super::term::Term;
use super::xid::all_xids;

/// Maximum number of words of a short message. Other programs print such messages too, so the line must also name CUDA.
const SHORT: usize = 2;

/// Longer messages that other programs print too.
const COMMON: [&str; 5] = [
    "operation not permitted",
    "out of memory",
    "Windows has stopped this device because it has reported problems",
    "The paging file is too small for this operation to complete",
    "[WinError 1455]",
];

/// Words for things that need CUDA. A line with one of them may be about CUDA without naming it.
const OF_CUDA: [&str; 4] = ["torch", "cudnn", "geforce", "quadro"];

/// Maximum number of characters that a `*` matches.
const LONGEST_GAP: usize = 40;

/// The answers that a message stands for.
struct Message {
    /// The ids of an error, of an advice, of scenarios or of a symptom; the best first.
    ids: Vec<String>,
    /// `true` if other programs print this message too.
    is_common: bool,
    /// Parts of the message after each `*`.
    rest: Vec<String>,
}

/// A match of a message within a line.
struct Found<'a> {
    start: usize,
    end: usize,
    /// Length without the text that its `*` match: if two messages match at one place, the longer one counts.
    length: usize,
    message: &'a Message,
}

impl Message {
    fn is_error(&self) -> bool {
        self.ids.iter().all(|id| error::number(id).is_some())
    }
}

impl Found<'_> {
    /// Returns `true` if another match contains all of this one, and more.
    fn is_part_of(&self, other: &Found<'_>) -> bool {
        other.length > self.length && other.start <= self.start && self.end <= other.end
    }
}

static MESSAGES: LazyLock<(Option<AhoCorasick>, Vec<Message>)> = LazyLock::new(|| {
    let errors = known_errors().iter().flat_map(|known| {
        let id = format!("error/{}", known.code);
        known
            .error_messages()
            .map(move |said| (said, vec![id.clone()]))
    });
    let advice = all_advice().iter().flat_map(|advice| {
        advice
            .says
            .iter()
            .map(|said| (said.as_str(), vec![advice.id.clone()]))
    });
    let xids = all_xids().iter().flat_map(|(xid, advice)| {
        let ids: Vec<String> = xid.advice.iter().cloned().chain([xid.id()]).collect();
        advice
            .says
            .iter()
            .map(move |said| (said.as_str(), ids.clone()))
    });
    let scenarios = scenario_messages()
        .iter()
        .map(|entry| (entry.says.as_str(), entry.answers.clone()));
    let (said, messages): (Vec<String>, Vec<Message>) = errors
        .chain(advice)
        .chain(xids)
        .chain(scenarios)
        .map(|(said, ids)| {
            let is_of_error = ids.iter().all(|id| id.starts_with("error/"));
            let is_common =
                COMMON.contains(&said) || is_of_error && said.split(' ').count() <= SHORT;
            let said = without_versions(said);
            let mut parts = said.split('*').map(str::to_owned);
            let first = parts.next().unwrap_or_default();
            (
                first,
                Message {
                    ids,
                    is_common,
                    rest: parts.collect(),
                },
            )
        })
        .unzip();
    let mut builder = AhoCorasick::builder();
    (
        builder
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(said)
            .ok(),
        messages,
    )
});

/// Returns the errors, advice and scenarios whose messages a text contains, by their ids: the longest message first.
pub(super) fn find_messages(text: &str) -> Vec<String> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        for (length, id) in messages_in_line(line, is_about_cuda(line)) {
            // A table row that nvidia-smi prints when there is no problem is not a message.
            let is_row = line.trim_start().starts_with('|') && is_harmless(&id);
            if !is_row && !found.iter().any(|(_, known)| *known == id) {
                found.push((length, id));
            }
        }
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, id)| id).collect()
}

/// Returns all errors in a text, by code or by message: codes first, because a number is more exact than words. If
/// libcudart has used a number for two errors, the message next to it decides.
pub(super) fn find_errors(text: &str) -> Vec<String> {
    let told: Vec<String> = find_messages(text);
    let mut found = error::find_error_codes(text);
    let is_told = found.iter().any(|id| told.contains(id));
    let explained: Vec<String> = told
        .iter()
        .flat_map(|id| codes_in_messages_of(id))
        .collect();
    found.retain(|id| !is_told || told.contains(id) || !is_ambiguous(id, &told));
    found.retain(|id| !explained.contains(id));
    found.extend(told);
    let mut seen = BTreeSet::new();
    found.retain(|id| seen.insert(id.clone()));
    if text.contains("Traceback") || !found.iter().all(|id| is_harmless(id)) {
        found.retain(|id| !is_harmless(id));
    }
    found
}

/// Returns the errors in the messages of an advice. The advice is more specific than they are.
fn codes_in_messages_of(id: &str) -> impl Iterator<Item = String> {
    let about = match error::number(id) {
        None => advice_about(id),
        Some(_) => None,
    };
    about.into_iter().flat_map(|advice| {
        advice
            .says
            .iter()
            .flat_map(|said| codes_in_line(said, true))
    })
}

fn is_harmless(id: &str) -> bool {
    advice_about(id).is_some_and(|advice| advice.harmless)
}

/// Returns `true` if the number of an error was once used for another error whose message the text contains.
fn is_ambiguous(id: &str, told: &[String]) -> bool {
    let codes = error::number(id).map(error::by_number).unwrap_or_default();
    codes
        .iter()
        .any(|code| told.contains(&format!("error/{code}")))
}

/// Returns the terms of the errors in a text.
pub(super) fn error_terms(text: &str) -> Vec<Term> {
    find_errors(text)
        .iter()
        .filter_map(|id| error::number(id))
        .map(Term::error)
        .collect()
}

/// Returns the messages on a line with their lengths, without those inside a longer one.
fn messages_in_line(line: &str, is_about_cuda: bool) -> Vec<(usize, String)> {
    let (Some(automaton), messages) = &*MESSAGES else {
        return Vec::new();
    };
    let line = &without_versions(line);
    let whole = automaton.find_overlapping_iter(line).filter_map(|found| {
        let message = messages.get(found.pattern().as_usize())?;
        let end = message
            .rest
            .iter()
            .try_fold(found.end(), |from, part| end_behind_a_gap(line, from, part))?;
        let length = found.len() + message.rest.iter().map(String::len).sum::<usize>();
        is_whole(line, found.start(), end).then_some(Found {
            start: found.start(),
            end,
            length,
            message,
        })
    });
    let found: Vec<Found<'_>> = whole.collect();
    let codes = codes_in_line(line, is_about_cuda);
    let lower = line.to_lowercase();
    let needs_cuda = OF_CUDA.iter().any(|word| lower.contains(word));
    let is_of_cuda =
        is_about_cuda && !lower.contains("nvidia-container-cli") && !lower.contains("nvml");
    let mut longest: Vec<&Found<'_>> = found.iter().collect();
    longest.retain(|one| !found.iter().any(|other| one.is_part_of(other)));
    // `Unable to determine the device handle for GPU: Unknown Error`: its own message is more specific than two common
    // words.
    let has_own = longest.iter().any(|one| !one.message.is_error());
    longest.retain(|one| !(has_own && one.message.is_common && one.message.is_error()));
    // `get invalid resource handle / invalid argument`: the sentence does not determine which of two errors occurred.
    let errors: Vec<&Found<'_>> = longest
        .iter()
        .copied()
        .filter(|one| one.message.is_error())
        .collect();
    let is_open = errors.len() > 1 && errors.iter().any(|one| !is_printed(line, one.start));
    longest
        .iter()
        .filter(|one| {
            let is_near = is_of_cuda || needs_cuda && !one.message.is_error();
            !one.message.is_common || is_near && is_printed(line, one.start)
        })
        .filter(|one| !is_open || !one.message.is_error())
        .map(|one| (one.length, one.message))
        .flat_map(|(length, message)| message.ids.iter().map(move |id| (length, id.clone())))
        // The number determines the error, whatever the words are.
        .filter(|(_, id)| codes.is_empty() || error::number(id).is_none() || codes.contains(id))
        .collect()
}

/// Returns `true` if the text from here on was printed by a program: no word directly precedes it, as in `dies with out
/// of memory`.
fn is_printed(line: &str, start: usize) -> bool {
    line.get(..start)
        .is_some_and(|before| !before.trim_end().ends_with(char::is_alphanumeric))
}

/// Returns the end of a message part that follows a gap.
fn end_behind_a_gap(line: &str, from: usize, part: &str) -> Option<usize> {
    let word = line.get(from..)?.split(char::is_whitespace).next()?;
    let gaps = word
        .char_indices()
        .map(|(gap, _)| gap)
        .chain([word.len()])
        .take(LONGEST_GAP + 1);
    let mut ends = gaps.map(|gap| (from + gap, from + gap + part.len()));
    ends.find_map(|(start, end)| {
        line.get(start..end)
            .filter(|word| word.eq_ignore_ascii_case(part))
            .map(|_| end)
    })
}

/// Returns a text with the names of libraries without their versions, and the kernel's Xid without the GPU:
/// `libcublas.so` for `libcublas.so.12`, `Xid 79` for `Xid (PCI:0000:8a:00): 79`.
fn without_versions(text: &str) -> String {
    let xid = text
        .split_once("Xid (")
        .and_then(|(before, rest)| Some((before, rest.split_once("): ")?.1)));
    let text = &xid.map_or_else(
        || text.replace("Xid: ", "Xid "),
        |(before, after)| format!("{before}Xid {after}"),
    );
    let mut parts = text.split(".so.");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        text + ".so" + rest
    })
}

/// Returns `true` if a match is not part of a longer word.
fn is_whole(line: &str, start: usize, end: usize) -> bool {
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric();
    let (before, inside, after) = (line.get(..start), line.get(start..end), line.get(end..));
    let (Some(before), Some(inside), Some(after)) = (before, inside, after) else {
        return false;
    };
    let goes_on_before = before.ends_with(is_of_word) && inside.starts_with(is_of_word);
    let goes_on_after = after.starts_with(is_of_word) && inside.ends_with(is_of_word);
    !(goes_on_before || goes_on_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_message_is_the_one_that_was_said() {
        for (text, ids) in [
            (
                "CUDA error: operation not permitted when stream is capturing",
                &["error/900"][..],
            ),
            ("CUDA error: operation not permitted", &["error/800"]),
            (
                "CUDA error: operation not supported on global/shared address space",
                &["error/717"],
            ),
            ("CUDA error: operation not supported", &["error/801"]),
            ("failed call to cuInit: UNKNOWN ERROR (303)", &["error/303"]),
            ("CUDA error: unknown error", &["error/999"]),
            (
                "CUDA driver version is insufficient for CUDA runtime version",
                &["error/35"],
            ),
            (
                "RuntimeError: No CUDA GPUs are available",
                &["message/no-cuda-gpus"],
            ),
            (
                "Failed to initialize NVML: Unknown Error",
                &["message/nvml-unknown-error"],
            ),
            (
                "Failed to initialize NVML: Driver/library version mismatch",
                &["message/nvml-version-mismatch"],
            ),
            (
                "CUDA error 700: an illegal memory access was encountered",
                &["error/700"],
            ),
            ("CUDA error (10): invalid device ordinal", &["error/101"]),
            (
                "error 900: operation not permitted when stream is capturing",
                &["error/900"],
            ),
            (
                "OSError: libcublas.so.12: cannot open shared object file: No such file",
                &["message/no-cuda-library"],
            ),
            (
                "OSError: libcuda.so.1: cannot open shared object file",
                &["message/no-nvidia-driver"],
            ),
            (
                "libcudnn_adv.so.9: cannot open shared object file",
                &["message/no-cuda-library"],
            ),
            (
                "nvrtc: error: failed to open nvrtc-builtins64_131.dll.",
                &["message/no-cuda-library"],
            ),
            (
                "Could not load library libcudnn_cnn_infer.so.8.",
                &["message/no-cuda-library"],
            ),
            (
                "libtorch_cuda_linalg.so: cannot open shared object file",
                &["message/extension-of-another-torch"],
            ),
            (
                "fatal   : Unsupported .version 8.7; current version is '8.4'",
                &["error/222"],
            ),
            (
                "Call to cuInit results in CUDA_ERROR_OUT_OF_MEMORY (2)",
                &["message/count-says-out-of-memory"],
            ),
            (
                "device: 'cuda:1' not in ['cpu', 'cuda:0']",
                &["message/comfyui-one-gpu"],
            ),
            (
                "host:27907:27907 [1] transport/nvls.cc:254 NCCL WARN Cuda failure",
                &["message/nccl-nvls-fails"],
            ),
            (
                "CUDA driver library cannot be found.",
                &["message/no-nvidia-driver"],
            ),
            (
                "NVRM: Xid (PCI:0000:3b:00): 48, pid=123",
                &["message/xid-ecc", "xid/48"],
            ),
            (
                "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed",
                &["xid/154"],
            ),
            ("Xid: 74, NVLink", &["xid/74"]),
            (
                "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error",
                &["message/nvml-no-device-handle"],
            ),
            (
                "NVRM: API mismatch: the client has the version 535.54.03, but",
                &["message/nvml-version-mismatch"],
            ),
            (
                "nvidia-container-cli: ldcache error: open failed: /sbin/ldconfig.real",
                &["message/container-ldcache"],
            ),
            (
                "NCCL error, unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                &["message/nccl-cuda-error"],
            ),
            (
                "Unable to initialize backend 'tpu': no libtpu.so",
                &["message/jax-other-backends"],
            ),
            (
                "destroy_process_group() was not called before program exit, CUDA out of memory",
                &["error/2"],
            ),
        ] {
            let found = find_errors(text);
            assert!(found.iter().eq(ids), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_common_message_is_one_of_cuda_only_beside_its_name() {
        for text in [
            "our CUDA tests die with out of memory when jax is imported",
            "share a GPU tensor with another process, get invalid resource handle / invalid argument",
            "the GPU's limit comes back as another error than CUDA_ERROR_OUT_OF_MEMORY",
            "tar: operation not permitted",
            "ValueError: invalid argument",
            "the process ran out of memory",
            "nvidia-container-cli: initialization error: nvml error: driver not loaded",
        ] {
            let found = find_errors(text);
            assert!(
                !found.iter().any(|id| id.starts_with("error/")),
                "{text}: {found:?}"
            );
        }
    }
}

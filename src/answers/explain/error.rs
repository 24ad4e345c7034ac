//! Error codes in a text: a C name, or a number that its context marks as a code.
//!
//! A number near the word `error` is usually something else: a version, a count, an ordinal, a line. It is a code only
//! directly after a word for errors, in brackets after such a word, or after a CUDA call: `error 700`, `(700)`, `cuInit
//! = 3`, `returned 304`.

use cuda_pitfalls_calls::{CallLibrary, status};

use super::advice::known_errors;
use super::term::Term;

/// Maximum number of parts of a text that is only about its code: `cuda error 700`.
const SHORTEST: usize = 3;
/// Minimum code before the word `error`. A smaller number is an amount: `2 errors`.
const LEAST_BEFORE_ERROR: u32 = 100;
/// Number of words before a number that may show that it belongs to something else.
const REACH: usize = 3;
/// Maximum number of GPUs that a machine is assumed to have.
const MOST_GPUS: u32 = 16;
/// Maximum number of marks between a word and its number: `error code="(`.
const MOST_MARKS: usize = 4;

/// Maximum length of a file name suffix in characters. The number after a file name is a line number, not a code.
const LONGEST_SUFFIX: usize = 4;

/// NVML's own codes, which differ from CUDA's, with their messages.
const NVML: [(u32, &str); 5] = [
    (4, "message/nvml-insufficient-permissions"),
    (9, "message/nvml-driver-not-loaded"),
    (12, "message/no-nvidia-driver"),
    (18, "message/nvml-version-mismatch"),
    (999, "message/nvml-unknown-error"),
];

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LinePart {
    /// A word in lower case.
    Word(String),
    Number(u32),
    /// A version, an amount with its unit, an address: a number that is never a code.
    Figure,
    Mark(char),
}

/// Returns the errors and NVML messages whose codes a text contains, by their ids, in the order of the text. A number
/// that libcudart has used for two errors yields both, the current one first.
pub(super) fn find_error_codes(text: &str) -> Vec<String> {
    let is_short = text.split_whitespace().count() <= SHORTEST;
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        for id in codes_in_line(line, is_short || is_about_cuda(line)) {
            if !found.contains(&id) {
                found.push(id);
            }
        }
    }
    found
}

/// Returns the number of an error's id.
pub(super) fn number(id: &str) -> Option<u32> {
    id.strip_prefix("error/")?.parse().ok()
}

/// Returns the ids of the codes on a line. If the line has a C name, its numbers are ignored.
pub(super) fn codes_in_line(line: &str, is_about_cuda: bool) -> Vec<String> {
    let parts = parts(line);
    let mut found: Vec<String> = names(line).collect();
    if !found.is_empty() {
        return found;
    }
    for (index, token) in parts.iter().enumerate() {
        let LinePart::Number(number) = token else {
            continue;
        };
        let (before, after) = parts.split_at(index);
        let after = after.get(1..).unwrap_or_default();
        let is_said = parts.len() == 1 || is_bound(before, *number, after);
        let is_ours = i64::from(*number) == status::SIM_NOT_MODELLED;
        if is_said && (is_about_cuda || is_ours || is_cuda_only_code(before, *number)) {
            found.extend(ids_for_number(*number, before));
        }
    }
    found
}

/// Returns the errors on a line by their C names. A name after `==` or `than` was only compared with, so it does not
/// count.
fn names(line: &str) -> impl Iterator<Item = String> {
    let mut is_compared = false;
    let words =
        line.split(|letter: char| letter.is_whitespace() || ",;()[]{}:\"'`".contains(letter));
    let said = words.filter(move |word| {
        let was_compared = is_compared;
        is_compared = word.ends_with("==")
            || word.ends_with("!=")
            || *word == "than"
            || word.is_empty() && is_compared;
        !was_compared
    });
    let parts = said.flat_map(|word| {
        word.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
    });
    parts
        .filter_map(by_name)
        .map(|code| format!("error/{code}"))
}

/// Returns the code of a C name, in either case; `None` for success.
fn by_name(name: &str) -> Option<u32> {
    if !name
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case("cuda"))
    {
        return None;
    }
    let mut all = [CallLibrary::Runtime, CallLibrary::Driver]
        .into_iter()
        .flat_map(status::table);
    let (code, _) = all.find(|(_, known)| {
        known
            .to_str()
            .is_ok_and(|known| known.eq_ignore_ascii_case(name))
    })?;
    (*code != 0).then_some(*code)
}

/// Returns the term of an error that is written as a C name.
pub(super) fn term_of_name(name: &str) -> Option<Term> {
    by_name(name).map(Term::error)
}

/// Returns the errors with a number: CUDA errors, or an NVML error if an NVML function returned it.
fn ids_for_number(number: u32, before: &[LinePart]) -> Vec<String> {
    if words_of(before).any(|word| word.starts_with("nvml")) {
        let known = NVML.iter().find(|(code, _)| *code == number);
        return known.map(|(_, id)| (*id).to_owned()).into_iter().collect();
    }
    by_number(number)
        .into_iter()
        .map(|code| format!("error/{code}"))
        .collect()
}

/// Returns the errors with this number: two, if libcudart has used it for two errors.
pub(super) fn by_number(number: u32) -> Vec<u32> {
    if number == 0 {
        return Vec::new();
    }
    let has_name = [CallLibrary::Runtime, CallLibrary::Driver]
        .iter()
        .any(|library| status::name(*library, number.into()).is_some());
    let old = known_errors()
        .iter()
        .filter(|known| known.old == Some(number))
        .map(|known| known.code);
    has_name.then_some(number).into_iter().chain(old).collect()
}

/// The text around a number.
struct NumberContext<'p> {
    number: u32,
    /// The parts that precede the marks before the number.
    words: &'p [LinePart],
    /// The last two words before the number, the last one first.
    last: &'p str,
    second: &'p str,
    /// The marks before the number.
    marks: &'p [LinePart],
    after: &'p [LinePart],
    /// `true` if the number is followed by nothing or by a mark.
    ends: bool,
    /// `true` if a mark before the number binds it.
    is_marked: bool,
}

impl NumberContext<'_> {
    fn new<'p>(before: &'p [LinePart], number: u32, after: &'p [LinePart]) -> NumberContext<'p> {
        let last_word = before
            .iter()
            .rposition(|part| !matches!(part, LinePart::Mark(_)));
        let (words, marks) = before.split_at(last_word.map_or(0, |index| index + 1));
        let mut back = words_of(words).rev();
        NumberContext {
            number,
            words,
            last: back.next().unwrap_or_default(),
            second: back.next().unwrap_or_default(),
            marks,
            after,
            ends: matches!(after.first(), None | Some(LinePart::Mark(_))),
            is_marked: marks
                .iter()
                .any(|mark| matches!(mark, LinePart::Mark(':' | '=' | '#' | '(' | '[' | '>'))),
        }
    }

    /// Returns `true` if the parts before the number do not bind it to anything.
    fn is_detached(&self) -> bool {
        self.marks.len() > MOST_MARKS
            || self.marks.last() == Some(&LinePart::Mark('-'))
            || matches!(
                self.words.last(),
                Some(LinePart::Number(_) | LinePart::Figure)
            )
    }

    /// Returns `true` for a number of GPUs: `cuDeviceGetCount returned 4`, but not `cudaGetDeviceCount returned 35`.
    fn is_gpu_count(&self) -> bool {
        let is_returned = matches!(
            self.last,
            "returned" | "returns" | "return" | "gives" | "gave" | "got"
        );
        is_returned && self.second.ends_with("count") && self.number <= MOST_GPUS
    }

    /// Returns `true` before the word error: `the 804 error`, `fails with 802 system error`.
    fn is_before_error(&self) -> bool {
        let is_near = words_of(self.after).take(2).any(|word| word == "error");
        is_near && !self.is_marked && !self.ends && !names_an_error(self.last)
    }

    /// Returns `true` if the words before the number make it a code.
    fn follows_error(&self) -> bool {
        let names_error = names_an_error(self.second);
        match self.last {
            "code" | "status" | "result" => {
                !matches!(self.second, "exit" | "status" | "return" | "response")
                    && (self.ends || is_followed_by_more(self.after))
            }
            // `error cuda 716`.
            "cuda" => {
                let is_short = self.words.len() <= SHORTEST;
                names_error && self.number >= LEAST_BEFORE_ERROR && self.ends && is_short
            }
            "with" | "is" | "was" | "as" => names_error && self.ends,
            last if names_an_error(last) => {
                let is_plain_word = last.ends_with("error") || last == "err";
                self.ends || (is_plain_word || self.is_marked) && is_followed_by_more(self.after)
            }
            _ => false,
        }
    }
}

/// Returns `true` if the words and marks around a number make it a code.
fn is_bound(before: &[LinePart], number: u32, after: &[LinePart]) -> bool {
    if is_counted(after) || belongs_to_another(before) {
        return false;
    }
    // `[100] Call to cuInit results in …`.
    if let [
        LinePart::Mark(']'),
        LinePart::Word(first),
        LinePart::Word(to),
        ..,
    ] = after
    {
        return first == "call" && to == "to";
    }
    let around = NumberContext::new(before, number, after);
    if is_result_of_a_call(before) && around.ends {
        return true;
    }
    if around.is_detached() || around.is_gpu_count() {
        return false;
    }
    // `Check failed: error == cudaSuccess (46 vs. 0)`.
    if around.last == "cudasuccess" {
        return matches!(after.first(), Some(LinePart::Word(word)) if word == "vs");
    }
    if around.is_before_error() {
        let is_of_web = matches!(number, 400..=599);
        return number >= LEAST_BEFORE_ERROR && !is_of_web && !is_among(NUMBERED, around.last);
    }
    around.follows_error()
}

/// Returns `true` if a number after the word `error` belongs to CUDA although the line does not name CUDA, because no
/// other program uses it.
fn is_cuda_only_code(before: &[LinePart], number: u32) -> bool {
    let mut back = words_of(before).rev();
    let last = back.next().unwrap_or_default();
    let is_error = last == "error" || last == "code" && back.next() == Some("error");
    let is_of_web = matches!(number, 200..=599);
    is_error
        && number >= LEAST_BEFORE_ERROR
        && !is_of_web
        && known_errors().iter().any(|known| known.code == number)
}

/// Returns `true` if a CUDA call precedes `=`, `:` or `->` and the number: `cuInit(0) = 3`.
fn is_result_of_a_call(before: &[LinePart]) -> bool {
    let mut rest = before.iter().rev().peekable();
    let mut has_sign = false;
    while let Some(LinePart::Mark(mark)) = rest.peek() {
        match mark {
            '=' | ':' | '>' => has_sign = true,
            ')' => {
                // The arguments of the call.
                rest.by_ref().find(|token| **token == LinePart::Mark('('));
                continue;
            }
            '-' | '"' | '`' | '\'' => {}
            _ => return false,
        }
        rest.next();
    }
    let Some(LinePart::Word(call)) = rest.next() else {
        return false;
    };
    let gives_a_figure = [
        "count",
        "version",
        "getdevice",
        "getattribute",
        "memgetinfo",
    ];
    has_sign && is_call(call) && !gives_a_figure.iter().any(|end| call.contains(end))
}

fn is_call(word: &str) -> bool {
    cuda_pitfalls_calls::all().any(|call| call.name.eq_ignore_ascii_case(word))
}

fn is_among(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

/// Returns `true` if a number counts or measures the next word, or is one of several.
fn is_counted(after: &[LinePart]) -> bool {
    match after {
        [LinePart::Mark('%' | '-'), ..] => true,
        // `3/4`, but not `716/700`.
        [LinePart::Mark('/'), LinePart::Number(other), ..] => *other < LEAST_BEFORE_ERROR,
        [LinePart::Mark('/'), ..] => true,
        [
            LinePart::Mark(':' | ','),
            LinePart::Number(_) | LinePart::Figure,
            ..,
        ] => true,
        [LinePart::Word(word), ..] => is_among(COUNTED, word),
        _ => false,
    }
}

const COUNTED: &str = "gpus gpu devices cards times workers nodes ranks processes threads steps step epochs epoch s sec secs \
    seconds ms us min minutes h hours days kb mb gb tb kib mib gib bytes of out x parts batches requests \
    cores containers instances errors or";

/// Returns `true` if a place or a time follows the number, so that the number is a complete part of the sentence.
fn is_followed_by_more(after: &[LinePart]) -> bool {
    let [LinePart::Word(word), ..] = after else {
        return true;
    };
    is_among(GOES_ON, word)
}

const GOES_ON: &str = "on in when while after at from during for inside and but as if under by then is was means meaning not \
    only since because within with until returned occurred happened here again even although that";

/// Returns `true` if one of the words before a number shows that it belongs to something else: an exit code, a line,
/// another library.
fn belongs_to_another(before: &[LinePart]) -> bool {
    let libraries = [
        "cublas", "cudnn", "cufft", "nccl", "cusolver", "cusparse", "hip",
    ];
    words_of(before).rev().take(REACH).any(|word| {
        is_among(OTHERS, word) || libraries.iter().any(|library| word.starts_with(library))
    })
}

const OTHERS: &str = "exit exited exits http https signal xid errno rocm opencl vulkan opengl gl subprocess make nvcc gcc \
    cmake ninja pip returncode curl apt dkms installer rpc";

/// Words whose numbers are not codes: `torch 200 error` is about a version.
const NUMBERED: &str = "version driver cuda torch pytorch tensorflow python gpu device rank line step epoch port page node";

/// Returns `true` if the number after this word is likely a status.
fn names_an_error(word: &str) -> bool {
    let words = [
        "err", "error", "failure", "failed", "fails", "fail", "returned", "returns", "return",
        "gives", "gave", "got", "retcode", "ret", "res", "rc", "retval",
    ];
    words.contains(&word)
        || word.ends_with("error")
        || word.ends_with("_status")
        || word.ends_with("_err")
}

/// Returns `true` if a line names CUDA, its libraries or a GPU.
pub(super) fn is_about_cuda(line: &str) -> bool {
    let lower = line.to_lowercase();
    let is_named = ["cuda", "cuinit", "nvml", "nvidia", "gpu", "cupy", "numba"]
        .iter()
        .any(|word| lower.contains(word));
    // `cuCtxSetCurrent failed`.
    is_named
        || line
            .split(|letter| !is_of_word(letter))
            .any(|word| is_driver_name(word) && is_call(word))
}

fn is_driver_name(word: &str) -> bool {
    word.strip_prefix("cu")
        .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

fn words_of(parts: &[LinePart]) -> impl DoubleEndedIterator<Item = &str> {
    parts.iter().filter_map(|token| match token {
        LinePart::Word(word) => Some(word.as_str()),
        _ => None,
    })
}

/// Splits a line into parts. Whitespace only separates words and numbers.
fn parts(line: &str) -> Vec<LinePart> {
    let mut found = Vec::new();
    let mut part = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        // `3.12`, `v2.21`, `cuda_driver.cc`: one part each.
        let is_inner_point = letter == '.'
            && !part.is_empty()
            && letters.peek().is_some_and(|next| is_of_word(*next));
        if is_of_word(letter) || is_inner_point {
            part.push(letter);
            continue;
        }
        found.extend(classify_part(&std::mem::take(&mut part)));
        if !letter.is_whitespace() {
            found.push(LinePart::Mark(letter));
        }
    }
    found.extend(classify_part(&part));
    found
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Classifies a part of a line. The last part of a dotted name decides: `cuInit` in `cydriver.cuInit`.
fn classify_part(part: &str) -> Option<LinePart> {
    let end = part.rsplit('.').next().filter(|end| !end.is_empty())?;
    let is_file =
        end.len() < part.len() && end.len() <= LONGEST_SUFFIX && !part.starts_with("torch");
    Some(match part.parse::<u32>() {
        Ok(number) if part.len() <= 5 => LinePart::Number(number),
        _ if is_file || part.starts_with(|letter: char| letter.is_ascii_digit()) => {
            LinePart::Figure
        }
        _ => LinePart::Word(end.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_an_error_only_where_it_is_bound_as_one() {
        for (text, code) in [
            ("700", 700),
            ("error 700", 700),
            ("CUDA error(700)", 700),
            ("CUDA error 700 on rank 3", 700),
            ("cuda runtime error (38) : no device", 100),
            ("CUDA error: 35 (0x23) somewhere", 35),
            ("cuInit failed: 304", 304),
            ("cuInit = 3", 3),
            ("cuInit(0) = 100", 100),
            ("cuInit(0) returns 304", 304),
            ("cuInit(0) returned 999, nvidia-smi works", 999),
            ("cudaGetDeviceProperties returned 35", 35),
            ("Check failed: error == cudaSuccess (803 vs. 0)", 803),
            (
                "ggml_cuda_init: CUDA driver initialization failed with error 999",
                999,
            ),
            ("cuda driver library init failure: 3\"", 3),
            ("cudaRuntimeGetVersion() failed with error #35", 35),
            (
                "CUDA error: invalid device ordinal (code #101, ERROR_INVALID_DEVICE)",
                101,
            ),
            ("OpenMM on CUDA: Invalid error code (700)", 700),
            ("failed call to cuInit: UNKNOWN ERROR (303)", 303),
            (
                "operation cuInit(0) failed: Unknown CUDA error 303; cuGetErrorName failed",
                303,
            ),
            (
                "Error at driver init of CUDA: [100] Call to cuInit results in nothing",
                100,
            ),
            ("cuda_check(): runtime API error = 0400 in jit.cu", 400),
            ("CUDA failure 77: somewhere", 700),
            ("cuInit error code 304", 304),
            (
                "[ERROR (pid:362 context.c:114)]: cuCtxSetCurrent failed res=4",
                4,
            ),
            ("error cuda 716/700", 716),
            ("what is cudaErrorIllegalAddress", 700),
            ("CUDA_ERROR_NO_DEVICE", 100),
            (
                "Not modelled by CUDA's simulated driver: error 60000",
                60000,
            ),
            (
                "Error 803: system has unsupported display driver / cuda driver combination",
                803,
            ),
            ("CUDA error 900: operation not permitted", 900),
        ] {
            let found = codes_in_line(text, true);
            assert_eq!(
                found.first().map(String::as_str),
                Some(format!("error/{code}").as_str()),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn a_number_that_counts_dates_or_numbers_something_is_none() {
        for text in [
            "CUDA error when using torch 2.11",
            "CUDA error with 4 GPUs",
            "cuInit returned 0 and cuDeviceGetCount returned 4",
            "the list has one GPU, torch.cuda.device_count() gives 3",
            "cuInit failed in Python 3.12",
            "error in CUDA 11.8 container",
            "CUDA error after 100 s",
            "CUDA error, timeout of 100 s",
            "CUDA error in step 999",
            "CUDA error on GPU 3",
            "CUDA error on device 2",
            "CUDA error on rank 1",
            "CUDA failed 3 times",
            "CUDA failed: 2 of 8 GPUs",
            "CUDA error 4 GPUs",
            "CUDA error with NCCL 2.21",
            "NCCL error 2 on GPU 1",
            "cublas error 3 on the GPU",
            "HTTP 500",
            "HTTP error 500 from nvidia.com",
            "GET /index.html HTTP/1.1 200 304",
            "exit code 1",
            "the CUDA program finished with exit code 100",
            "the GPU job exited with code 2",
            "errno 2",
            "line 700",
            "CUDA error at line 700",
            "step 700, loss 3 on the GPU",
            "step 999",
            "Python 3.12",
            "CUDA 11.8",
            "torch 2.11",
            "torch 2.11 on 100 GPUs, 201 steps",
            "with 4 GPUs",
            "NCCL 2.21",
            "Tried to allocate 300.00 MiB on GPU 0",
            "cudaGetDeviceCount: 8",
            "cudaSetDevice(1) on the GPU",
            "CUDA_VISIBLE_DEVICES=2",
            "CUDA error: device-side assert at kernel.cu:700",
            "the GPU request failed with status code 304 and was sent again",
            "CUDA errors: 3",
            "CUDA failed with driver 535",
            "CUDA error: 12:30:01",
            "54321",
            "0",
        ] {
            assert_eq!(
                find_error_codes(text),
                Vec::<String>::new(),
                "{text}: {:?}",
                parts(text)
            );
        }
    }

    #[test]
    fn an_old_number_is_today_s_error_too() {
        assert_eq!(by_number(77), [700]);
        assert_eq!(by_number(4), [4, 719]);
        assert!(by_number(0).is_empty() && by_number(54_321).is_empty());
    }

    #[test]
    fn a_number_of_nvml_is_none_of_cuda() {
        assert_eq!(
            find_error_codes("nvmlInit_v2 returned 9"),
            ["message/nvml-driver-not-loaded"]
        );
        assert_eq!(
            find_error_codes("nvmlInit failed with 18"),
            ["message/nvml-version-mismatch"]
        );
        assert!(find_error_codes("nvmlInit returned 5").is_empty());
    }
}

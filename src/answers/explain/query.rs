//! Typed or pasted text, as terms.

use std::collections::{BTreeMap, BTreeSet};

use super::advice::without_boilerplate;
use super::foreign;
use super::message;
use super::term::{Term, neighboring_words};
use super::words::{terms_of_code, terms_of_people};
use crate::visibility::misspelled_names;
use cuda_pitfalls_core::scenario::environment::meant_by;
use cuda_pitfalls_core::scenario::framework::{Framework, frameworks};

/// Maximum number of lines of a log that are read. Lines about an error are read first.
const MOST_LINES: usize = 400;
/// Maximum length of a line in characters; longer lines are truncated.
const MOST_LETTERS: usize = 2000;

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The words to look up, in their original order and readable.
    pub words: String,
    /// The original text if it is short: it may be the name of something, or measured code.
    pub(super) line: String,
    /// `true` if the words come from pasted text: unknown words in it are not evidence against an answer.
    pub is_pasted: bool,
    /// Frameworks in the text, by the tags of scenarios.
    pub frameworks: Vec<&'static str>,
    /// `true` if the text is about Python.
    pub is_python: bool,
    /// `true` if the text names a CUDA or C function, and no framework.
    pub is_c: bool,
    /// The accelerator that the text is about, if it is not an NVIDIA GPU.
    pub platform: Option<&'static str>,
    /// Terms of the prose.
    pub(super) terms: BTreeSet<Term>,
    /// Terms of the lines of code in the text.
    pub(super) code: BTreeSet<Term>,
    pub(super) pairs: BTreeSet<(String, String)>,
    /// Variables that no known program reads, each with the known variable of the most similar spelling.
    pub misspelt: BTreeMap<String, String>,
    /// Errors and messages in the text, by their ids; the best first.
    pub(super) errors: Vec<String>,
    /// The prose without code and places.
    pub(super) said: String,
}

impl Query {
    /// Parses typed words. Text with more than one line is treated as pasted.
    pub fn parse(text: &str) -> Query {
        if text.trim().contains('\n') {
            return Query::parse_pasted(text);
        }
        let plain = without_boilerplate(text);
        let query = Query::with(plain.trim(), "", false);
        Query {
            errors: message::find_errors(&plain),
            line: text.trim().to_owned(),
            ..query
        }
    }

    /// Parses a traceback, a log or an error message. Only the relevant words are kept: no paths, addresses and times.
    pub fn parse_pasted(text: &str) -> Query {
        let line = if text.len() <= MOST_LETTERS {
            text.trim()
        } else {
            ""
        };
        let text = without_boilerplate(text);
        let mut lines: Vec<String> = text
            .lines()
            .map(|line| line.chars().take(MOST_LETTERS).collect())
            .collect();
        let is_log = lines.len() > 3;
        if lines.len() > 2 * MOST_LINES {
            // Later output of a program must not hide its error.
            lines.retain(|line| is_message(line) || is_code(line) || is_place(line));
        }
        let mut said: Vec<String> = Vec::new();
        let mut code: Vec<String> = Vec::new();
        // A line of code in a log may only quote a message.
        let printed = lines
            .iter()
            .filter(|line| !(is_place(line) || is_log && is_code(line)));
        let errors = message::find_errors(&printed.cloned().collect::<Vec<_>>().join("\n"));
        for line in lines.iter().take(MOST_LINES).chain(
            lines
                .iter()
                .skip(MOST_LINES.max(lines.len().saturating_sub(MOST_LINES))),
        ) {
            let kept = without_places(line);
            if let Some(package) = package_of(line) {
                code.push(package);
            }
            if is_place(line) {
                continue;
            }
            if is_log && is_code(line) {
                code.push(kept);
            } else if is_message(&kept) || !is_log {
                said.push(kept);
            }
        }
        // Errors are printed last, and often repeatedly: the last ones ended the program.
        said.dedup();
        Query {
            errors,
            line: line.to_owned(),
            ..Query::with(&said.join(" \n "), &code.join(" \n "), true)
        }
    }

    fn with(said: &str, code: &str, is_pasted: bool) -> Query {
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut query = Query {
            words,
            is_pasted,
            said: said.to_owned(),
            ..Query::default()
        };
        let names = said
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| word.contains('_'));
        query.misspelt =
            misspelled_names(names.filter(|word| meant_by(&word.to_uppercase()).is_some()));
        let meant: Vec<&str> = query.misspelt.values().map(String::as_str).collect();
        let found = terms_of_people(&[said, &meant.join(" ")].join(" "));
        query.pairs = neighboring_words(&found);
        query.terms = found.into_iter().collect();
        query.code = terms_of_code(code).into_iter().collect();
        query.platform = foreign::foreign_platform(said);
        let lower = format!("{said} {code}").to_lowercase();
        let words: BTreeSet<&str> = lower
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect();
        let named: Vec<&Framework> = frameworks()
            .iter()
            .filter(|framework| {
                framework.words.iter().any(|word: &String| {
                    words.contains(word.as_str()) || (word.contains('.') && lower.contains(word))
                })
            })
            .collect();
        query.frameworks = named
            .iter()
            .filter_map(|framework| framework.tag.as_deref())
            .collect();
        let python = [
            "os.environ",
            "import ",
            "traceback",
            "runtimeerror",
            "python",
            ".py",
        ];
        query.is_python =
            !query.frameworks.is_empty() || python.iter().any(|word| lower.contains(word));
        query.is_c = query.frameworks.is_empty()
            && query.terms.iter().chain(&query.code).any(|term| {
                term.is_name
                    && cuda_pitfalls_calls::all()
                        .any(|call| call.name.eq_ignore_ascii_case(&term.text))
            });
        query
    }

    /// Returns `true` if the text names something that belongs to CUDA, its tools or a framework based on it.
    pub(super) fn is_about_cuda(&self) -> bool {
        let lower = self.said.to_lowercase();
        let has_name = [
            "cuda", "nvidia", "nvml", "gpu", "cupy", "numba", "vram", "mig", "device", "cuinit",
            "vllm", "ollama", "显",
        ];
        !self.frameworks.is_empty() || has_name.iter().any(|name| lower.contains(name))
    }
}

/// Returns `true` if a line contains only a place: none of its words is about the event.
fn is_place(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("File \"")
        || line.starts_with("at /")
        || line.starts_with('#')
        || line.starts_with("--- ")
}

fn is_message(line: &str) -> bool {
    let lower = line.to_lowercase();
    let is_exception = line.split_once(':').is_some_and(|(kind, _)| {
        let kind = kind.rsplit('.').next().unwrap_or_default();
        ["Error", "Exception", "Warning", "Interrupt"]
            .iter()
            .any(|end| kind.ends_with(end))
            && !kind.contains(' ')
    });
    is_exception
        || [
            "error",
            "fail",
            "warn",
            "cuda",
            "nvml",
            "nccl",
            "out of memory",
        ]
        .iter()
        .any(|word| lower.contains(word))
}

/// Returns `true` if a line is code: it is indented, as in tracebacks.
fn is_code(line: &str) -> bool {
    line.starts_with("    ") && (line.contains('(') || line.contains('='))
}

/// Returns the package of a traceback line: `torch` for `…/site-packages/torch/cuda/__init__.py`.
fn package_of(line: &str) -> Option<String> {
    let after = ["site-packages/", "dist-packages/"]
        .iter()
        .find_map(|folder| line.split_once(folder))?
        .1;
    let package = after.split(['/', '"']).next()?;
    Some(package.to_owned())
}

/// Returns a line without paths, addresses, times, links and process numbers.
fn without_places(line: &str) -> String {
    let mut kept: Vec<&str> = line.split_whitespace().collect();
    kept.retain(|word| {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '/');
        let is_path =
            bare.matches('/').count() >= 2 || bare.contains("://") || bare.starts_with('/');
        let is_address = bare.starts_with("0x")
            || (bare.len() > 12 && bare.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let has_time = bare.matches(':').count() >= 2
            && bare
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_digit());
        let is_date = bare.len() >= 8
            && bare.matches('-').count() == 2
            && bare.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        // A C++ name of the place where a library was built.
        let is_mangled = bare.starts_with("_Z") || bare.starts_with("frame");
        !(is_path || is_address || has_time || is_date || is_mangled)
    });
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEBACK: &str = r#"Traceback (most recent call last):
  File "/opt/conda/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap
    self.run()
  File "/home/somebody/train.py", line 700, in work
    x = torch.zeros(1, device="cuda")
  File "/opt/conda/lib/python3.12/site-packages/torch/cuda/__init__.py", line 305, in _lazy_init
    raise RuntimeError(
RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method
"#;

    #[test]
    fn of_a_traceback_the_message_and_the_names_are_kept_and_no_place() {
        let query = Query::parse(TRACEBACK);
        assert!(query.is_pasted && query.is_python);
        assert_eq!(query.frameworks, ["pytorch"]);
        assert!(
            query
                .words
                .starts_with("RuntimeError: Cannot re-initialize CUDA"),
            "{}",
            query.words
        );
        let has = |text: &str| {
            query
                .terms
                .iter()
                .chain(&query.code)
                .any(|term| term.text == text)
        };
        assert!(has("spawn") && has("torch.zeros"));
        assert!(
            !has("somebody") && !has("conda") && !has("error 700"),
            "{:?}",
            query.terms
        );
    }

    #[test]
    fn an_error_is_found_before_a_long_rest_and_behind_a_long_beginning() {
        let noise = "step 17 took 3 seconds\n".repeat(5000);
        let error = "RuntimeError: CUDA error: an illegal memory access was encountered\n";
        for log in [
            format!("{noise}{error}"),
            format!("{error}{noise}"),
            format!("{noise}{error}{noise}"),
        ] {
            assert!(
                Query::parse_pasted(&log)
                    .words
                    .contains("illegal memory access")
            );
        }
    }

    #[test]
    fn addresses_times_and_links_are_dropped() {
        let line = "2026-01-01 12:00:01 E0306 cuda_driver.cc:148] failed at 0x7f00: see https://x.org/700 /a/b.so";
        assert_eq!(
            without_places(line),
            "E0306 cuda_driver.cc:148] failed at see"
        );
    }

    #[test]
    fn what_is_said_in_c_is_c() {
        assert!(Query::parse("cudaSetDevice").is_c && !Query::parse("cudaSetDevice").is_python);
        assert!(!Query::parse("torch calls cudaSetDevice").is_c);
        assert!(
            ["", "what is it"]
                .map(Query::parse)
                .iter()
                .all(|query| query.terms.is_empty() && query.code.is_empty())
        );
    }
}

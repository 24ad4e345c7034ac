//! Properties of every format of a document, regardless of the author of the document.

use quick_junit::Report as Junit;
use serde_json::Value;

/// A second line that is a command of GitHub, another command, a color, a title, a C1 control, a change of direction,
/// the end of a cell and of code, the end of a script, and a tag.
pub(crate) const HOSTILE: &str = "x\r\n::error::INJ ##[error]\x1b[31m\x1b]0;x\x07\u{9b}31m\u{202e}|`</script><img src=x onerror=INJ>\x1b[31m";
/// Maximum size of a format, as a multiple of its document, plus a constant for the parts of every document.
const MOST_TIMES: usize = 256;
const MOST_MORE: usize = 1 << 20;

/// The forms of a document, by name. None is made by default.
#[derive(Default)]
pub(crate) struct Forms {
    pub(crate) shown: Vec<(&'static str, String)>,
    every: u64,
    index: u64,
}

impl Forms {
    /// Selects one in `every` formats, beginning with `first`: a fuzzer wants many documents.
    pub(crate) fn every(every: u64, first: u64) -> Forms {
        Forms {
            every,
            index: first % every,
            ..Forms::default()
        }
    }

    /// Adds a form, unless the document does not have it.
    pub(crate) fn add(&mut self, form: &'static str, make: impl FnOnce() -> Option<String>) {
        if self.every > 0 && self.index.is_multiple_of(self.every) {
            self.shown.extend(make().map(|text| (form, text)));
        }
        self.index += 1;
    }

    pub(crate) fn json(&mut self, document: impl serde::Serialize) {
        self.add("json", || {
            Some(serde_json::to_string(&document).expect("it can be written"))
        });
    }

    /// Fails at the first form that acts on a reader, is not well-formed, or is too large for a document of this size.
    pub(crate) fn check(&self, bytes: usize) {
        for (form, text) in &self.shown {
            assert!(
                text.len() <= MOST_TIMES * bytes + MOST_MORE,
                "{form}: {} bytes of {bytes}",
                text.len()
            );
            if let Some(line) = acting(form, text) {
                panic!("{form}: {line:.300?} acts");
            }
        }
    }
}

/// Returns `true` if a terminal or a reader obeys a character.
pub(crate) fn acts(c: char) -> bool {
    let is_bidi = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_bidi || (c.is_control() && c != '\n' && c != '\t')
}

/// Returns the first line that has an effect where this format is shown, or the problem with the entire text.
pub(crate) fn acting(form: &str, text: &str) -> Option<String> {
    let malformed = match form {
        // It is printed with more escapes than JSON requires.
        "json" | "sarif" | "oci" => serde_json::from_str::<Value>(text)
            .err()
            .map(|error| error.to_string()),
        "junit" => Junit::deserialize_from_str(text)
            .err()
            .map(|error| format!("{error:?}")),
        "markdown" => pulldown_cmark::Parser::new(text).find_map(|event| match event {
            pulldown_cmark::Event::Html(html) | pulldown_cmark::Event::InlineHtml(html)
                if html.contains("INJ") =>
            {
                Some(html.into_string())
            }
            _ => None,
        }),
        _ => None,
    };
    let is_wrong = |line: &&str| match form {
        "json" | "sarif" | "oci" => line.chars().any(|c| c < ' '),
        _ if line.chars().any(acts) || line.starts_with("::error::INJ") => true,
        "github" => !["::error ", "::warning ", "::notice "]
            .iter()
            .any(|start| line.starts_with(start)),
        "html" | "junit" => line.contains("<img src=x") || line.contains("</script><"),
        "prometheus" => {
            !line.starts_with('#')
                && line
                    .rsplit_once(' ')
                    .is_none_or(|(_, value)| value.parse::<f64>().is_err())
        }
        "text" => line.contains("##[") || line.trim_start().starts_with("::"),
        _ => false,
    };
    malformed.or_else(|| text.lines().find(is_wrong).map(str::to_owned))
}

/// Collects the JSON pointers of all parts, except for the root.
pub(crate) fn parts(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut below = |key: &str, value| {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(at.clone());
        parts(value, &at, found);
    };
    match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, value)| below(&index.to_string(), value)),
        Value::Object(map) => map.iter().for_each(|(key, value)| below(key, value)),
        _ => {}
    }
}

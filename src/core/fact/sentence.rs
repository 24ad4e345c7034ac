//! Parses the sentences of older documents into facts: compact reports up to 1.6 and merged documents up to 1.1
//! stored sentences such as `2 cudaSetDevice: sees gpu0, context on gpu0`. Nothing writes them any more, and no other
//! module reads them. A sentence that matches no rule is kept as it is.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Change, Fact, RowFact, Token};
use crate::observation::Class;

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Change, D::Error> {
        deserializer.deserialize_any(Parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Change;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a step's number, its label and what was seen, or a sentence of an older report")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Change, E> {
        Ok(change(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Change, A::Error> {
        let short = |count| Error::invalid_length(count, &"three parts");
        let step = parts.next_element()?.ok_or_else(|| short(0))?;
        let label = parts.next_element()?.ok_or_else(|| short(1))?;
        let facts = parts.next_element()?.ok_or_else(|| short(2))?;
        Ok(Change { step, label, facts })
    }
}

/// The change that a sentence describes.
fn change(sentence: &str) -> Change {
    let (about, words) = sentence.split_once(": ").unwrap_or((sentence, ""));
    if about == "end"
        && let Some((end, steps)) = words.strip_suffix(" steps").and_then(|words| words.rsplit_once(" after "))
        && let Ok(steps) = steps.parse()
    {
        return Change::end(steps, end);
    }
    if let Some((step, label)) = about.split_once(' ')
        && let Ok(step) = step.parse()
    {
        return Change { step, label: label.to_owned(), facts: facts(words) };
    }
    if let Some(fact) = row(about, words) {
        return Change::row(fact);
    }
    Change { step: 0, label: about.to_owned(), facts: vec![Fact::Opaque(words.to_owned())] }
}

/// Parses a sentence of a merged document, `trap (or 2) 1 cuInit: …`: the case (empty for a row of a survey), the
/// number of the outcome, and the change.
pub fn of_case(sentence: &str) -> (String, u32, Change) {
    let alone = change(sentence);
    let is_opaque = matches!(alone.facts.as_slice(), [Fact::Opaque(_)]) && alone.step == 0;
    let Some((case, rest)) = sentence.split_once(' ').filter(|_| is_opaque) else {
        return (String::new(), 1, alone);
    };
    let other = rest.strip_prefix("(or ").and_then(|rest| rest.split_once(") "));
    let other = other.and_then(|(which, rest)| Some((which.parse().ok()?, rest)));
    let (which, rest) = other.unwrap_or((1, rest));
    (case.to_owned(), which, change(rest))
}

/// The facts of a list in a sentence.
fn facts(words: &str) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    for part in words.split(", ") {
        match (fact(part), facts.last_mut()) {
            // Text may contain commas: a part that is no fact belongs to the value before it.
            (Fact::Opaque(_), Some(Fact::Value(_, value))) => *value = Token::Text(format!("{value}, {part}")),
            (fact, _) => facts.push(fact),
        }
    }
    facts
}

fn fact(words: &str) -> Fact {
    let gpus = |list: &str| Some(list.split(',').map(str::to_owned).collect());
    match words {
        "did not return" => return Fact::DidNotReturn,
        "driver initialised" => return Fact::Initialised(Some(true)),
        "driver not initialised" => return Fact::Initialised(Some(false)),
        "driver not asked" => return Fact::Initialised(None),
        "sees unknown" => return Fact::Visible(None),
        "sees no GPU" => return Fact::Visible(Some(Vec::new())),
        "contexts unknown" => return Fact::Contexts(None),
        "no context" => return Fact::Contexts(Some(Vec::new())),
        "current unknown" => return Fact::Current(None),
        _ => {}
    }
    if let Some(list) = words.strip_prefix("sees ") {
        return Fact::Visible(gpus(list));
    }
    if let Some(list) = words.strip_prefix("context on ") {
        return Fact::Contexts(gpus(list));
    }
    if let Some(gpu) = words.strip_prefix("current ") {
        return Fact::Current(Some(gpu.to_owned()));
    }
    if let Some(Ok(code)) = words.strip_prefix("status ").map(str::parse) {
        return Fact::Status(Token::Int(code));
    }
    if let Some((name, value)) = words.split_once('=').filter(|(name, _)| is_name(name)) {
        return Fact::Value(name.to_owned(), Token::of(value));
    }
    if let Some(gpu) = words.strip_suffix(" not read") {
        return Fact::Memory(gpu.to_owned(), None);
    }
    if let Some((gpu, class)) = words.rsplit_once(' ')
        && let Some(class) = Class::ALL.into_iter().find(|known| known.name() == class)
    {
        return Fact::Memory(gpu.to_owned(), Some(class));
    }
    if is_name(words) { Fact::Status(Token::Text(words.to_owned())) } else { Fact::Opaque(words.to_owned()) }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// The fact that a row of a survey describes.
fn row(name: &str, words: &str) -> Option<RowFact> {
    let known = |absent: &str| (words != absent).then(|| words.to_owned());
    let yes = || match words {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    };
    let gpus = || match words {
        "unknown" => None,
        "none" => Some(Vec::new()),
        list => list.split(", ").map(|gpu| gpu.parse().ok()).collect(),
    };
    Some(match name {
        "reads the mask" => RowFact::ReadsMask(yes()),
        "calls cuInit" => RowFact::CallsCuinit(yes()),
        "at" => RowFact::CalledAt(known("nowhere")),
        "context on" => RowFact::ContextOn(gpus()),
        "returned" => RowFact::Returned(known("nothing")),
        "cuInit" => RowFact::CuInit(words.to_owned()),
        "GPUs" => RowFact::Gpus(gpus()),
        "as the rule says" => RowFact::AsPredicted(yes()),
        "has an effect" => RowFact::HasEffect(yes()),
        "is read at" => RowFact::LatchedAt(known("unknown")),
        "raises" => RowFact::Raises(known("nothing")),
        "process ends with" => RowFact::Left(known("exit code 0")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn every_sentence_that_was_written_is_read() {
        let told = |sentence: &str| change(sentence).facts;
        let all =
            "5 sync: did not return, driver not asked, sees unknown, contexts unknown, current unknown, gpu10 not read";
        let expected = [
            Fact::DidNotReturn,
            Fact::Initialised(None),
            Fact::Visible(None),
            Fact::Contexts(None),
            Fact::Current(None),
            Fact::Memory("gpu10".into(), None),
        ];
        assert_eq!((change(all).step, change(all).label.as_str(), told(all)), (5, "sync", expected.to_vec()));
        let all = "1 a: status 7, count=2, libraries=libcuda libnvrtc, version=580.1, sees gpu0,gpu1, no context, current none, gpu0 touch";
        let expected = [
            Fact::Status(Token::Int(7)),
            Fact::Value("count".into(), Token::Int(2)),
            Fact::Value("libraries".into(), Token::Text("libcuda libnvrtc".into())),
            Fact::Value("version".into(), Token::Text("580.1".into())),
            Fact::Visible(gpus(&["gpu0", "gpu1"])),
            Fact::Contexts(gpus(&[])),
            Fact::Current(Some("none".into())),
            Fact::Memory("gpu0".into(), Some(Class::Touch)),
        ];
        assert_eq!(told(all), expected);
        assert_eq!(told("2 b: CUDA_ERROR_NO_DEVICE, name=")[1], Fact::Value("name".into(), Token::Text(String::new())));
        assert_eq!(change("end: exit 3 after 12 steps"), Change::end(12, "exit 3"));
    }

    #[test]
    fn what_is_not_known_is_kept() {
        assert_eq!(change("3 x: as never before").facts, [Fact::Opaque("as never before".into())]);
        let text = change("1 line: message=no such file, or so: a=b c, sees gpu0");
        let message = Fact::Value("message".into(), Token::Text("no such file, or so: a=b c".into()));
        assert_eq!(text.facts[0], message);
        let line = change("whatever: this is");
        assert_eq!((line.step, line.label.as_str()), (0, "whatever"));
        assert_eq!(line.facts, [Fact::Opaque("this is".into())]);
    }

    #[test]
    fn a_merged_document_names_the_case_before_it() {
        let seen = change("2 b: no context");
        assert_eq!(of_case("trap 2 b: no context"), ("trap".into(), 1, seen.clone()));
        assert_eq!(of_case("trap (or 3) 2 b: no context"), ("trap".into(), 3, seen));
        assert_eq!(of_case("trap end: SIGSEGV after 2 steps"), ("trap".into(), 1, Change::end(2, "SIGSEGV")));
        let row = Change::row(RowFact::ContextOn(Some(vec![0, 1])));
        assert_eq!(of_case("context on: 0, 1"), (String::new(), 1, row));
        assert_eq!(of_case("calls cuInit: unknown").2, Change::row(RowFact::CallsCuinit(None)));
    }
}

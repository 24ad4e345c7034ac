//! Text as terms: words in their plain form, exact names, and placeholders for a GPU or an error. Texts with known
//! answers and queries are treated the same way, so that they match.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::error::term_of_name;
use super::message;
use super::term::{Term, split_pieces};
use cuda_pitfalls_core::scenario::framework::frameworks;

const SYNONYMS: &str = cuda_pitfalls_scenarios::SYNONYMS;

const STOP: &str = "a about again all also am an and any are as at be because been before being but by can could did \
do does doing done down during each even every for from get gets getting give given gives go got had has have having \
he help her here him his how however i if in instead into is isn it its just know let like line lot ly me mine more \
most much must my need needs new no nor not now of off ok on once one only or other our out over own please possible \
problem question report same see seem seems she should since so some something such than that the their them then \
there these they thing this those though through to too try trying under until up upon us use used useful user users \
uses using very via want was way we well were what when where whether which while who why will with within without \
won would wouldn yes yet you your bug issue fix feature request support add adding update review upstream py \
currently there's says said say tells told goes went come comes came fine sometimes apparently either neither nothing \
anything everything somebody someone anyone thanks thank hello hi hey wondering wonder guess think although ever \
never always still already back bit really quite actually maybe perhaps simply machine box system setup laptop time \
times case things sort kind today yesterday found look looks looking happen happens happening official exactly exact \
properly correctly correct okay expected work works working won't don't doesn't didn't isn't mib kib gib mb gb kb \
byte torch2";

static STOPPED: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| STOP.split_whitespace().map(stem_word).collect());

static LISTS: LazyLock<Synonyms> = LazyLock::new(|| toml::from_str(SYNONYMS).unwrap_or_default());

static MEANINGS: LazyLock<Meanings> = LazyLock::new(|| parse_meanings(&LISTS.synonyms));

/// Phrases by the stems of their words, each with its meaning, grouped by the first stem.
type Meanings = BTreeMap<String, Vec<(Vec<String>, String)>>;

/// First character of Cyrillic and the scripts after it, whose characters are neither Latin nor Greek.
const FIRST_OF_OTHER_SCRIPTS: u32 = 0x400;

/// Maximum number of entries of a mask. A longer list of numbers is a table.
const LONGEST_LIST: usize = 12;

/// Returns the terms of lines of code, without looking for errors in them.
pub(super) fn terms_of_code(text: &str) -> Vec<Term> {
    terms_with(text, Vec::new())
}

/// Returns the terms of a text, in order. Names come before the words that they consist of.
fn terms_with(text: &str, errors: Vec<Term>) -> Vec<Term> {
    let text = &in_english(text);
    let mut terms: Vec<Term> = Vec::new();
    let mut plain: Vec<String> = Vec::new();
    let pieces = split_pieces(text);
    for (place, piece) in pieces.iter().enumerate() {
        if piece.len() <= 5
            && let Ok(number) = piece.parse::<u32>()
        {
            let before = place
                .checked_sub(1)
                .and_then(|before| pieces.get(before))
                .map(|word| word.to_lowercase());
            if let Some(
                "gpu" | "gpus" | "cuda" | "device" | "card" | "id" | "setdevice" | "set_device",
            ) = before.as_deref()
                && number < 64
            {
                terms.push(Term::name(if number == 0 { "gpu0" } else { "gpu1" }));
            }
            plain.push(piece.clone());
            continue;
        }
        if let Some(number) = piece
            .to_lowercase()
            .strip_prefix("gpu")
            .and_then(|rest| rest.parse::<u32>().ok())
        {
            terms.push(Term::name(if number == 0 { "gpu0" } else { "gpu1" }));
            plain.push("gpu".to_owned());
            continue;
        }
        if piece == "-1" {
            // Users write this mask to hide all GPUs.
            terms.push(Term::name(piece));
            continue;
        }
        terms.extend(names(piece));
        plain.extend(parts(piece));
    }
    terms.extend(errors);
    terms.extend(number_lists(text));
    let stems: Vec<String> = plain
        .iter()
        .filter(|word| !word.is_empty())
        .map(|word| stem_word(&word.to_lowercase()))
        .collect();
    terms.extend(meaning_terms(&stems));
    terms
}

/// Returns the terms of typed or pasted text.
pub(super) fn terms_of_people(text: &str) -> Vec<Term> {
    terms_with(text, message::error_terms(text))
}

/// Returns the lists of numbers without spaces, as in a mask: `0,0`.
fn number_lists(text: &str) -> Vec<Term> {
    let parts = text.split(|letter: char| !(letter.is_ascii_digit() || letter == ','));
    let lists = parts.filter(|part| part.len() <= LONGEST_LIST && part.contains(','));
    lists
        .filter(|part| {
            part.split(',')
                .all(|number| (1..=2).contains(&number.len()))
        })
        .map(Term::name)
        .collect()
}

/// Translates the known technical words in other scripts to English. Such scripts have no spaces between words, or many
/// endings, so unknown words are left out.
fn in_english(text: &str) -> String {
    let is_foreign =
        |letter: char| letter.is_alphabetic() && letter as u32 >= FIRST_OF_OTHER_SCRIPTS;
    if !text.contains(is_foreign) {
        return text.to_owned();
    }
    let text = LISTS
        .scripts
        .iter()
        .fold(text.to_lowercase(), |text, (word, meaning)| {
            if text.contains(word) {
                text.replace(word, &format!(" {meaning} "))
            } else {
                text
            }
        });
    text.replace(is_foreign, " ")
}

/// Returns words in their plain form. Words and phrases with the same meaning become the same term. Words without
/// meaning are left out.
fn meaning_terms(stems: &[String]) -> Vec<Term> {
    let mut found = Vec::new();
    let mut place = 0;
    while let Some(stem) = stems.get(place) {
        let begun = MEANINGS.get(stem).map(Vec::as_slice).unwrap_or_default();
        let longest = begun
            .iter()
            .filter(|(words, _): &&(Vec<String>, String)| {
                stems
                    .get(place..)
                    .is_some_and(|rest| rest.starts_with(words))
            })
            .max_by_key(|(words, _)| words.len());
        place += longest.map_or(1, |(words, _)| words.len());
        if let Some((_, meaning)) = longest {
            found.push(Term::word(meaning));
        } else if !(STOPPED.contains(stem)
            || stem.len() < 2
            || stem.bytes().all(|byte| byte.is_ascii_digit()))
        {
            found.push(Term::word(stem));
        }
    }
    found
}

/// Returns the exact names that a piece is or contains: for `torch.cuda.is_available` the complete name, and
/// `is_available`.
fn names(piece: &str) -> Vec<Term> {
    let mut found = Vec::new();
    if piece.contains('.') {
        found.push(Term::name(piece));
    }
    for part in piece.split('.') {
        let has_capital = part
            .chars()
            .skip(1)
            .any(|letter| letter.is_ascii_uppercase());
        let has_small = part.chars().any(|letter| letter.is_ascii_lowercase());
        if !(part.contains('_') || has_capital && has_small) {
            continue;
        }
        found.extend(term_of_name(part));
        found.push(Term::name(part));
    }
    found
}

/// Returns the words that a piece consists of: `cudaSetDevice` is `cuda`, `Set` and `Device`.
fn parts(piece: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in piece
        .split(['.', '_', '\''])
        .filter(|part| !part.is_empty())
    {
        let letters: Vec<char> = part.chars().collect();
        let mut word = String::new();
        for (place, letter) in letters.iter().enumerate() {
            let before_is_small = place
                .checked_sub(1)
                .and_then(|next| letters.get(next))
                .is_some_and(|letter| letter.is_lowercase());
            if letter.is_uppercase() && before_is_small {
                found.push(std::mem::take(&mut word));
            }
            word.push(*letter);
        }
        found.push(word);
    }
    // `cp.zeros` is a name of CuPy, as everyone imports it.
    let imported = if found.len() > 1 { found.first() } else { None };
    if let Some(framework) = imported.and_then(|first| {
        frameworks()
            .iter()
            .find(|framework| framework.alias.as_ref() == Some(first))
    }) {
        found.insert(0, framework.name.clone());
    }
    found
}

/// Returns a word without its ending, in British spelling.
fn stem_word(word: &str) -> String {
    let mut stem = word.replace("iz", "is");
    for (ending, instead) in [
        ("isation", "ise"),
        ("ations", "ate"),
        ("ation", "ate"),
        ("ies", "y"),
        ("ing", ""),
        ("ied", "y"),
        ("ed", ""),
        ("es", "e"),
        ("ly", ""),
    ] {
        if let Some(rest) = stem.strip_suffix(ending).filter(|rest| rest.len() >= 3) {
            stem = format!("{rest}{instead}");
            break;
        }
    }
    if let Some(rest) = stem
        .strip_suffix('s')
        .filter(|rest| rest.len() >= 3 && !rest.ends_with(['s', 'u', 'i']))
    {
        stem = rest.to_owned();
    }
    if let Some(rest) = stem.strip_suffix('e').filter(|rest| rest.len() >= 3) {
        stem = rest.to_owned();
    }
    let letters: Vec<char> = stem.chars().collect();
    // `stopping` and `stop`.
    if let [.., one, last] = letters.as_slice()
        && one == last
        && letters.len() > 3
        && !matches!(last, 'l' | 's' | 'e' | 'o' | '0'..='9')
    {
        stem.pop();
    }
    stem
}

/// Lists of synonyms, and the meanings of words in other scripts.
#[derive(Default, Deserialize)]
struct Synonyms {
    synonyms: Vec<Vec<String>>,
    scripts: Vec<(String, String)>,
}

/// Reads the list of synonyms.
fn parse_meanings(lists: &[Vec<String>]) -> Meanings {
    let mut found = Meanings::new();
    for phrases in lists {
        let Some(meaning) = phrases
            .first()
            .map(|first| stem_word(&first.to_lowercase()))
        else {
            continue;
        };
        for phrase in phrases {
            let parts = split_pieces(phrase)
                .into_iter()
                .flat_map(|piece| parts(&piece));
            let words: Vec<String> = parts.map(|word| stem_word(&word.to_lowercase())).collect();
            let Some(first) = words.first() else { continue };
            let begun = found.entry(first.clone()).or_default();
            // If a word has two meanings, the first in the file counts.
            if !begun.iter().any(|(known, _)| *known == words) {
                begun.push((words, meaning.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        terms_of_people(text)
            .into_iter()
            .map(|term| {
                if term.is_name {
                    format!("={}", term.text)
                } else {
                    term.text
                }
            })
            .collect()
    }

    #[test]
    fn names_are_kept_whole_beside_their_words() {
        let found = said("torch.cuda.is_available()");
        assert!(
            found.contains(&"=torch.cuda.is_available".to_owned()),
            "{found:?}"
        );
        assert!(
            found.contains(&"=is_available".to_owned()) && found.contains(&"torch".to_owned()),
            "{found:?}"
        );
        assert!(said("cudaSetDevice").contains(&"=cudasetdevice".to_owned()));
    }

    #[test]
    fn forms_and_spellings_of_a_word_are_one() {
        for words in [
            ["initialises", "initialized"],
            ["freed", "frees"],
            ["fork", "forked"],
            ["stopping", "stop"],
        ] {
            let [one, other] = words.map(stem_word);
            assert_eq!(one, other, "{words:?}");
        }
        assert_eq!(said("subprocess"), said("child"));
        assert_eq!(said("VRAM"), said("memory"));
        assert_eq!(said("the graphics card"), said("GPU"));
        assert_eq!(said("it ran out of memory"), said("OOM"));
    }

    #[test]
    fn words_of_the_field_in_other_scripts_are_in_english_and_the_rest_is_left_out() {
        assert_eq!(said("显存"), said("GPU memory"));
        assert_eq!(said("僵尸进程"), said("zombie process"));
        assert_eq!(said("видеокарта"), said("GPU"));
        assert_eq!(said("这正常吗"), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_write_gpu_0_is_one() {
        for text in ["GPU 0", "gpu0", "cuda:0", "GPU-0", "device 0"] {
            assert!(
                said(text).contains(&"=gpu0".to_owned()),
                "{text}: {:?}",
                said(text)
            );
        }
        assert!(!said("GPU 10").contains(&"=gpu0".to_owned()));
    }

    #[test]
    fn an_error_is_one_by_its_number_its_names_and_its_message() {
        let texts = [
            "error 700",
            "CUDA error(700)",
            "cudaErrorIllegalAddress",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "error 77",
        ];
        for text in texts {
            assert!(
                said(text).contains(&"=error 700".to_owned()),
                "{text}: {:?}",
                said(text)
            );
        }
        assert!(!said("700 MiB on 3 GPUs").contains(&"=error 3".to_owned()));
    }

    #[test]
    fn the_value_of_a_mask_is_a_name() {
        assert!(said("CUDA_VISIBLE_DEVICES=0,0").contains(&"=0,0".to_owned()));
        assert!(number_lists("1,000,000 times, or 3, or 4,").is_empty());
    }

    #[test]
    fn the_list_of_synonyms_can_be_read_and_says_each_phrase_once() {
        let phrases: usize = MEANINGS.values().map(Vec::len).sum();
        assert!(phrases > 80, "{phrases}");
        assert_eq!(said("What is it that I do?"), Vec::<String>::new());
    }
}

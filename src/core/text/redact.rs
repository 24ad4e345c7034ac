//! Text without anything that identifies a machine: paths, UUIDs and PCI addresses of GPUs, names of host and user.
//! Equal texts get equal replacements, so that different things stay different.

use std::collections::BTreeMap;

/// The replacement for names.
pub const GONE: &str = "(redacted)";

/// The replacement for the folders of a path.
const FOLDERS: &str = "…/";
/// Folders that are the same on every machine.
const COMMON: [&str; 3] = ["/proc/", "/dev/", "/sys/"];
/// The lengths of the groups of a UUID.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Returns the last part of a path.
pub fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Returns the path below the directory of packages, or the last part if it is not in such a directory.
pub fn keep_package(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts
        .iter()
        .position(|part| matches!(*part, "site-packages" | "dist-packages"))
    {
        Some(at) => format!("{FOLDERS}{}", parts.get(at..).unwrap_or_default().join("/")),
        None => file_name(path),
    }
}

/// The replacements so far.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    names: Vec<(String, &'static str)>,
    gpus: BTreeMap<String, usize>,
    addresses: BTreeMap<String, usize>,
    /// The program's arguments, which it may repeat.
    hidden: Vec<String>,
}

impl Redactor {
    /// Returns a redactor that also replaces these names of the host and the user.
    pub fn new(host: &str, user: &str) -> Redactor {
        let mut names = Vec::new();
        for (name, word) in [(host, "host"), (user, "user")] {
            // A shorter name would also replace parts of other words, and `root` does not identify a person.
            if name.len() > 2 && name != "root" {
                names.push((name.to_owned(), word));
            }
        }
        Redactor {
            names,
            ..Redactor::default()
        }
    }

    /// Returns the text without anything that identifies a machine.
    pub fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(c) = rest.chars().next() {
            let starts_word = before.is_none_or(|b: char| !b.is_ascii_alphanumeric() && b != '_');
            let found = if starts_word {
                self.found(rest, before)
            } else {
                None
            };
            let (length, replaced) = found.unwrap_or_else(|| (c.len_utf8(), c.to_string()));
            let (taken, behind) = rest.split_at(length);
            before = taken.chars().last();
            out.push_str(&replaced);
            rest = behind;
        }
        out
    }

    /// Records the arguments of a program; for `--name=value`, only the value.
    pub fn hide_arguments(&mut self, arguments: &[String]) {
        for argument in arguments {
            let value = match argument.split_once('=') {
                Some((name, value)) if name.starts_with('-') => value,
                _ => argument,
            };
            // A shorter one would also replace parts of other words.
            if value.len() > 2 {
                self.hidden.push(value.to_owned());
            }
        }
        self.hidden
            .sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// Returns a text of the program without its arguments.
    pub fn without_hidden(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for argument in &self.hidden {
            shown = shown.replace(argument.as_str(), GONE);
        }
        shown
    }

    /// Redacts all keys and values of a document.
    pub fn json(&mut self, value: &mut serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(all) => all.iter_mut().for_each(|part| self.json(part)),
            Value::Object(map) => {
                for (key, mut value) in std::mem::take(map) {
                    self.json(&mut value);
                    map.insert(self.text(&key), value);
                }
            }
            _ => {}
        }
    }

    /// Returns the replacement at the start of a text: the length of the original in bytes, and the new text.
    fn found(&mut self, text: &str, before: Option<char>) -> Option<(usize, String)> {
        if let Some(found) = self.uuid(text).or_else(|| self.address(text)) {
            return Some(found);
        }
        if text.starts_with('/')
            && before != Some('/')
            && before != Some('<')
            && before != Some('…')
        {
            return path(text);
        }
        for (name, word) in &self.names {
            if let Some(behind) = text.strip_prefix(name.as_str()) {
                let goes_on = behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                return (!goes_on).then(|| (name.len(), word.to_string()));
            }
        }
        None
    }

    /// Finds a UUID with the prefix `GPU-` or `MIG-`, complete or shortened to at least its first group.
    fn uuid(&mut self, text: &str) -> Option<(usize, String)> {
        let prefix = ["GPU-", "MIG-", "gpu-", ""]
            .into_iter()
            .find(|prefix| text.starts_with(prefix))?;
        let digits: String = text
            .get(prefix.len()..)?
            .chars()
            .take_while(|c| c.is_ascii_hexdigit() || *c == '-')
            .collect();
        let groups: Vec<&str> = digits.split('-').collect();
        let is_whole = groups.len() >= GROUPS.len()
            && groups
                .iter()
                .zip(GROUPS)
                .all(|(group, length)| group.len() == length);
        let is_short = !prefix.is_empty() && groups.first().is_some_and(|group| group.len() == 8);
        if !is_whole && !is_short {
            return None;
        }
        let key = groups
            .first()
            .copied()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let next = self.gpus.len() + 1;
        let number = *self.gpus.entry(key).or_insert(next);
        let whole = format!("{number:08x}-0000-0000-0000-000000000000");
        let taken = digits.len().min(whole.len());
        Some((
            prefix.len() + taken,
            format!("{prefix}{}", whole.get(..taken).unwrap_or(&whole)),
        ))
    }

    /// Finds a PCI address, with a domain of four or eight digits.
    fn address(&mut self, text: &str) -> Option<(usize, String)> {
        let address: String = text
            .chars()
            .take_while(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'))
            .collect();
        let (domain, rest) = address.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let function = function.trim_end_matches('.');
        let lengths = (bus.len(), device.len(), function.len());
        if !matches!(domain.len(), 4 | 8) || lengths != (2, 2, 1) {
            return None;
        }
        let key = format!("{}:{bus}:{device}", domain.trim_start_matches('0')).to_ascii_lowercase();
        let next = self.addresses.len() + 1;
        let number = *self.addresses.entry(key).or_insert(next);
        let length = domain.len() + 1 + bus.len() + 1 + device.len() + 1 + function.len();
        Some((
            length,
            format!("{}:{number:02x}:00.0", "0".repeat(domain.len())),
        ))
    }
}

/// Finds an absolute path of at least two parts.
fn path(text: &str) -> Option<(usize, String)> {
    let end = text.find(|c: char| c.is_whitespace() || "\"':,;)(`|><".contains(c));
    let length = end.unwrap_or(text.len());
    let path = text.get(..length)?;
    let parts = path.split('/').filter(|part| !part.is_empty()).count();
    if parts < 2 || COMMON.iter().any(|common| path.starts_with(common)) {
        return None;
    }
    let kept = keep_package(path.trim_end_matches('/'));
    Some((
        length,
        if kept.starts_with(FOLDERS) {
            kept
        } else {
            format!("{FOLDERS}{kept}")
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_path_that_names_a_package_stays() {
        assert_eq!(
            keep_package("/home/me/v/site-packages/torch/a.py"),
            "…/site-packages/torch/a.py"
        );
        assert_eq!(keep_package("/home/me/train.py"), "train.py");
    }

    #[test]
    fn the_same_gpu_is_the_same_in_every_spelling() {
        let mut redactor = Redactor::default();
        let whole = redactor.text(
            "GPU-4e5d494c-0001-0203-0405-060708090a0b,GPU-99999999-0001-0203-0405-060708090a0b",
        );
        assert_eq!(
            whole,
            "GPU-00000001-0000-0000-0000-000000000000,GPU-00000002-0000-0000-0000-000000000000"
        );
        assert_eq!(redactor.text("mask GPU-99999999"), "mask GPU-00000002");
        assert_eq!(
            redactor.text("4e5d494c-0001-0203-0405-060708090a0b"),
            "00000001-0000-0000-0000-000000000000"
        );
        assert_eq!(
            redactor.text("00000000:1B:00.0 0000:1b:00.0 0000:1c:00.0"),
            "00000000:01:00.0 0000:01:00.0 0000:02:00.0"
        );
    }

    #[test]
    fn paths_and_names_go_and_what_matters_stays() {
        let mut redactor = Redactor::new("node17", "alice");
        assert_eq!(
            redactor.text("/home/alice/venv/lib/libcudart.so.13 on node17"),
            "…/libcudart.so.13 on host"
        );
        assert_eq!(
            redactor.text("alice's /dev/nvidia0 (1/2) a/b malice"),
            "user's /dev/nvidia0 (1/2) a/b malice"
        );
        assert_eq!(
            redactor.text("driver 580.159.04, 12:30:45"),
            "driver 580.159.04, 12:30:45"
        );
        assert_eq!(Redactor::new("ab", "root").text("ab root"), "ab root");
    }

    #[test]
    fn keys_of_documents_are_read_too() {
        let mut document = serde_json::json!({ "GPU-4e5d494c": ["/a/b/c", 1, null] });
        Redactor::default().json(&mut document);
        assert_eq!(
            document,
            serde_json::json!({ "GPU-00000001": ["…/c", 1, null] })
        );
    }
}

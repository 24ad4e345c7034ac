//! Command lines: settings and programs in a shell.
//!
//! A mask in the launcher is set before the program starts, so it is never too late. Its effect depends on its value,
//! and on everything else that renumbers GPUs: a container, a scheduler, a launcher of ranks.

use std::sync::LazyLock;

use serde::Deserialize;

/// A text of at most this many lines is about the command in it.
const MOST_LINES: usize = 2;

/// Shell words from `scenarios/commands.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandFile {
    programs: Vec<String>,
    shell: Vec<String>,
    launched: Vec<String>,
    beside: Vec<MaskWords>,
}

/// Words that may appear next to a mask of plain numbers, and the scenario that answers in that case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MaskWords {
    words: Vec<String>,
    scenario: String,
}

/// The commands file. It is empty if it cannot be parsed; a test rules that out.
static FILE: LazyLock<CommandFile> =
    LazyLock::new(|| toml::from_str(cuda_pitfalls_scenarios::COMMANDS).unwrap_or_default());

/// Returns the scenario that the value of a mask determines; `None` for plain numbers.
pub fn scenario_of_mask(value: &str) -> Option<&'static str> {
    let entries: Vec<&str> = value.split(',').map(str::trim).collect();
    let is_repeated = entries
        .iter()
        .any(|entry| entries.iter().filter(|other| *other == entry).count() > 1);
    let first = entries.first().copied().unwrap_or_default();
    Some(match first {
        "" => "visibility/empty-mask-hides-all",
        "all" | "none" | "void" | "NoDevFiles" => "visibility/container-words-hide-all",
        _ if first.starts_with('-') => "visibility/first-invalid-hides-all",
        _ if first.starts_with("MIG-") => "visibility/mig-token-without-mig",
        _ if first.starts_with("GPU-") && value.contains(", ") => {
            "visibility/blank-after-uuid-comma"
        }
        _ if first.starts_with("GPU-") && is_repeated => "visibility/uuid-twice",
        _ if is_repeated => "visibility/duplicate-index-hides-all",
        _ if entries.iter().skip(1).any(|entry| entry.starts_with('-')) => {
            "visibility/invalid-index-truncates"
        }
        _ => return None,
    })
}

/// Returns the scenarios that answer a command line, best first; empty if the text is not a command line.
pub(super) fn scenarios_for_command(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text
        .lines()
        .map(without_prompt)
        .filter(|line| !line.is_empty())
        .collect();
    // In a longer text, a command is next to the text about it.
    if lines.len() > MOST_LINES
        && !lines
            .iter()
            .all(|line: &&str| is_command(&line.split_whitespace().collect::<Vec<_>>()))
    {
        return Vec::new();
    }
    let found = lines.into_iter().flat_map(scenarios_of_line);
    let mut seen = std::collections::BTreeSet::new();
    found
        .filter(|name| seen.insert(*name))
        .map(str::to_owned)
        .collect()
}

/// Returns the scenario about a mask value that appears anywhere in a text: in a command, in Python or in a log.
pub(super) fn mask_in_text(text: &str) -> Option<&'static str> {
    text.split("CUDA_VISIBLE_DEVICES")
        .skip(1)
        .find_map(scenario_of_mention)
}

/// Returns the scenario about the text after the name of the mask.
fn scenario_of_mention(rest: &str) -> Option<&'static str> {
    let rest = rest.trim_start_matches(['"', '\'', ']', ')', '`', ' ', ',']);
    let says_empty = [
        "is empty",
        "empty",
        "is set to empty",
        "is set to an empty",
        "set to nothing",
    ];
    if says_empty.iter().any(|start| rest.starts_with(start)) {
        return Some("visibility/empty-mask-hides-all");
    }
    let value = rest.strip_prefix([':', '='])?.trim_start();
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value.get(1..)?.split(quote).next()?,
        _ => value
            .split([' ', ';', '&', '`', '\n', ')'])
            .next()
            .filter(|value| !value.is_empty())?,
    };
    let first = value.split(',').next().unwrap_or_default();
    let is_handed_on = first != "0" && first.parse::<u32>().is_ok() && names_device(rest, first);
    if is_handed_on {
        Some("visibility/own-number-handed-on")
    } else {
        scenario_of_mask(value)
    }
}

/// Returns `true` if a text contains the device with this number: `cuda:12` is not `cuda:1`.
fn names_device(text: &str, number: &str) -> bool {
    let after = text.split("cuda:").skip(1);
    let mut rests = after.filter_map(|mention| mention.strip_prefix(number));
    rests.any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

fn without_prompt(line: &str) -> &str {
    line.trim()
        .trim_start_matches(['$', '>', '#', '`'])
        .trim_start()
}

/// Returns `true` if the answer to a command line depends only on the line. A MIG token does not qualify, because it is
/// correct if MIG is enabled.
pub(super) fn is_settled(text: &str) -> bool {
    let mut values = text
        .lines()
        .filter_map(|line| assigned_value(line, "CUDA_VISIBLE_DEVICES"));
    values.any(|value| !value.starts_with("MIG-") && scenario_of_mask(&value).is_some())
}

/// Returns the scenarios that answer a line, best first.
fn scenarios_of_line(line: &str) -> Vec<&'static str> {
    let whole = quotes_joined(line);
    let words: Vec<&str> = whole.split_whitespace().collect();
    let (is_command, is_container) = (is_command(&words), is_container(&words));
    let mut found = Vec::new();
    if is_command {
        found = scenarios_of_variables(line, is_container);
    }
    let gives_all = contains_any(line, &["--gpus all", "--gpus=all"]);
    if is_container && line.contains("--gpus") && !gives_all {
        found.extend([
            "refused/mask-counts-what-is-left",
            "refused/nvml-numbers-what-is-left",
        ]);
    }
    match words.first().copied() {
        Some("cuda-checkpoint") => found.extend([
            "process/checkpoint-frees-the-gpu",
            "process/checkpoint-with-a-stray-context",
        ]),
        Some("srun" | "sbatch" | "salloc")
            if contains_any(line, &["--gres", "--gpus", "--gpu-bind"]) =>
        {
            found.extend([
                "refused/mask-counts-what-is-left",
                "visibility/own-number-handed-on",
            ]);
        }
        _ => {}
    }
    let rank_options = ["--nproc_per_node", "--nproc-per-node", "--num_processes"];
    if is_command && found.is_empty() && contains_any(line, &rank_options) {
        found.extend([
            "framework/torch-ranks-share-gpu0",
            "framework/torch-nccl-barrier-takes-gpu0",
        ]);
    }
    found
}

/// Returns the scenarios about the variables that a command sets.
fn scenarios_of_variables(line: &str, is_container: bool) -> Vec<&'static str> {
    let mut found = Vec::new();
    if let Some(value) = assigned_value(line, "CUDA_VISIBLE_DEVICES") {
        match scenario_of_mask(&value) {
            Some(name) => found.push(name),
            None => found.extend(scenarios_of_plain_mask(line)),
        }
    }
    if !is_container && assigned_value(line, "NVIDIA_VISIBLE_DEVICES").is_some() {
        found.push("visibility/nvidia-visible-devices");
    }
    if found.is_empty()
        && let Some(value) = assigned_value(line, "CUDA_DEVICE_ORDER")
    {
        found.push(match value.as_str() {
            "PCI_BUS_ID" | "FASTEST_FIRST" => "visibility/default-order",
            _ => "visibility/order-misspelt",
        });
    }
    found
}

/// Returns the scenarios about a mask of plain numbers: the scenario for the words next to it, and those for any
/// launcher.
fn scenarios_of_plain_mask(line: &str) -> impl Iterator<Item = &'static str> {
    let lower = line.to_lowercase();
    let mut entries = FILE.beside.iter();
    let beside = entries.find(|beside| beside.words.iter().any(|word| lower.contains(word)));
    let beside = beside.map(|beside| &beside.scenario);
    beside.into_iter().chain(&FILE.launched).map(String::as_str)
}

fn contains_any(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}

/// Returns `true` if a line begins like a command: a program, `export`, `env`, or assignments before a program.
fn is_command(words: &[&str]) -> bool {
    let program = words
        .iter()
        .find(|word| !is_assignment(word))
        .copied()
        .unwrap_or_default();
    let is_path = program.starts_with("./") || program.starts_with('/');
    let is_assignment_alone = program.is_empty() && !words.is_empty();
    is_path
        || is_assignment_alone
        || FILE
            .programs
            .iter()
            .chain(&FILE.shell)
            .any(|known| known == program)
}

/// Returns the line with `_` in place of whitespace inside quotes.
fn quotes_joined(line: &str) -> String {
    let mut quote = None;
    let letters = line.chars().map(|letter| {
        if quote == Some(letter) {
            quote = None;
        } else if quote.is_none() && (letter == '"' || letter == '\'') {
            quote = Some(letter);
        }
        if quote.is_some() && letter.is_whitespace() {
            '_'
        } else {
            letter
        }
    });
    letters.collect()
}

fn is_container(words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| matches!(*word, "docker" | "podman" | "nerdctl"))
        && words.contains(&"run")
}

/// Returns `true` if a word is a shell assignment `NAME=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|letter| {
                letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_'
            })
    })
}

/// Returns the value that a shell line assigns to a variable, without its quotes.
fn assigned_value(line: &str, variable: &str) -> Option<String> {
    let (_, rest) = line
        .split_once(&format!("{variable}="))
        .filter(|(before, _)| {
            before
                .chars()
                .next_back()
                .is_none_or(|letter| letter.is_whitespace() || "$`'\"".contains(letter))
        })?;
    let quoted = rest
        .strip_prefix(['"', '\''])
        .and_then(|inner| inner.split(['"', '\'']).next());
    let value = quoted.or_else(|| rest.split([' ', ';', '&', '`', '\t']).next());
    Some(value.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_12_is_not_device_1() {
        let of = |device| {
            mask_in_text(&format!(
                "CUDA_VISIBLE_DEVICES=1 train.py --device cuda:{device}"
            ))
        };
        assert_eq!(of("1"), Some("visibility/own-number-handed-on"));
        assert_eq!(of("12"), None);
    }

    #[test]
    fn every_scenario_of_the_file_is_one() {
        let file: CommandFile = toml::from_str(cuda_pitfalls_scenarios::COMMANDS).unwrap();
        assert!(!file.programs.is_empty() && !file.shell.is_empty());
        for name in file
            .launched
            .iter()
            .chain(file.beside.iter().map(|beside| &beside.scenario))
        {
            assert!(
                cuda_pitfalls_core::catalogue::built_in(name).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_mask_in_the_launcher_is_settled_by_its_value_and_never_late() {
        for (text, first) in [
            (
                "CUDA_VISIBLE_DEVICES=5 python train.py",
                "visibility/nvml-index-is-not-cuda-ordinal",
            ),
            (
                "$ CUDA_VISIBLE_DEVICES=1,2 torchrun --nproc_per_node 2 train.py",
                "visibility/nvml-index-is-not-cuda-ordinal",
            ),
            (
                "export CUDA_VISIBLE_DEVICES=3",
                "visibility/nvml-index-is-not-cuda-ordinal",
            ),
            (
                "env CUDA_VISIBLE_DEVICES=\"0,0\" ./a.out",
                "visibility/duplicate-index-hides-all",
            ),
            (
                "CUDA_VISIBLE_DEVICES= python x.py",
                "visibility/empty-mask-hides-all",
            ),
            (
                "CUDA_VISIBLE_DEVICES=all python x.py",
                "visibility/container-words-hide-all",
            ),
            (
                "CUDA_VISIBLE_DEVICES=-1 python x.py",
                "visibility/first-invalid-hides-all",
            ),
            (
                "CUDA_VISIBLE_DEVICES=0,-1,1 python x.py",
                "visibility/invalid-index-truncates",
            ),
            (
                "CUDA_VISIBLE_DEVICES='GPU-1234, GPU-5678' python x.py",
                "visibility/blank-after-uuid-comma",
            ),
            (
                "CUDA_DEVICE_ORDER=PCI_BUS python x.py",
                "visibility/order-misspelt",
            ),
            (
                "NVIDIA_VISIBLE_DEVICES=1 python x.py",
                "visibility/nvidia-visible-devices",
            ),
            (
                "docker run --gpus '\"device=1\"' image python x.py",
                "refused/mask-counts-what-is-left",
            ),
            (
                "srun --gres=gpu:1 python x.py",
                "refused/mask-counts-what-is-left",
            ),
            (
                "torchrun --nproc_per_node=8 train.py",
                "framework/torch-ranks-share-gpu0",
            ),
        ] {
            let found = scenarios_for_command(text);
            assert_eq!(
                found.first().map(String::as_str),
                Some(first),
                "{text}: {found:?}"
            );
            assert!(
                !found
                    .iter()
                    .any(|name| name.contains("mask-after") || name.contains("then-mask")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_mask_is_settled_by_a_value_that_means_the_same_on_every_machine() {
        assert!(is_settled("CUDA_VISIBLE_DEVICES=0,0 python x.py"));
        assert!(
            !is_settled("CUDA_VISIBLE_DEVICES=MIG-1234 python x.py")
                && !is_settled("CUDA_VISIBLE_DEVICES=5 sh")
        );
    }

    #[test]
    fn a_mask_is_found_by_its_value_anywhere() {
        for (text, name) in [
            (
                "os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"-1\"",
                Some("visibility/first-invalid-hides-all"),
            ),
            (
                "the task has CUDA_VISIBLE_DEVICES='' and sees no GPU",
                Some("visibility/empty-mask-hides-all"),
            ),
            (
                "CUDA_VISIBLE_DEVICES is empty: True",
                Some("visibility/empty-mask-hides-all"),
            ),
            (
                "CUDA_VISIBLE_DEVICES: 0,0",
                Some("visibility/duplicate-index-hides-all"),
            ),
            (
                "with CUDA_VISIBLE_DEVICES=1 the model goes to cuda:1",
                Some("visibility/own-number-handed-on"),
            ),
            ("with CUDA_VISIBLE_DEVICES=1 the model goes to cuda:0", None),
            ("CUDA_VISIBLE_DEVICES is ignored", None),
        ] {
            assert_eq!(mask_in_text(text), name, "{text}");
        }
    }

    #[test]
    fn sentences_and_python_are_no_command_lines() {
        for text in [
            "os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"1\" has no effect",
            "CUDA_VISIBLE_DEVICES is ignored",
            "setting CUDA_VISIBLE_DEVICES=1 after import torch does nothing",
            "I run with --gpus all",
            "python train.py",
            "docker run --gpus all image",
            "Why is CUDA_VISIBLE_DEVICES=1 in the terminal invalid?",
        ] {
            assert!(
                scenarios_for_command(text).is_empty(),
                "{text}: {:?}",
                scenarios_for_command(text)
            );
        }
    }
}

//! Look-ups of texts of each type in the built-in knowledge.

use super::*;

fn found(words: &str) -> Explanation<'static> {
    Explainer::embedded().explain(Query::parse(words))
}

fn scenarios(words: &str) -> Vec<String> {
    found(words)
        .answers
        .iter()
        .map(|answer| answer.known.name.clone())
        .collect()
}

fn first(words: &str) -> String {
    scenarios(words).first().cloned().unwrap_or_default()
}

#[test]
fn the_examples_of_the_documentation_find_their_answers() {
    for (words, name) in [
        (
            "Cannot re-initialize CUDA in forked subprocess",
            "framework/torch-fork-after-available",
        ),
        (
            "torch.cuda.is_available mask",
            "framework/torch-is-available-then-mask",
        ),
        ("CUDA_LAUNCH_BLOCKING", "process/env-launch-blocking"),
        ("cudaSetDevice", "context/set-device-is-eager"),
        ("cudaErrorInitializationError", "process/fork-after-cuinit"),
    ] {
        assert_eq!(first(words), name, "{words}: {:?}", found(words).names());
    }
}

/// Tests every name in the store, and every usual spelling of it.
#[test]
fn every_name_in_its_usual_spellings_answers_with_its_own_entry_first() {
    let known = Known::embedded();
    let mut wrong = Vec::new();
    for (entry, name, spelt) in known.entries.iter().flat_map(spellings_of) {
        let first = names::find_named(&spelt, known).first().copied();
        // The spelling may be the name of another entry, and if several entries have one name, the first takes
        // precedence.
        let own = [&spelt, name]
            .into_iter()
            .find_map(|name| known.named(name, <str as PartialEq>::eq).next());
        if first != own {
            wrong.push(format!(
                "{spelt}: {:?}, not {}",
                first.map(|it| &it.id),
                entry.id
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} names:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    for name in [
        "import vllm",
        "python -c 'import vllm'",
        "from vllm import LLM",
        "60000",
        "visibility/mask-after-nvml",
        "run",
        "exit code 4",
    ] {
        let explained = found(name);
        assert!(explained.certainty.is_claimed(), "{name}");
        assert_eq!(
            explained.names().first(),
            explained.said.first().map(|entry| &entry.id),
            "{name}"
        );
    }
}

/// Tests that the program's own texts lead back to their subject: every measured line by its name and its code, every
/// question, every title of a symptom, every name of an error and every message.
#[test]
fn verbatim_text_finds_its_own_entry_first() {
    let known = Known::embedded();
    let lines = crate::survey::python::built_in().unwrap().lines;
    let (mut asked, mut wrong) = (0, Vec::new());
    let mut check = |text: &str, id: &str| {
        let names = found(text).names();
        asked += 1;
        if names.first().is_none_or(|first| first != id) {
            wrong.push(format!("{text:?}: {:?}, not {id}", names.first()));
        }
    };
    for entry in &known.entries {
        for name in &entry.names {
            // If several entries have one name, the first takes precedence.
            let own = known.named(name, <str as PartialEq>::eq).next().unwrap();
            check(name, &own.id);
        }
        let Some(line) = lines
            .iter()
            .find(|line| entry.id == format!("line/{}", line.id))
        else {
            continue;
        };
        let set: String = line
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value} "))
            .collect();
        let is_shared = lines
            .iter()
            .any(|other| other.ask == line.ask && other.env.len() < line.env.len());
        check(&(set + &line.ask), &entry.id);
        if !is_shared {
            check(&line.ask, &entry.id);
            check(
                &[line.before.clone(), vec![line.ask.clone()]]
                    .concat()
                    .join("\n"),
                &entry.id,
            );
        }
    }
    assert!(asked > 4000, "{asked}");
    assert!(
        wrong.is_empty(),
        "{} of {asked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn another_call_of_a_function_is_not_claimed() {
    for (words, measured) in [
        ("torch.ones(4)", "line/torch.ones(pin_memory=True)"),
        ("torch.cuda.set_device(3)", "line/torch.cuda.set_device"),
        (
            "torch.cuda.get_device_name(0).lower()",
            "line/torch.cuda.get_device_name",
        ),
        ("cupy.zeros(1 << 30)", "line/cupy.zeros"),
        ("jax.devices('gpu')", "line/jax.devices"),
        ("cudaMalloc(&p, 4)", "call/cudaMalloc"),
        (
            "x = torch.zeros(7, device='cuda')",
            "line/torch.zeros, device=cuda",
        ),
    ] {
        let explained = found(words);
        assert_eq!(
            explained.certainty,
            Certainty::Closest,
            "{words}: {:?}",
            explained.names()
        );
        assert!(
            explained.near.iter().any(|entry| entry.id == measured),
            "{words}: {:?}",
            explained.names()
        );
    }
    for words in [
        "list(DataLoader(data))",
        "torch.device(1)",
        "nn.Linear(4, 4).cuda(1)",
        "cupy.cuda.Device(2).use()",
    ] {
        assert!(
            !found(words).certainty.is_claimed(),
            "{words}: {:?}",
            found(words).names()
        );
    }
}

#[test]
fn an_import_is_answered_as_measured_or_as_unmeasured() {
    for words in [
        "import torch",
        "import torch as t",
        "python -c 'import torch'",
        "from numba import cuda",
    ] {
        assert_eq!(found(words).certainty, Certainty::Named, "{words}");
    }
    for (words, statement) in [
        ("import somepackage", "import somepackage"),
        (
            "python3 -c \"import somepackage.part as part\"",
            "import somepackage.part as part",
        ),
        (
            "from somepackage import one, other",
            "from somepackage import one, other",
        ),
    ] {
        let explained = found(words);
        assert_eq!(
            explained.unmeasured_import.as_deref(),
            Some(statement),
            "{words}"
        );
        assert!(
            explained.certainty == Certainty::Nothing && explained.names().is_empty(),
            "{words}"
        );
    }
    let part = found("from torch import something_of_tomorrow");
    assert_eq!(
        (part.certainty, part.names()),
        (Certainty::Closest, vec!["line/import torch".to_owned()])
    );
}

/// Returns every name of an entry, unchanged and in its usual spellings.
fn spellings_of(entry: &KnownEntry) -> impl Iterator<Item = (&KnownEntry, &String, String)> {
    let spelt = |name: &String| {
        [name.clone()]
            .into_iter()
            .chain(usual_spellings(entry.kind, name))
    };
    entry
        .names
        .iter()
        .flat_map(move |name| spelt(name).map(move |spelt| (entry, name, spelt)))
}

/// Returns the usual spellings of a name: a call with parentheses or in other capitals, an import in another form, a
/// PyTorch name without its package.
fn usual_spellings(kind: KnownKind, name: &str) -> Vec<String> {
    let is_path = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
    };
    match (kind, name.strip_prefix("import ")) {
        (KnownKind::Call | KnownKind::Error | KnownKind::Status | KnownKind::Variable, _)
            if is_path(name) =>
        {
            vec![
                name.to_uppercase(),
                name.to_lowercase(),
                format!("{name}()"),
                format!("`{name}`"),
            ]
        }
        (KnownKind::Line, Some(module)) if is_path(module) => {
            let parts = module
                .rsplit_once('.')
                .map(|(package, last)| format!("from {package} import {last}"));
            [format!("import {module} as m")]
                .into_iter()
                .chain(parts)
                .collect()
        }
        (KnownKind::Line, None) if is_path(name) && name.contains('.') => {
            let (module, last) = name.rsplit_once('.').unwrap_or_default();
            let short = name.strip_prefix("torch.").map(str::to_owned);
            [format!("from {module} import {last}")]
                .into_iter()
                .chain(short)
                .collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn of_a_call_that_no_question_is_about_the_survey_says_all() {
    let explained = found("cudaGetErrorString");
    assert_eq!(explained.certainty, Certainty::Named);
    assert!(
        explained.answers.is_empty() && explained.said.len() == 1,
        "{:?}",
        explained.names()
    );
}

#[test]
fn what_is_only_near_is_never_claimed() {
    for words in ["torch.cuda.is_available mask", "memory on the wrong GPU"] {
        let explained = found(words);
        assert_eq!(
            explained.certainty,
            Certainty::Closest,
            "{words}: {:?}",
            explained.names()
        );
        assert!(explained.said.is_empty() && !explained.answers.is_empty());
    }
}

#[test]
fn explain_claims_messages_but_not_prose() {
    let message = found("CUDA driver version is insufficient for CUDA runtime version");
    assert_eq!(
        (message.certainty, message.names()[0].as_str()),
        (Certainty::Advised, "error/35")
    );
    assert_eq!(
        found("CUDA_VISIBLE_DEVICES=1 is set, and the work runs on GPU 0").certainty,
        Certainty::Closest
    );
}

#[test]
fn a_misspelt_variable_is_the_one_that_was_meant() {
    for (words, meant) in [
        ("CUDA_LAUNCH_BLOCKNG=1", "CUDA_LAUNCH_BLOCKING"),
        ("CUDA_VISIBLE_DEVICE=2", "CUDA_VISIBLE_DEVICES"),
    ] {
        let explained = found(words);
        assert_eq!(explained.names()[0], format!("variable/{meant}"));
        assert_eq!(
            explained.query.misspelt.values().collect::<Vec<_>>(),
            [meant]
        );
    }
}

#[test]
fn misspelt_words_find_the_same() {
    for (misspelt, right) in [
        (
            "zombbie process holds memory",
            "zombie process holds memory",
        ),
        ("torch pin_memroy", "torch pin_memory"),
    ] {
        let (misspelt, right) = (found(misspelt), found(right));
        assert_eq!(misspelt.names().first(), right.names().first());
        assert!(!right.names().is_empty());
    }
    for (misspelt, right) in [
        ("cudaSetDevise", "cudaSetDevice"),
        ("CUDA_LAUNCH_BLOKING", "CUDA_LAUNCH_BLOCKING"),
    ] {
        assert_eq!(
            first(misspelt),
            first(right),
            "{misspelt}: {:?}",
            scenarios(misspelt)
        );
    }
}

#[test]
fn a_pasted_traceback_finds_what_its_message_finds() {
    let pasted = "Traceback (most recent call last):\n  File \"/x/site-packages/torch/cuda/__init__.py\", line 305, in _lazy_init\n    raise RuntimeError(\nRuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method\n";
    assert_eq!(first(pasted), "framework/torch-fork-after-available");
    assert_eq!(found(pasted).certainty, Certainty::Said);
}

#[test]
fn the_word_of_an_answer_is_that_of_what_is_expected() {
    let word = |name: &str| Known::embedded().scenario(name).unwrap().word;
    assert_eq!(word("process/fork-after-cuinit"), Word::Yes);
    assert_eq!(word("visibility/mask-after-nvml"), Word::No);
    assert_eq!(word("context/set-device-is-eager"), Word::Depends);
    assert_eq!(word("visibility/mask-after-version-query"), Word::Depends);
}

#[test]
fn first_matching_explain_step_answers() {
    let explainer = Explainer::embedded();
    for (words, step) in [
        ("cudaSetDevice", 0),
        ("HIP error: invalid device function on my AMD card", 1),
        ("import a_package_that_nobody_measured", 2),
        ("torch.device(1)", 3),
        ("CUDA_VISIBLE_DEVICES=0,0 python train.py", 4),
        (
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing",
            5,
        ),
        (
            "RuntimeError: No CUDA GPUs are available, and os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"-1\" is set",
            6,
        ),
        (
            "RuntimeError: No CUDA GPUs are available in my container",
            7,
        ),
        ("memory stays on the GPU after my program was killed", 8),
        ("how do I bake bread", 9),
    ] {
        let query = Query::parse(words);
        let steps = [
            explainer.explain_by_name(&query),
            explain_other_platform(&query),
            explainer.explain_import(&query),
            explainer.explain_function(&query),
            explainer.explain_command_line(&query),
            explainer.explain_by_message(&query),
            explainer.explain_mask_cause(&query),
            explainer.explain_by_advice(&query),
            explainer.explain_by_nearest(&query),
        ];
        let found = steps
            .iter()
            .position(Option::is_some)
            .unwrap_or(steps.len());
        assert_eq!(found, step, "{words}");
        let answered = steps.into_iter().nth(found).flatten().unwrap_or_default();
        assert_eq!(
            explainer.explain(query).names(),
            answered.names(),
            "{words}"
        );
    }
}

#[test]
fn at_most_two_near_questions_stand_behind_what_is_claimed() {
    let explained = found(
        "CUDA error: an illegal memory access was encountered in a forked child after cuInit",
    );
    assert_eq!(
        (explained.certainty, explained.names()[0].as_str()),
        (Certainty::Advised, "error/700")
    );
    assert!(
        (1..=MOST_BESIDE_A_CLAIM).contains(&explained.answers.len()),
        "{:?}",
        explained.names()
    );
    assert_eq!(explained.names()[1], explained.answers[0].known.name);
}

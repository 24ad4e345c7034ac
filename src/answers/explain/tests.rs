//! What is found for words of each kind, among what comes with the program.

use super::*;

fn found(words: &str) -> Explanation<'static> {
    Explainer::embedded().explain(Query::parse(words))
}

fn scenarios(words: &str) -> Vec<String> {
    found(words).answers.iter().map(|answer| answer.known.name.clone()).collect()
}

fn first(words: &str) -> String {
    scenarios(words).first().cloned().unwrap_or_default()
}

#[test]
fn the_examples_of_the_documentation_find_their_answers() {
    for (words, name) in [
        ("Cannot re-initialize CUDA in forked subprocess", "framework/torch-fork-after-available"),
        ("torch.cuda.is_available mask", "framework/torch-is-available-then-mask"),
        ("CUDA_LAUNCH_BLOCKING", "process/env-launch-blocking"),
        ("cudaSetDevice", "context/set-device-is-eager"),
        ("cudaErrorInitializationError", "process/fork-after-cuinit"),
    ] {
        assert_eq!(first(words), name, "{words}: {:?}", found(words).names());
    }
}

/// A name is everything that the store calls something, and what people write instead of it.
#[test]
fn every_name_in_its_usual_spellings_answers_with_its_own_entry_first() {
    let known = Known::embedded();
    let mut wrong = Vec::new();
    for (entry, name, spelt) in known.entries.iter().flat_map(spellings_of) {
        let first = names::whole(&spelt, known).first().copied();
        // What is spelt so may be the name of another one, and of several with one name the first is meant.
        let own = [&spelt, name].into_iter().find_map(|name| known.named(name, <str as PartialEq>::eq).next());
        if first != own {
            wrong.push(format!("{spelt}: {:?}, not {}", first.map(|it| &it.id), entry.id));
        }
    }
    assert!(wrong.is_empty(), "{} names:\n{}", wrong.len(), wrong.join("\n"));
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
        assert_eq!(explained.names().first(), explained.said.first().map(|entry| &entry.id), "{name}");
    }
}

/// Every name of an entry, as it is and as people write it.
fn spellings_of(entry: &KnownEntry) -> impl Iterator<Item = (&KnownEntry, &String, String)> {
    let spelt = |name: &String| [name.clone()].into_iter().chain(usual_spellings(entry.kind, name));
    entry.names.iter().flat_map(move |name| spelt(name).map(move |spelt| (entry, name, spelt)))
}

/// What people write for a name: a call with its brackets or in other letters, an import in another form, a name of
/// PyTorch without its package.
fn usual_spellings(kind: KnownKind, name: &str) -> Vec<String> {
    let is_path = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
    match (kind, name.strip_prefix("import ")) {
        (KnownKind::Call | KnownKind::Error | KnownKind::Status | KnownKind::Variable, _) if is_path(name) => {
            vec![name.to_uppercase(), name.to_lowercase(), format!("{name}()"), format!("`{name}`")]
        }
        (KnownKind::Line, Some(module)) if is_path(module) => {
            let parts = module.rsplit_once('.').map(|(package, last)| format!("from {package} import {last}"));
            [format!("import {module} as m")].into_iter().chain(parts).collect()
        }
        (KnownKind::Line, None) if is_path(name) && name.contains('.') => {
            let (module, last) = name.rsplit_once('.').unwrap_or_default();
            let short = name.strip_prefix("torch.").map(str::to_owned);
            [format!("{name}()"), format!("{name}(0)"), format!("from {module} import {last}")]
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
    assert!(explained.answers.is_empty() && explained.said.len() == 1, "{:?}", explained.names());
}

#[test]
fn what_is_only_near_is_never_claimed() {
    for words in ["torch.cuda.is_available mask", "memory on the wrong GPU"] {
        let explained = found(words);
        assert_eq!(explained.certainty, Certainty::Closest, "{words}: {:?}", explained.names());
        assert!(explained.said.is_empty() && !explained.answers.is_empty());
    }
}

#[test]
fn a_message_is_claimed_and_a_sentence_that_begins_with_a_variable_is_not() {
    let message = found("CUDA driver version is insufficient for CUDA runtime version");
    assert_eq!((message.certainty, message.names()[0].as_str()), (Certainty::Advised, "error/35"));
    assert_eq!(found("CUDA_VISIBLE_DEVICES=1 is set, and the work runs on GPU 0").certainty, Certainty::Closest);
}

#[test]
fn a_misspelt_variable_is_the_one_that_was_meant() {
    for (words, meant) in
        [("CUDA_LAUNCH_BLOCKNG=1", "CUDA_LAUNCH_BLOCKING"), ("CUDA_VISIBLE_DEVICE=2", "CUDA_VISIBLE_DEVICES")]
    {
        let explained = found(words);
        assert_eq!(explained.names()[0], format!("variable/{meant}"));
        assert_eq!(explained.query.misspelt.values().collect::<Vec<_>>(), [meant]);
    }
}

#[test]
fn misspelt_words_find_the_same() {
    for (misspelt, right) in
        [("zombbie process holds memory", "zombie process holds memory"), ("torch pin_memroy", "torch pin_memory")]
    {
        let (misspelt, right) = (found(misspelt), found(right));
        assert_eq!(misspelt.names().first(), right.names().first());
        assert!(!right.names().is_empty());
    }
    for (misspelt, right) in [("cudaSetDevise", "cudaSetDevice"), ("CUDA_LAUNCH_BLOKING", "CUDA_LAUNCH_BLOCKING")] {
        assert_eq!(first(misspelt), first(right), "{misspelt}: {:?}", scenarios(misspelt));
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
fn each_step_finds_what_is_its_own_and_the_first_that_does_answers() {
    let explainer = Explainer::embedded();
    for (words, step) in [
        ("cudaSetDevice", 0),
        ("HIP error: invalid device function on my AMD card", 1),
        ("CUDA_VISIBLE_DEVICES=0,0 python train.py", 2),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing", 3),
        ("RuntimeError: No CUDA GPUs are available, and os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"-1\" is set", 4),
        ("RuntimeError: No CUDA GPUs are available in my container", 5),
        ("memory stays on the GPU after my program was killed", 6),
        ("how do I bake bread", 7),
    ] {
        let query = Query::parse(words);
        let steps = [
            explainer.named(&query),
            elsewhere(&query),
            explainer.command_lines(&query),
            explainer.told(&query),
            explainer.mask_that_causes(&query),
            explainer.advised(&query),
            explainer.nearest(&query),
        ];
        let found = steps.iter().position(Option::is_some).unwrap_or(steps.len());
        assert_eq!(found, step, "{words}");
        let answered = steps.into_iter().nth(found).flatten().unwrap_or_default();
        assert_eq!(explainer.explain(query).names(), answered.names(), "{words}");
    }
}

#[test]
fn at_most_two_near_questions_stand_behind_what_is_claimed() {
    let explained = found("CUDA error: an illegal memory access was encountered in a forked child after cuInit");
    assert_eq!((explained.certainty, explained.names()[0].as_str()), (Certainty::Advised, "error/700"));
    assert!((1..=MOST_BESIDE_A_CLAIM).contains(&explained.answers.len()), "{:?}", explained.names());
    assert_eq!(explained.names()[1], explained.answers[0].known.name);
}

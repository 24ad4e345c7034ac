//! Files that must be rejected, each with the exact message that a user sees.
//!
//! `CUDA_PITFALLS_BLESS=1 cargo test --test suite -- rejected::` rewrites the messages; read the diff.

use std::fs;
use std::path::Path;

use cuda_pitfalls::scenario::load_scenario;

#[test]
fn every_bad_file_is_refused_in_the_words_written_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rejected");
    let bless = std::env::var_os("CUDA_PITFALLS_BLESS").is_some();
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of bad files can be read")
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .to_str()?
                .strip_suffix(".toml")
                .map(str::to_string)
        })
        .collect();
    names.sort();
    assert!(names.len() >= 25, "only {} bad files", names.len());
    let mut wrong = Vec::new();
    for name in names {
        let source = fs::read_to_string(folder.join(format!("{name}.toml")))
            .expect("a bad file can be read");
        let file = format!("tests/rejected/{name}.toml");
        let Err(diagnostics) = load_scenario(
            &format!("rejected/{name}"),
            &file,
            &source,
            &["spin", "grow_heap"],
        ) else {
            wrong.push(format!("{file} was accepted"));
            continue;
        };
        let rendered: Vec<String> = diagnostics
            .iter()
            .map(|diagnostic| diagnostic.render(&source, false) + "\n")
            .collect();
        let rendered = rendered.join("\n");
        let expected = folder.join(format!("{name}.stderr"));
        if bless {
            fs::write(&expected, &rendered).expect("the expected words can be written");
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if rendered != expected {
            wrong.push(format!("{file} gives\n{rendered}\nand not\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

//! Compresses the larger texts of this folder, so that the program stays small: each folder's scenario files, all facts
//! about scenarios, and single files.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The files that are compressed alone.
const FILES: [&str; 4] = ["errors.toml", "known.json", "published.txt", "texts.json"];

/// Texts by their names.
type Texts = BTreeMap<String, String>;

fn main() -> io::Result<()> {
    // Also a new file.
    println!("cargo::rerun-if-changed=.");
    let mut packs: BTreeMap<String, Texts> = BTreeMap::new();
    for file in FILES {
        let texts = Texts::from([(String::new(), fs::read_to_string(file)?)]);
        packs.insert(file.to_owned(), texts);
    }
    add_folders(Path::new("."), "", &mut packs)?;
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    for (pack, texts) in packs {
        let file = fs::File::create(Path::new(&folder).join(pack))?;
        let mut packed = DeflateEncoder::new(file, Compression::best());
        for (name, text) in texts {
            // NUL separates names and texts; lib.rs takes them apart.
            packed.write_all(&[name.as_bytes(), b"\0", text.as_bytes(), b"\0"].concat())?;
        }
        packed.finish()?;
    }
    Ok(())
}

/// Adds the files in the folders of a folder, whose own name is `parent`.
fn add_folders(folder: &Path, parent: &str, packs: &mut BTreeMap<String, Texts>) -> io::Result<()> {
    for child in fs::read_dir(folder)? {
        let child = child?;
        if !child.file_type()?.is_dir() {
            continue;
        }
        let name = format!("{parent}{}", child.file_name().to_string_lossy());
        add_folders(&child.path(), &format!("{name}-"), packs)?;
        for file in fs::read_dir(child.path())? {
            let file = file?.path();
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let (pack, text_name) = match file.extension().and_then(|ending| ending.to_str()) {
                Some("toml" | "ptx") => (name.clone(), stem.into_owned()),
                Some("ndjson") => ("facts".to_owned(), format!("{name}/{stem}")),
                _ => continue,
            };
            let text = fs::read_to_string(&file)?;
            packs.entry(pack).or_default().insert(text_name, text);
        }
    }
    Ok(())
}

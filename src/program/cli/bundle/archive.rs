//! The archive of a bundle.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::cli::output::{fail, print_text};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::export::{Reproducer, write_reproducer};
use cuda_pitfalls_core::output;
use cuda_pitfalls_core::scenario::{Instance, Scenario};
use cuda_pitfalls_core::text::redact::Redactor;
use cuda_pitfalls_render::issue::Attached;

#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct BundleArguments {
    /// A report, the directory of a run, or a directory of runs (the newest is used).
    pub(super) report: PathBuf,
    /// Scenario or instance [default: everything unexpected].
    pub(super) name: Option<String>,
    /// Replace UUIDs, PCI addresses, paths, host and user names, consistently.
    #[arg(long)]
    pub(super) redact: bool,
    /// Archive to write [default: named after its content, in this directory].
    #[arg(long, value_name = "FILE", value_parser = crate::argument::file)]
    pub(super) out: Option<PathBuf>,
}

pub(super) struct ArchiveFile {
    pub(super) name: String,
    pub(super) text: String,
}

/// Writes the archive, with everything in one folder of this name.
pub(super) fn write(arguments: &BundleArguments, stem: &str, entries: &[ArchiveFile]) -> Exit {
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("cuda-pitfalls-{stem}.tar.gz")));
    match output::create_file(&path, output::OWNER, |file| {
        pack_entries(file, stem, entries)
    }) {
        Ok(()) => {
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            let note = if arguments.redact {
                ""
            } else {
                "\nIt contains GPU UUIDs and paths; --redact replaces them."
            };
            print_text(&format!("{}: {}{note}\n", path.display(), names.join(", ")))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fail(
            format!(
                "{} already exists; choose another name with --out",
                path.display()
            ),
            Exit::Usage,
            false,
        ),
        Err(error) => fail(
            format!("cannot write {}: {error}", path.display()),
            Exit::NotDurable,
            false,
        ),
    }
}

/// Adds the reproducer of an instance, if it can be written.
pub(super) fn attach_reproducer(
    scenario: &Scenario,
    instance: &Instance,
    entries: &mut Vec<ArchiveFile>,
    attached: &mut Vec<Attached>,
) {
    let stem = instance_stem(&instance.name);
    let Ok(program) = Reproducer::new(scenario, instance, &stem) else {
        return;
    };
    let Ok(text) = write_reproducer(&program) else {
        return;
    };
    let language = program.language();
    let file = format!("{stem}.{}", language.extension());
    entries.push(ArchiveFile {
        name: file.clone(),
        text: text.clone(),
    });
    attached.push(Attached {
        file,
        commands: language.run_commands(&stem),
        language: language.name(),
        text,
    });
}

/// Returns the last part of an instance's name, as a file name; `scenario` if the name is empty.
pub(super) fn instance_stem(name: &str) -> String {
    let name = if name.ends_with('/') || name.is_empty() {
        "scenario"
    } else {
        name
    };
    let (path, values) = name
        .split_once('[')
        .map_or((name, ""), |(path, values)| (path, values));
    let last = path.rsplit('/').next().unwrap_or(path);
    let stem = format!("{last}-{}", values.trim_end_matches(']'));
    stem.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
        .trim_end_matches('-')
        .to_string()
}

fn pack_entries(file: &mut File, folder: &str, entries: &[ArchiveFile]) -> io::Result<()> {
    let packed = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    let mut archive = tar::Builder::new(packed);
    for ArchiveFile { name, text } in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{folder}/{name}"), text.as_bytes())?;
    }
    archive.into_inner()?.finish().map(drop)
}

/// Returns a redactor that knows the names of this host and user.
pub(in crate::cli) fn host_redactor() -> Redactor {
    Redactor::new(&host(), &user())
}

fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn user() -> String {
    std::env::var("USER")
        .or_else(|_| std::env::var("LOGNAME"))
        .unwrap_or_default()
}

//! Reads documents from files, folders and standard input, one after another.
//!
//! A file holds one document, or one document per line; either may be compressed. Files are not trusted: the size
//! of a document is limited after unpacking, and a source without an end is abandoned.

use std::fs;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use crate::input::packed::unpack_reader;
use crate::input::{self, STDIN};
use crate::owner::is_anothers;

/// The largest document, in bytes after unpacking.
pub(crate) const MOST_BYTES: usize = 32 << 20;
/// Maximum number of bytes of an oversized line that are skipped in search of its end.
const MOST_PASSED_BYTES: u64 = 1 << 30;
/// Number of consecutive lines without a document after which the rest of a source is ignored.
pub const MOST_WRONG_LINES: usize = 1000;
const DEEPEST: usize = 32;
/// The suffixes of files in folders that may hold documents, before `.gz` and `.zst`.
const ENDS: [&str; 3] = ["json", "ndjson", "jsonl"];

/// The location of documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A regular file.
    File(PathBuf),
}

/// A document that was found.
pub struct ArchiveDocument {
    /// The path, followed by the line number if the source holds several documents.
    pub path: String,
    /// The text of the document, or why it could not be read.
    pub text: Result<Vec<u8>, Problem>,
}

/// The reason why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The text ends before the document does.
    Truncated(String),
    /// The document is larger than allowed, or not in the format that it claims.
    Wrong(String),
    /// The system denied reading it.
    Unreadable(String),
}

impl Problem {
    fn from_io(error: &io::Error) -> Problem {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Truncated("the file is truncated".to_owned()),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                Problem::Wrong(error.to_string())
            }
            _ => Problem::Unreadable(error.to_string()),
        }
    }

    fn too_large() -> Problem {
        let most = MOST_BYTES >> 20;
        Problem::Wrong(format!(
            "it is larger than {most} MiB; `render --as compact` writes a smaller report"
        ))
    }
}

impl Source {
    fn named(path: &Path) -> Source {
        if path == Path::new(STDIN) {
            Source::Stdin
        } else {
            Source::File(path.to_path_buf())
        }
    }

    /// Returns the name of the source in messages: its path, or `standard input`.
    pub fn name(&self) -> String {
        match self {
            Source::Stdin => "standard input".to_owned(),
            Source::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// Returns `true` if the source probably holds one document per line. One thread then reads the source, and several
    /// parse its lines.
    pub fn is_lines(&self) -> bool {
        let Source::File(path) = self else {
            return true;
        };
        let name = path.to_string_lossy();
        let plain = name.trim_end_matches(".gz").trim_end_matches(".zst");
        plain.ends_with(".ndjson") || plain.ends_with(".jsonl")
    }
}

/// Passes every source of these arguments to `take`: arguments in their order, files of a folder by name. An argument
/// or a folder that cannot be read is passed to `take` as a document that contains the problem.
pub fn visit_sources(arguments: &[PathBuf], mut take: impl FnMut(Result<Source, ArchiveDocument>)) {
    for path in arguments {
        if path.is_dir() {
            walk_folder(path, 0, &mut take)
        } else {
            take(Ok(Source::named(path)))
        }
    }
}

fn walk_folder(
    folder: &Path,
    depth: usize,
    take: &mut impl FnMut(Result<Source, ArchiveDocument>),
) {
    let entries = match fs::read_dir(folder) {
        _ if depth > DEEPEST => Err(format!("directories are read to a depth of {DEEPEST}")),
        entries => entries.map_err(|error| error.to_string()),
    };
    let entries = match entries {
        Ok(entries) => entries,
        Err(why) => {
            let path = folder.to_string_lossy().into_owned();
            return take(Err(ArchiveDocument {
                path,
                text: Err(Problem::Unreadable(why)),
            }));
        }
    };
    let mut entries: Vec<fs::DirEntry> = entries.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // A link to a folder may lead back to that folder, so it is not entered. A link to a file is followed unless it
        // belongs to another user, because that user may not be allowed to read the file.
        let Ok(data) = entry.metadata() else { continue };
        let path = entry.path();
        if data.is_dir() {
            walk_folder(&path, depth + 1, take);
        } else if data.is_symlink() && is_anothers(&data) && may_hold_documents(&path) {
            let why = "it is a symbolic link of another user".to_owned();
            let path = path.to_string_lossy().into_owned();
            take(Err(ArchiveDocument {
                path,
                text: Err(Problem::Unreadable(why)),
            }));
        } else if may_hold_documents(&path) && path.is_file() {
            take(Ok(Source::File(path)));
        }
    }
}

fn may_hold_documents(path: &Path) -> bool {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let plain = name
        .strip_suffix(".gz")
        .or(name.strip_suffix(".zst"))
        .unwrap_or(&name);
    // A file that is still being written has a name that begins with a dot.
    !name.starts_with('.')
        && plain
            .rsplit_once('.')
            .is_some_and(|(_, end)| ENDS.contains(&end))
}

/// Passes every document of a source to `take` as it is read, until `take` returns false.
pub fn documents(source: &Source, mut take: impl FnMut(ArchiveDocument) -> bool) {
    let opened = match source {
        Source::Stdin => unpack_reader(io::stdin()),
        Source::File(path) => input::open_document(path),
    };
    match opened {
        Ok(mut reader) => split_documents(source.name(), &mut reader, take),
        Err(error) => {
            take(ArchiveDocument {
                path: source.name(),
                text: Err(Problem::from_io(&error)),
            });
        }
    }
}

/// Passes the entire source as one document, or each line as one.
fn split_documents(
    name: String,
    reader: &mut dyn BufRead,
    mut take: impl FnMut(ArchiveDocument) -> bool,
) {
    let mut number = 0_usize;
    let mut is_single = true;
    let mut first: Option<(usize, Result<Vec<u8>, Problem>)> = None;
    loop {
        number += 1;
        let (line, ends) = match line(reader) {
            Ok(None) => break,
            Ok(Some(ArchiveLine::Whole(line))) if line.iter().all(u8::is_ascii_whitespace) => {
                continue;
            }
            Ok(Some(ArchiveLine::Whole(line))) => (Ok(line), false),
            Ok(Some(ArchiveLine::TooLarge)) => (Err(Problem::too_large()), false),
            Ok(Some(ArchiveLine::Endless)) => (Err(Problem::too_large()), true),
            Err(error) => (Err(Problem::from_io(&error)), true),
        };
        // An indented document: it takes up the rest of the source.
        if first.is_none() && is_single && line.as_ref().is_ok_and(|line| line.trim_ascii() == b"{")
        {
            let text = rest(reader, line.unwrap_or_default());
            take(ArchiveDocument { path: name, text });
            return;
        }
        if let Some((at, text)) = first.take() {
            is_single = false;
            if !take(ArchiveDocument {
                path: format!("{name}:{at}"),
                text,
            }) {
                return;
            }
        }
        if is_single && !ends {
            first = Some((number, line));
            continue;
        }
        let path = if is_single {
            name.clone()
        } else {
            format!("{name}:{number}")
        };
        if !take(ArchiveDocument { path, text: line }) || ends {
            return;
        }
    }
    match first {
        Some((_, text)) => _ = take(ArchiveDocument { path: name, text }),
        None if is_single => {
            _ = take(ArchiveDocument {
                path: name,
                text: Err(Problem::Truncated("it is empty".to_owned())),
            })
        }
        None => {}
    }
}

enum ArchiveLine {
    Whole(Vec<u8>),
    TooLarge,
    /// The end of the line was not found.
    Endless,
}

fn line(reader: &mut dyn BufRead) -> io::Result<Option<ArchiveLine>> {
    let mut line = Vec::new();
    let mut passed = 0_u64;
    let mut is_too_large = false;
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            let is_empty = line.is_empty() && !is_too_large;
            return Ok((!is_empty).then_some(if is_too_large {
                ArchiveLine::TooLarge
            } else {
                ArchiveLine::Whole(line)
            }));
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(piece.len());
        if !is_too_large && line.len() + taken <= MOST_BYTES {
            line.extend_from_slice(piece.get(..taken).unwrap_or_default());
        } else {
            is_too_large = true;
            line = Vec::new();
            passed += taken as u64;
        }
        reader.consume(taken + usize::from(end.is_some()));
        match (end, is_too_large) {
            (Some(_), false) => return Ok(Some(ArchiveLine::Whole(line))),
            (Some(_), true) => return Ok(Some(ArchiveLine::TooLarge)),
            (None, _) if passed > MOST_PASSED_BYTES => return Ok(Some(ArchiveLine::Endless)),
            (None, _) => {}
        }
    }
}

/// Reads the rest of a document. `text` is its first line.
fn rest(reader: &mut dyn BufRead, mut text: Vec<u8>) -> Result<Vec<u8>, Problem> {
    text.push(b'\n');
    let read = reader.take(MOST_BYTES as u64).read_to_end(&mut text);
    match read {
        Err(error) => Err(Problem::from_io(&error)),
        Ok(_) if text.len() > MOST_BYTES => Err(Problem::too_large()),
        Ok(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::packed::tests::{gzip, zstd};

    fn found(text: &[u8]) -> Vec<(String, Result<String, Problem>)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let mut all = Vec::new();
        documents(&Source::File(file.path().to_path_buf()), |found| {
            let line = found
                .path
                .rsplit_once(':')
                .map_or(String::new(), |(_, line)| line.to_owned());
            all.push((
                line,
                found.text.map(|text| String::from_utf8(text).unwrap()),
            ));
            true
        });
        all
    }

    fn text(line: &str, text: &str) -> (String, Result<String, Problem>) {
        (line.to_owned(), Ok(text.to_owned()))
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, link) = (
            folder.path().join("ours"),
            folder.path().join("theirs.json"),
        );
        fs::write(&ours, "{}").unwrap();
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        let read = || {
            let mut all = Vec::new();
            visit_sources(&[folder.path().to_path_buf()], |source| {
                all.push(source.is_ok())
            });
            all
        };
        assert_eq!(read(), [true]);
        if std::os::unix::fs::lchown(&link, Some(65_534), None).is_err() {
            return println!("a link of another user is not tried: only root can make one");
        }
        assert_eq!(read(), [false]);
    }

    #[test]
    fn a_file_is_one_document_or_one_a_line() {
        assert_eq!(found(b"{\"a\":1}"), [text("", "{\"a\":1}")]);
        assert_eq!(found(b"{\"a\":1}\n"), [text("", "{\"a\":1}")]);
        assert_eq!(
            found(b"{\n  \"a\": 1\n}\n"),
            [text("", "{\n  \"a\": 1\n}\n")]
        );
        assert_eq!(
            found(b"{}\n\n[]\nx"),
            [text("1", "{}"), text("3", "[]"), text("4", "x")]
        );
        for pack in [gzip, zstd] {
            assert_eq!(
                found(&pack(b"{}\n[]\n")),
                [text("1", "{}"), text("2", "[]")]
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_a_document_that_cannot() {
        assert!(matches!(&found(b"")[..], [(_, Err(Problem::Truncated(_)))]));
        let mut cut = gzip(&[b'x'; 5000]);
        cut.truncate(20);
        assert!(matches!(
            &found(&cut)[..],
            [(_, Err(Problem::Truncated(_)))]
        ));
        let mut all = Vec::new();
        documents(&Source::File("/dev/zero".into()), |found| {
            all.push(found.text);
            true
        });
        assert!(matches!(&all[..], [Err(Problem::Wrong(_))]));
        let folder = tempfile::tempdir().unwrap();
        documents(&Source::File(folder.path().join("absent")), |found| {
            assert!(matches!(found.text, Err(Problem::Unreadable(_))));
            true
        });
    }

    #[test]
    fn a_bomb_takes_no_more_memory_than_a_document() {
        let line = vec![b'x'; MOST_BYTES + 2];
        let bomb = [&line[..], b"\n{}\n"].concat();
        let found = found(&bomb);
        assert!(matches!(&found[0].1, Err(Problem::Wrong(why)) if why.contains("32 MiB")));
        assert_eq!(found[1], text("2", "{}"), "what comes after it is read");
    }

    #[test]
    fn folders_are_entered_and_links_to_folders_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("b");
        fs::create_dir(&inner).unwrap();
        for name in [
            "b/z.json.gz",
            "b/.hidden.json",
            "a.json",
            "c.ndjson.zst",
            "notes.txt",
        ] {
            fs::write(folder.path().join(name), "{}").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), inner.join("again")).unwrap();
        let mut names = Vec::new();
        visit_sources(&[folder.path().to_path_buf(), "-".into()], |source| {
            names.push(source.ok().unwrap())
        });
        let file = |name: &str| Source::File(folder.path().join(name));
        assert_eq!(
            names,
            [
                file("a.json"),
                file("b/z.json.gz"),
                file("c.ndjson.zst"),
                Source::Stdin
            ]
        );
        assert!(names[2].is_lines() && !names[1].is_lines());
    }
}

//! The file and line of an event, for tools that open the file: its path from the root of the sources, or as a URI.

use std::path::{Component, Path, PathBuf};

use crate::html::page::percent_encoded;
use cuda_pitfalls_trace::{Frame, FrameOwner, Stack, Trace, TraceEvent, file_name};

/// The name that SARIF results use for the root of the sources.
pub(super) const ROOT: &str = "SRCROOT";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileLine {
    /// The file: relative to the root of the sources, or absolute if it lies outside.
    pub(super) path: String,
    /// The line; `None` if only the file is known.
    pub(super) line: Option<u32>,
    /// Text that identifies this location after its line has moved: the text of the line if the trace has it, else the
    /// function.
    pub(super) text: String,
    /// The text of the line, if the trace has it.
    pub(super) source: Option<String>,
    /// `true` if it is a line of the user's own code.
    pub(super) is_own: bool,
    /// `true` if another thread made the call, and this is the user's line at that time.
    pub(super) is_beside: bool,
    /// The file's name that is the same on all machines: for a package's file, its path below the folder of packages.
    pub(super) stable: String,
}

/// Returns the path of a file by its name in a trace. A relative name starts from the directory that the program was
/// started in.
pub(super) fn path_of(trace: &Trace, root: &str, name: &str) -> String {
    let absolute = Path::new(&trace.start.folder).join(name);
    if !absolute.is_absolute() {
        // The folder of a redacted trace is not known.
        return name.to_owned();
    }
    let absolute = normalize_path(&absolute);
    let root = Path::new(root);
    let path = match absolute.strip_prefix(normalize_path(root)) {
        Ok(below) if root.is_absolute() && !below.as_os_str().is_empty() => below,
        _ => &absolute,
    };
    path.to_string_lossy().into_owned()
}

/// Returns `true` if a path lies below the root of the sources.
pub(super) fn is_below_root(path: &str) -> bool {
    !path.starts_with('/')
}

/// Returns a relative reference, or an absolute `file` URI.
pub(super) fn path_uri(path: &str) -> String {
    if is_below_root(path) {
        percent_encoded(path, "/")
    } else {
        file_uri(path)
    }
}

pub(super) fn file_uri(path: &str) -> String {
    format!("file://{}", percent_encoded(path, "/"))
}

/// Returns a path without `.` and `..`. Links are not followed.
fn normalize_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

/// Returns the file of a frame, if it is one. Code that was given to Python as text has a name such as `<string>`.
fn file_of(frame: &Frame) -> Option<&str> {
    let file = frame.file.as_deref()?;
    (!file.is_empty() && !frame.is_text()).then_some(file)
}

/// Returns the line of a frame, if that is in a file.
pub(super) fn frame_line(trace: &Trace, root: &str, frame: &Frame) -> Option<FileLine> {
    let path = path_of(trace, root, file_of(frame)?);
    Some(FileLine {
        stable: frame.package_file().unwrap_or(&path).to_owned(),
        line: frame.line.filter(|line| *line > 0),
        text: frame.name(),
        path,
        ..FileLine::default()
    })
}

/// Returns the location of an event: the innermost line of the user's own code that is in a file, else a line of the
/// package that was called, else the program's own file, because some readers reject a result without a file.
pub(super) fn event_line(trace: &Trace, root: &str, event: &TraceEvent) -> Option<FileLine> {
    let stack = &event.stack;
    let Some(frame) = frame_in_file(stack) else {
        let mut processes = trace.processes.iter().rev();
        let process = processes.find(|process| process.pid == event.pid);
        return program_line(trace, root, process.map(|process| process.program.as_str()));
    };
    let mut line = frame_line(trace, root, frame)?;
    line.is_own = frame.owner == FrameOwner::Program;
    line.is_beside = stack
        .meanwhile
        .iter()
        .any(|other| std::ptr::eq(other, frame));
    if let Some(site) = stack.call_site()
        && std::ptr::eq(site.frame, frame)
        && let Some(source) = &stack.source
    {
        line.text.clone_from(source);
        line.source = Some(source.clone());
    }
    Some(line)
}

/// Returns the frame in a file that describes the location of a call best.
fn frame_in_file(stack: &Stack) -> Option<&Frame> {
    for frame in stack.frames.iter().chain(&stack.meanwhile) {
        if frame.owner == FrameOwner::Program && file_of(frame).is_some() {
            return Some(frame);
        }
    }
    let outwards = stack.frames.iter().rev();
    let called = stack.import_frame().into_iter().chain(stack.entry());
    called
        .chain(outwards)
        .find(|frame| file_of(frame).is_some())
}

/// Returns the traced program, for entries about the entire trace.
pub(super) fn program_line(trace: &Trace, root: &str, program: Option<&str>) -> Option<FileLine> {
    let started = trace.start.command.first().map(String::as_str);
    let mut names = program.into_iter().chain(started);
    let name = names.find(|name| !name.is_empty())?;
    Some(FileLine {
        path: path_of(trace, root, name),
        stable: file_name(name).to_owned(),
        ..FileLine::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn uri(root: &str, name: &str) -> String {
        super::path_uri(&path_of(&fixture::trace(), root, name))
    }

    #[test]
    fn files_are_relative_to_the_root_and_absolute_outside() {
        assert_eq!(
            uri("/home/me/project", "/home/me/project/a b/ü#%.py"),
            "a%20b/%C3%BC%23%25.py"
        );
        assert_eq!(
            uri("/home/me", "/home/me/project/train.py"),
            "project/train.py"
        );
        // The program was started in /home/me/project.
        assert_eq!(uri("/home/me", "train.py"), "project/train.py");
        assert_eq!(uri("/home/me/project/", "./x/../train.py"), "train.py");
        assert_eq!(
            uri("/home/me/project", "../other/x.py"),
            "file:///home/me/other/x.py"
        );
        assert_eq!(
            uri("/home/me/project", "/home/me/project-2/x.py"),
            "file:///home/me/project-2/x.py"
        );
        assert_eq!(uri("", "/opt/venv/x y.py"), "file:///opt/venv/x%20y.py");
        assert_eq!(
            uri("/home/me/project", "C:x.py"),
            "C%3Ax.py",
            "a colon would begin a scheme"
        );
    }

    #[test]
    fn an_event_is_at_the_users_line_in_a_file_or_at_the_program() {
        let mut trace = fixture::trace();
        let root = trace.start.folder.clone();
        let at = |trace: &Trace| event_line(trace, &root, trace.events.first().unwrap()).unwrap();
        let place = at(&trace);
        assert_eq!(
            (place.path.as_str(), place.line, place.text.as_str()),
            ("cli.py", Some(88), "setup")
        );
        trace.events.first_mut().unwrap().stack.source =
            Some("torch.cuda.is_available()".to_owned());
        assert_eq!(at(&trace).text, "torch.cuda.is_available()");
        // Code on the command line is not in a file, so the line of the package stands for it.
        let frames = &mut trace.events.first_mut().unwrap().stack.frames;
        frames.truncate(4);
        frames.push(Frame::python("<module>", "<string>", 1));
        let place = at(&trace);
        assert!(
            place.path.ends_with("site-packages/torch/cuda/__init__.py"),
            "{place:?}"
        );
        assert_eq!(place.stable, "torch/cuda/__init__.py");
        assert_eq!(place.text, "torch.cuda.is_available", "{place:?}");
        trace.events.first_mut().unwrap().stack = cuda_pitfalls_trace::Stack::default();
        let place = at(&trace);
        assert_eq!(
            (place.path.as_str(), place.line),
            ("/usr/bin/python3.12", None)
        );
        assert_eq!(place.stable, "python3.12");
    }
}

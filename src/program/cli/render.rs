//! `render`: its arguments, and the document that it shows in another format.

use std::path::{Path, PathBuf};

use super::bundle::host_redactor;
use super::output::{FORM_OF_REPORT, fail, print_text};
use super::stored::StoredDocument;
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::Matrix;
use cuda_pitfalls_render::{self as render, Format, Prepared};
use cuda_pitfalls_trace as trace;
use cuda_pitfalls_trace::{diagnosis, policy};

const FORM_OF_SURVEY: &str = "--as: a survey can be rendered as text, markdown or html, and one of needs as oci; the report of its controls is report.json beside it";
const FORM_OF_TRACE: &str =
    "--as: a trace can be rendered as text, html, markdown, junit, github or sarif";
const FORM_OF_MATRIX: &str =
    "--as: the matrix of releases can be rendered as text, markdown or html";
const FORM_OF_IMPORTS: &str = "--as: a survey of imports can be rendered as text, markdown or html";

#[derive(Debug, clap::Args)]
pub(super) struct RenderArguments {
    /// A report, survey, trace or releases matrix, or the directory of a run.
    report: PathBuf,
    /// Output format.
    #[arg(long = "as", value_enum, default_value_t = Format::Text)]
    form: Format,
    /// Omit from a trace what `trace --redact` removes.
    #[arg(long, conflicts_with = "form")]
    redact: bool,
}

pub(super) fn render(arguments: &RenderArguments) -> Exit {
    let RenderArguments {
        report: path,
        form,
        redact: is_redacted,
    } = arguments;
    if *is_redacted {
        return print_redacted(path);
    }
    let (document, path, published) = match StoredDocument::read(path) {
        Ok(opened) => opened,
        Err(why) => return fail(why, Exit::Usage, false),
    };
    let screen = terminal::screen(&std::io::stdout());
    let (text, missing) = match document {
        StoredDocument::Matrix(matrix) => (render_matrix(&matrix, *form), FORM_OF_MATRIX),
        StoredDocument::Imports(rows) => (
            render::imports::as_format(&rows, *form, screen),
            FORM_OF_IMPORTS,
        ),
        StoredDocument::Trace(trace) => (render_trace(&trace, &path, *form), FORM_OF_TRACE),
        StoredDocument::Survey(survey) => (
            render::survey::as_format(&survey, *form, &path.to_string_lossy(), screen),
            FORM_OF_SURVEY,
        ),
        StoredDocument::Report(report) => (
            render::render(&Prepared::stored(report), *form, screen),
            FORM_OF_REPORT,
        ),
    };
    match (text, published) {
        (None, _) => fail(missing, Exit::Usage, false),
        (Some(text), None) => print_text(&text),
        (Some(text), Some(published)) => print_text(&render::published::with_note(
            text, *form, published, screen,
        )),
    }
}

/// Renders the results of Python lines in one release after another.
fn render_matrix(matrix: &Matrix, form: Format) -> Option<String> {
    match form {
        Format::Text => Some(render::releases::text(
            matrix,
            terminal::screen(&std::io::stdout()),
        )),
        form => render::releases::as_format(matrix, form),
    }
}

/// Prints the lines of a stored trace without data that identifies its author.
fn print_redacted(path: &Path) -> Exit {
    if !trace::is_trace(path) {
        let why = "--redact: not a trace; only the lines of a trace can be redacted here";
        return fail(why, Exit::Usage, false);
    }
    let mut exit = Exit::Ok;
    let mut redactor = host_redactor();
    let shown = trace::lines(path, |line| {
        let text = serde_json::to_string(&trace::redact_line(line, &mut redactor)?)?;
        exit = exit.worst(print_text(&format!("{text}\n")));
        Ok(())
    });
    match shown {
        Ok(()) => exit,
        Err(error) => fail(error, Exit::Usage, false),
    }
}

/// Renders a stored trace with the findings of today's rules. Its policy is unknown.
fn render_trace(trace: &trace::Trace, path: &Path, form: Format) -> Option<String> {
    let (findings, outcome) = (diagnosis::findings(trace), policy::PolicyOutcome::default());
    let view = render::trace::TraceView::new(trace, &findings, &outcome);
    let screen = terminal::screen(&std::io::stdout());
    view.as_format(
        form,
        screen,
        [&path.to_string_lossy(), &source_folder(trace)],
    )
}

/// Returns the directory of the sources of a traced program: the repository that it was started in, or else its working
/// directory. For a trace of another machine, the trace contains the directory.
pub(super) fn source_folder(trace: &trace::Trace) -> String {
    let folder = Path::new(&trace.start.folder);
    let repository = folder
        .ancestors()
        .filter(|folder| folder.is_absolute())
        .find(|folder| folder.join(".git").exists());
    repository.unwrap_or(folder).to_string_lossy().into_owned()
}

//! `render`: its arguments, and which document it shows in another form.

use std::path::{Path, PathBuf};

use super::output::{fail, print, print_report};
use super::stored;
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::Matrix;
use cuda_pitfalls_answers::survey::Survey;
use cuda_pitfalls_core::report::Stored;
use cuda_pitfalls_render::{self as render, Format};
use cuda_pitfalls_trace as trace;
use cuda_pitfalls_trace::{diagnosis, policy};

const FORM_OF_SURVEY: &str = "--as: a survey can be rendered as text, markdown or html, and one of needs as oci, systemd, apparmor, landlock or devices; the report of its controls is report.json beside it";

#[derive(Debug, clap::Args)]
pub(super) struct RenderArguments {
    /// A report, a survey, a trace or the matrix of releases, or the folder of a run.
    report: PathBuf,
    /// The form.
    #[arg(long = "as", value_enum, default_value_t = Format::Text)]
    form: Format,
    /// The lines of a trace without paths and arguments, to be handed on.
    #[arg(long, conflicts_with = "form")]
    redact: bool,
}

pub(super) fn render(arguments: &RenderArguments) -> Exit {
    let RenderArguments { report: path, form, redact: is_redacted } = arguments;
    match stored::matrix(path) {
        Some(Ok(matrix)) if !is_redacted => return render_matrix(&matrix, *form),
        Some(Err(error)) => return fail(error, Exit::Usage, false),
        _ => {}
    }
    match trace::is_trace(path) {
        is_trace if *is_redacted => redact(path, is_trace),
        true => render_trace(path, *form),
        false => render_stored(path, *form),
    }
}

fn render_stored(path: &Path, form: Format) -> Exit {
    let path = match stored::named_by(path) {
        Ok(path) => path,
        Err(why) => return fail(why, Exit::Usage, false),
    };
    let shown = Stored::open(&path).and_then(|stored| match Survey::of(&stored) {
        Some(survey) => Ok(render_survey(&survey?, form, &path)),
        None => Ok(print_report(stored.report()?, form)),
    });
    shown.unwrap_or_else(|error| fail(error, Exit::Usage, false))
}

fn render_survey(survey: &Survey, form: Format, path: &Path) -> Exit {
    shown(render::survey::as_format(survey, form, &path.to_string_lossy()), FORM_OF_SURVEY)
}

/// Prints a form, or says that such documents do not have it.
fn shown(text: Option<String>, missing: &str) -> Exit {
    text.map_or_else(|| fail(missing, Exit::Usage, false), |text| print(&text))
}

/// What lines do in one release after another.
fn render_matrix(matrix: &Matrix, form: Format) -> Exit {
    match form {
        Format::Text => print(&render::releases::text(matrix, terminal::width(&std::io::stdout()))),
        form => shown(
            render::releases::as_format(matrix, form),
            "--as: the matrix of releases can be rendered as text, markdown or html",
        ),
    }
}

/// The lines of a stored trace without what tells who made it.
fn redact(path: &Path, is_trace: bool) -> Exit {
    if !is_trace {
        return fail("--redact: this is no trace", Exit::Usage, false);
    }
    let mut exit = Exit::Ok;
    let shown = trace::lines(path, |line| {
        let text = serde_json::to_string(&trace::redacted(line)).unwrap_or_default();
        exit = exit.worst(print(&format!("{text}\n")));
    });
    match shown {
        Ok(()) => exit,
        Err(error) => fail(error, Exit::Usage, false),
    }
}

/// A stored trace, with what today's rules find in it. It was made under no policy that is known.
fn render_trace(path: &Path, form: Format) -> Exit {
    let trace = match trace::Trace::open(path) {
        Ok(trace) => trace,
        Err(error) => return fail(error, Exit::Usage, false),
    };
    let (findings, outcome) = (diagnosis::findings(&trace), policy::PolicyOutcome::default());
    let view = render::trace::TraceView::new(&trace, &findings, &outcome);
    let width = terminal::width(&std::io::stdout());
    shown(
        view.as_format(form, width, [&path.to_string_lossy(), &sources(&trace)]),
        "--as: a trace can be rendered as text, html, markdown, junit, github or sarif",
    )
}

/// The folder of the sources of a traced program: the repository that it was started in, or else that folder. A trace
/// of another machine has the folder.
pub(super) fn sources(trace: &trace::Trace) -> String {
    let folder = Path::new(&trace.start.folder);
    let repository = folder.ancestors().filter(|folder| folder.is_absolute()).find(|it| it.join(".git").exists());
    repository.unwrap_or(folder).to_string_lossy().into_owned()
}

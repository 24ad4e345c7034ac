//! `trace`: its arguments, its output, and its end.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::bundle::host_redactor;
use super::doctor::examine_here;
use super::output::{CliError, Outcome, fail, fail_rendered, guard_text, named};
use super::render::source_folder;
use crate::run::options::WRITTEN;
use crate::run::{NvmlChoice, is_program};
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::refused::failed_to_start;
use cuda_pitfalls_core::output::{
    EVERYBODY, OWNER, check, check_folder, create_file, folder_of, replace,
};
use cuda_pitfalls_core::{clock, defaults};
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::supervisor::signal_name;
use cuda_pitfalls_render::trace::TraceView;
use cuda_pitfalls_render::{Format, Screen};
use cuda_pitfalls_trace::Trace;
use cuda_pitfalls_trace::diagnosis;
use cuda_pitfalls_trace::policy::{Policy, PolicyOutcome};
use cuda_pitfalls_trace::tracer::{self, Ended, NvmlFound, Traced, TracerError};

/// Value of `--json` without a file: stdout.
const STDERR: &str = "-";

pub(super) const ENDS: &str = "\
The exit code is the program's own, or its signal. With --forbid or --max-bytes: 1 (or --error-exitcode) on a \
violation, 3 if the policy cannot be decided because the trace did not see every process or call, 74 if the trace \
is incomplete on disk. The last line on stderr tells a program that failed by itself from a violation. Without a policy, an incomplete trace is reported on stderr and the exit code stays the \
program's. The program is not started, and the exit code is 2 if the command line is invalid, 70 or 74 if the trace \
cannot begin, 126 or 127 if the program cannot be started.

Examples:
  cuda-pitfalls trace -- python train.py
  cuda-pitfalls trace --memory -- python train.py
  cuda-pitfalls trace --on auto --forbid cuinit -- python -c 'import mypackage'";

/// Groups of options in the help, in addition to [`WRITTEN`].
const FORBIDDEN: &str = "Policy";
const TRACED: &str = "Tracing";

#[derive(Debug, clap::Args)]
pub(super) struct TraceArguments {
    /// Exit 1 on: cuinit, context, context:gpu0, stray, late-mask, fork, error, a rule's name; with
    /// --memory also 'unattributed>64MiB' or 'owner=nccl>1GiB' (repeatable, or comma-separated).
    #[arg(long, value_name = "WHAT", help_heading = FORBIDDEN)]
    forbid: Vec<String>,
    /// Exit 1 if the memory of a GPU grows by more, e.g. gpu1=2GiB (repeatable).
    #[arg(long, value_name = "GPU=BYTES", help_heading = FORBIDDEN)]
    max_bytes: Vec<String>,
    /// Exit code for a policy violation [default: 1].
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(1..), help_heading = FORBIDDEN)]
    error_exitcode: Option<u8>,
    /// Parent directory of the trace's directory.
    #[arg(long, default_value = defaults::REPORTS, help_heading = WRITTEN)]
    out: PathBuf,
    /// HTML page [default: trace.html in the trace's directory, readable only by you because
    /// arguments can contain secrets].
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
    /// Also write JUnit XML.
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    junit: Option<PathBuf>,
    /// Also write SARIF 2.1.0, which code scanning and editors show at your lines.
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    sarif: Option<PathBuf>,
    /// Also write Markdown, for an issue or a job summary.
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    markdown: Option<PathBuf>,
    /// Also print GitHub Actions annotations on stderr.
    #[arg(long, help_heading = WRITTEN)]
    github: bool,
    /// Write the summary as JSON to FILE. `-`, or no file before another option or `--`, prints it
    /// on stderr instead of the text.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDERR, help_heading = WRITTEN)]
    json: Option<PathBuf>,
    /// Target: `cuda` (this machine's driver), `sim[:MACHINE]` (simulated) or `auto`.
    #[arg(long, default_value = defaults::ON, value_parser = crate::argument::on, help_heading = TRACED)]
    on: On,
    /// Do not watch writes of environment variables (no LD_PRELOAD).
    #[arg(long, help_heading = TRACED)]
    no_preload: bool,
    /// Remove paths, arguments, source lines, GPU UUIDs, host and user names.
    #[arg(long, help_heading = WRITTEN)]
    redact: bool,
    /// Also count high-frequency queries such as cuCtxGetDevice. Slows down programs that launch
    /// many small kernels.
    #[arg(long, help_heading = TRACED)]
    all_calls: bool,
    /// Attribute GPU memory to libraries and lines, at the peak and at exit.
    #[arg(long, help_heading = TRACED)]
    memory: bool,
    /// NVML on the simulated machine: a program may count GPUs with it instead of CUDA.
    #[arg(
        long,
        default_value = "with",
        value_parser = PossibleValuesParser::new(["with", "without"])
            .try_map(|word| NvmlChoice::from_str(&word, false)),
        help_heading = TRACED
    )]
    nvml: NvmlChoice,
    /// End the program at its first cuInit. Later events are unknown.
    #[arg(long, help_heading = TRACED)]
    stop_at_first: bool,
    /// How long to wait for processes that outlive the program, e.g. 30s. A policy stays undecided
    /// if one runs longer.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10s",
        value_parser = crate::argument::parse_duration,
        help_heading = TRACED
    )]
    wait_children: Duration,
    /// Command and arguments. Write `--` first if the command begins with a dash.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl TraceArguments {
    fn is_json_on_stderr(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STDERR))
    }

    /// Returns the file of the summary; `None` for stdout.
    fn json_file(&self) -> Option<&PathBuf> {
        if self.is_json_on_stderr() {
            None
        } else {
            self.json.as_ref()
        }
    }

    /// Checks that each named file can be written after the program has ended.
    fn check_files(&self) -> Result<(), CliError> {
        let json = self.json_file();
        // `--json python train.py` would overwrite a program instead of starting it.
        if let Some(path) = json
            && path.extension().is_none_or(|extension| extension != "json")
            && is_program(path)
        {
            let name = path.display();
            return Err(format!(
                "--json {name}: it is a program; for the summary on stderr write `--json=- {name}`"
            )
            .into());
        }
        let files = [&self.html, &self.junit, &self.sarif, &self.markdown]
            .into_iter()
            .flatten()
            .chain(json);
        files.into_iter().try_for_each(|path| {
            // The trace creates its own folder and those above it.
            let is_made = !folder_of(path).exists() && self.out.starts_with(folder_of(path));
            let checked =
                check(path).and_then(|()| if is_made { Ok(()) } else { check_folder(path) });
            checked.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
        })
    }
}

pub(super) fn trace(arguments: TraceArguments) -> Outcome {
    let json = arguments.is_json_on_stderr();
    let policy = parse_policy(&arguments)
        .map_err(|why| fail_rendered(&why.to_string(), Exit::Usage, json))?;
    arguments
        .check_files()
        .map_err(|why| fail(why, Exit::Usage, json))?;
    let program = std::env::current_exe().map_err(|error| fail(error, Exit::Internal, json))?;
    let folder = arguments.out.join(format!(
        "{}-trace-{}",
        clock::utc_compact(),
        std::process::id()
    ));
    let options = tracer::TraceOptions {
        commit: crate::COMMIT.map(str::to_owned),
        command: arguments.command.clone(),
        on: arguments.on.clone(),
        folder,
        preload: !arguments.no_preload,
        redact: arguments.redact.then(host_redactor),
        all_calls: arguments.all_calls,
        ledger: arguments.memory,
        nvml: match arguments.nvml {
            NvmlChoice::Without => NvmlFound::Nothing,
            NvmlChoice::With | NvmlChoice::Either => NvmlFound::Machine,
        },
        stop_at_first: arguments.stop_at_first,
        wait_children: arguments.wait_children,
        ..tracer::TraceOptions::default()
    };
    let traced = tracer::trace(&program, &options).map_err(|error| not_started(&error, json))?;
    let ended = traced.ended;
    let lost = traced
        .lost
        .as_ref()
        .map(|why| format!("the trace is incomplete on disk: {why}"));
    let (failed, outcome) = match show_trace(&arguments, &policy, traced) {
        Ok(outcome) => (lost, outcome),
        Err(why) => (lost.or(Some(why.to_string())), PolicyOutcome::default()),
    };
    match failed {
        Some(why) if !policy.is_empty() => return Err(fail(why, Exit::NotDurable, false)),
        // The program keeps its exit code whatever happens to the tracer.
        Some(why) => print_stderr(&format!("cuda-pitfalls: {}\n", why.trim_end())),
        None => {}
    }
    Ok(match outcome {
        PolicyOutcome { violations, .. } if !violations.is_empty() => {
            let Some(code) = arguments.error_exitcode else {
                return Ok(named(Exit::Unexpected));
            };
            print_stderr(&format!(
                "cuda-pitfalls: exit {code} ({})\n",
                Exit::Unexpected.name()
            ));
            std::process::exit(code.into())
        }
        PolicyOutcome { undecided, .. } if !undecided.is_empty() => named(Exit::Inconclusive),
        _ => {
            if !policy.is_empty() {
                print_own_end(ended);
            }
            end_as(ended)
        }
    })
}

/// Parses the policy of the command line.
fn parse_policy(arguments: &TraceArguments) -> Result<Policy, CliError> {
    let forbidden =
        Policy::parse(&arguments.forbid, &[]).map_err(|error| format!("--forbid: {error}"))?;
    let bounded = Policy::parse(&[], &arguments.max_bytes)
        .map_err(|error| format!("--max-bytes: {error}"))?;
    Ok(Policy {
        max_bytes: bounded.max_bytes,
        ..forbidden
    })
}

/// Shows the trace in every requested format, and compares it with the policy.
fn show_trace(
    arguments: &TraceArguments,
    policy: &Policy,
    traced: Traced,
) -> Result<PolicyOutcome, CliError> {
    let document = traced.document;
    let trace = Trace::open(&document)?;
    let findings = diagnosis::findings(&trace);
    let outcome = if policy.is_empty() {
        PolicyOutcome::default()
    } else {
        policy.check(&trace, &findings)
    };
    let view = TraceView::new(&trace, &findings, &outcome);
    let name = if arguments.redact {
        cuda_pitfalls_trace::FILE.into()
    } else {
        document.to_string_lossy()
    };
    let (root, screen) = (source_folder(&trace), terminal::screen(&std::io::stderr()));
    let form = |form| {
        view.as_format(form, screen, [&name, &root])
            .unwrap_or_default()
    };
    let beside = document.with_file_name("trace.html");
    let page = arguments.html.as_ref().unwrap_or(&beside);
    // If the disk is full, the trace itself is more important than its page.
    if traced.lost.is_none() {
        write(page, &view.to_html(), arguments.html.is_some())?;
    }
    if let Some(path) = arguments.json_file() {
        write(path, &format!("{}\n", view.json()), true)?;
    }
    let others = [
        (&arguments.junit, Format::Junit),
        (&arguments.sarif, Format::Sarif),
        (&arguments.markdown, Format::Markdown),
    ];
    for (path, format) in others {
        if let Some(path) = path {
            write(path, &form(format), true)?;
        }
    }
    let mut told = if arguments.is_json_on_stderr() {
        format!("{}\n", view.json())
    } else {
        let (trace, page) = (document.display(), page.display());
        format!("{}trace {trace}\npage  {page}\n", form(Format::Text))
    };
    if arguments.github {
        told.push_str(&form(Format::Github));
    }
    print_stderr(&told);
    if !arguments.is_json_on_stderr() && failed_to_start(&trace) {
        print_causes(screen);
    }
    Ok(outcome)
}

/// Prints the reason why CUDA does not start here, after a program failed to start it.
fn print_causes(screen: Screen) {
    if let Some((examination, diagnosed)) = examine_here() {
        let causes =
            cuda_pitfalls_render::doctor::causes_in_words(&examination, &diagnosed, screen);
        print_stderr(&causes);
    }
}

/// Prints on stderr. A reader that has closed its end is not an error.
pub(super) fn print_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(guard_text(text, &stderr).as_bytes());
}

/// Writes a file: for everybody if the user named it, otherwise for this user alone, like the trace.
fn write(path: &Path, text: &str, is_named: bool) -> Result<(), CliError> {
    let written = if is_named {
        replace(path, EVERYBODY, |file| file.write_all(text.as_bytes()))
    } else {
        create_file(path, OWNER, |file| file.write_all(text.as_bytes()))
    };
    Ok(written.map_err(|error| format!("cannot write {}: {error}", path.display()))?)
}

/// Ends as shells do where a program cannot be started.
pub(super) fn not_started(error: &TracerError, json: bool) -> Exit {
    let exit = match error {
        TracerError::Usage(_) => Exit::Usage,
        TracerError::Document(_) => Exit::NotDurable,
        TracerError::Internal(_) => Exit::Internal,
        TracerError::Program { name, source } => {
            let hint = if name.ends_with(".py") {
                " (start a script with its interpreter: `python FILE`)"
            } else {
                ""
            };
            print_stderr(&format!("cuda-pitfalls: {error}{hint}\n"));
            std::process::exit(if source.kind() == std::io::ErrorKind::NotFound {
                127
            } else {
                126
            })
        }
    };
    fail(error, exit, json)
}

/// Prints on stderr that a failure is the program's own, because its exit code may be that of a violation.
fn print_own_end(ended: Ended) {
    let end = match ended {
        Ended { code: Some(0), .. } => return,
        Ended {
            signal: Some(signal),
            ..
        } => format!("ended by {}", signal_name(signal)),
        Ended { code, .. } => format!("exit {}", code.unwrap_or(1)),
    };
    print_stderr(&format!(
        "cuda-pitfalls: {end} (the program itself failed; no violation was seen before)\n"
    ));
}

/// Ends as the program did: by the same code, or by the same signal.
pub(super) fn end_as(ended: Ended) -> ! {
    if let Some(signal) = ended.signal {
        // SAFETY: no file of ours is open, and nothing is written after this.
        unsafe {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        std::process::exit(128 + signal);
    }
    std::process::exit(ended.code.unwrap_or(1))
}

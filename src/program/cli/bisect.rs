//! `bisect`: its arguments.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::output::fail;
use super::run::{ASKED, HOW_OFTEN, LockArguments, WHERE};
use super::{argument, with_workers};
use crate::run::{self, BisectOptions, NvmlChoice, On, RunOptions};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::EnvironmentRequest;
use cuda_pitfalls_core::defaults;

/// How it ends.
pub(super) const ENDS: &str = "\
Exits 0 if the first bad release is known, 3 if it is one of several of which nothing can be said, or if the ends are \
not as they were said to be, 2 if the command line is not valid. Packages are installed by uv, each trial in an \
environment of its own, which is removed afterwards. The versions of the packages in question hold whatever other \
packages ask for.";

#[derive(Debug, clap::Args)]
pub(super) struct BisectArguments {
    /// The package whose release made the difference. Of several, the one that makes it is found.
    #[arg(long, value_name = "PACKAGE", required = true, help_heading = ASKED)]
    package: Vec<String>,
    /// A version of it with which the command does not do it; one for each --package.
    #[arg(long, value_name = "VERSION", required = true, help_heading = ASKED)]
    good: Vec<String>,
    /// A version of it with which the command does it; one for each --package.
    #[arg(long, value_name = "VERSION", required = true, help_heading = ASKED)]
    bad: Vec<String>,
    /// What makes a release bad, as in `trace --forbid`; without a GPU cuinit or late-mask.
    #[arg(long, value_name = "WHAT", required = true, help_heading = ASKED)]
    forbid: Vec<String>,
    /// Install this too, such as "vllm==0.11.0 numpy<2".
    #[arg(long, value_name = "PACKAGES", help_heading = ASKED)]
    with: Vec<String>,
    /// Try pre-releases too.
    #[arg(long, help_heading = ASKED)]
    pre: bool,
    /// Take no package that was published after this day, such as 2025-11-20.
    #[arg(long, value_name = "DATE", help_heading = ASKED)]
    newest: Option<String>,
    /// Allow code to run that installing needs: packages that have to be built from source.
    #[arg(long, value_name = "HAZARD", value_parser = ["code"], help_heading = ASKED)]
    allow: Vec<String>,
    /// The version or the path of the interpreter; without it the one that uv chooses.
    #[arg(long, value_name = "PYTHON", help_heading = WHERE)]
    python: Option<PathBuf>,
    /// Where: `cuda` (this machine's driver) or `sim[:MACHINE]` (the fake driver alone).
    #[arg(long, default_value = defaults::ON, value_parser = argument::on, help_heading = WHERE)]
    on: On,
    /// Without a GPU: whether the command finds an NVML, as on a machine with GPUs, or none. Of either, one with which
    /// it does what is forbidden is enough.
    #[arg(long, value_enum, default_value_t = NvmlChoice::With, help_heading = WHERE)]
    nvml: NvmlChoice,
    /// The folder in which environments are made; each takes up to several GiB.
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = WHERE)]
    work: PathBuf,
    /// How long the command may run before it is killed.
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = argument::timeout, help_heading = HOW_OFTEN)]
    timeout: Duration,
    /// The most that environments and downloads may take on disk between two trials.
    #[arg(long, value_name = "SIZE", default_value = defaults::ENVIRONMENTS_SIZE, value_parser = argument::size, help_heading = HOW_OFTEN)]
    disk: u64,
    #[command(flatten)]
    locks: LockArguments,
    /// One JSON document on stdout.
    #[arg(long)]
    json: bool,
    /// The command and its arguments. Its `python` is that of the environment.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Searches.
pub(super) fn bisect(arguments: BisectArguments) -> Exit {
    let BisectArguments { package, good, bad, .. } = &arguments;
    if package.len() != good.len() || package.len() != bad.len() {
        return fail("each --package needs one --good and one --bad, in the same order", Exit::Usage, arguments.json);
    }
    for (package, version) in package.iter().zip(good).chain(package.iter().zip(bad)) {
        if let Err(error) = EnvironmentRequest::parse(&format!("{package}=={version}")) {
            return fail(error, Exit::Usage, arguments.json);
        }
    }
    let packages = package.iter().zip(good).zip(bad);
    let packages = packages.map(|((package, good), bad)| (package.clone(), good.clone(), bad.clone())).collect();
    let options = BisectOptions {
        packages,
        forbid: arguments.forbid,
        with: arguments.with.iter().flat_map(|words| words.split_whitespace()).map(str::to_string).collect(),
        newest: arguments.newest,
        pre: arguments.pre,
        build: !arguments.allow.is_empty(),
        limit: arguments.timeout,
        disk_bytes: arguments.disk,
        nvml: arguments.nvml,
        work: arguments.work,
        command: arguments.command,
        run: RunOptions {
            python: arguments.python,
            json: arguments.json,
            locking: arguments.locks.locking(),
            ..RunOptions::plain(arguments.on)
        },
    };
    with_workers(options.run.json, |program, interrupt| run::bisect(&options, program, interrupt))
}

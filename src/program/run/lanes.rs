//! `--lanes`: questions that are asked at the same time, on groups of GPUs that have none in common.
//!
//! Each lane is a process of this program, because a supervisor takes every new child of its process for one that the
//! attempt left behind. It says each answer at once, and the run keeps it as if it were its own. What a lane came to
//! no answer about, whatever the reason, the run asks by itself afterwards.

mod lane;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

pub(super) use self::lane::Voice;
pub use self::lane::lane;
use super::session::Session;
use super::{Failure, RunOptions, question};
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_core::plan::lanes::{Lane, share_out, split};
use cuda_pitfalls_core::report::LaneMessage;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_instrument::supervisor::{Errand, ErrandEnd, role};

/// A lane ends when its questions are answered, each of which has a deadline, or when the run ends.
const LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The time from SIGTERM to SIGKILL: a lane ends its workers, and says what it has.
const GRACE: Duration = Duration::from_secs(10);
/// How often the run looks for Ctrl-C while nothing is said.
const TICK: Duration = Duration::from_millis(100);

/// What the run hears of a lane: what it says, or why it says no more.
pub(super) type Heard = Result<LaneMessage<'static>, String>;

/// The lanes of a run, with their questions; none without `--lanes`.
///
/// # Errors
/// There are fewer GPUs than lanes.
pub(super) fn of(options: &RunOptions, session: &mut Session, selection: &Selection) -> Result<Vec<Lane>, Failure> {
    if options.lanes == 0 {
        return Ok(Vec::new());
    }
    let planning = question::planning(session, options, 0);
    let Some(mut lanes) = split(&session.machine, &planning, options.lanes) else {
        let usable = super::require::usable(session);
        let words = format!("--lanes {}: each needs a GPU, and {} may be used", options.lanes, counted(usable, "GPU"));
        return Err(Failure::Usage(words));
    };
    share_out(selection.instances(), &session.machine, &planning, session.pace(), &mut lanes);
    Ok(lanes)
}

/// How much sooner a run ends because of its lanes.
pub(super) fn saved(lanes: &[Lane]) -> Duration {
    let longest = lanes.iter().map(|lane| lane.expected).max().unwrap_or_default();
    lanes.iter().map(|lane| lane.expected).sum::<Duration>().saturating_sub(longest)
}

/// What every lane of a run is started with.
pub(super) struct Start<'a> {
    pub(super) program: &'a Path,
    pub(super) options: &'a RunOptions,
    /// `cuda` or `sim:<machine>`.
    pub(super) on: &'a str,
    pub(super) seed: u64,
}

impl Start<'_> {
    /// Starts all lanes that have questions, and hands on what each says, by its index, until all have ended. `None` is said when there was
    /// nothing to hear for a while. If `hear` returns false, the lanes are stopped.
    pub(super) fn run(&self, lanes: &[Lane], mut hear: impl FnMut(Option<(usize, Heard)>) -> bool) {
        let stop = AtomicBool::new(false);
        let (tell, heard) = mpsc::channel();
        std::thread::scope(|scope| {
            let asked = lanes.iter().enumerate().filter(|(_, lane)| !lane.instances.is_empty());
            for (place, lane) in asked {
                let (tell, stop) = (tell.clone(), &stop);
                scope.spawn(move || {
                    if let Err(error) = self.one(place, lane, stop, &tell) {
                        let _ = tell.send((place, Err(error)));
                    }
                });
            }
            drop(tell);
            loop {
                let said = match heard.recv_timeout(TICK) {
                    Ok(said) => Some(said),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if !hear(said) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        });
    }

    /// Runs one lane to its end, from a thread that lives as long as the lane.
    fn one(&self, place: usize, lane: &Lane, stop: &AtomicBool, tell: &Sender<(usize, Heard)>) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        let (ours, theirs) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|it| words(it.into()))?;
        let folder = std::env::current_dir().map_err(words)?;
        let errand = Errand {
            program: self.program,
            role: role::LANE,
            arguments: self.arguments(lane),
            environment: std::env::vars_os().collect::<BTreeMap<_, _>>(),
            folder: &folder,
            limit: LIMIT,
            grace: GRACE,
            stdout: Some(File::from(theirs)),
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || listen(place, BufReader::new(File::from(ours)), tell));
            let ended = errand.run(|| stop.load(Ordering::Relaxed)).map_err(|error| error.to_string());
            let has_ended = reader.join().unwrap_or(false);
            match ended? {
                ErrandEnd::Unkillable(pid) => Err(format!("process {pid} could not be killed")),
                ErrandEnd::Exited { stderr, status } if !has_ended => Err(match stderr.trim().lines().last() {
                    Some(last) => last.trim_start_matches("cuda-pitfalls: ").to_string(),
                    None => status.to_string(),
                }),
                ErrandEnd::Exited { .. } | ErrandEnd::Stopped => Ok(()),
            }
        })
    }

    /// The command line of a lane: that of this run, without what concerns its report.
    fn arguments(&self, lane: &Lane) -> Vec<OsString> {
        let RunOptions { selectors, exclude, repeat, quick, libcudart, libcuda, python, allow, .. } = self.options;
        let mut arguments = Vec::new();
        let mut add = |option: &str, value: OsString| {
            // In one word, so that a value may begin with a dash.
            let mut word = OsString::from(option);
            word.push("=");
            word.push(value);
            arguments.push(word);
        };
        lane.instances.iter().for_each(|name| add("--ask", name.into()));
        add("--gpus", lane.gpus.join(",").into());
        add("--on", self.on.into());
        add("--seed", self.seed.to_string().into());
        exclude.iter().for_each(|selector| add("--exclude", selector.into()));
        repeat.iter().for_each(|repeat| add("--repeat", repeat.to_string().into()));
        libcudart.iter().for_each(|path| add("--libcudart", path.into()));
        libcuda.iter().for_each(|path| add("--libcuda", path.into()));
        python.iter().for_each(|path| add("--python", path.into()));
        allow.iter().for_each(|hazard| add("--allow", hazard.name().into()));
        if *quick {
            arguments.push("--quick".into());
        }
        arguments.push("--".into());
        arguments.extend(selectors.iter().map(OsString::from));
        arguments
    }
}

/// Hands on each line of a lane. Whether its end was said.
fn listen(place: usize, lines: impl BufRead, tell: &Sender<(usize, Heard)>) -> bool {
    let mut has_ended = false;
    for line in lines.lines() {
        let Ok(line) = line else { break };
        let heard: Heard = serde_json::from_str(&line).map_err(|error| format!("what it said cannot be read: {error}"));
        has_ended |= matches!(heard, Ok(LaneMessage::Ended { .. }));
        let _ = tell.send((place, heard));
    }
    has_ended
}

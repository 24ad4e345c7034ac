//! A call and its parameters.

use crate::kind::{Output, ParamKind};
use crate::library::CallLibrary;

/// The type of name that threads, processes and exit handlers have.
pub const ACTOR: &str = "actor";
/// The type of name that a private copy of libcudart has.
pub const LIBRARY_COPY: &str = "library copy";
/// The output that holds a text which a function returned.
pub const RETURNED_TEXT: &str = "text";
/// The most bytes of such a text that are kept.
pub const RETURNED_TEXT_BYTES: usize = 256;

/// One call that a scenario can list.
#[derive(Debug)]
pub struct Call {
    /// The exact C symbol, which is also the key in a scenario file.
    pub name: &'static str,
    /// The library that exports it, or this program.
    pub library: CallLibrary,
    /// One sentence for help and documentation.
    pub summary: &'static str,
    /// What is passed, in C order; some is written by the author, some is made up here.
    pub params: Vec<Param>,
    /// What the function returns.
    pub returns: Returns,
    /// The first CUDA version whose header declares this prototype, as `CUDA_VERSION` has it (12030
    /// for 12.3); none if 11.4 or an earlier one does.
    pub since: Option<u32>,
    /// The last CUDA version whose header declares this prototype; none if the newest known does.
    pub until: Option<u32>,
    /// The prototype that the same name had before.
    pub earlier: Option<EarlierPrototype>,
    /// What it does beside what it returns.
    pub effects: Vec<Effect>,
}

/// What a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// A 32-bit status of its library.
    Status,
    /// A C string that it keeps; it is the output `text`, and there is no status.
    Text,
}

/// One parameter of a call.
#[derive(Debug)]
pub struct Param {
    /// The key in a scenario file (inputs) or in an observation's `values` (outputs).
    pub name: &'static str,
    /// The C type as the header writes it; empty for the second word of a struct passed by value.
    pub c_type: &'static str,
    /// Whether only earlier prototypes have it. It is passed all the same: a callee that takes fewer
    /// does not see it.
    pub older: bool,
    /// What it holds and how it is passed.
    pub kind: ParamKind,
    /// What is passed when the author leaves the key out; none if leaving it out is an error.
    pub default: Option<i64>,
}

/// A prototype that a name had in earlier CUDA versions.
#[derive(Debug)]
pub struct EarlierPrototype {
    /// The last CUDA version with this prototype, as `CUDA_VERSION` has it.
    pub until: u32,
    /// The C types of its parameters.
    pub types: Vec<&'static str>,
}

/// What a call does beside what it returns: to processes, threads and the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Makes no call: a moment at which everything is read.
    Marks,
    /// Makes no call into a driver and waits for none: memory of a GPU cannot change by it.
    Inert,
    /// Its `name` is that of an environment variable.
    NamesVariable,
    /// By it a worker may come to a GPU that its mask does not name.
    MayUnmask,
    /// Starts a thread.
    StartsThread,
    /// Ends a thread.
    JoinsThread,
    /// Starts a process that goes on where its parent is.
    Forks,
    /// Starts a process that is a fresh program.
    Spawns,
    /// Makes the process that calls it a fresh program.
    Execs,
    /// Waits until a process that was started has ended.
    WaitsForProcess,
    /// Adds a handler that runs when the process exits.
    AddsExitHandler,
    /// Ends the process after its exit handlers.
    Exits,
    /// Ends the process without them.
    ExitsAtOnce,
    /// Opens a library.
    OpensLibrary,
}

impl Effect {
    /// Every effect by its word in the tables.
    pub(crate) const WORDS: [(&str, Effect); 14] = [
        ("marks", Effect::Marks),
        ("inert", Effect::Inert),
        ("names-variable", Effect::NamesVariable),
        ("may-unmask", Effect::MayUnmask),
        ("starts-thread", Effect::StartsThread),
        ("joins-thread", Effect::JoinsThread),
        ("forks", Effect::Forks),
        ("spawns", Effect::Spawns),
        ("execs", Effect::Execs),
        ("waits-for-process", Effect::WaitsForProcess),
        ("adds-exit-handler", Effect::AddsExitHandler),
        ("exits", Effect::Exits),
        ("exits-at-once", Effect::ExitsAtOnce),
        ("opens-library", Effect::OpensLibrary),
    ];
}

impl Call {
    /// The parameters an author may write, in C order.
    pub fn inputs(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|p| !matches!(p.kind, ParamKind::Fixed(_) | ParamKind::Out(_)))
    }

    /// What the callee gives back beside a status: parameters in C order, and a text that it returns.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, Output)> {
        let text = (self.returns == Returns::Text).then_some((RETURNED_TEXT, Output::Text(RETURNED_TEXT_BYTES)));
        let written = self.params.iter().filter_map(|p| match p.kind {
            ParamKind::Out(output) => Some((p.name, output)),
            _ => None,
        });
        written.chain(text)
    }

    /// Whether it has an effect.
    pub fn has(&self, effect: Effect) -> bool {
        self.effects.contains(&effect)
    }

    /// Whether it starts a process, one that is forked or a fresh one.
    pub fn starts_process(&self) -> bool {
        self.has(Effect::Forks) || self.has(Effect::Spawns)
    }

    /// Whether `as` means something for this call, and the type of handle it binds.
    pub fn binds(&self) -> Option<&'static str> {
        let of_effect = self.effects.iter().find_map(|effect| match effect {
            Effect::StartsThread | Effect::Forks | Effect::Spawns | Effect::AddsExitHandler => Some(ACTOR),
            Effect::OpensLibrary => Some(LIBRARY_COPY),
            _ => None,
        });
        let written = || {
            self.outputs().find_map(|(_, output)| match output {
                Output::Handle(of) | Output::Word(of) | Output::Blob(of, _) => Some(of),
                _ => None,
            })
        };
        of_effect.or_else(written)
    }
}

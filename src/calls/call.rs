//! A call and its parameters.

use crate::kind::{Output, ParamKind};
use crate::library::CallLibrary;

/// The type of the names of threads, processes and exit handlers.
pub const ACTOR: &str = "actor";
/// The type of the names of private copies of libcudart.
pub const LIBRARY_COPY: &str = "library copy";
/// The type of the names of private copies of libcuda.
pub const DRIVER_COPY: &str = "libcuda copy";
/// The output for the text that a function returned.
pub const RETURNED_TEXT: &str = "text";
/// Maximum number of bytes of such a text that are kept.
pub const RETURNED_TEXT_BYTES: usize = 256;

/// A call that a scenario can list.
#[derive(Debug)]
pub struct Call {
    /// The exact C symbol, which is also the key in a scenario file.
    pub name: &'static str,
    /// The library that exports the call; [`CallLibrary::Harness`] for an action of this program.
    pub library: CallLibrary,
    /// A sentence for help and documentation.
    pub summary: &'static str,
    /// The parameters in C order. The author writes some of them; the others have fixed values or are outputs.
    pub params: Vec<Param>,
    /// The type of the function's result.
    pub returns: Returns,
    /// The first CUDA version whose header declares this prototype, in the form of `CUDA_VERSION` (12030 for 12.3);
    /// `None` if 11.4 or an earlier one does.
    pub since: Option<u32>,
    /// The last CUDA version whose header declares this prototype; `None` if the newest known one does.
    pub until: Option<u32>,
    /// The prototype that this name had in earlier versions.
    pub earlier: Option<EarlierPrototype>,
    /// The effects of the call on processes, threads and the environment.
    pub effects: Vec<Effect>,
}

/// The type of a function's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// A 32-bit status of its library.
    Status,
    /// A C string that the library keeps. The string becomes the output `text`, and the call has no status.
    Text,
}

/// A parameter of a call.
#[derive(Debug)]
pub struct Param {
    /// The key in a scenario file (inputs) or in an observation's `values` (outputs).
    pub name: &'static str,
    /// The C type as in the header; empty for the second word of a struct passed by value.
    pub c_type: &'static str,
    /// `true` if only earlier prototypes have the parameter. It is always passed: other functions ignore it.
    pub older: bool,
    /// The kind of value, and how it is passed.
    pub kind: ParamKind,
    /// The value if the author leaves the key out; `None` if the key is required.
    pub default: Option<i64>,
}

/// A prototype that a name had in earlier CUDA versions.
#[derive(Debug)]
pub struct EarlierPrototype {
    /// The last CUDA version with this prototype, in the form of `CUDA_VERSION`.
    pub until: u32,
    /// The C types of its parameters.
    pub types: Vec<&'static str>,
}

/// An effect of a call on processes, threads or the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Makes no call; marks a moment at which everything is read.
    Marks,
    /// Makes no driver call and waits for none, so it cannot change the memory of a GPU.
    Inert,
    /// The parameter `name` is the name of an environment variable.
    NamesVariable,
    /// May let a worker use a GPU that its mask does not select.
    MayUnmask,
    /// Starts a thread.
    StartsThread,
    /// Ends a thread.
    JoinsThread,
    /// Starts a process that continues at the same point as its parent.
    Forks,
    /// Starts a process that runs a fresh program.
    Spawns,
    /// Replaces the calling process by a fresh program.
    Execs,
    /// Waits for the end of a process that was started.
    WaitsForProcess,
    /// Adds a handler that runs when the process exits.
    AddsExitHandler,
    /// Ends the process after its exit handlers.
    Exits,
    /// Ends the process without its exit handlers.
    ExitsAtOnce,
    /// Opens a library.
    OpensLibrary,
    /// Denies a file or a system call from then on.
    Refuses,
    /// Starts an MPS daemon, whose server has a context on every GPU that it sees.
    StartsMps,
}

impl Effect {
    /// Every effect by its word in the tables.
    pub(crate) const WORDS: [(&str, Effect); 16] = [
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
        ("refuses", Effect::Refuses),
        ("starts-mps", Effect::StartsMps),
    ];
}

impl Call {
    /// Returns the parameters that an author may write, in C order.
    pub fn input_params(&self) -> impl Iterator<Item = &Param> {
        self.params
            .iter()
            .filter(|p| !matches!(p.kind, ParamKind::Fixed(_) | ParamKind::Out(_)))
    }

    /// Returns the outputs: parameters that the function writes, in C order, and a text that it returns.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, Output)> {
        let text = (self.returns == Returns::Text)
            .then_some((RETURNED_TEXT, Output::Text(RETURNED_TEXT_BYTES)));
        let written = self.params.iter().filter_map(|p| match p.kind {
            ParamKind::Out(output) => Some((p.name, output)),
            _ => None,
        });
        written.chain(text)
    }

    /// Returns `true` if the call has this effect.
    pub fn has(&self, effect: Effect) -> bool {
        self.effects.contains(&effect)
    }

    /// Returns `true` if the call starts a process, forked or fresh.
    pub fn starts_process(&self) -> bool {
        self.has(Effect::Forks) || self.has(Effect::Spawns)
    }

    /// Returns the type of handle that `as` binds; `None` if the call has no `as`.
    pub fn bound_handle(&self) -> Option<&'static str> {
        let of_effect = self.effects.iter().find_map(|effect| match effect {
            Effect::StartsThread | Effect::Forks | Effect::Spawns | Effect::AddsExitHandler => {
                Some(ACTOR)
            }
            Effect::OpensLibrary => Some(LIBRARY_COPY),
            _ => None,
        });
        of_effect.or_else(|| {
            self.outputs().find_map(|(_, output)| match output {
                Output::Handle(of) | Output::Word(of) | Output::Blob(of, _) => Some(of),
                _ => None,
            })
        })
    }
}

//! Stacks: the Python and native frames of a call, each with the owner of its code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The frames of one thread at one call, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// The frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
    /// The position of the user's own code at that moment on another Python thread; present if the calling thread has
    /// no user frame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<Frame>,
    /// The innermost line of the user's own code, as its file had it when the stack was read, without surrounding
    /// whitespace and truncated to 200 characters. Absent where the file could not be read with the program's own
    /// rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A sentence that describes which frames are missing, and why; absent if the stack is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The number of frames of a deep stack that are left out before its outermost frames.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// The language of the function.
    pub language: FrameLanguage,
    /// The function's name; empty for a frame without a name.
    pub function: String,
    /// The source file, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The program or library that holds the code of a native frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The owner of the code.
    pub owner: FrameOwner,
    /// The installed package that the frame belongs to, such as `torch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// The language of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Language")]
pub enum FrameLanguage {
    /// Python.
    Python,
    /// Machine code: C, C++, Rust and similar languages.
    Native,
}

/// The owner of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Owner")]
pub enum FrameOwner {
    /// The user's own code.
    Program,
    /// An installed package.
    Package,
    /// The language's own library or interpreter, and the C library.
    System,
    /// NVIDIA's driver, runtime and toolkit libraries.
    Cuda,
}

/// Folders that hold installed Python packages.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// Python's name for the code of a module, which runs while the module is imported.
pub const MODULE: &str = "<module>";

/// Functions that only pass a call through.
const WRAPPERS: [&str; 6] = [
    "wrapper",
    "_wrapper",
    "wrapped",
    "inner",
    "_fn",
    "decorate_context",
];

impl Frame {
    /// Returns a Python frame. `function` is qualified where Python reports it so.
    pub fn python(function: &str, file: &str, line: u32) -> Frame {
        let package = package_of(file);
        // Code that was compiled from text under a name belongs to the user who typed it; packages also create
        // functions in this way.
        let is_typed = text_name(file).is_some()
            || is_typed_text(file)
            || (function == MODULE && file != "<string>");
        let is_made = (file.starts_with('<') && !is_typed)
            || file.starts_with("<frozen")
            || file.starts_with("frozen ");
        let owner = match &package {
            Some(_) => FrameOwner::Package,
            None if is_made || is_of_python(file) => FrameOwner::System,
            None => FrameOwner::Program,
        };
        Frame {
            language: FrameLanguage::Python,
            function: function.to_owned(),
            file: Some(file.to_owned()),
            line: Some(line).filter(|line| *line > 0),
            module: None,
            owner,
            package,
        }
    }

    /// Returns a native frame in a program or library. `program` is the file that the process runs, whose code is the
    /// user's own unless it is a Python interpreter.
    pub fn from_native(
        function: &str,
        module: Option<&str>,
        source: Option<(String, Option<u32>)>,
        program: Option<&str>,
    ) -> Frame {
        let package = module.and_then(package_of);
        let name = module.map(file_name).unwrap_or_default();
        let owner = match module {
            _ if is_cuda(name) || is_of_runtime(function, source.as_ref()) => FrameOwner::Cuda,
            Some(_) if package.is_some() => FrameOwner::Package,
            Some(module)
                if is_of_system(module)
                    || ["python", "libpython"]
                        .iter()
                        .any(|start| name.starts_with(start)) =>
            {
                FrameOwner::System
            }
            Some(module)
                if Some(module) == program || source.is_some() || !name.contains(".so") =>
            {
                FrameOwner::Program
            }
            Some(_) => FrameOwner::Package,
            None => FrameOwner::System,
        };
        let (file, line) = source.map_or((None, None), |(file, line)| (Some(file), line));
        Frame {
            language: FrameLanguage::Native,
            function: function.to_owned(),
            file,
            line,
            module: module.map(str::to_owned),
            owner,
            package,
        }
    }

    /// Returns the function as a user would write it. For a function in a package's Python file this includes the
    /// module's dotted name, as in `torch.cuda.is_available`.
    pub fn name(&self) -> String {
        let function = if self.function.is_empty() {
            "?"
        } else {
            self.function.as_str()
        };
        match (&self.language, self.file.as_deref().and_then(dotted_name)) {
            (FrameLanguage::Python, Some(module)) if function == MODULE => module,
            (FrameLanguage::Python, Some(module)) => format!("{module}.{function}"),
            // The entry script of a package.
            (FrameLanguage::Python, None)
                if function == MODULE && self.owner == FrameOwner::Package =>
            {
                self.file
                    .as_deref()
                    .map(file_name)
                    .unwrap_or_default()
                    .to_owned()
            }
            (FrameLanguage::Native, _) => native_name(function),
            _ => function.to_owned(),
        }
    }

    /// Returns the path below the folder of packages, such as `torch/cuda/__init__.py`, or the library for machine
    /// code; `None` outside packages.
    pub fn package_file(&self) -> Option<&str> {
        let file = match self.language {
            FrameLanguage::Python => self.file.as_deref(),
            FrameLanguage::Native => self.module.as_deref(),
        };
        file.and_then(below_packages)
    }

    /// Returns `true` for a Python function of a package that is meant for users.
    pub fn is_public(&self) -> bool {
        self.owner == FrameOwner::Package
            && self.language == FrameLanguage::Python
            && !self.is_wrapper()
            && !self
                .function
                .rsplit('.')
                .next()
                .unwrap_or_default()
                .starts_with(['_', '<'])
    }

    /// Returns `true` if the function only passes a call through, as the function inside a decorator does.
    fn is_wrapper(&self) -> bool {
        let last = self.function.rsplit('.').next().unwrap_or_default();
        self.language == FrameLanguage::Python
            && (self.function.contains("<locals>") || WRAPPERS.contains(&last))
    }

    /// Returns `true` if a package did something here while it was imported. The entry script of a package is not
    /// imported.
    fn is_import_of_package(&self) -> bool {
        self.function == MODULE
            && self.owner == FrameOwner::Package
            && self.package_file().is_some()
    }

    /// Returns `true` for code that was given to Python as text: with `-c`, on stdin, in a notebook.
    pub fn is_text(&self) -> bool {
        self.file
            .as_deref()
            .is_some_and(|file| file.starts_with('<') || text_name(file).is_some())
    }

    /// Returns `train.py:12`, with the last part of the path; `cell 3 line 2` for code that is not in a file.
    pub fn line(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(line_in_words(
            if text_name(file).is_some() {
                file
            } else {
                file_name(file)
            },
            self.line,
        ))
    }
}

/// Returns `train.py:12`. For code that was typed into IPython, a notebook or Python, and for the example of a doctest,
/// returns the name that users know: `cell 3 line 2`.
pub fn line_in_words(file: &str, line: Option<u32>) -> String {
    match (text_name(file), line) {
        (Some(name), Some(line)) => format!("{name} line {line}"),
        (Some(name), None) => name,
        (None, Some(line)) => format!("{file}:{line}"),
        (None, None) => file.to_owned(),
    }
}

/// Returns the hash of a notebook cell from the file name that ipykernel gives to the compiled cell.
pub(crate) fn kernel_cell(file: &str) -> Option<&str> {
    let (folder, name) = file.rsplit_once('/')?;
    if !file_name(folder).starts_with("ipykernel_") {
        return None;
    }
    name.strip_suffix(".py")
}

/// Returns the name of code that was given as text. It is derived from the file name that IPython, ipykernel, doctest
/// or Python made up, or that the trace gives a cell whose notebook was found.
fn text_name(file: &str) -> Option<String> {
    for (start, name) in [("<ipython-input-", "cell"), ("<python-input-", "input")] {
        if let Some(rest) = file.strip_prefix(start) {
            let number = rest.split(['-', '>']).next()?;
            return Some(format!("{name} {number}"));
        }
    }
    if let Some(cell) = kernel_cell(file) {
        return Some(format!("notebook cell {cell}"));
    }
    let inside = file.strip_suffix('>')?;
    match inside.strip_prefix("<doctest ") {
        Some(example) => Some(format!("doctest {example}")),
        None => inside.strip_prefix("<notebook ").map(str::to_owned),
    }
}

/// The file names that Python, `code`, cloudpickle, `timeit` and IPython's magics give to code that a user typed, or
/// sent to another process.
const TYPED: [&str; 7] = [
    "<stdin>",
    "<console>",
    "<dynamic-code>",
    "<timeit-src>",
    "<magic-timeit>",
    "<timed exec>",
    "<timed eval>",
];

fn is_typed_text(file: &str) -> bool {
    TYPED.contains(&file) || file.starts_with("<command-")
}

/// Returns `true` if the text is a script that an installer wrote for the entry point of a package, as `bin/torchrun`.
/// Each installer cuts the suffix that such a script has on Windows, or names the entry point.
pub(crate) fn is_entry_script(text: &str) -> bool {
    text.starts_with("#!")
        && text.lines().any(|line| {
            let cuts_ending = line.contains("sys.argv[0]")
                && (line.contains(".exe") || line.contains("-script.py"));
            cuts_ending || line.contains("load_entry_point(") || line.contains(".run_script(")
        })
}

/// The position of the user's own code at a call.
#[derive(Clone, Copy, Debug)]
pub struct CallSite<'a> {
    /// The innermost frame of that code.
    pub frame: &'a Frame,
    /// `true` if another thread made the call, and this is where the user's code was at that moment.
    pub is_beside: bool,
}

impl CallSite<'_> {
    /// Returns the line, such as `train.py:12`, or else the function.
    pub fn in_words(&self) -> String {
        let line = self.frame.line().unwrap_or_else(|| self.frame.name());
        if self.is_beside {
            format!("other thread (main thread at {line})")
        } else {
            line
        }
    }
}

impl Stack {
    /// Returns a stack that could not be read, with the reason.
    pub fn from_failure(why: impl Into<String>) -> Stack {
        Stack {
            missing: Some(why.into()),
            ..Stack::default()
        }
    }

    /// Returns the innermost frame of the user's own code on this thread; a frame in a file is preferred.
    pub fn user_frame(&self) -> Option<&Frame> {
        let mut without_file = None;
        for frame in &self.frames {
            if frame.owner != FrameOwner::Program {
                continue;
            }
            if frame.file.is_some() {
                return Some(frame);
            }
            if without_file.is_none() && !frame.function.is_empty() {
                without_file = Some(frame);
            }
        }
        without_file
    }

    /// Returns the innermost frame of the user's own code on another thread at that moment.
    pub fn users_meanwhile(&self) -> Option<&Frame> {
        let mut meanwhile = self.meanwhile.iter();
        meanwhile.find(|frame| frame.owner == FrameOwner::Program)
    }

    /// Returns the position of the user's own code: on this thread, or else on another one at that moment.
    pub fn call_site(&self) -> Option<CallSite<'_>> {
        let (frame, is_beside) = match self.user_frame() {
            Some(frame) => (frame, false),
            None => (self.users_meanwhile()?, true),
        };
        Some(CallSite { frame, is_beside })
    }

    /// Returns `true` if NVIDIA's OpenCL made the call.
    pub fn is_of_opencl(&self) -> bool {
        self.frames.iter().any(|frame| {
            let module = frame.module.as_deref().unwrap_or_default();
            file_name(module).starts_with("libnvidia-opencl")
        })
    }

    /// Returns the user's line, such as `train.py:12`; else the user's function; else the user's line on another thread
    /// at that moment.
    pub fn place(&self) -> Option<String> {
        Some(self.call_site()?.in_words())
    }

    /// Returns the user's own frames, outermost first.
    pub fn users_all(&self) -> Vec<&Frame> {
        let mut own: Vec<&Frame> = self.frames.iter().rev().collect();
        own.retain(|frame| frame.owner == FrameOwner::Program);
        // A child of multiprocessing begins with a line of text that is not the user's.
        let is_written = |frame: &Frame| frame.file.as_deref() != Some("<string>");
        let is_python = |frame: &Frame| frame.language == FrameLanguage::Python;
        if own
            .iter()
            .any(|frame| is_written(frame) && is_python(frame))
        {
            own.retain(|frame| is_written(frame));
        }
        own
    }

    /// Returns the package function that the user's code called: the outermost one below the user's line that does more
    /// than pass the call through.
    pub fn entry(&self) -> Option<&Frame> {
        let below = self.frames_below_user();
        outermost_of_package(below, FrameLanguage::Python)
            .or_else(|| outermost_of_package(below, FrameLanguage::Native))
    }

    /// Returns the innermost line that ran because a package was imported, below the user's line.
    pub fn import_frame(&self) -> Option<&Frame> {
        let mut below = self.frames_below_user().iter();
        below.find(|frame| frame.is_import_of_package())
    }

    /// Returns the frames that the user's innermost line called, innermost first.
    fn frames_below_user(&self) -> &[Frame] {
        let mut parts = self
            .frames
            .split(|frame| frame.owner == FrameOwner::Program);
        parts.next().unwrap_or_default()
    }

    /// Returns the name of the entry. If a package made the call while it was imported, the entry is only the way to
    /// that import, so the line that ran then is added: `torch (at torch/quasirandom.py:219)`.
    pub fn entry_name(&self) -> Option<String> {
        let Some(entry) = self.entry() else {
            return self.is_of_opencl().then(|| "OpenCL".to_owned());
        };
        let Some(import) = self.import_frame() else {
            return Some(entry.name());
        };
        let mut name = match &entry.package {
            // A lazy loader is not the function that the user's line names.
            Some(package) if entry.function != MODULE && !entry.is_public() => package.clone(),
            _ => entry.name(),
        };
        if let (Some(file), Some(line)) = (import.package_file(), import.line) {
            name += &format!(" (at {file}:{line})");
        }
        Some(name)
    }

    /// Returns the innermost function of a package that is meant for users, for a stack without the user's own code:
    /// there the entry may be only the package's own beginning.
    pub fn innermost_public(&self) -> Option<&Frame> {
        self.frames.iter().find(|frame| {
            frame.language == FrameLanguage::Python
                && frame.owner == FrameOwner::Package
                && !frame.is_wrapper()
                && !frame.function.starts_with(['_', '<'])
        })
    }

    /// Returns the package that made the call: that of the innermost Python frame, or else of the innermost native one.
    /// NVIDIA's own libraries are skipped: they are in packages too, and each call goes through them.
    pub fn package(&self) -> Option<&str> {
        let mut native = None;
        for frame in &self.frames {
            let package = frame.package.as_deref();
            if package.is_none() || frame.owner == FrameOwner::Cuda {
                continue;
            }
            if frame.language == FrameLanguage::Python {
                return package;
            }
            native = native.or(package);
        }
        native
    }

    /// Returns the package whose code wrote a variable; none if the user's own code did, directly or only through
    /// Python's library.
    pub(crate) fn writing_package(&self) -> Option<&str> {
        let writer = self.frames.iter().find(|frame| {
            frame.language == FrameLanguage::Python && frame.owner != FrameOwner::System
        })?;
        writer.package.as_deref()
    }

    /// Returns `true` if a function of this name is on the stack. `name` must be complete, with or without the part
    /// before its last dot.
    pub fn has(&self, name: &str) -> bool {
        self.frames.iter().any(|frame| {
            let function = match frame.language {
                FrameLanguage::Python => frame.function.clone(),
                FrameLanguage::Native => native_name(&frame.function),
            };
            function == name
                || function.rsplit(['.', ':']).next() == Some(name)
                || frame.name() == name
        })
    }
}

/// Returns the outermost function of a package in one language, preferably one that does more than pass the call
/// through.
fn outermost_of_package(frames: &[Frame], language: FrameLanguage) -> Option<&Frame> {
    let mut wrapper = None;
    for frame in frames.iter().rev() {
        let is_of_package = frame.owner == FrameOwner::Package && frame.language == language;
        if !is_of_package || frame.function.is_empty() {
            continue;
        }
        if !frame.is_wrapper() {
            return Some(frame);
        }
        wrapper = wrapper.or(Some(frame));
    }
    wrapper
}

/// Functions that programs call to select a device.
const SELECTS: [&str; 7] = [
    "set_device",
    "setDevice",
    "select_device",
    "use",
    "__enter__",
    "cudaSetDevice",
    "cudaInitDevice",
];

/// Expressions for device 0 in a Python line.
const NAMES_DEVICE_0: [&str; 3] = ["cuda:0", "cuda(0)", "Device(0)"];

/// Returns `true` if the user's code selects a device at a call, or if its line refers to device 0. The user's code
/// selects a device if it calls such a function from its first frame, or from the frame that enters another file or a
/// package. A function that is called deeper down may select the default device.
pub(crate) fn selects_device(stack: &Stack) -> bool {
    let line = stack.source.as_deref().unwrap_or_default();
    if NAMES_DEVICE_0.iter().any(|text| line.contains(text)) {
        return true;
    }
    let own = stack.users_all();
    let mut frames: Vec<&Frame> = own.iter().take(2).copied().collect();
    if let Some(first) = own.first() {
        frames.extend(own.iter().find(|frame| frame.file != first.file));
    }
    frames.extend(stack.entry());
    for (called, user) in stack.frames.iter().zip(stack.frames.iter().skip(1)) {
        if called.owner == FrameOwner::Program {
            break;
        }
        if user.owner == FrameOwner::Program {
            frames.push(called);
            break;
        }
    }
    frames.iter().any(|frame| {
        let name = frame.name();
        SELECTS.contains(&name.rsplit(['.', ':']).next().unwrap_or_default())
    })
}

/// Returns the name of a native function without the types of its arguments. For a function that Cython made, returns
/// its Python name.
fn native_name(function: &str) -> String {
    if let Some(name) = demangle_cython(function) {
        return name;
    }
    let Some(end) = function.rfind(')') else {
        return function.to_owned();
    };
    let mut depth = 0_usize;
    for (at, byte) in function.bytes().enumerate().take(end + 1).rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let name = function.get(..at).unwrap_or_default();
            // `(anonymous namespace)` is a part of the name.
            let is_part = name.is_empty() || name.ends_with("::") || name.ends_with(' ');
            return if is_part { function } else { name }.to_owned();
        }
    }
    function.to_owned()
}

/// Returns `cupy.cuda.device.Device.__exit__` for `__pyx_pw_4cupy_4cuda_6device_6Device_9__exit__`. Each part follows
/// its length. The last one follows a number, or nothing where only C calls it.
fn demangle_cython(function: &str) -> Option<String> {
    let made = function.strip_prefix("__pyx_")?.split('(').next()?;
    let strip_kind = |kinds: &[&str]| kinds.iter().find_map(|kind| made.strip_prefix(kind));
    let of_python = strip_kind(&["pw_", "pf_"]);
    let of_c = strip_kind(&["f_", "getprop_", "setprop_", "tp_dealloc_", "tp_new_"]);
    let mut rest = of_python.or(of_c)?;
    let mut parts: Vec<&str> = Vec::new();
    loop {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let length: usize = rest.strip_suffix(after)?.parse().unwrap_or(0);
        let Some((part, more)) = after.split_at_checked(length) else {
            break;
        };
        let Some(more) = more.strip_prefix('_') else {
            break;
        };
        if part.is_empty()
            || !more.starts_with(|letter: char| {
                letter.is_ascii_digit() || (of_python.is_none() && letter.is_alphabetic())
            })
        {
            break;
        }
        parts.push(part);
        rest = more;
    }
    let last = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    parts.push(last);
    (parts.len() > 1 && !last.is_empty()).then(|| parts.join("."))
}

/// Returns the last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the part of a path below the folder of packages.
fn below_packages(path: &str) -> Option<&str> {
    let mut rest = path;
    while let Some((_, below)) = rest.split_once('/') {
        for folder in PACKAGES {
            let file = below.strip_prefix(folder);
            if let Some(file) = file.and_then(|file| file.strip_prefix('/')) {
                return Some(file);
            }
        }
        rest = below;
    }
    None
}

/// Returns the package of a file below such a folder: `torch` for `…/site-packages/torch/cuda/__init__.py`.
fn package_of(path: &str) -> Option<String> {
    let rest = below_packages(path)?;
    let first = rest.split('/').next()?;
    if first.is_empty() {
        return None;
    }
    Some(first.split('.').next().unwrap_or(first).to_owned())
}

/// Returns the dotted name of a package's file.
fn dotted_name(path: &str) -> Option<String> {
    let rest = below_packages(path)?.strip_suffix(".py")?;
    let module = rest.strip_suffix("/__init__").unwrap_or(rest);
    Some(module.replace('/', "."))
}

/// Returns `true` if a file belongs to Python's own library: below `lib/python3.12`.
fn is_of_python(path: &str) -> bool {
    path.split('/')
        .zip(path.split('/').skip(1))
        .any(|(folder, version)| {
            let digits = version.strip_prefix("python").unwrap_or_default();
            folder.starts_with("lib") && digits.starts_with(|c: char| c.is_ascii_digit())
        })
}

fn is_cuda(name: &str) -> bool {
    [
        "libcuda.so",
        "libcudart",
        "libcublas",
        "libcudnn",
        "libnccl",
        "libnvrtc",
        "libcufft",
        "libcusparse",
        "libnv",
    ]
    .iter()
    .any(|start| name.starts_with(start))
        || name.starts_with("libcuda_pitfalls")
}

/// Returns `true` for a function of a libcudart that was linked into another file, or of its header.
fn is_of_runtime(function: &str, source: Option<&(String, Option<u32>)>) -> bool {
    let is_call = function
        .strip_prefix("cuda")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    match source {
        Some((file, _)) => {
            ["cuda_runtime.h", "cuda_runtime_api.h"].contains(&file_name(file))
                || file.contains("/include/crt/")
        }
        None => is_call || function.starts_with("libcudart_static_"),
    }
}

fn is_of_system(module: &str) -> bool {
    let system = [
        "/lib/",
        "/lib64/",
        "/usr/lib/",
        "/usr/lib64/",
        "/usr/local/lib/x86_64",
        "[",
        "linux-vdso",
    ];
    system.iter().any(|start| module.starts_with(start)) || is_of_python(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_did_it_while_it_was_imported_did_it_by_its_own_line() {
        let of = |function: &str, file: &str, line| {
            Frame::python(function, &format!("/l/site-packages/{file}"), line)
        };
        let frames = |ends_in: &str| Stack {
            frames: vec![
                of("is_available", "torch/cuda/__init__.py", 180),
                of(ends_in, "torch/quasirandom.py", 219),
                of("<module>", "torch/__init__.py", 12),
                Frame::python("<module>", "<string>", 1),
            ],
            ..Stack::default()
        };
        assert_eq!(
            frames("<module>").entry_name().as_deref(),
            Some("torch (at torch/quasirandom.py:219)")
        );
        assert_eq!(
            frames("probe").entry_name().as_deref(),
            Some("torch (at torch/__init__.py:12)")
        );
        let mut stack = frames("<module>");
        for (function, name) in [
            ("_Lazy.__getattr__", "peft (at torch/__init__.py:12)"),
            ("load", "peft.lazy.load (at torch/__init__.py:12)"),
        ] {
            stack.frames.splice(
                1..stack.frames.len() - 1,
                [
                    of("<module>", "torch/__init__.py", 12),
                    of(function, "peft/lazy.py", 3),
                ],
            );
            assert_eq!(stack.entry_name().as_deref(), Some(name));
        }
    }

    #[test]
    fn a_frame_is_of_the_one_whose_file_it_is() {
        let own = Frame::python("setup", "/home/me/cli.py", 88);
        assert_eq!(
            (own.owner, own.line().as_deref()),
            (FrameOwner::Program, Some("cli.py:88"))
        );
        let torch = Frame::python(
            "is_available",
            "/usr/lib/python3.12/site-packages/torch/cuda/__init__.py",
            1,
        );
        assert_eq!(
            (torch.owner, torch.package.as_deref()),
            (FrameOwner::Package, Some("torch"))
        );
        assert_eq!(torch.name(), "torch.cuda.is_available");
        let threading = Frame::python("run", "/usr/lib/python3.12/threading.py", 3);
        assert_eq!(threading.owner, FrameOwner::System);
        assert_eq!(
            Frame::python("f", "<frozen importlib._bootstrap>", 3).owner,
            FrameOwner::System
        );
        assert_eq!(
            Frame::python("<module>", "<string>", 1).owner,
            FrameOwner::System
        );
    }

    #[test]
    fn code_that_was_typed_is_the_users_and_has_the_name_that_people_know() {
        for (function, file, line) in [
            (
                "<module>",
                "<ipython-input-3-0a1b2c3d4e5f>",
                "cell 3 line 2",
            ),
            ("train", "<ipython-input-12-0a1b2c3d4e5f>", "cell 12 line 2"),
            (
                "<module>",
                "/tmp/ipykernel_41/4054800027.py",
                "notebook cell 4054800027 line 2",
            ),
            (
                "train",
                "<notebook train.ipynb code cell 3>",
                "train.ipynb code cell 3 line 2",
            ),
            (
                "<module>",
                "<doctest models.Net.fit[3]>",
                "doctest models.Net.fit[3] line 2",
            ),
            ("f", "<python-input-0>", "input 0 line 2"),
            ("<module>", "<stdin>", "<stdin>:2"),
            ("<module>", "<my rules>", "<my rules>:2"),
            ("train", "<stdin>", "<stdin>:2"),
            ("work", "<dynamic-code>", "<dynamic-code>:2"),
            ("inner", "<timeit-src>", "<timeit-src>:2"),
            ("train", "<command-1203>", "<command-1203>:2"),
        ] {
            let frame = Frame::python(function, file, 2);
            assert_eq!(
                (frame.owner, frame.line().as_deref()),
                (FrameOwner::Program, Some(line)),
                "{file}"
            );
            assert!(frame.is_text());
        }
        let made = [
            "<attrs generated init app.Net>",
            "<frozen runpy>",
            "<eval_with_key>.0",
            "<string>",
        ];
        made.iter().for_each(|file| {
            assert_eq!(
                Frame::python("f", file, 2).owner,
                FrameOwner::System,
                "{file}"
            )
        });
        // IPython's own script precedes the cell, and is not shown instead of it.
        let frames = [
            ("<module>", "<ipython-input-3-0a>", 2),
            ("<module>", "/venv/bin/ipython", 8),
        ];
        let frames = frames
            .map(|(function, file, line)| Frame::python(function, file, line))
            .to_vec();
        let stack = Stack {
            frames,
            ..Stack::default()
        };
        assert_eq!(
            stack
                .users_all()
                .last()
                .and_then(|frame| frame.line())
                .as_deref(),
            Some("cell 3 line 2")
        );
    }

    #[test]
    fn native_code_is_the_drivers_a_packages_the_systems_or_the_users() {
        let owner = |module: &str| {
            Frame::from_native("f", Some(module), None, Some("/home/me/a.out")).owner
        };
        assert_eq!(
            owner("/usr/lib/x86_64-linux-gnu/libcuda.so.580.1"),
            FrameOwner::Cuda
        );
        assert_eq!(
            owner("/x/site-packages/nvidia/cu13/lib/libcudart.so.13"),
            FrameOwner::Cuda
        );
        assert_eq!(
            owner("/x/site-packages/torch/lib/libc10_cuda.so"),
            FrameOwner::Package
        );
        assert_eq!(
            owner("/usr/lib/x86_64-linux-gnu/libc.so.6"),
            FrameOwner::System
        );
        assert_eq!(owner("/home/me/a.out"), FrameOwner::Program);
        assert_eq!(owner("/usr/bin/python3.12"), FrameOwner::System);
        let linked = Frame::from_native(
            "libcudart_static_ad92",
            Some("/home/me/a.out"),
            None,
            Some("/home/me/a.out"),
        );
        let header = Some(("/cuda/include/cuda_runtime.h".to_owned(), Some(879)));
        let inlined = Frame::from_native(
            "cudaMalloc<float>",
            Some("/home/me/a.out"),
            header,
            Some("/home/me/a.out"),
        );
        assert_eq!(
            (linked.owner, inlined.owner),
            (FrameOwner::Cuda, FrameOwner::Cuda)
        );
    }

    #[test]
    fn names_of_machine_code_are_short() {
        let cupy = [
            (
                "__pyx_pw_4cupy_4cuda_6device_6Device_9__exit__(_object*, _object*)",
                "cupy.cuda.device.Device.__exit__",
            ),
            (
                "__pyx_pw_4cupy_5_core_4core_13_ndarray_base_215__int__(_object*)",
                "cupy._core.core._ndarray_base.__int__",
            ),
            (
                "__pyx_pw_4cupy_9_creation_5basic_1empty",
                "cupy._creation.basic.empty",
            ),
            (
                "__pyx_f_4cupy_4cuda_6memory_malloc",
                "cupy.cuda.memory.malloc",
            ),
            (
                "__pyx_getprop_4cupy_4cuda_6device_6Device_mem_info",
                "cupy.cuda.device.Device.mem_info",
            ),
            ("__pyx_pw_4cupy_3foo_bar", "cupy.foo_bar"),
            (
                "__pyx_tp_dealloc_4cupy_5_core_7_kernel_ufunc(_object*)",
                "cupy._core._kernel.ufunc",
            ),
        ];
        let c = [
            (
                "torch::autograd::THPVariable_ones(_object*, _object*)",
                "torch::autograd::THPVariable_ones",
            ),
            (
                "c10::cuda::(anonymous namespace)::initGlobalStreamState()",
                "c10::cuda::(anonymous namespace)::initGlobalStreamState",
            ),
            (
                "Guard::exchangeDevice(c10::Device) const",
                "Guard::exchangeDevice",
            ),
            ("run(void (*)(int))", "run"),
            ("operator()", "operator"),
            ("cuInit", "cuInit"),
            ("__pyx_pw_", "__pyx_pw_"),
            ("__pyx_pw_99", "__pyx_pw_99"),
            ("__pyx_pw_4cupy", "__pyx_pw_4cupy"),
            (")", ")"),
            ("a)b", "a)b"),
        ];
        for (function, name) in cupy.iter().chain(&c) {
            assert_eq!(
                Frame::from_native(function, Some("/x/a.so"), None, None).name(),
                *name
            );
        }
        let exit = Stack {
            frames: vec![Frame::from_native(cupy[0].0, Some("/x/a.so"), None, None)],
            ..Stack::default()
        };
        assert!(exit.has("__exit__") && exit.has("cupy.cuda.device.Device.__exit__"));
    }

    #[test]
    fn a_script_of_an_installer_is_known_by_what_it_does() {
        let cuts = [
            // pip, installer (Poetry), conda and Debian; newer pip; uv; setuptools twice.
            "sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])",
            "sys.argv[0] = sys.argv[0].removesuffix('.exe')",
            "if sys.argv[0].endswith(\"-script.pyw\"):",
            "sys.exit(load_entry_point('torch', 'console_scripts', 'torchrun')())",
            "__import__('pkg_resources').run_script('tool==1.0', 'tool')",
        ];
        for cut in cuts {
            let script = format!(
                "#!/venv/bin/python3\nimport sys\nfrom torch.distributed.run import main\n{cut}\n"
            );
            assert!(is_entry_script(&script), "{script}");
        }
        let own = "#!/usr/bin/env python3\nimport sys\nfrom mylib.cli import main\nprint(sys.argv[0])\nsys.exit(main())\n";
        assert!(!is_entry_script(own) && !is_entry_script(""));
        let mut script = Frame::python(MODULE, "/venv/bin/torchrun", 8);
        assert_eq!(
            (script.owner, script.name().as_str()),
            (FrameOwner::Program, MODULE)
        );
        script.owner = FrameOwner::Package;
        assert_eq!(script.name(), "torchrun");
    }

    #[test]
    fn a_decorator_is_not_what_the_user_called() {
        let file = "/l/site-packages/torch/distributed/c10d.py";
        let mut stack = Stack {
            frames: vec![
                Frame::from_native("cuInit", Some("/x/libcuda.so.1"), None, None),
                Frame::python("_helper", file, 9),
                Frame::python("barrier", file, 9),
                Frame::python("_logger.<locals>.wrapper", file, 83),
                Frame::python("<module>", "/me/train.py", 6),
            ],
            ..Stack::default()
        };
        assert_eq!(
            stack.entry().map(Frame::name).as_deref(),
            Some("torch.distributed.c10d.barrier")
        );
        stack.frames.remove(2);
        stack.frames.remove(1);
        assert_eq!(
            stack.entry().map(|frame| frame.function.as_str()),
            Some("_logger.<locals>.wrapper")
        );
    }

    #[test]
    fn the_users_line_stands_before_the_framework() {
        let stack = Stack {
            frames: vec![
                Frame::from_native("cuInit", Some("/x/libcuda.so.1"), None, None),
                Frame::python("_lazy_init", "/l/site-packages/torch/cuda/__init__.py", 9),
                Frame::python(
                    "is_available",
                    "/l/site-packages/torch/cuda/__init__.py",
                    129,
                ),
                Frame::python("setup", "/me/cli.py", 88),
                Frame::python("<module>", "/me/train.py", 12),
            ],
            ..Stack::default()
        };
        assert_eq!(
            stack.user_frame().and_then(Frame::line).as_deref(),
            Some("cli.py:88")
        );
        assert_eq!(
            stack.entry().map(Frame::name).as_deref(),
            Some("torch.cuda.is_available")
        );
        assert_eq!(stack.package(), Some("torch"));
        assert!(
            stack.has("setup") && stack.has("torch.cuda.is_available") && !stack.has("available")
        );
    }

    #[test]
    fn nvidias_libraries_in_packages_make_no_call_of_their_own() {
        let native = |function, file: &str| {
            Frame::from_native(
                function,
                Some(&format!("/l/site-packages/{file}")),
                None,
                None,
            )
        };
        let mut stack = Stack {
            frames: vec![
                native("", "nvidia/cu13/lib/libcudart.so.13"),
                native("cudaSetDevice", "nvidia/cu13/lib/libcudart.so.13"),
                native(
                    "c10::cuda::ExchangeDevice(signed char)",
                    "torch/lib/libc10_cuda.so",
                ),
                Frame::python("<module>", "/me/copy.py", 5),
            ],
            ..Stack::default()
        };
        assert_eq!(stack.package(), Some("torch"));
        // A libcudart that was linked into a package's own library.
        stack.frames.splice(
            ..3,
            [
                native("cudaMalloc", "cupy_backends/cuda/api/runtime.so"),
                native("", "cupy/cuda/memory.so"),
            ],
        );
        assert_eq!(stack.package(), Some("cupy"));
        stack.frames.remove(1);
        assert_eq!(stack.package(), None);
    }
}

//! Where in a program a call was made: Python frames and native ones, and whose each is.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The frames of one thread at one call, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// The frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
    /// What is missing and why, in words; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// In which language the function is written.
    pub language: Language,
    /// The function's name; empty where it has none.
    pub function: String,
    /// The source file, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The program or library that holds the code of a native frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Whose code it is.
    pub owner: Owner,
    /// The installed package that it belongs to, such as `torch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// The language of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python.
    Python,
    /// Machine code: C, C++, Rust and the like.
    Native,
}

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The user's own.
    Program,
    /// An installed package.
    Package,
    /// The language's own library or interpreter, and the C library.
    System,
    /// NVIDIA's driver, runtime and toolkit libraries.
    Cuda,
}

/// Folders that hold installed packages of Python.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

impl Frame {
    /// A frame of Python. `name` is the function's, qualified where Python says so.
    pub fn python(function: &str, file: &str, line: u32) -> Frame {
        let package = package_of(file);
        let is_file = Path::new(file).is_absolute() || !(file.starts_with('<') || is_frozen(file));
        let owner = match &package {
            Some(_) => Owner::Package,
            None if !is_file || is_of_python(file) => Owner::System,
            None => Owner::Program,
        };
        Frame {
            language: Language::Python,
            function: function.to_owned(),
            file: Some(file.to_owned()),
            line: Some(line).filter(|line| *line > 0),
            module: None,
            owner,
            package,
        }
    }

    /// A native frame in a program or library. `program` is the file that the process runs, whose
    /// code is the user's own unless it is an interpreter of Python.
    pub fn native(
        function: &str,
        module: Option<&str>,
        source: Option<(String, Option<u32>)>,
        program: Option<&str>,
    ) -> Frame {
        let package = module.and_then(package_of);
        let name = module.map(file_name).unwrap_or_default();
        let owner = match module {
            _ if is_cuda(name) => Owner::Cuda,
            Some(_) if package.is_some() => Owner::Package,
            Some(module) if is_of_system(module) || is_interpreter(name) => Owner::System,
            Some(module) if Some(module) == program || source.is_some() || !name.contains(".so") => Owner::Program,
            Some(_) => Owner::Package,
            None => Owner::System,
        };
        let (file, line) = source.map_or((None, None), |(file, line)| (Some(file), line));
        Frame {
            language: Language::Native,
            function: function.to_owned(),
            file,
            line,
            module: module.map(str::to_owned),
            owner,
            package,
        }
    }

    /// The function as a user would write it: with the module's dotted name where a package's Python
    /// file says it, as in `torch.cuda.is_available`.
    pub fn name(&self) -> String {
        let function = if self.function.is_empty() { "?" } else { self.function.as_str() };
        match (&self.language, self.file.as_deref().and_then(dotted)) {
            (Language::Python, Some(module)) if function == "<module>" => module,
            (Language::Python, Some(module)) => format!("{module}.{function}"),
            _ => function.to_owned(),
        }
    }

    /// `train.py:12`, with the last part of the path.
    pub fn line(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(match self.line {
            Some(line) => format!("{}:{line}", file_name(file)),
            None => file_name(file).to_owned(),
        })
    }
}

impl Stack {
    /// A stack that could not be read, and why.
    pub fn unread(why: impl Into<String>) -> Stack {
        Stack { frames: Vec::new(), missing: Some(why.into()) }
    }

    /// The innermost frame of the user's own code.
    pub fn users(&self) -> Option<&Frame> {
        self.frames
            .iter()
            .find(|frame| frame.owner == Owner::Program && frame.file.is_some())
            .or_else(|| self.frames.iter().find(|frame| frame.owner == Owner::Program && !frame.function.is_empty()))
    }

    /// The user's own frames, outermost first.
    pub fn users_all(&self) -> Vec<&Frame> {
        let mut own: Vec<&Frame> = self.frames.iter().filter(|frame| frame.owner == Owner::Program).collect();
        own.reverse();
        own
    }

    /// The function of a package that the user's code called: the outermost below the user's line.
    pub fn entry(&self) -> Option<&Frame> {
        let own = self.frames.iter().position(|frame| frame.owner == Owner::Program).unwrap_or(self.frames.len());
        let below = self.frames.get(..own)?;
        let of = |language| {
            below
                .iter()
                .rev()
                .find(|frame| frame.owner == Owner::Package && frame.language == language && !frame.function.is_empty())
        };
        of(Language::Python).or_else(|| of(Language::Native))
    }

    /// The package that made the call: the innermost Python frame's, or the innermost native one's.
    pub fn package(&self) -> Option<&str> {
        let of = |language| {
            self.frames
                .iter()
                .filter(move |frame| frame.language == language)
                .find_map(|frame| frame.package.as_deref())
        };
        of(Language::Python).or_else(|| of(Language::Native))
    }

    /// Whether a function of this name is on the stack; the name is whole, with or without what
    /// stands before its last dot.
    pub fn has(&self, name: &str) -> bool {
        self.frames.iter().any(|frame| {
            // A name of C++ may have its arguments behind it.
            let function = frame.function.split('(').next().unwrap_or_default();
            function == name || function.rsplit(['.', ':']).next() == Some(name) || frame.name() == name
        })
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_frozen(file: &str) -> bool {
    file.starts_with("frozen ")
}

/// What follows the folder of packages in a path.
fn below_packages(path: &str) -> Option<&str> {
    let mut parts = path.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at);
    parts.find_map(|at| {
        let rest = path.get(at + 1..)?;
        PACKAGES.iter().find_map(|folder| rest.strip_prefix(folder)?.strip_prefix('/'))
    })
}

/// The package of a file below such a folder: `torch` of `…/site-packages/torch/cuda/__init__.py`.
fn package_of(path: &str) -> Option<String> {
    let rest = below_packages(path)?;
    let first = rest.split('/').next().filter(|first| !first.is_empty())?;
    Some(first.split('.').next().unwrap_or(first).to_owned())
}

/// The dotted name of a package's file.
fn dotted(path: &str) -> Option<String> {
    let rest = below_packages(path)?.strip_suffix(".py")?;
    let module = rest.strip_suffix("/__init__").unwrap_or(rest);
    Some(module.replace('/', "."))
}

/// Whether a file belongs to Python's own library: below `lib/python3.12`.
fn is_of_python(path: &str) -> bool {
    path.split('/').zip(path.split('/').skip(1)).any(|(folder, version)| {
        let digits = version.strip_prefix("python").unwrap_or_default();
        folder.starts_with("lib") && digits.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn is_cuda(name: &str) -> bool {
    ["libcuda.so", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libcufft", "libcusparse", "libnv"]
        .iter()
        .any(|start| name.starts_with(start))
        || name.starts_with("libcuda_pitfalls")
}

fn is_interpreter(name: &str) -> bool {
    name.starts_with("python") || name.starts_with("libpython")
}

fn is_of_system(module: &str) -> bool {
    let system = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/x86_64", "[", "linux-vdso"];
    system.iter().any(|start| module.starts_with(start)) || is_of_python(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_of_the_one_whose_file_it_is() {
        let own = Frame::python("setup", "/home/me/cli.py", 88);
        assert_eq!((own.owner, own.line().as_deref()), (Owner::Program, Some("cli.py:88")));
        let torch = Frame::python("is_available", "/usr/lib/python3.12/site-packages/torch/cuda/__init__.py", 1);
        assert_eq!((torch.owner, torch.package.as_deref()), (Owner::Package, Some("torch")));
        assert_eq!(torch.name(), "torch.cuda.is_available");
        let threading = Frame::python("run", "/usr/lib/python3.12/threading.py", 3);
        assert_eq!(threading.owner, Owner::System);
        assert_eq!(Frame::python("f", "<frozen importlib._bootstrap>", 3).owner, Owner::System);
        assert_eq!(Frame::python("<module>", "<string>", 1).owner, Owner::System);
    }

    #[test]
    fn native_code_is_the_drivers_a_packages_the_systems_or_the_users() {
        let of = |module: &str| Frame::native("f", Some(module), None, Some("/home/me/a.out")).owner;
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libcuda.so.580.1"), Owner::Cuda);
        assert_eq!(of("/x/site-packages/nvidia/cu13/lib/libcudart.so.13"), Owner::Cuda);
        assert_eq!(of("/x/site-packages/torch/lib/libc10_cuda.so"), Owner::Package);
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libc.so.6"), Owner::System);
        assert_eq!(of("/home/me/a.out"), Owner::Program);
        assert_eq!(of("/usr/bin/python3.12"), Owner::System);
    }

    #[test]
    fn the_users_line_stands_before_the_framework() {
        let stack = Stack {
            frames: vec![
                Frame::native("cuInit", Some("/x/libcuda.so.1"), None, None),
                Frame::python("_lazy_init", "/l/site-packages/torch/cuda/__init__.py", 9),
                Frame::python("is_available", "/l/site-packages/torch/cuda/__init__.py", 129),
                Frame::python("setup", "/me/cli.py", 88),
                Frame::python("<module>", "/me/train.py", 12),
            ],
            missing: None,
        };
        assert_eq!(stack.users().and_then(Frame::line).as_deref(), Some("cli.py:88"));
        assert_eq!(stack.entry().map(Frame::name).as_deref(), Some("torch.cuda.is_available"));
        assert_eq!(stack.package(), Some("torch"));
        assert!(stack.has("setup") && stack.has("torch.cuda.is_available") && !stack.has("available"));
    }
}

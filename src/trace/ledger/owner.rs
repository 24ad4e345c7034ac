//! Memory owners: the code that allocated GPU memory, found from a stack and the table `scenarios/owners.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Holder, MemoryKind};
use crate::stack::file_name;
use crate::{Frame, FrameOwner, Stack};

/// An owner of memory: the code that allocated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryOwner<'a> {
    /// The owner's short name, for policies; for an owner outside the table, its name.
    pub key: &'a str,
    /// The owner's display name: from the table, or else the name of the package or library.
    pub name: &'a str,
}

/// Keys of owners that are not libraries.
const PROGRAM: &str = "program";
const DRIVER: &str = "driver";
pub(crate) const UNKNOWN: &str = "unknown";
/// The package that all of NVIDIA's wheels share. It is not an owner: the libraries in it are recognized by their
/// files.
const NVIDIA: &str = "nvidia";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownOwner {
    key: String,
    name: String,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    packages: Vec<String>,
    allocator: Option<KnownAllocator>,
    #[serde(default)]
    passes_on: bool,
}

/// The library of an owner that allocates memory for others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownAllocator {
    module: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerFile {
    owner: Vec<KnownOwner>,
}

/// Empty if the file is not valid; a test excludes that.
static FILE: LazyLock<OwnerFile> =
    LazyLock::new(|| toml::from_str(cuda_pitfalls_scenarios::OWNERS).unwrap_or_default());

/// Returns the owner keys that a policy can contain.
pub fn owner_keys() -> impl Iterator<Item = &'static str> {
    FILE.owner.iter().map(|owner| owner.key.as_str())
}

impl<'a> MemoryOwner<'a> {
    /// Returns the owner of a holder's memory.
    pub fn new(holder: &'a Holder) -> MemoryOwner<'a> {
        match holder.kind {
            MemoryKind::PoolRest | MemoryKind::Rounding => MemoryOwner::known(DRIVER),
            MemoryKind::More => MemoryOwner::known(UNKNOWN),
            _ if !holder.stack.frames.is_empty() => {
                MemoryOwner::from_stack(&holder.stack, holder.kind)
            }
            _ if holder.call.is_empty() => MemoryOwner::known(DRIVER),
            _ => MemoryOwner::known(UNKNOWN),
        }
    }

    /// Returns the owner with this key in the table.
    pub(crate) fn known(key: &'static str) -> MemoryOwner<'static> {
        let owner = FILE.owner.iter().find(|owner| owner.key == key);
        MemoryOwner {
            key,
            name: owner.map_or(key, |owner| &owner.name),
        }
    }

    /// Returns the owner of the innermost frame that does more than pass the call through. If every frame
    /// only passes it through, returns the owner of the outermost one.
    fn from_stack(stack: &'a Stack, kind: MemoryKind) -> MemoryOwner<'a> {
        let mut passing = stack.frames.iter().rev().filter_map(KnownOwner::from_frame);
        let innermost = stack
            .frames
            .iter()
            .find_map(|frame| MemoryOwner::from_frame(frame, kind));
        innermost.unwrap_or_else(|| {
            MemoryOwner::known(passing.next().map_or(PROGRAM, |owner| &owner.key))
        })
    }

    fn from_frame(frame: &'a Frame, kind: MemoryKind) -> Option<MemoryOwner<'a>> {
        let file = frame.module.as_deref().map(file_name);
        if let Some(owner) = KnownOwner::from_frame(frame) {
            let is_handed_out = matches!(
                kind,
                MemoryKind::Allocation
                    | MemoryKind::Pool
                    | MemoryKind::Physical
                    | MemoryKind::Managed
            );
            let allocator = owner
                .allocator
                .as_ref()
                .filter(|it| file.is_some_and(|file| file.starts_with(&it.module)));
            let name = allocator
                .filter(|_| is_handed_out)
                .map_or(&owner.name, |allocator| &allocator.name);
            return (!owner.passes_on).then_some(MemoryOwner {
                key: &owner.key,
                name,
            });
        }
        let package = frame
            .package
            .as_deref()
            .filter(|package| *package != NVIDIA);
        match frame.owner {
            FrameOwner::System => None,
            FrameOwner::Program => Some(MemoryOwner::known(PROGRAM)),
            // A runtime that was linked into the program belongs to the program, as its next frame shows.
            FrameOwner::Cuda | FrameOwner::Package => {
                let library = file.filter(|file| file.contains(".so"));
                package
                    .or(library)
                    .map(|name| MemoryOwner { key: name, name })
            }
        }
    }
}

impl KnownOwner {
    /// Returns the table's owner of a frame's code. A package may contain libraries of others.
    fn from_frame(frame: &Frame) -> Option<&'static KnownOwner> {
        let file = frame.module.as_deref().map(file_name).unwrap_or_default();
        let by_module = FILE
            .owner
            .iter()
            .find(|owner| owner.modules.iter().any(|start| file.starts_with(start)));
        let package = frame.package.as_ref();
        by_module.or_else(|| {
            FILE.owner
                .iter()
                .find(|owner| package.is_some_and(|it| owner.packages.contains(it)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture::holder;

    const PACKAGES: &str = "/v/lib/python3.12/site-packages";

    fn native(function: &str, module: &str) -> Frame {
        Frame::from_native(
            function,
            Some(&module.replace("…", PACKAGES)),
            None,
            Some("/home/me/a.out"),
        )
    }

    fn own() -> Frame {
        Frame::python("<module>", "/home/me/train.py", 7)
    }

    fn package(file: &str) -> Frame {
        Frame::python("f", &format!("{PACKAGES}/{file}"), 1)
    }

    /// Returns the key and the name of the owner of a stack.
    fn named(kind: MemoryKind, frames: Vec<Frame>) -> (String, String) {
        let holder = holder(
            kind,
            Stack {
                frames,
                ..Stack::default()
            },
        );
        let owner = MemoryOwner::new(&holder);
        (owner.key.to_owned(), owner.name.to_owned())
    }

    fn allocates(frames: Vec<Frame>) -> String {
        named(MemoryKind::Allocation, frames).1
    }

    #[test]
    fn the_table_is_valid_and_has_every_key_module_and_package_once() {
        let file: OwnerFile = toml::from_str(cuda_pitfalls_scenarios::OWNERS).unwrap();
        for key in [PROGRAM, DRIVER, UNKNOWN] {
            assert!(file.owner.iter().any(|owner| owner.key == key), "{key}");
        }
        let keys: BTreeSet<&String> = file.owner.iter().map(|owner| &owner.key).collect();
        assert_eq!(keys.len(), file.owner.len());
        assert!(
            keys.iter().all(|key| !key.contains(['>', '=', ',', ' '])),
            "a policy can be written with each"
        );
        let names = file
            .owner
            .iter()
            .flat_map(|owner| owner.modules.iter().chain(&owner.packages));
        let mut names: Vec<&String> = names.collect();
        names.sort();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    #[test]
    fn the_owner_is_the_library_behind_the_runtime_and_not_the_one_that_called_it() {
        let runtime = || {
            vec![
                native("", "/usr/lib/libcuda.so.580.1"),
                native("cudaMalloc", "…/nvidia/libcudart.so.13"),
            ]
        };
        for (module, name) in [
            ("…/nvidia/nccl/lib/libnccl.so.2", "NCCL"),
            ("…/nvidia/cu13/lib/libcublasLt.so.13", "cuBLAS"),
            ("…/nvidia/cudnn/lib/libcudnn_graph.so.9", "cuDNN"),
            ("…/torch/lib/libc10_cuda.so", "PyTorch's caching allocator"),
            ("…/torch/lib/libtorch_cuda.so", "PyTorch"),
            ("…/jax_plugins/xla_cuda13/xla_cuda_plugin.so", "XLA"),
            ("…/nvidia/cu13/lib/libnvjpeg.so.13", "libnvjpeg.so.13"),
            (
                "…/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so",
                "flash_attn_2_cuda",
            ),
            ("/home/me/build/libmine.so", "libmine.so"),
            ("/home/me/a.out", "the program itself"),
        ] {
            let outer = [
                native("at::empty()", "…/torch/lib/libtorch_python.so"),
                package("torch/functional.py"),
                own(),
            ];
            assert_eq!(
                allocates([runtime(), vec![native("f", module)], outer.to_vec()].concat()),
                name,
                "{module}"
            );
        }
        assert_eq!(
            allocates(runtime()),
            "the CUDA runtime itself",
            "nobody else is on the stack"
        );
        assert_eq!(
            allocates([runtime(), vec![own()]].concat()),
            "the program itself"
        );
    }

    #[test]
    fn a_runtime_that_is_linked_into_a_library_is_the_librarys() {
        let cupy = vec![
            native(
                "cudaMalloc",
                "…/cupy_backends/cuda/api/runtime.cpython-312-x86_64-linux-gnu.so",
            ),
            native("f", "…/cupy/cuda/memory.cpython-312-x86_64-linux-gnu.so"),
            own(),
        ];
        assert_eq!(allocates(cupy), "CuPy");
        let program = vec![
            native("cudaMalloc", "/home/me/a.out"),
            native("main", "/home/me/a.out"),
        ];
        assert_eq!(allocates(program), "the program itself");
    }

    #[test]
    fn where_python_alone_made_the_call_its_package_did() {
        let bindings = || {
            let bindings = "…/cuda/bindings/cydriver.cpython-312-x86_64-linux-gnu.so";
            vec![
                native("", "/usr/lib/libcuda.so.1"),
                native("cuMemAlloc", bindings),
                package("cuda/core/_memory.py"),
            ]
        };
        assert_eq!(
            allocates([bindings(), vec![package("numba_cuda/driver.py"), own()]].concat()),
            "Numba"
        );
        assert_eq!(
            allocates([bindings(), vec![own()]].concat()),
            "the program itself"
        );
        let ctypes = [native(
            "",
            "/usr/lib/python3.12/lib-dynload/_ctypes.cpython-312-x86_64-linux-gnu.so",
        )];
        assert_eq!(
            allocates([ctypes.to_vec(), vec![package("pycuda/driver.py"), own()]].concat()),
            "pycuda"
        );
        let triton = native(
            "loadBinary",
            "/root/.triton/cache/x/cuda_utils.cpython-312-x86_64-linux-gnu.so",
        );
        assert_eq!(named(MemoryKind::Code, vec![triton, own()]).0, "triton");
    }

    #[test]
    fn an_allocator_hands_out_allocations_and_makes_contexts_for_itself() {
        let frames = vec![
            native("c10::cuda::SetDevice", "…/torch/lib/libc10_cuda.so"),
            own(),
        ];
        assert_eq!(
            named(MemoryKind::Context, frames.clone()),
            ("torch".to_owned(), "PyTorch".to_owned())
        );
        let allocator = "PyTorch's caching allocator".to_owned();
        assert_eq!(
            named(MemoryKind::Physical, frames),
            ("torch".to_owned(), allocator)
        );
    }

    #[test]
    fn what_no_call_took_is_the_drivers_and_an_unread_stack_is_nobodys() {
        let key = |holder: Holder| MemoryOwner::new(&holder).key.to_owned();
        assert_eq!(
            key(holder(MemoryKind::PoolRest, Stack::default())),
            "driver"
        );
        assert_eq!(key(holder(MemoryKind::More, Stack::default())), "unknown");
        assert_eq!(
            key(holder(
                MemoryKind::Allocation,
                Stack::from_failure("it went")
            )),
            "unknown"
        );
        for kind in [MemoryKind::Driver, MemoryKind::Graph] {
            assert_eq!(
                key(Holder {
                    call: String::new(),
                    ..holder(kind, Stack::default())
                }),
                "driver"
            );
        }
        let graph = Stack {
            frames: vec![native("f", "…/torch/lib/libtorch_cuda.so"), own()],
            ..Stack::default()
        };
        assert_eq!(key(holder(MemoryKind::Graph, graph)), "torch");
    }
}

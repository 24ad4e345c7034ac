//! Writes the wrappers as the main package's build script does.

#[path = "../../wrapped.rs"]
mod wrapped;

fn main() {
    for path in ["../calls.txt", "../../wrapped.rs", "../../../calls"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let text = std::fs::read_to_string("../calls.txt").expect("shim/calls.txt can be read");
    let (source, _) = wrapped::source(&text);
    let path = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
        .join("wrapped.rs");
    std::fs::write(&path, source).expect("the wrappers can be written");
    println!("cargo::rustc-env=CUDA_PITFALLS_WRAPPED={}", path.display());
}

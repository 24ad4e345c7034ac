//! Lets cargo notice a new file, because the macro that embeds folders does not watch them.

fn main() {
    println!("cargo::rerun-if-changed=.");
}

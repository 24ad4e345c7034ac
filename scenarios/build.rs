//! A new file is noticed: the macro that embeds folders does not watch them.

fn main() {
    println!("cargo::rerun-if-changed=.");
}

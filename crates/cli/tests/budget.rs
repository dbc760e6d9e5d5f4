//! The limit on the number of crates that `larder` links. `make sizes` checks the size of the program.

use std::collections::BTreeSet;
use std::process::Command;

/// The maximum number of crates, with those of the project.
const MAX_CRATES: usize = 140;

#[test]
fn larder_depends_on_few_crates() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "-p", "larder-cli", "-e", "normal"]);
    tree.args(["--prefix", "none", "--format", "{p}"]);
    let output = tree
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    // A crate is printed once for each crate that depends on it, with different marks.
    let names = text.lines().map(|line| {
        let words: Vec<_> = line.split(' ').take(2).collect();
        words.join(" ")
    });
    let crates: BTreeSet<_> = names.collect();
    assert!(crates.contains(&format!("larder-cli v{}", env!("CARGO_PKG_VERSION"))));
    let count = crates.len();
    assert!(count <= MAX_CRATES, "{count} crates: {crates:?}");
}

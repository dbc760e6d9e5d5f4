use super::graph::{Edges, cycles};
use super::source::Sources;
use std::io::{Error, Result};
use std::path::Path;

fn edges(files: &[(&str, &str)]) -> Edges {
    let read = |path: &Path| -> Result<String> {
        let file = files.iter().find(|(name, _)| Path::new(name) == path);
        let (_, text) = file.ok_or_else(|| Error::other("no such file"))?;
        Ok((*text).to_owned())
    };
    Sources::load(Path::new(""), Path::new("lib.rs"), &read)
        .unwrap()
        .edges()
}

/// Returns the edges as `from:line to`.
fn shown(files: &[(&str, &str)]) -> Vec<String> {
    let edges = edges(files);
    let show = |((from, to), edge): (&(std::path::PathBuf, std::path::PathBuf), &super::Edge)| {
        format!("{}:{} {}", from.display(), edge.line, to.display())
    };
    edges.iter().map(show).collect()
}

#[test]
fn use_and_inline_path_resolve_to_the_defining_file() {
    let got = shown(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        (
            "a.rs",
            "use crate::b::Thing;\nfn f(_: &Thing) { crate::c::g(1) }",
        ),
        ("b.rs", "pub struct Thing;"),
        ("c/mod.rs", "mod d;\npub fn g(_: u32) { self::d::h() }"),
        ("c/d.rs", "pub fn h() {}"),
    ]);
    assert_eq!(got, ["a.rs:1 b.rs", "a.rs:2 c/mod.rs", "c/mod.rs:2 c/d.rs"]);
}

#[test]
fn re_export_is_followed_to_the_definition() {
    let got = shown(&[
        (
            "lib.rs",
            "mod a;\nmod b;\npub use b::Thing;\npub use std::io::Result;",
        ),
        (
            "a.rs",
            "use crate::{Result, Thing};\nfn f() -> Result<Thing> { todo!() }",
        ),
        ("b.rs", "pub struct Thing;"),
    ]);
    assert_eq!(got, ["a.rs:1 b.rs", "lib.rs:3 b.rs"]);
}

#[test]
fn import_of_a_module_is_not_a_dependency_until_an_item_is_named() {
    let got = shown(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "use crate::b;\nfn f() { b::c::g() }"),
        ("b/mod.rs", "pub mod c;"),
        ("b/c.rs", "pub fn g() {}"),
    ]);
    assert_eq!(got, ["a.rs:2 b/c.rs"]);
}

#[test]
fn names_through_a_glob_and_in_a_macro_are_dependencies() {
    let got = shown(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        (
            "a.rs",
            "use super::b::*;\nfn f(_: Thing) {\n println!(\"{}\", crate::c::N)\n}",
        ),
        ("b.rs", "pub struct Thing;"),
        ("c.rs", "pub const N: u32 = 1;"),
    ]);
    assert_eq!(got, ["a.rs:2 b.rs", "a.rs:3 c.rs"]);
}

#[test]
fn code_for_tests_is_ignored() {
    let got = shown(&[
        ("lib.rs", "mod a;\nmod b;"),
        (
            "a.rs",
            "#[cfg(test)] use crate::b::f;\n#[cfg(all(test, not(other)))] mod tests { use crate::b::f; }\n\
             struct A; impl A { #[cfg(test)] fn g() { crate::b::f() } }",
        ),
        ("b.rs", "pub fn f() {}"),
    ]);
    assert!(got.is_empty(), "{got:?}");
}

#[test]
fn visibility_and_declared_children_are_ignored() {
    let got = shown(&[
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod b;\npub struct A;"),
        ("a/b.rs", "pub(in crate::a) fn f(_: super::A) {}"),
    ]);
    assert_eq!(got, ["a/b.rs:1 a/mod.rs"]);
}

#[test]
fn cycle_has_just_the_files_that_reach_each_other() {
    let edges = edges(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use a::A;"),
        ("a.rs", "pub struct A(crate::b::B);"),
        ("b.rs", "pub struct B(crate::c::C);"),
        ("c.rs", "pub struct C(Box<crate::A>, crate::d::D);"),
        ("d.rs", "pub struct D;"),
    ]);
    let [cycle] = &cycles(&edges)[..] else {
        panic!("one cycle");
    };
    let files: Vec<_> = cycle
        .iter()
        .map(|(from, to, _)| (from.to_str(), to.to_str()))
        .collect();
    let edge = |from, to| (Some(from), Some(to));
    assert_eq!(
        files,
        [
            edge("a.rs", "b.rs"),
            edge("b.rs", "c.rs"),
            edge("c.rs", "a.rs")
        ]
    );
}

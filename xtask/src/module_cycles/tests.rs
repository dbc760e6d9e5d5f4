use super::clusters::{Cluster, LIST, differences, parse};
use super::graph::{Edges, cycles};
use super::source::Sources;
use std::collections::BTreeSet;
use std::io::{Error, Result};
use std::path::Path;

fn sources(files: &[(&str, &str)]) -> Sources {
    let read = |path: &Path| -> Result<String> {
        let file = files.iter().find(|(name, _)| Path::new(name) == path);
        let (_, text) = file.ok_or_else(|| Error::other("no such file"))?;
        Ok((*text).to_owned())
    };
    Sources::load(Path::new(""), Path::new("lib.rs"), &read).unwrap()
}

/// Returns the edges that paths make as `from:line to`.
fn shown(files: &[(&str, &str)]) -> Vec<String> {
    shown_edges(&sources(files).edges())
}

/// Returns the edges that calls of methods make as `from:line to`.
fn shown_calls(files: &[(&str, &str)]) -> Vec<String> {
    shown_edges(&sources(files).calls())
}

fn shown_edges(edges: &Edges) -> Vec<String> {
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
    let sources = sources(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use a::A;"),
        ("a.rs", "pub struct A(crate::b::B);"),
        ("b.rs", "pub struct B(crate::c::C);"),
        ("c.rs", "pub struct C(Box<crate::A>, crate::d::D);"),
        ("d.rs", "pub struct D;"),
    ]);
    let [cycle] = &cycles(&sources.edges())[..] else {
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

#[test]
fn call_of_self_is_a_dependency_on_the_file_of_the_method() {
    let got = shown_calls(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;"),
        (
            "a.rs",
            "pub struct A;\nimpl A {\n fn f(&self) { self.g() }\n fn h(&self) {}\n}",
        ),
        (
            "b.rs",
            "use crate::A;\nimpl A {\n pub fn g(&self) { self.h(); self.g() }\n}",
        ),
        (
            "c.rs",
            "impl Drop for crate::A {\n fn drop(&mut self) {\n  assert!(x(self.g()));\n }\n}",
        ),
    ]);
    assert_eq!(got, ["a.rs:3 b.rs", "b.rs:3 a.rs", "c.rs:3 b.rs"]);
}

#[test]
fn call_that_can_mean_another_method_is_not_a_dependency() {
    let got = shown_calls(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        (
            "a.rs",
            "pub struct A(B);\npub struct B;\nimpl A {\n\
             fn other_receiver(&self, x: &A) { x.g(); self.0.g() }\n\
             fn method_of_another_type(&self) { self.of_b() }\n\
             fn method_of_a_trait(&self) { self.of_a_trait() }\n\
             fn method_of_two_files(&self) { self.twice() }\n\
             fn field(&self) { (self.g)() }\n\
             fn function_within() { fn f() { self.g() } }\n\
             }",
        ),
        (
            "b.rs",
            "use crate::a::{A, B};\n\
             impl A { fn g(&self) {} #[cfg(x)] fn twice(&self) {} }\n\
             impl B { fn of_b(&self) {} }\n\
             trait T { fn of_a_trait(&self); }\n\
             impl T for A { fn of_a_trait(&self) {} }",
        ),
        (
            "c.rs",
            "use crate::a::A;\nimpl A { #[cfg(not(x))] fn twice(&self) {} }",
        ),
    ]);
    assert!(got.is_empty(), "{got:?}");
}

#[test]
fn calls_and_paths_together_make_a_cluster() {
    let sources = sources(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "pub struct A;\nimpl A { fn f(&self) { self.g() } }"),
        ("b.rs", "use crate::a::A;\nimpl A { fn g(&self) {} }"),
    ]);
    let mut edges = sources.edges();
    assert!(cycles(&edges).is_empty());
    edges.extend(sources.calls());
    let [cycle] = &cycles(&edges)[..] else {
        panic!("one cycle");
    };
    let cluster = Cluster::new(Path::new("crates/x"), cycle);
    assert_eq!(cluster.to_string(), "crates/x\n  a.rs\n  b.rs\n");
}

/// Returns the clusters as the check prints them.
fn printed(clusters: &BTreeSet<Cluster>) -> String {
    let clusters: Vec<_> = clusters.iter().map(ToString::to_string).collect();
    clusters.join("\n")
}

#[test]
fn printed_clusters_are_a_list_of_them() {
    let listed = parse("# A comment\n\ncrates/x\n  a.rs\n  b/c.rs\ncrates/x\n  d.rs\n");
    assert_eq!(listed.len(), 2);
    assert_eq!(parse(&printed(&listed)), listed);
    let list = parse(LIST);
    assert_eq!(parse(&printed(&list)), list);
    assert!(list.iter().all(|cluster| cluster.files.len() > 1));
}

#[test]
fn difference_names_the_files_that_join_and_leave() {
    let listed = parse("crates/x\n  a.rs\n  b.rs\n  c.rs\n  d.rs\n");
    let present = parse("crates/x\n  a.rs\n  b.rs\n  e.rs\n  d.rs\n");
    assert_eq!(
        differences(&listed, &present),
        [
            "crates/x: e.rs has joined a cluster: remove the dependency that closes the cycle",
            "crates/x: c.rs has left its cluster: remove it from the list"
        ]
    );
    let split = parse("crates/x\n  a.rs\n  b.rs\ncrates/x\n  c.rs\n  d.rs\n");
    assert_eq!(differences(&listed, &split).len(), 1);
    assert!(differences(&listed, &listed).is_empty());
}

//! Checks that programs can construct the public structs of the published crates.
//!
//! In another crate, a struct expression of a struct with `#[non_exhaustive]` does not compile. Such a struct needs a
//! constructor: `Default`, `From`, or a public function without `self` that returns the struct. Otherwise, a program
//! cannot test its own functions that have the struct as an argument.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Attribute, File, Ident, ImplItem, ItemImpl, ItemStruct, ReturnType, Type, Visibility};

/// The structs of a crate.
#[derive(Default)]
struct Structs {
    /// The public structs with `#[non_exhaustive]`.
    growing: BTreeSet<String>,
    constructible: BTreeSet<String>,
}

impl Structs {
    fn without_constructor(&self) -> Vec<&str> {
        let missing = self.growing.difference(&self.constructible);
        missing.map(String::as_str).collect()
    }
}

impl<'ast> Visit<'ast> for Structs {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let has = |name| (item.attrs.iter()).any(|attribute| attribute.path().is_ident(name));
        if matches!(item.vis, Visibility::Public(_)) && has("non_exhaustive") {
            self.growing.insert(item.ident.to_string());
        }
        if item.attrs.iter().any(derives_default) {
            self.constructible.insert(item.ident.to_string());
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let Type::Path(implementing) = &*item.self_ty else {
            return;
        };
        let Some(name) = implementing.path.segments.last() else {
            return;
        };
        let name = name.ident.to_string();
        let is_constructible = match &item.trait_ {
            Some((path, _)) => (path.segments.last())
                .is_some_and(|segment| segment.ident == "Default" || segment.ident == "From"),
            None => item.items.iter().any(|item| constructs(item, &name)),
        };
        if is_constructible {
            self.constructible.insert(name);
        }
    }
}

fn derives_default(attribute: &Attribute) -> bool {
    let list = attribute.meta.require_list();
    attribute.path().is_ident("derive")
        && list.is_ok_and(|list| {
            let traits = list.tokens.to_string();
            traits.split(',').any(|name| name.trim() == "Default")
        })
}

/// Returns whether `item` is a public function that returns the type `name` and has no `self` argument.
fn constructs(item: &ImplItem, name: &str) -> bool {
    let ImplItem::Fn(function) = item else {
        return false;
    };
    let ReturnType::Type(_, returned) = &function.sig.output else {
        return false;
    };
    let mut mentions = Mentions {
        name,
        is_found: false,
    };
    mentions.visit_type(returned);
    let is_public = matches!(function.vis, Visibility::Public(_));
    is_public && function.sig.receiver().is_none() && mentions.is_found
}

/// Searches a type, such as `Result<Self>`, for a name.
struct Mentions<'n> {
    name: &'n str,
    is_found: bool,
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_ident(&mut self, ident: &'ast Ident) {
        self.is_found |= ident == "Self" || ident == self.name;
        visit::visit_ident(self, ident);
    }
}

/// Adds the structs in the sources below `folder`.
fn add_folder(structs: &mut Structs, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_folder(structs, &path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            structs.visit_file(&parsed(&source));
        }
    }
}

fn parsed(source: &str) -> File {
    syn::parse_file(source).unwrap()
}

#[test]
fn published_structs_that_may_grow_have_constructors() {
    let mut count = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if manifest.contains("publish = false") {
            continue;
        }
        let mut structs = Structs::default();
        add_folder(&mut structs, &folder.join("src"));
        count += structs.growing.len();
        let missing = structs.without_constructor();
        assert!(missing.is_empty(), "{}: {missing:?}", folder.display());
    }
    assert!(count >= 13, "{count} structs");
}

#[test]
fn struct_without_constructor_is_found() {
    let with = |code: &str| {
        let source =
            format!("#[derive(Clone)] #[non_exhaustive] pub struct A {{ pub a: u8 }} {code}");
        let mut structs = Structs::default();
        structs.visit_file(&parsed(&source));
        structs.without_constructor() == ["A"]
    };
    for insufficient in [
        "",
        "impl A { fn new() -> Self { todo!() } }",
        "impl A { pub fn grown(self) -> Self { self } }",
        "impl A { pub fn count() -> u8 { 0 } }",
        "impl Clone for A { fn clone(&self) -> Self { todo!() } }",
        "impl B { pub fn new() -> Self { B } }",
    ] {
        assert!(with(insufficient), "{insufficient}");
    }
    for sufficient in [
        "impl A { pub const fn new() -> Self { A { a: 0 } } }",
        "impl A { pub fn parse(bytes: &[u8]) -> Result<A, Error> { todo!() } }",
        "impl Default for A { fn default() -> Self { todo!() } }",
        "impl From<u8> for A { fn from(a: u8) -> Self { A { a } } }",
    ] {
        assert!(!with(sufficient), "{sufficient}");
    }
}

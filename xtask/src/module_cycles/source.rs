//! The modules of a crate: the definitions, imports and paths of each.

use super::graph::{Edge, Edges};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprMethodCall, ImplItem, Item, ItemImpl, ItemMacro, ItemMod, ItemUse, Macro,
    Type, UseTree, Visibility,
};

/// The limit of imports that are followed from one path. Imports of macros can refer to themselves.
const MAX_IMPORTS: u32 = 32;

type ReadFile<'r> = &'r dyn Fn(&Path) -> io::Result<String>;

/// A module, in a file of its own or in a part of one.
#[derive(Debug, Default)]
struct Module {
    /// The path of the file, relative to the crate's folder of sources.
    file: PathBuf,
    parent: usize,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// A path in a module.
#[derive(Debug)]
struct Mention {
    module: usize,
    line: usize,
    path: Vec<String>,
}

/// A method of a type, at its definition or at a call.
#[derive(Debug)]
struct Method {
    module: usize,
    line: usize,
    /// The path of the type in the module.
    owner: Vec<String>,
    name: String,
}

/// The item that a path names.
enum Target<'s> {
    Module(usize),
    /// An item, or a part of one, in this file.
    Item(&'s Path),
    /// An item of another crate.
    External,
}

/// The modules of a crate. The first is its root.
#[derive(Debug, Default)]
pub struct Sources {
    modules: Vec<Module>,
    mentions: Vec<Mention>,
    /// The methods that inherent impls define.
    methods: Vec<Method>,
    /// The calls of methods of `self`.
    calls: Vec<Method>,
}

impl Sources {
    /// Parses the file `root` in `dir` and the modules that it declares.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub fn load(dir: &Path, root: &Path, read: ReadFile<'_>) -> io::Result<Self> {
        let mut sources = Self::default();
        let root = sources.add(Module {
            file: root.to_owned(),
            ..Module::default()
        });
        sources.load_file(dir, read, root, Path::new(""))?;
        Ok(sources)
    }

    fn add(&mut self, module: Module) -> usize {
        self.modules.push(module);
        self.modules.len() - 1
    }

    /// Parses the file of `module`, whose children are in `folder`.
    fn load_file(
        &mut self,
        dir: &Path,
        read: ReadFile<'_>,
        module: usize,
        folder: &Path,
    ) -> io::Result<()> {
        let path = dir.join(&self.modules[module].file);
        let file = syn::parse_file(&read(&path)?).map_err(|error| located(&path, &error))?;
        let mut collector = Collector {
            sources: self,
            module,
            folder: folder.to_owned(),
            declared: Vec::new(),
            owner: None,
        };
        collector.visit_file(&file);
        for (child, file, folder) in mem::take(&mut collector.declared) {
            let own_folder = folder.join("mod.rs");
            let is_own_folder = read(&dir.join(&file)).is_err();
            self.modules[child].file = if is_own_folder { own_folder } else { file };
            self.load_file(dir, read, child, &folder)?;
        }
        Ok(())
    }

    /// Returns the edges that paths make from each file to other files.
    pub fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for Mention { module, line, path } in &self.mentions {
            let from = self.modules[*module].file.as_path();
            if let Some(Target::Item(to)) = self.resolve(*module, path, 0)
                && to != from
            {
                let edge = || Edge {
                    line: *line,
                    path: path.join("::"),
                };
                let files = (from.to_owned(), to.to_owned());
                edges.entry(files).or_insert_with(edge);
            }
        }
        edges
    }

    /// Returns the edges that calls of methods of `self` make: from the caller's file to the file with
    /// the inherent method of this type and name. If several files have one, for different
    /// configurations, the call makes no edge.
    pub fn calls(&self) -> Edges {
        let mut definitions: HashMap<_, BTreeSet<&Path>> = HashMap::new();
        for method in &self.methods {
            if let Some(key) = self.key(method) {
                let files = definitions.entry(key).or_default();
                files.insert(&self.modules[method.module].file);
            }
        }
        let mut edges = Edges::new();
        for call in &self.calls {
            let from = self.modules[call.module].file.as_path();
            let files = self.key(call).and_then(|key| definitions.get(&key));
            let only = files.filter(|files| files.len() == 1);
            if let Some(to) = only.and_then(BTreeSet::first)
                && *to != from
            {
                let edge = || Edge {
                    line: call.line,
                    path: format!("self.{}", call.name),
                };
                let files = (from.to_owned(), to.to_path_buf());
                edges.entry(files).or_insert_with(edge);
            }
        }
        edges
    }

    /// Returns the file that defines the type of `method`, the name of the type, and that of the
    /// method. Returns `None` if the type is not found in the sources.
    fn key<'s>(&'s self, method: &'s Method) -> Option<(&'s Path, &'s str, &'s str)> {
        let owner = method.owner.last()?;
        match self.resolve(method.module, &method.owner, 0)? {
            Target::Item(file) => Some((file, owner.as_str(), method.name.as_str())),
            Target::Module(_) | Target::External => None,
        }
    }

    fn resolve(&self, module: usize, path: &[String], imports: u32) -> Option<Target<'_>> {
        let (mut at, mut is_inside) = (module, true);
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.modules[at].parent,
                name => {
                    let is_last = index + 1 == path.len();
                    match self.member(at, name, is_last, imports) {
                        Some(Target::Module(child)) => at = child,
                        // Definitions made by a macro are not seen. Such an item is attributed to
                        // the module that the path names.
                        None if index > 0 => return Some(Target::Item(&self.modules[at].file)),
                        other => return other,
                    }
                }
            }
            is_inside = false;
        }
        (!is_inside).then_some(Target::Module(at))
    }

    /// Returns what `name` refers to in `module`.
    fn member(&self, module: usize, name: &str, is_last: bool, imports: u32) -> Option<Target<'_>> {
        let within = &self.modules[module];
        let child = within
            .children
            .get(name)
            .map(|child| Target::Module(*child));
        let item = within.items.get(name).map(|_| Target::Item(&within.file));
        let defined = if is_last {
            item.or(child)
        } else {
            child.or(item)
        };
        if defined.is_some() || imports == MAX_IMPORTS {
            return defined;
        }
        if let Some(path) = within.imports.get(name) {
            let imported = self.resolve(module, path, imports + 1);
            return Some(imported.unwrap_or(Target::External));
        }
        within
            .globs
            .iter()
            .find_map(|path| match self.resolve(module, path, imports + 1) {
                Some(Target::Module(from)) if from != module => {
                    self.member(from, name, is_last, imports + 1)
                }
                _ => None,
            })
    }
}

/// Adds the path of a file to an error.
pub fn located(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Collects the contents of one file.
struct Collector<'s> {
    sources: &'s mut Sources,
    module: usize,
    /// The folder of the files of the module's children.
    folder: PathBuf,
    /// Modules in other files: the index, the file `NAME.rs` (if it does not exist, the module is
    /// in `NAME/mod.rs`), and the folder of the files of its children.
    declared: Vec<(usize, PathBuf, PathBuf)>,
    /// The impl that is being visited.
    owner: Option<Owner>,
}

/// The type of an impl.
struct Owner {
    /// The path of the type. Empty if the type is not a path, such as a reference.
    path: Vec<String>,
    is_inherent: bool,
}

impl Collector<'_> {
    fn module(&mut self) -> &mut Module {
        &mut self.sources.modules[self.module]
    }

    fn mention(&mut self, line: usize, path: Vec<String>) {
        let module = self.module;
        self.sources.mentions.push(Mention { module, line, path });
    }

    fn use_tree(&mut self, tree: &UseTree, path: &[String]) {
        let and = |name: String| [path, &[name]].concat();
        let line = tree.span().start().line;
        match tree {
            UseTree::Path(tree) => self.use_tree(&tree.tree, &and(tree.ident.to_string())),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, path);
                }
            }
            UseTree::Name(name) => self.import(line, and(name.ident.to_string()), None),
            UseTree::Rename(rename) => {
                let alias = rename.rename.to_string();
                self.import(line, and(rename.ident.to_string()), Some(alias));
            }
            UseTree::Glob(_) => {
                self.module().globs.push(path.to_vec());
                self.mention(line, path.to_vec());
            }
        }
    }

    fn import(&mut self, line: usize, mut path: Vec<String>, alias: Option<String>) {
        path.retain({
            let is_group = path.len() > 1;
            move |name| !is_group || name != "self"
        });
        let alias = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        self.module().imports.insert(alias, path.clone());
        self.mention(line, path);
    }

    /// Records a method that the present impl defines. A method of a trait is not recorded.
    fn define(&mut self, name: &Ident) {
        if let Some(owner) = self.owner.as_ref().filter(|owner| owner.is_inherent) {
            let method = self.method(owner, name);
            self.sources.methods.push(method);
        }
    }

    /// Records a call of a method of `self`.
    fn call(&mut self, name: &Ident) {
        if let Some(owner) = &self.owner {
            let method = self.method(owner, name);
            self.sources.calls.push(method);
        }
    }

    fn method(&self, owner: &Owner, name: &Ident) -> Method {
        Method {
            module: self.module,
            line: name.span().start().line,
            owner: owner.path.clone(),
            name: name.to_string(),
        }
    }

    /// Collects the calls of methods of `self` in `tokens`, except those within groups.
    fn calls_in(&mut self, tokens: &TokenStream) {
        let tokens: Vec<_> = tokens.clone().into_iter().collect();
        for tokens in tokens.windows(4) {
            if let [
                TokenTree::Ident(receiver),
                TokenTree::Punct(dot),
                TokenTree::Ident(name),
                TokenTree::Group(arguments),
            ] = tokens
                && receiver == "self"
                && dot.as_char() == '.'
                && arguments.delimiter() == Delimiter::Parenthesis
            {
                self.call(name);
            }
        }
    }

    /// Collects the paths in the arguments of a macro, and the calls of methods of `self`.
    fn tokens(&mut self, tokens: TokenStream) {
        self.calls_in(&tokens);
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons, mut is_field) = (0, 0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end_path(line, &mut path);
                        line = ident.span().start().line;
                    }
                    if !is_field {
                        path.push(ident.to_string());
                    }
                    (colons, is_field) = (0, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end_path(line, &mut path);
                    colons = 0;
                    is_field = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '.');
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end_path(line, &mut path);
    }

    fn end_path(&mut self, line: usize, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.mention(line, mem::take(path));
        }
    }

    fn item_impl(&mut self, item: &ItemImpl) {
        let path = match &*item.self_ty {
            Type::Path(ty) => names(&ty.path),
            _ => Vec::new(),
        };
        let is_inherent = item.trait_.is_none();
        let outer = self.owner.replace(Owner { path, is_inherent });
        visit::visit_item_impl(self, item);
        self.owner = outer;
    }

    fn item_mod(&mut self, item: &ItemMod) {
        let name = item.ident.to_string();
        let folder = self.folder.join(&name);
        let file = match item.content {
            Some(_) => self.module().file.clone(),
            None => PathBuf::new(),
        };
        let child = self.sources.add(Module {
            file,
            parent: self.module,
            ..Module::default()
        });
        self.module().children.insert(name, child);
        if let Some((_, items)) = &item.content {
            let module = mem::replace(&mut self.module, child);
            let outer = mem::replace(&mut self.folder, folder);
            for item in items {
                self.visit_item(item);
            }
            (self.module, self.folder) = (module, outer);
        } else {
            self.declared
                .push((child, folder.with_extension("rs"), folder));
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attrs, name) = attributes_and_name(item);
        if is_for_tests(attrs) {
            return;
        }
        if let Some(name) = name {
            self.module().items.insert(name);
        }
        match item {
            Item::Mod(item) => self.item_mod(item),
            Item::Impl(item) => self.item_impl(item),
            item => {
                // In an item within a method, `self` is not that of the method.
                let outer = self.owner.take();
                visit::visit_item(self, item);
                self.owner = outer;
            }
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attrs = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if is_for_tests(attrs) {
            return;
        }
        if let ImplItem::Fn(method) = item
            && method.sig.receiver().is_some()
        {
            self.define(&method.sig.ident);
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.use_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let line = path.span().start().line;
        self.mention(line, names(path));
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        if matches!(&*call.receiver, Expr::Path(receiver) if receiver.path.is_ident("self")) {
            self.call(&call.method);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// Returns the names in a path.
fn names(path: &syn::Path) -> Vec<String> {
    let names = path.segments.iter();
    names.map(|segment| segment.ident.to_string()).collect()
}

/// Returns the attributes of `item`, and its name in its module unless it is a module.
fn attributes_and_name(item: &Item) -> (&[Attribute], Option<String>) {
    let (attrs, name) = match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(ItemMacro { attrs, ident, .. }) => (attrs, ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => return (&[], None),
    };
    (attrs, name.map(ToString::to_string))
}

/// Returns true if `attrs` contain a `cfg` that requires tests.
fn is_for_tests(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let cfg = attr
            .path()
            .is_ident("cfg")
            .then(|| attr.meta.require_list());
        let names = |list: &syn::MetaList| has_test(list.tokens.clone());
        cfg.and_then(Result::ok).is_some_and(names)
    })
}

fn has_test(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(name) => name == "test",
        TokenTree::Group(group) => has_test(group.stream()),
        _ => false,
    })
}

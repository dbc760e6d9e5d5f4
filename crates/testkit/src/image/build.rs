//! Builds images from recipes.

use super::{Change, OracleKind, Populate, Recipe, copy_sparse};
use crate::e2fsprogs::{UUID, debugfs, debugfs_write, repeatable_mke2fs};
use crate::error::{Context, Error, Result};
use crate::mount::{Access, LoopMount};
use crate::requirement::can_loop_mount;
use crate::seed::{Seed, mix};
use crate::tool::Tool;
use crate::tree::{self, Limits};
use rustix::fs::{FlockOperation, Mode, flock};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The environment variable that sets the directory of the kept images.
pub const IMAGES_VARIABLE: &str = "LARDER_TEST_IMAGES";

/// The sources that determine an image's content.
const SOURCES: [&str; 12] = [
    include_str!("../mke2fs.conf"),
    include_str!("../e2fsprogs.rs"),
    include_str!("build.rs"),
    include_str!("large.rs"),
    include_str!("recipe.rs"),
    include_str!("../tree/mod.rs"),
    include_str!("../tree/attributes.rs"),
    include_str!("../tree/builder.rs"),
    include_str!("../tree/content.rs"),
    include_str!("../tree/names.rs"),
    include_str!("../tree/special.rs"),
    include_str!("../tree/work.rs"),
];

/// A finished image. All tests share the file, so never write to it.
#[derive(Clone, Debug)]
pub struct Image {
    recipe: Recipe,
    path: PathBuf,
    source: Option<PathBuf>,
}

impl Image {
    /// Returns the image of `recipe`. Builds it if no earlier run did.
    pub fn get(recipe: &Recipe) -> Result<Self> {
        image(recipe)
    }

    /// Returns the path of the image file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the recipe of the image.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Returns the directory that mke2fs copied from, if the kernel did not write the files.
    #[must_use]
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }
}

/// Finds or builds the image of `recipe`. If another process is building it, waits for that process.
fn image(recipe: &Recipe) -> Result<Image> {
    let mut recipe = *recipe;
    let by_kernel = can_loop_mount();
    if !by_kernel && !recipe.needs_kernel() {
        // Without the kernel, the directory that mke2fs copies is the oracle, and content that no tool
        // can read back is omitted.
        recipe.populate = Populate::Mke2fs;
        recipe.oracle = OracleKind::Source;
        recipe.tree = tree::Tree::SMALL;
    }
    let plain = if recipe.checksums { "" } else { "-plain" };
    let tag = format!("{}-{}{plain}", recipe.name, recipe.tree.names);
    let path = keep(&tag, &format!("{recipe:?}"), |unfinished, source| {
        let source = (recipe.populate == Populate::Mke2fs).then_some(source);
        build(&recipe, unfinished, source)
    })?;
    let source = (recipe.populate == Populate::Mke2fs).then(|| path.with_extension("tree"));
    Ok(Image {
        recipe,
        path,
        source,
    })
}

/// Returns the path of the image that `tag` and `recipe` describe. If there is none, calls `make` to build
/// it. The arguments of `make` are the path at which to build the image, and the path of a directory in which
/// it can put the files to copy.
pub(super) fn keep(
    tag: &str,
    recipe: &str,
    make: impl FnOnce(&Path, &Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = images_folder();
    std::fs::create_dir_all(&folder).context("mkdir", &folder)?;
    let lock_path = folder.join(format!("{tag}.lock"));
    let lock = File::create(&lock_path).context("create", &lock_path)?;
    flock(&lock, FlockOperation::LockExclusive).context("lock", &lock_path)?;
    let path = folder.join(format!("{tag}-{:016x}.img", key(recipe)?));
    if !path.exists() {
        remove_older(&folder, tag)?;
        let unfinished = path.with_extension("tmp");
        make(&unfinished, &path.with_extension("tree"))?;
        std::fs::rename(&unfinished, &path).context("rename", &unfinished)?;
    }
    Ok(path)
}

fn images_folder() -> PathBuf {
    std::env::var_os(IMAGES_VARIABLE)
        .map_or_else(|| workspace().join("target/testkit"), PathBuf::from)
}

/// Returns a key that changes with anything that determines the image.
fn key(recipe: &str) -> Result<u64> {
    static TOOLS: OnceLock<String> = OnceLock::new();
    let tools = if let Some(version) = TOOLS.get() {
        version
    } else {
        let version = Tool::new("e2fsck").arg("-V").messages()?;
        TOOLS.get_or_init(|| version)
    };
    let texts = SOURCES.iter().copied().chain([tools.as_str(), recipe]);
    Ok(texts
        .flat_map(str::bytes)
        .fold(0, |key, byte| mix(key ^ u64::from(byte)).wrapping_add(1)))
}

/// Removes images of earlier versions of the recipe.
fn remove_older(folder: &Path, tag: &str) -> Result<()> {
    for entry in std::fs::read_dir(folder).context("list", folder)? {
        let path = entry.context("list", folder)?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        // The tag is followed only by the key of 16 digits.
        let older = stem
            .and_then(|stem| stem.strip_prefix(tag))
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|key| key.len() == 16);
        if older && path.is_dir() {
            std::fs::remove_dir_all(&path).context("remove", &path)?;
        } else if older {
            std::fs::remove_file(&path).context("remove", &path)?;
        }
    }
    Ok(())
}

fn build(recipe: &Recipe, path: &Path, source: Option<&Path>) -> Result<()> {
    if let Some(source) = source {
        // An interrupted build leaves an incomplete tree.
        if source.exists() {
            std::fs::remove_dir_all(source).context("remove", source)?;
        }
        std::fs::create_dir(source).context("mkdir", source)?;
        // mke2fs creates `lost+found`, so `source`, which is the oracle, must have it too.
        let found = source.join("lost+found");
        std::fs::create_dir(&found).context("mkdir", &found)?;
        rustix::fs::chmod(&found, Mode::RWXU).context("chmod", &found)?;
        tree::populate(source, &recipe.tree, recipe.limits())?;
    }
    make_empty(recipe, path, source)?;
    for change in recipe.before {
        apply(change, path)?;
    }
    if source.is_none() {
        let mount = LoopMount::new(path, Access::ReadWrite, &["noinit_itable"])?;
        tree::populate(&mount.path(), &recipe.tree, Limits::NONE)?;
        mount.sync()?;
    }
    for change in recipe.after {
        apply(change, path)?;
    }
    Ok(())
}

fn make_empty(recipe: &Recipe, path: &Path, copied: Option<&Path>) -> Result<()> {
    let file = File::create(path).context("create", path)?;
    let size_bytes = u64::from(recipe.size_mib) << 20;
    file.set_len(size_bytes).context("truncate", path)?;
    // The root directory has the same owner as everything that mke2fs copies.
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let owner = format!("root_owner={}:{}", user.as_raw(), group.as_raw());
    let folder = tempfile::tempdir().context("create a directory in", &std::env::temp_dir())?;
    let label = recipe.name.get(..16).unwrap_or(recipe.name);
    let mut tool = repeatable_mke2fs(&arguments(recipe), &owner, folder.path())?
        .args(["-m", "1", "-L", label]);
    if recipe.argument("-r").is_none() {
        tool = tool.args(["-U", UUID]);
    }
    if let Some(folder) = copied {
        tool = tool.arg("-d").arg(folder);
    }
    tool.arg(path).run()?;
    Ok(())
}

/// Returns the arguments of mke2fs with a single `-O`, because only the last one takes effect.
fn arguments(recipe: &Recipe) -> String {
    match recipe.argument("-O") {
        _ if recipe.checksums => recipe.mkfs.to_owned(),
        Some(features) => recipe
            .mkfs
            .replace(features, &format!("{features},^metadata_csum")),
        None => format!("{} -O ^metadata_csum", recipe.mkfs),
    }
}

fn apply(change: &Change, path: &Path) -> Result<()> {
    match *change {
        Change::Tune(args) => {
            Tool::new("tune2fs").args(args).arg(path).run()?;
            Ok(())
        }
        Change::Debugfs(requests) => debugfs_write(path, requests),
        Change::ShareBlocks => share_blocks(path),
        Change::Encrypt => {
            let mount = LoopMount::new(path, Access::ReadWrite, &["test_dummy_encryption"])?;
            tree::encrypted_folder(&mount.path())?;
            mount.sync()
        }
        Change::Crash { options, work } => {
            let mount = LoopMount::new(path, Access::ReadWrite, options)?;
            let open = tree::crash_work(&mount.path(), work, Seed(0xc4a5))?;
            let copy = path.with_extension("crashed");
            copy_sparse(path, &copy)?;
            drop(open);
            drop(mount);
            std::fs::rename(&copy, path).context("rename", &copy)
        }
    }
}

/// Changes the only extent of `/shared/b` to the blocks of `/shared/a`.
fn share_blocks(path: &Path) -> Result<()> {
    let blocks = debugfs(path, "blocks /shared/a")?;
    let first: u64 = blocks
        .split_whitespace()
        .next()
        .and_then(|block| block.parse().ok())
        .ok_or_else(|| Error::Inconsistent(format!("debugfs listed no blocks: {blocks}")))?;
    // Words 0 to 2 of the inode's block map are the header, and word 5 is the low half of the extent's start.
    debugfs_write(
        path,
        &[format!("set_inode_field /shared/b block[5] {first}")],
    )
}

fn workspace() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

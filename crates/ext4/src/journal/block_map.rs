//! Maps and sets with block numbers as keys.

use crate::FsBlock;
use larder_cache::number_hash::NumberHash;
use std::collections::{HashMap, HashSet};

pub(super) type BlockMap<V> = HashMap<FsBlock, V, NumberHash>;
pub(super) type BlockSet = HashSet<FsBlock, NumberHash>;

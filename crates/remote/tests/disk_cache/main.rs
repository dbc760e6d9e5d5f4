//! The cache on disk, through its public interface.

mod damage;
mod directory;
mod eviction;
mod model;
mod processes;
mod support;

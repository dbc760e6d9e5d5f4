//! Creates every image of the matrix, or only those named.

use larder_testkit::{Image, MATRIX};
use std::time::Instant;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for recipe in MATRIX {
        if !names.is_empty() && !names.iter().any(|name| name == recipe.name) {
            continue;
        }
        let start = Instant::now();
        match Image::get(recipe) {
            Ok(image) => println!("{:>7.2?} {}", start.elapsed(), image.path().display()),
            Err(error) => println!("FAILED {}: {error}", recipe.name),
        }
    }
}

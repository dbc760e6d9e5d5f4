//! Prints what the simulated devices are and do: the tables of `docs/design/devices.md`.
//!
//! `cargo run --release -p larder-block --example device_figures`

mod measure;

fn main() {
    print!("{}", measure::parameters());
    print!("{}", measure::disk_figures());
    print!("{}", measure::parallel_figures());
}

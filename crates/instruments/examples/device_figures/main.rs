//! Prints the parameters and figures of the simulated devices: the tables of `docs/design/devices.md`.
//!
//! `cargo run --release -p larder-instruments --example device_figures`

mod measure;

fn main() {
    println!("{}", measure::parameters());
    println!("{}", measure::disk_figures(&measure::disk_runs()));
    println!("{}", measure::parallel_figures());
}

//! Prints the tables of `docs/design/devices.md`: the parameters of the simulated devices, and results of
//! simulations.
//!
//! Run it with `cargo run --release -p larder-instruments --example device_figures`.

mod measure;

fn main() {
    println!("{}", measure::parameters());
    println!("{}", measure::disk_figures(&measure::disk_runs()));
    println!("{}", measure::parallel_figures());
}

//! The command `larder lab list`: lists workloads, devices, policies and hash functions.

use clap::Args;
use larder::tables::Function;
use larder::{CacheKind, PolicyName};
use larder_console::{Result, write_json};
use larder_instruments::simulated::DEVICE_MODELS;
use larder_lab::workload::Workload;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// List workloads, devices, policies and hash functions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab list
  larder lab list --json | jq -r '.workloads[].name'

JSON: workloads [{name, about, parameters [{name, default, about}]}],
devices [{name, about}], policies [names],
functions [{name, about, source (of the function), caches [names]}]")]
pub(crate) struct ListArgs {
    /// Write one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct List {
    workloads: Vec<WorkloadEntry>,
    devices: Vec<Entry>,
    policies: Vec<&'static str>,
    functions: Vec<FunctionEntry>,
}

#[derive(Debug, Serialize)]
struct FunctionEntry {
    #[serde(flatten)]
    entry: Entry,
    source: &'static str,
    caches: &'static [CacheKind],
}

#[derive(Debug, Serialize)]
struct WorkloadEntry {
    #[serde(flatten)]
    entry: Entry,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: &'static str,
    about: &'static str,
}

#[derive(Debug, Serialize)]
struct Parameter {
    #[serde(flatten)]
    entry: Entry,
    default: String,
}

pub(super) fn run(args: &ListArgs) -> Result<ExitCode> {
    let list = list();
    if args.json {
        write_json(&list)?;
    } else {
        let mut out = io::stdout().lock();
        print_text(&mut out, &list)?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> List {
    let workloads = Workload::all().map(|workload| WorkloadEntry {
        entry: Entry {
            name: workload.name,
            about: workload.about,
        },
        parameters: workload
            .parameters
            .iter()
            .map(|parameter| Parameter {
                entry: Entry {
                    name: parameter.name,
                    about: parameter.about,
                },
                default: parameter.default_text(),
            })
            .collect(),
    });
    let devices = DEVICE_MODELS.iter().map(|model| Entry {
        name: model.name,
        about: model.about,
    });
    List {
        workloads: workloads.collect(),
        devices: devices.collect(),
        policies: PolicyName::ALL.iter().map(|name| name.as_str()).collect(),
        functions: Function::ALL.iter().copied().map(function).collect(),
    }
}

fn function(function: Function) -> FunctionEntry {
    FunctionEntry {
        entry: Entry {
            name: function.as_str(),
            about: function.about(),
        },
        source: function.source(),
        caches: function.caches(),
    }
}

fn print_text(out: &mut impl Write, list: &List) -> io::Result<()> {
    writeln!(out, "Workloads (--workload NAME:PARAMETER=VALUE,...)")?;
    for workload in &list.workloads {
        let Entry { name, about } = &workload.entry;
        writeln!(out, "  {name:<14} {about}")?;
        for parameter in &workload.parameters {
            let Entry { name, about } = &parameter.entry;
            let value = format!("{name}={}", parameter.default);
            writeln!(out, "      {value:<18} {about}")?;
        }
    }
    writeln!(out, "\nDevices (--device NAME)")?;
    for Entry { name, about } in &list.devices {
        writeln!(out, "  {name:<14} {about}")?;
    }
    writeln!(out, "\nPolicies (--policy NAME,...)")?;
    writeln!(out, "  {}", list.policies.join(", "))?;
    writeln!(out, "\nHash functions (hash --functions NAME,...)")?;
    for FunctionEntry { entry, .. } in &list.functions {
        writeln!(out, "  {:<20} {}", entry.name, entry.about)?;
    }
    Ok(())
}

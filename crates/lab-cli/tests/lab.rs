//! Tests of `larder lab`: simulations, which need no image, no root and no FUSE.

mod support;

use std::fs;
use std::path::Path;
use support::{assert_fails, lab, lab_ok, text};

/// A workload whose simulation is very short.
const SMALL: [&str; 6] = [
    "readahead",
    "--workload",
    "sequential:file=16M",
    "--device",
    "sata-2007",
    "--memory=8M",
];

fn small_with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

#[test]
fn readahead_prints_the_same_row_for_each_policy_every_time() {
    let text = lab_ok(SMALL);
    for policy in ["off", "legacy", "ondemand", "modern", "adaptive"] {
        let rows = text.lines().filter(|line| line.starts_with(policy));
        assert_eq!(rows.count(), 1, "{policy}: {text}");
    }
    assert_eq!(lab_ok(SMALL), text);
    assert_eq!(lab_ok(small_with(&["--policy", "all,legacy"])), text);
    let two = lab_ok(small_with(&["--policy", "legacy,modern"]));
    assert!(two.contains("legacy") && !two.contains("ondemand"), "{two}");
}

#[test]
fn readahead_prints_json_with_every_figure() {
    let text = lab_ok(small_with(&["--json", "--policy=ondemand"]));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["device"], "sata-2007");
    assert_eq!(json["reports"][0]["policy"], "ondemand");
    assert_eq!(json["reports"][0]["bytes_read"], 16 << 20);
    for rate in ["throughput_bytes_s", "hit_rate", "mean_device_read_bytes"] {
        assert!(json["reports"][0][rate].as_f64().unwrap() > 0.0, "{rate}");
    }
}

#[test]
fn readahead_writes_csv_plot_and_report_to_the_given_paths() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (csv, plot, report) = (path("x.csv"), path("x.svg"), path("new/report"));
    lab_ok(small_with(&[
        "--csv",
        csv.to_str().unwrap(),
        "--plot",
        plot.to_str().unwrap(),
        "--output",
        report.to_str().unwrap(),
    ]));
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 6);
    assert!(fs::read_to_string(&plot).unwrap().starts_with("<svg"));
    for extension in ["md", "html", "csv", "json", "svg"] {
        let file = report.join("comparison").with_extension(extension);
        assert!(file.exists(), "{}", file.display());
    }
}

#[test]
fn invalid_values_are_rejected_with_the_flag_and_alternatives() {
    for (args, parts) in [
        (
            &["--workload", "dance"][..],
            &["--workload", "dance", "sequential"][..],
        ),
        (
            &["--workload", "sequential:colour=red"],
            &["--workload", "colour", "request"],
        ),
        (
            &["--workload", "sequential", "--device", "floppy"],
            &["--device", "floppy", "nvme"],
        ),
        (
            &["--workload", "sequential", "--policy", "legacy,psychic"],
            &["--policy", "psychic", "ondemand", "all"],
        ),
        (
            &["--workload", "sequential", "--memory", "lots"],
            &["--memory", "lots"],
        ),
        (
            &["--workload", "sequential", "--memory", "-1"],
            &["--memory", "'-1' is not a size"],
        ),
        (
            &["--workload", "sequential", "--seed", "-1"],
            &["--seed", "`-1` is not a seed", "18446744073709551615"],
        ),
        (
            &["--workload", "sequential", "--readahead-max", "100"],
            &["--readahead-max", "100 bytes", "4096", "--policy off"],
        ),
        (
            &["--workload", "sequential", "--readahead-max", "-1"],
            &["--readahead-max", "'-1' is not a size"],
        ),
        (
            &["--workload", "sequential:file=1G,file=2G"],
            &["--workload", "`file` is given twice"],
        ),
        (
            &["--workload", "interleaved:streams=64,file=1"],
            &["--workload", "a page for each of streams=64", "256K"],
        ),
    ] {
        let args = ["readahead"].iter().chain(args).copied();
        assert_fails(&lab(args.collect::<Vec<_>>()), 2, parts);
    }
    assert_fails(&lab(["reproduce", "wu2008"]), 2, &["wu2008", "wu2007"]);
}

#[test]
fn unwritable_file_is_reported_with_its_flag() {
    let args = small_with(&["--policy=off", "--csv", "/nonexistent/x.csv"]);
    assert_fails(&lab(args), 1, &["/nonexistent/x.csv", "hint:", "--csv"]);
    let args = small_with(&["--policy=off", "--output", "/proc/nonexistent"]);
    assert_fails(&lab(args), 1, &["/proc/nonexistent", "hint:", "--output"]);
}

#[test]
fn files_larger_than_the_device_fail_with_a_hint() {
    let args = [
        "readahead",
        "--workload=sequential:file=1T",
        "--device=sata-2007",
    ];
    let output = lab(args);
    assert_ne!(output.status.code(), Some(0));
    assert_fails(&output, output.status.code().unwrap(), &["--workload"]);
}

#[test]
fn list_names_workloads_devices_policies_and_functions() {
    let text = lab_ok(["list"]);
    for name in [
        "interleaved",
        "streams=",
        "sata-2007",
        "object-30ms",
        "modern",
        "buffer-steiner",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&lab_ok(["list", "--json"])).unwrap();
    assert!(json["workloads"][0]["parameters"][0]["default"].is_string());
}

#[test]
fn reproduce_quick_output_and_report_state_that_they_prove_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let text = lab_ok([
        "reproduce".as_ref(),
        "wu2007".as_ref(),
        "--quick".as_ref(),
        "--output".as_ref(),
        dir.path().as_os_str(),
    ]);
    assert!(
        text.contains("iozone") && text.contains("wu2007.md"),
        "{text}"
    );
    assert!(text.contains("proves nothing"), "{text}");
    let report = fs::read_to_string(Path::new(dir.path()).join("wu2007.md")).unwrap();
    assert!(report.contains("proves nothing"));
}

#[test]
fn reproduce_kara2016_quick_report_has_every_finding_and_no_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let text = lab_ok([
        "reproduce".as_ref(),
        "kara2016".as_ref(),
        "--quick".as_ref(),
        "--output".as_ref(),
        dir.path().as_os_str(),
    ]);
    assert!(
        text.contains("the rewrite is not slower") && text.contains("kara2016.md"),
        "{text}"
    );
    assert!(
        text.contains("proves nothing") && text.contains("verdict    not judged"),
        "{text}"
    );
    let report = fs::read_to_string(dir.path().join("kara2016.md")).unwrap();
    assert!(report.contains("proves nothing"));
    let json = fs::read_to_string(dir.path().join("kara2016.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let not_measured = json["not_measured"].as_array().unwrap();
    for part in not_measured {
        larder_testkit::report_skipped(part);
    }
    let tables = json["ours"].as_array().unwrap().len() + not_measured.len();
    assert_eq!(tables, 4, "simulated, volume, engine, kernel");
    assert_eq!(json["findings"].as_array().unwrap().len(), 12);
    assert_eq!(json["assumptions"].as_array().unwrap().len(), 12);
    assert_eq!(json["entries"].as_array().unwrap().len(), 5, "all but off");
    measurements_of_kara2016_are_judged_again(dir.path(), &json);
}

/// Judges the report in `dir`, which has the JSON `json`, again. Measurements that are not those of the program's tables
/// must be rejected.
fn measurements_of_kara2016_are_judged_again(dir: &Path, json: &serde_json::Value) {
    let again = dir.join("again");
    let judge = |json: &serde_json::Value| {
        let file = dir.join("changed.json");
        fs::write(&file, json.to_string()).unwrap();
        let args = ["reproduce".as_ref(), "kara2016".as_ref(), "--from".as_ref()];
        let output = ["--output".as_ref(), again.as_os_str()];
        let args = args.into_iter().chain([file.as_os_str()]).chain(output);
        lab(args.collect::<Vec<_>>())
    };
    let judged = judge(json);
    assert!(judged.status.success(), "{}", text(&judged.stderr));
    let read = |path: &Path| -> serde_json::Value {
        let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let date = serde_json::Value::pointer_mut(&mut json, "/provenance/judged/date");
        *date.unwrap() = "then".into();
        json
    };
    assert!(read(&again.join("kara2016.json")) == read(&dir.join("kara2016.json")));
    let parts = json["parts"].as_array().unwrap();
    let with_part = |part: &serde_json::Value| -> serde_json::Value {
        parts.iter().chain([part]).cloned().collect()
    };
    let mut other_case = parts[0].clone();
    other_case["case"]["files"] = 7.into();
    for (place, value) in [
        ("/runs", 3.into()),
        ("/parts", with_part(&parts[0])),
        ("/parts", with_part(&other_case)),
        ("/wrong_data", serde_json::json!(["engine"])),
        (
            "/not_measured",
            serde_json::json!([["kernel", "a".repeat(1000)]]),
        ),
        ("/not_measured", serde_json::json!([["simulated", "a"]])),
        ("/parts", serde_json::json!([])),
        ("/parts/0/operations", 1.into()),
        ("/parts/0/of/0/seconds", serde_json::json!([])),
        ("/parts/0/of/0/seconds/0", (-1.0).into()),
        ("/provenance/measured/processor", "<script>".into()),
    ] {
        let mut changed = json.clone();
        *changed.pointer_mut(place).expect(place) = value;
        assert_fails(
            &judge(&changed),
            1,
            &["changed.json", "hint:", "kara2016.json"],
        );
    }
}

#[test]
fn reproduce_without_output_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let done = support::command(support::User::Same)
        .args(["reproduce", "wu2007", "--quick"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("iozone"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    // The figures of --timed are only in the report.
    let refused = lab(["reproduce", "wu2007", "--quick", "--timed"]);
    assert_fails(&refused, 2, &["--output"]);
}

#[test]
fn replaced_result_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (csv, plot, report) = (path("figures.csv"), path("plot.svg"), path("report"));
    let args = small_with(&[
        "--policy=off",
        "--csv",
        &csv,
        "--plot",
        &plot,
        "--output",
        &report,
    ]);
    let first = lab(&args);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(!text(&first.stderr).contains("replaced"), "{first:?}");
    let again = lab(&args);
    assert!(again.status.success(), "{}", text(&again.stderr));
    let page = format!("{report}/comparison.md");
    for file in [&csv, &plot, &page] {
        let note = format!("note: replaced {file}\n");
        assert!(text(&again.stderr).contains(&note), "{again:?}");
    }
}

#[test]
fn file_that_cannot_be_judged_again_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (missing, other) = (path("missing.json"), path("other.json"));
    fs::write(&other, r#"{"reports": []}"#).unwrap();
    for file in [missing.as_str(), other.as_str()] {
        let args = ["reproduce", "lever2000", "--from", file];
        assert_fails(&lab(args), 1, &[file, "hint:", "--from", "lever2000.json"]);
    }
    let args = ["reproduce", "wu2007", "--from", other.as_str()];
    assert_fails(&lab(args), 2, &["--from", "kara2016", "lever2000"]);
    let args = [
        "reproduce",
        "lever2000",
        "--quick",
        "--from",
        other.as_str(),
    ];
    assert_fails(&lab(args), 2, &["--from", "--quick"]);
}

#[test]
fn timed_is_rejected_for_documents_that_are_always_timed() {
    assert_fails(
        &lab(["reproduce", "kara2016", "--timed", "--output=x"]),
        2,
        &["--timed", "wu2007"],
    );
}

//! Tests xattr-bench as a library: measured figures, and the report.

use larder::MbCacheVariant;
use larder_lab::output::Report as _;
use larder_lab::xattr_bench::{
    BenchConfig, Case, Error, Measured, Target, Worker, XattrBench, measure_all,
};
use larder_testkit::report_skipped;
use std::io::ErrorKind;
use std::path::PathBuf;

const CONFIG: BenchConfig = BenchConfig {
    operations: 40,
    is_warm: false,
    runs: 2,
    seed: 1,
};

fn cases() -> Vec<Case> {
    let numbers = [
        (1, 10, 5),
        (2, 10, 5),
        (1, 20, 5),
        (2, 20, 5),
        (1, 10, 9),
        (2, 10, 9),
    ];
    numbers
        .map(|(processes, files, values)| Case {
            processes,
            files,
            values,
        })
        .to_vec()
}

fn bench(variants: &[MbCacheVariant]) -> XattrBench {
    let targets: Vec<Target> = variants.iter().copied().map(Target::Engine).collect();
    let mut runs = 0;
    let bench = measure_all("engine", &targets, &cases(), &CONFIG, &mut || runs += 1).unwrap();
    assert_eq!(runs, targets.len() * cases().len() * 2);
    bench
}

#[test]
fn operations_of_one_process_are_equal_for_every_sharing_variant() {
    let sharing = MbCacheVariant::ALL.map(|variant| {
        let measured = &bench(&[variant]).measured[0];
        let stats = measured.stats.unwrap();
        (
            variant,
            stats.shares,
            stats.blocks.lookups,
            stats.blocks.hits,
        )
    });
    let of = |variant| sharing.iter().find(|stats| stats.0 == variant).unwrap();
    let clock = of(MbCacheVariant::Clock);
    assert!(clock.1 > 0 && clock.2 >= clock.3);
    for stats in &sharing {
        match stats.0 {
            MbCacheVariant::Off => assert_eq!(stats.1, 0),
            _ => assert_eq!(
                (stats.1, stats.2, stats.3),
                (clock.1, clock.2, clock.3),
                "{stats:?}"
            ),
        }
    }
}

#[test]
fn matrix_has_the_published_tables_in_the_published_order() {
    let bench = bench(&[
        MbCacheVariant::Clock,
        MbCacheVariant::Off,
        MbCacheVariant::Lru,
    ]);
    assert!(bench.is_matrix());
    assert_eq!(bench.order(), "lru,off,clock");
    let matrix = bench.matrix();
    let headings: Vec<&str> = matrix.iter().map(|(heading, _)| &**heading).collect();
    assert_eq!(headings, ["V=5", "V=9"]);
    let text = matrix[0].1.to_text();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["F\\P", "1", "2"]);
    assert_eq!((lines[1][0], lines[2][0]), ("10", "20"));
    let averages: Vec<f64> = lines[1][2]
        .split(',')
        .map(|cell| cell.parse().unwrap())
        .collect();
    let measured = &bench.measured[3..6];
    let means = [&measured[2], &measured[1], &measured[0]].map(Measured::mean_s);
    for (cell, mean) in averages.iter().zip(means) {
        assert!((cell - mean).abs() <= mean / 100.0, "{cell}: {mean}");
    }
    assert!(
        matrix[1]
            .1
            .to_text()
            .lines()
            .last()
            .unwrap()
            .contains("N/A"),
        "no F=20, V=9"
    );
}

#[test]
fn medians_have_a_column_for_each_variant_and_mark_the_fastest() {
    let bench = bench(&[MbCacheVariant::Clock, MbCacheVariant::Off]);
    let text = bench.medians().to_text();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["P", "F", "V", "off", "clock"]);
    for (row, pair) in lines[1..].iter().zip(bench.measured.chunks(2)) {
        // Clock was measured first.
        let is_off_faster = pair[1].median_s() < pair[0].median_s();
        assert_eq!(row[3].starts_with('*'), is_off_faster, "{row:?}");
        assert_eq!(row[4].starts_with('*'), !is_off_faster, "{row:?}");
    }
    let widest = text.lines().map(str::len).max();
    assert!(widest < Some(80), "{text}");
}

#[test]
fn report_has_tables_plots_and_every_run() {
    let bench = bench(&[MbCacheVariant::Referenced, MbCacheVariant::Off]);
    let files = bench.report().unwrap();
    let content = |name: &str| &*files.iter().find(|file| file.name == name).unwrap().content;
    for name in ["v5-f10.svg", "v5-f20.svg", "v9-f10.svg"] {
        assert!(content(name).contains("referenced") && content(name).contains("processes"));
    }
    let (markdown, html) = (content("xattr-bench.md"), content("xattr-bench.html"));
    assert!(
        markdown.contains("## V=5") && markdown.contains("(v9-f10.svg)"),
        "{markdown}"
    );
    assert!(markdown.contains("56 (7 longs)"), "{markdown}");
    assert!(html.contains("<svg") && !html.contains("v9-f10.svg"));

    let mut csv = csv::Reader::from_reader(content("xattr-bench.csv").as_bytes());
    let head = csv.headers().unwrap().clone();
    let at = |name: &str| head.iter().position(|field| field == name).unwrap();
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 12);
    assert_eq!(&rows[3][at("variant")], "off");
    let of = |name: &str| rows[3][at(name)].parse::<f64>().unwrap();
    assert!((of("run_1_s").midpoint(of("run_2_s")) - of("mean_s")).abs() < 1e-9);

    let json: serde_json::Value = serde_json::from_str(content("xattr-bench.json")).unwrap();
    let first = &json["measured"][0];
    assert_eq!(
        (&json["operations"], &first["processes"]),
        (&40.into(), &1.into())
    );
    assert_eq!(first["seconds"].as_array().unwrap().len(), 2);
    assert!(first["stats"]["blocks"]["lookups"].as_u64().unwrap() > 0);
}

#[test]
fn report_of_one_number_of_processes_has_bars() {
    let one = [cases()[0]];
    let targets = [Target::Engine(MbCacheVariant::Off)];
    let bench = measure_all("engine", &targets, &one, &CONFIG, &mut || ()).unwrap();
    assert!(!bench.is_matrix());
    let plot = &bench.plots()[0].content;
    assert!(plot.contains("seconds") && !plot.contains("processes"));
    assert!(bench.entry_sizes().is_none(), "off has no entries");
}

#[test]
fn failed_worker_is_reported_and_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let targets = ["/bin/false", "/nonexistent"].map(|program| Target::Directory {
        path: dir.path().to_owned(),
        worker: Worker {
            program: PathBuf::from(program),
            arguments: Vec::new(),
            interrupt: None,
        },
    });
    let measure = |target: &Target| {
        let target = std::slice::from_ref(target);
        measure_all("dir", target, &cases(), &CONFIG, &mut || ()).unwrap_err()
    };
    assert!(matches!(measure(&targets[0]), Error::Worker(status) if !status.success()));
    assert!(matches!(measure(&targets[1]), Error::Process { .. }));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn value_missing_after_a_run_is_reported() {
    let make_files = "mkdir 0; for f in 0 1 2 3 4 5 6 7 8 9; do : > 0/f$f; done";
    let script = format!("{make_files}; echo '\"ready\"'; read go; echo '\"done\"'");
    let dir = tempfile::tempdir().unwrap();
    let target = Target::Directory {
        path: dir.path().to_owned(),
        worker: Worker {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".to_owned(), script],
            interrupt: None,
        },
    };
    let one = [cases()[0]];
    match measure_all("dir", &[target], &one, &CONFIG, &mut || ()).unwrap_err() {
        Error::Lost { process, file } => assert_eq!((process, file), (0, 0)),
        Error::Attribute { source, .. } if source.kind() == ErrorKind::Unsupported => {
            report_skipped("the directory for temporary files has no attributes");
        }
        error => panic!("{error}"),
    }
}

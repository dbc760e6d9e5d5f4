//! Metrics of a mount in use: their content, that a strict parser accepts them, and that clients cannot
//! disturb the server.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use support::{
    Fixture, Mountpoint, Server, User, assert_fails, can_mount, content, is_mounted, larder_ok,
    mount, run, serve, text, umount, wait_until,
};

/// How long a scraper waits.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a foreground server. Returns the server, and the address of its metrics from the note that it
/// prints.
fn serve_metrics(fixture: &Fixture, mountpoint: &Path) -> (Server, SocketAddr) {
    let mut server = serve(fixture, mountpoint, "ro,metrics=0");
    let mut note = String::new();
    let stderr = server.0.stderr.as_mut().unwrap();
    BufReader::new(stderr).read_line(&mut note).unwrap();
    let address = note.trim().strip_prefix("note: metrics at http://");
    let address = address.and_then(|rest| rest.strip_suffix("/metrics"));
    (
        server,
        address.unwrap_or_else(|| panic!("{note}")).parse().unwrap(),
    )
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Returns the response to a request.
fn send_request(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn scrape(address: SocketAddr) -> BTreeMap<String, f64> {
    let answer = send_request(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains("Content-Type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    samples(body)
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_part)
}

/// Returns the samples of a text by name and labels, after checking them against the grammar of the
/// format.
fn samples(body: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    assert!(body.ends_with('\n'), "{body}");
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let [keyword, name, rest] = comment.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            assert!(is_name(name) && !rest.is_empty(), "{line}");
            assert!(
                keyword == "HELP" || ["counter", "gauge", "histogram"].contains(&rest),
                "{line}"
            );
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(is_name(name), "{line}");
        // No label here contains a comma or a quote in its value.
        let labels = labels
            .strip_suffix('}')
            .unwrap()
            .split(',')
            .filter(|label| !label.is_empty());
        for label in labels {
            let (name, value) = label.split_once('=').unwrap();
            let value = value
                .strip_prefix('"')
                .and_then(|value| value.strip_suffix('"'));
            assert!(
                is_name(name) && value.is_some_and(|value| !value.contains('"')),
                "{line}"
            );
        }
        let last = samples.insert(series.to_owned(), value.parse().unwrap());
        assert_eq!(last, None, "{series} twice");
    }
    samples
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the counts of the tests are small"
)]
fn is_equal(value: f64, count: u64) -> bool {
    (value - count as f64).abs() < 1e-9
}

#[test]
fn metrics_equal_statistics() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let (server, address) = serve_metrics(&fixture, &mountpoint.0);
    assert!(address.ip().is_loopback());
    fs::read(mountpoint.0.join("dir/large")).unwrap();
    let path = mountpoint.0.to_str().unwrap();
    let read = || -> (BTreeMap<String, f64>, serde_json::Value) {
        let scraped = scrape(address);
        let json = larder_ok(["stats", "--json", path]);
        (scraped, serde_json::from_str(&json).unwrap())
    };
    // A request is recorded after its answer was sent, so some may be missing at first.
    let mut last = read();
    wait_until("the requests are recorded", || {
        let previous = std::mem::replace(&mut last, read());
        previous.1["requests"]["requests"] == last.1["requests"]["requests"]
    });
    let (scraped, json) = last;
    let pages = |key: &str| json["page"][key].as_u64().unwrap();
    assert!(pages("lookups") > 0);
    for (name, key) in [
        ("lookups_total", "lookups"),
        ("hits_total", "hits"),
        ("bytes", "bytes"),
    ] {
        let series = format!("larder_cache_{name}{{cache=\"page\"}}");
        assert!(is_equal(scraped[&series], pages(key)), "{series}");
    }
    let reads = json["device"]["reads"].as_u64().unwrap();
    assert!(is_equal(scraped["larder_device_reads_total"], reads));
    let durations = "larder_device_request_duration_seconds_count{operation=\"read\"}";
    assert!(is_equal(scraped[durations], reads));
    let operations = json["requests"]["operations"].as_array().unwrap();
    let read = operations.iter().find(|one| one["operation"] == "read");
    let read = read.unwrap()["requests"].as_u64().unwrap();
    for name in ["requests_total", "request_duration_seconds_count"] {
        let series = format!("larder_fuse_{name}{{operation=\"read\"}}");
        assert!(is_equal(scraped[&series], read), "{series}");
    }

    let written = larder_ok(["stats", "--prometheus", path]);
    let written = samples(&written);
    let series = format!("larder_cache_lookups_total{{mountpoint=\"{path}\",cache=\"page\"}}");
    assert!(is_equal(written[&series], pages("lookups")));
    // The kernel can have sent requests meanwhile.
    let others = |samples: &BTreeMap<String, f64>| {
        let names = samples.keys();
        names
            .filter(|name| !name.starts_with("larder_fuse_"))
            .count()
    };
    assert_eq!(others(&written), others(&scraped));

    umount(User::Same, &mountpoint.0);
    drop(server);
    assert!(
        TcpStream::connect(address).is_err(),
        "metrics are still served after the unmount"
    );
}

#[test]
fn hostile_clients_do_not_block_metrics() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let (_server, address) = serve_metrics(&fixture, &mountpoint.0);
    // More clients than the server admits at once. Half of them send nothing, and half of them an
    // incomplete request.
    let slow: Vec<TcpStream> = (0..100)
        .map(|at| {
            let mut stream = connect(address);
            if at % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
            }
            stream
        })
        .collect();
    scrape(address);
    // Requests that never end, in the header or after it.
    for request in [
        "GET /metrics HTTP/1.1\r\nX: ",
        "GET /metrics HTTP/1.1\r\n\r\n",
    ] {
        let mut endless = connect(address);
        endless.write_all(request.as_bytes()).unwrap();
        let more = vec![b'x'; 64 << 10];
        // Writing succeeds for a while after the server has closed the connection, because of the
        // sockets' buffers.
        let closed = (0..100_000).any(|_| endless.write_all(&more).is_err());
        assert!(closed, "the server accepts 6 GB");
        scrape(address);
    }
    for (request, status) in [
        ("\r\n\r\n\0", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
    ] {
        let answer = send_request(address, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
    let long = send_request(
        address,
        &format!("GET /metrics HTTP/1.1\r\nX: {}", "y".repeat(8 << 10)),
    );
    assert!(long.starts_with("HTTP/1.1 431 "), "{long}");
    scrape(address);
    assert_eq!(
        fs::read(mountpoint.0.join("dir/large")).unwrap(),
        content(3 << 20)
    );
    drop(slow);
}

#[test]
fn address_in_use_is_reported_before_mounting() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let (server, address) = serve_metrics(&fixture, &mountpoint.0);
    let second = Mountpoint(fixture.directory("second", User::Same));
    for place in [address.port().to_string(), address.to_string()] {
        let output = run(
            User::Same,
            &[
                "mount".as_ref(),
                "-o".as_ref(),
                "ro".as_ref(),
                "--metrics".as_ref(),
                place.as_ref(),
                fixture.image().as_ref(),
                second.0.as_ref(),
            ],
        );
        assert_fails(
            &output,
            1,
            &["cannot serve metrics at 127.0.0.1", "in use", "hint: "],
        );
        assert!(!is_mounted(&second.0));
    }
    // Another mount of the same image can use another port.
    mount(User::Same, &fixture, &second.0, "ro,metrics=0");
    umount(User::Same, &second.0);
    umount(User::Same, &mountpoint.0);
    drop(server);
}

#[test]
fn address_beyond_loopback_prints_note() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let output = run(
        User::Same,
        &[
            "mount".as_ref(),
            "-o".as_ref(),
            "ro,metrics=0.0.0.0:0".as_ref(),
            fixture.image().as_ref(),
            mountpoint.0.as_ref(),
        ],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("also from other machines, can read the metrics"),
        "{}",
        text(&output.stderr)
    );
    umount(User::Same, &mountpoint.0);
}

//! Runs the examples, which `cargo test` builds.

use larder_testkit::{Requirement, report_skipped, skip};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Returns the program of an example. Returns `None` if it is not built, as with `--test examples`.
fn example(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let program = test.parent()?.parent()?.join("examples").join(name);
    if !program.exists() {
        report_skipped(format!("example {name} is not built"));
        return None;
    }
    Some(program)
}

/// Returns the output of a command that must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A program that ends when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn request(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn examples_build_list_copy_and_serve_an_image() {
    let names = [
        "build_image",
        "list_and_read",
        "copy_tree",
        "hit_rates",
        "http_server",
    ];
    if skip(&["mke2fs"].map(Requirement::Tool)) {
        return;
    }
    let [
        Some(build),
        Some(list),
        Some(copy),
        Some(rates),
        Some(server),
    ] = names.map(example)
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (tree, image, out) = (
        dir.path().join("tree"),
        dir.path().join("disk.img"),
        dir.path().join("out"),
    );
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/a b"), "content\n").unwrap();
    output(Command::new(build).arg(&image).arg("16M").arg(&tree));

    let listed = output(Command::new(&list).arg(&image).arg("/sub"));
    assert!(listed.ends_with("8 /sub/a b\n"), "{listed}");
    let read = output(Command::new(&list).arg(&image).arg("/sub/a b"));
    assert_eq!(read, "content\n");
    output(Command::new(copy).args([&image, &PathBuf::from("/sub"), &out]));
    assert_eq!(fs::read(out.join("a b")).unwrap(), b"content\n");
    let rates = output(Command::new(rates).arg(&image));
    assert!(rates.contains("after pass 2 over 8 bytes"), "{rates}");

    let mut server = Command::new(server);
    let server = server.arg(&image).arg("127.0.0.1:0").stdout(Stdio::piped());
    let mut server = Running(server.spawn().unwrap());
    let mut address = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    let address = address.trim().trim_start_matches("http://");
    let address = address.trim_end_matches('/');
    let file = request(address, "/sub/a%20b");
    assert!(file.starts_with("HTTP/1.1 200 OK\r\n"), "{file}");
    assert!(file.ends_with("\r\n\r\ncontent\n"), "{file}");
    let folder = request(address, "/sub");
    assert!(
        folder.contains("<a href=\"/sub/a%20b\">a b</a>"),
        "{folder}"
    );
    let missing = request(address, "/missing");
    assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
}

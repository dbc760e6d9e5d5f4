//! Serves the files of an image over HTTP, read-only:
//!
//! ```console
//! $ cargo run -p larder --example http_server -- disk.img 127.0.0.1:8000
//! $ curl http://127.0.0.1:8000/etc/hostname
//! ```
//!
//! The server answers `GET` and `HEAD`, with one thread and one request for each connection. It is meant to be read,
//! not to be used on the Internet.

use larder::Fs;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;

/// The maximum length of the head of a request.
const HEAD_BYTES: u64 = 8 << 10;

/// The characters that are percent-encoded in a link.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A response without its head.
struct Response {
    status: &'static str,
    content_type: &'static str,
    size_bytes: u64,
    content: Box<dyn Read>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [image, address] = arguments.as_slice() else {
        return Err(io::Error::other("usage: http_server IMAGE ADDRESS:PORT"));
    };
    let fs = larder::open(image)?;
    let listener = TcpListener::bind(address)?;
    println!("http://{}/", listener.local_addr()?);
    for connection in listener.incoming() {
        let (connection, fs) = (connection?, fs.clone());
        thread::spawn(move || {
            if let Err(error) = answer(&connection, &fs) {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

/// Reads a request, and writes the response.
fn answer(connection: &TcpStream, fs: &Fs) -> io::Result<()> {
    let mut head = BufReader::new(connection.take(HEAD_BYTES));
    let mut request = String::new();
    head.read_line(&mut request)?;
    let mut header = String::new();
    while head.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = request.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let response = match method {
        Some("GET" | "HEAD") => response(fs, target).unwrap_or_else(|error| {
            text(
                status(&error),
                "text/plain; charset=utf-8",
                format!("{error}\n"),
            )
        }),
        _ => text("405 Method Not Allowed", "text/plain", String::new()),
    };
    let mut connection = connection;
    write!(
        connection,
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        response.status, response.content_type, response.size_bytes
    )?;
    if method != Some("HEAD") {
        io::copy(
            &mut response.content.take(response.size_bytes),
            &mut connection,
        )?;
    }
    Ok(())
}

/// Returns the file at the path of a request target, or a page with the entries of a directory.
fn response(fs: &Fs, target: &str) -> io::Result<Response> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path: Vec<u8> = percent_decode_str(path).collect();
    let path = Path::new(OsStr::from_bytes(&path));
    let metadata = fs.metadata(path)?;
    if !metadata.is_dir() {
        return Ok(Response {
            status: "200 OK",
            content_type: "application/octet-stream",
            size_bytes: metadata.size_bytes,
            content: Box::new(fs.open(path)?),
        });
    }
    let mut page = String::from("<!doctype html><ul>\n");
    for entry in fs.read_dir(path)? {
        let entry = entry?;
        let link = percent_encode(entry.path().as_os_str().as_bytes(), ENCODED).to_string();
        let name = escaped(&entry.file_name().to_string_lossy());
        let _ = writeln!(page, "<li><a href=\"{link}\">{name}</a></li>");
    }
    page.push_str("</ul>\n");
    Ok(text("200 OK", "text/html; charset=utf-8", page))
}

fn text(status: &'static str, content_type: &'static str, text: String) -> Response {
    Response {
        status,
        content_type,
        size_bytes: text.len() as u64,
        content: Box::new(Cursor::new(text)),
    }
}

fn status(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => "404 Not Found",
        ErrorKind::InvalidInput | ErrorKind::InvalidFilename => "400 Bad Request",
        _ => "500 Internal Server Error",
    }
}

/// Replaces the characters that HTML reserves.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

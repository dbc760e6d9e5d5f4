//! Serves the files of an image over HTTP, read-only:
//!
//! ```console
//! $ cargo run -p larder --example http_server -- disk.img 127.0.0.1:8000
//! $ curl http://127.0.0.1:8000/etc/hostname
//! ```
//!
//! The server answers `GET` and `HEAD`, with one thread a connection and one request a connection. It
//! is meant to be read, not to be used on the Internet.

use larder::{File, Fs};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// The maximum length of the head of a request.
const HEAD_BYTES: u64 = 8 << 10;

/// The content of a response.
enum Body {
    File(File, u64),
    Text(String),
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
    let (status, body) = match method {
        Some("GET" | "HEAD") => match content(fs, &decoded(target)) {
            Ok(body) => ("200 OK", body),
            Err(error) => (status(&error), Body::Text(format!("{error}\n"))),
        },
        _ => ("405 Method Not Allowed", Body::Text(String::new())),
    };
    let (kind, len) = match &body {
        Body::File(_, size_bytes) => ("application/octet-stream", *size_bytes),
        Body::Text(text) if text.starts_with('<') => {
            ("text/html; charset=utf-8", text.len() as u64)
        }
        Body::Text(text) => ("text/plain; charset=utf-8", text.len() as u64),
    };
    let mut connection = connection;
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n"
    )?;
    match body {
        _ if method == Some("HEAD") => Ok(()),
        Body::File(file, size_bytes) => {
            io::copy(&mut file.take(size_bytes), &mut connection).map(drop)
        }
        Body::Text(text) => connection.write_all(text.as_bytes()),
    }
}

/// Returns the file at `path`, or a page with the entries of a directory.
fn content(fs: &Fs, path: &str) -> io::Result<Body> {
    let metadata = fs.metadata(path)?;
    if !metadata.is_dir() {
        return Ok(Body::File(fs.open(path)?, metadata.size_bytes));
    }
    let mut page = String::from("<!doctype html><ul>\n");
    for entry in fs.read_dir(path)? {
        let entry = entry?;
        let link = encoded(&entry.path().to_string_lossy());
        let name = escaped(&entry.file_name().to_string_lossy());
        let _ = writeln!(page, "<li><a href=\"{link}\">{name}</a></li>");
    }
    page.push_str("</ul>\n");
    Ok(Body::Text(page))
}

fn status(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => "404 Not Found",
        ErrorKind::InvalidInput | ErrorKind::InvalidFilename => "400 Bad Request",
        _ => "500 Internal Server Error",
    }
}

/// Decodes the percent-encoded path of a request target.
fn decoded(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |byte: u8| char::from(byte).to_digit(16);
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let byte = hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low);
                bytes.extend(byte.and_then(|byte| u8::try_from(byte).ok()));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Percent-encodes a path.
fn encoded(path: &str) -> String {
    let mut text = String::new();
    for &byte in path.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Replaces the characters that HTML reserves.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

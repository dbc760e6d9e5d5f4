//! Tests of the server with a client that uses one connection.

use super::{HttpServer, Link, OBJECT_NAME, Object, wave_count};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const LEN: usize = 300_000;

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(server: &HttpServer) -> Self {
        Self(BufReader::new(
            TcpStream::connect(server.address()).unwrap(),
        ))
    }

    /// Sends a request. Returns the status line, the announced length, and the body.
    fn request(&mut self, request: &str, has_body: bool) -> (String, usize, Vec<u8>) {
        let connection = self.0.get_mut();
        write!(connection, "{request}\r\n\r\n").unwrap();
        let mut lines = self.0.by_ref().lines().map(Result::unwrap);
        let status = lines.next().unwrap();
        let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let len = headers
            .iter()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap()
            .parse()
            .unwrap();
        let mut body = vec![0; if has_body { len } else { 0 }];
        self.0.read_exact(&mut body).unwrap();
        (status, len, body)
    }
}

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at >> 5).to_le_bytes()[0]).collect()
}

#[test]
fn heads_ranges_and_listings_are_sent_on_one_connection() {
    let server = HttpServer::of_object(Object::new(content(), "one"), Link::default());
    let mut client = Client::new(&server);
    let (status, len, _) = client.request("HEAD /disk.img HTTP/1.1", false);
    assert_eq!((&*status, len), ("HTTP/1.1 200 Reply", LEN));
    let (status, _, body) = client.request("GET /disk.img HTTP/1.1\r\nrange: bytes=5-99", true);
    assert_eq!(
        (&*status, body),
        ("HTTP/1.1 206 Reply", content()[5..100].to_vec())
    );
    let (_, _, body) = client.request("GET /disk.img HTTP/1.1\r\nrange: bytes=299000-", true);
    assert_eq!(body, content()[299_000..]);
    let (_, _, page) = client.request("GET /images/ HTTP/1.1", true);
    assert!(
        String::from_utf8(page)
            .unwrap()
            .contains(&format!("href=\"{OBJECT_NAME}\""))
    );
}

#[test]
fn exchanges_have_the_times_and_the_bytes_of_replies() {
    let link = Link::new(Duration::from_millis(1), Some(1 << 30));
    let server = HttpServer::of_object(Object::new(content(), "one"), link);
    let mut client = Client::new(&server);
    drop(client.request("HEAD /disk.img HTTP/1.1", false));
    drop(client.request("GET /disk.img HTTP/1.1", true));
    drop(client.request("GET /disk.img HTTP/1.1\r\nrange: bytes=0-0", true));
    let exchanges = server.take_exchanges();
    let sent: Vec<_> = exchanges
        .iter()
        .map(|exchange| (exchange.status, exchange.sent_bytes))
        .collect();
    assert_eq!(sent, [(200, 0), (200, LEN as u64), (206, 1)]);
    for exchange in &exchanges {
        let answered = exchange.answered.unwrap();
        assert!(answered.duration_since(exchange.received) >= Duration::from_millis(1));
    }
    // Each request was sent after the reply to the request before.
    assert_eq!(wave_count(&exchanges), 3);
    assert_eq!(server.take_exchanges().len(), 0);
}

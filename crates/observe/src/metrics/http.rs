//! Responses to HTTP requests. A response depends only on the head of the request.

use httparse::{EMPTY_HEADER, Error, Request, Status};

/// The maximum length of a request's head, in bytes.
pub const HEAD_BYTES: usize = 8 << 10;
/// The maximum number of headers in a request.
const MAX_HEADERS: usize = 64;

/// The content type of the text that Prometheus reads.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Returns the response to a request, or `None` if `head`, the part received so far, is not complete. If
/// the request is for the metrics, calls `metrics`, which returns the text, or `None` if the volume is
/// closed.
pub fn answer(head: &[u8], metrics: impl FnOnce() -> Option<String>) -> Option<Vec<u8>> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) if head.len() < HEAD_BYTES => return None,
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => {
            let status = "431 Request Header Fields Too Large";
            return Some(refusal(status, "the request header is too long"));
        }
        Err(error) => return Some(refusal("400 Bad Request", &error.to_string())),
    }
    let path = request.path.and_then(|path| path.split('?').next());
    let is_head = request.method == Some("HEAD");
    if !is_head && request.method != Some("GET") {
        let status = "405 Method Not Allowed\r\nAllow: GET, HEAD";
        return Some(refusal(status, "only GET and HEAD are supported"));
    }
    if path != Some("/metrics") {
        let body = "the metrics are at /metrics\n";
        return Some(response("404 Not Found", PLAIN, body, is_head));
    }
    Some(match metrics() {
        Some(text) => response("200 OK", EXPOSITION, &text, is_head),
        None => refusal("503 Service Unavailable", "the volume is being closed"),
    })
}

fn refusal(status: &str, what: &str) -> Vec<u8> {
    response(status, PLAIN, &format!("{what}\n"), false)
}

/// Returns a response with `status`, which may contain further header lines after the status. The
/// response contains `Connection: close`.
fn response(status: &str, kind: &str, body: &str, is_head: bool) -> Vec<u8> {
    let len = body.len();
    let body = if is_head { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Random, Seed};

    fn answered(head: &str) -> Option<String> {
        let answer = answer(head.as_bytes(), || Some("up 1\n".to_owned()))?;
        Some(String::from_utf8(answer).unwrap())
    }

    #[test]
    fn request_for_metrics_returns_the_text() {
        let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
                        Content-Length: 5\r\nConnection: close\r\n\r\nup 1\n";
        for path in ["/metrics", "/metrics?format=text"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
            assert_eq!(answered(&head).unwrap(), expected);
        }
        let old = answered("GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(old, expected);
    }

    #[test]
    fn head_request_returns_no_body() {
        let answer = answered("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(answer.contains("Content-Length: 5\r\n") && answer.ends_with("\r\n\r\n"));
    }

    #[test]
    fn incomplete_request_waits_for_more() {
        for part in [
            "",
            "GET",
            "GET /metrics HTTP/1.1\r\n",
            "GET /metrics HTTP/1.1\r\nHost: x\r\n",
        ] {
            assert_eq!(answered(part), None, "{part:?}");
        }
    }

    #[test]
    fn other_requests_return_error_statuses() {
        let many = "X: y\r\n".repeat(MAX_HEADERS + 1);
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES));
        for (head, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET /metrics HTTP/3\r\n\r\n", "400"),
            ("\0\0\0\0", "400"),
            ("\u{16}\u{3}\u{1} a TLS hello", "400"),
            (&format!("GET /metrics HTTP/1.1\r\n{many}\r\n"), "431"),
            (&long[..HEAD_BYTES], "431"),
        ] {
            let answer = answered(head).unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{head:?}: {answer}"
            );
        }
    }

    #[test]
    fn damaged_request_is_answered_or_incomplete() {
        let seed = Seed::from_environment(0x4a51_0014);
        let mut random = Random::new(seed);
        for _ in 0..20_000 {
            let mut head =
                b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".to_vec();
            for _ in 0..=random.below(4) {
                let at = usize::try_from(random.below(head.len() as u64)).unwrap();
                let byte = random.byte();
                head[at] = *random.choose(&[b'\r', b'\n', b' ', byte]).unwrap();
            }
            head.truncate(usize::try_from(random.below(80)).unwrap());
            if let Some(answer) = answer(&head, || Some("up 1\n".to_owned())) {
                let text = String::from_utf8(answer).unwrap();
                assert!(
                    text.starts_with("HTTP/1.1 ") && text.contains("\r\n\r\n"),
                    "seed {seed}: {head:?}"
                );
            }
        }
    }

    #[test]
    fn closed_volume_has_no_metrics() {
        let answer = answer(b"GET /metrics HTTP/1.1\r\n\r\n", || None).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 503 "));
    }
}

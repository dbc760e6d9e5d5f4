//! Parses and binds the address at which the metrics of a mount are served.

use larder_console::{Result, print_note};
use larder_observe::Metrics;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Parses `ADDRESS:PORT`, or only a port, to which the loopback address is added.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| {
        format!(
            "'{text}' is not a port or ADDRESS:PORT, such as 9520, 127.0.0.1:9520 or [::1]:9520"
        )
    })
}

/// Binds the address `wanted`. If its port is 0, prints the port that was chosen. If other machines can
/// connect, prints a note about that.
pub(crate) fn bind(wanted: SocketAddr) -> Result<Metrics> {
    let metrics = Metrics::bind(wanted)?;
    let address = metrics.address();
    if wanted.port() == 0 {
        print_note(&format!("metrics at http://{address}/metrics"));
    }
    if !address.ip().is_loopback() {
        print_note(&format!(
            "everyone who can connect to {address}, also from other machines, can read the metrics"
        ));
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_without_address_means_loopback() {
        for (text, address) in [
            ("9520", "127.0.0.1:9520"),
            ("0", "127.0.0.1:0"),
            ("localhost:80", "127.0.0.1:80"),
            ("0.0.0.0:9520", "0.0.0.0:9520"),
            ("[::1]:9520", "[::1]:9520"),
        ] {
            assert_eq!(parse(text), Ok(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn invalid_address_is_rejected() {
        for text in [
            "",
            "65536",
            "-1",
            "127.0.0.1",
            "example.org:80",
            ":9520",
            "localhost",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

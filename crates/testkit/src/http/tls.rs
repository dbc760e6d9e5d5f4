//! TLS before a server for tests.

use super::listener::Listener;
use super::message::{Reply, Request};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// A server on loopback that accepts connections with TLS, and sends the requests in them to a server without TLS.
/// It has a certificate of an authority of its own.
#[derive(Debug)]
pub struct TlsServer {
    listener: Listener,
    authority: String,
}

impl TlsServer {
    /// Starts a server with the name `name` before the server at `address`.
    ///
    /// # Panics
    /// If no certificate can be made, or no port can be used.
    #[must_use]
    pub fn before(address: SocketAddr, name: &str) -> Self {
        let (config, authority) = certified(name).expect("a certificate can be made");
        let config = Arc::new(config);
        let listener =
            Listener::start(move |connection| serve(connection, Arc::clone(&config), address));
        Self {
            listener,
            authority,
        }
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Returns the certificate of the authority, in PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

type Failure = Box<dyn std::error::Error>;

/// Returns the configuration of a server with the name `name`, and the certificate of its authority in PEM.
fn certified(name: &str) -> Result<(ServerConfig, String), Failure> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new([name.to_owned()])?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok((config, authority.pem()))
}

fn serve(connection: TcpStream, config: Arc<ServerConfig>, address: SocketAddr) -> io::Result<()> {
    let tls = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut client = StreamOwned::new(tls, connection);
    while let Some(request) = Request::read(&mut client)? {
        let mut server = TcpStream::connect(address)?;
        server.write_all(&request.head)?;
        let reply = Reply::read(&mut server, !request.is_head())?;
        client.write_all(&reply.head())?;
        reply.body.write_to(&mut client)?;
        client.flush()?;
    }
    Ok(())
}

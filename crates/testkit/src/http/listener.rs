//! Accepts connections on loopback, and serves each of them in a thread.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A port of loopback. The drop closes all connections, and no more are accepted.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: Mutex<Vec<TcpStream>>,
    is_ended: AtomicBool,
}

impl Listener {
    /// Starts to accept connections, and calls `serve` with each. If `serve` fails, the client sees a closed
    /// connection.
    ///
    /// # Panics
    /// If no port can be used.
    pub(super) fn start(
        serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("the port is known");
        let state = Arc::new(State::default());
        let accepting = Arc::clone(&state);
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if accepting.is_ended.load(SeqCst) {
                    break;
                }
                accepting.keep(&connection);
                let serve = Arc::clone(&serve);
                thread::spawn(move || drop(serve(connection)));
            }
        });
        Self { address, state }
    }
}

impl State {
    /// Remembers a connection, so that it can be closed.
    fn keep(&self, connection: &TcpStream) {
        if let Ok(clone) = connection.try_clone() {
            let connections = self.connections.lock();
            connections
                .unwrap_or_else(PoisonError::into_inner)
                .push(clone);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.state.is_ended.store(true, SeqCst);
        let connections = self.state.connections.lock();
        for connection in connections
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            let _ = connection.shutdown(Shutdown::Both);
        }
        // Wakes the thread that accepts connections.
        drop(TcpStream::connect(self.address));
    }
}

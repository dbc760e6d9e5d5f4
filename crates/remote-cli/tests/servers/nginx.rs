//! nginx, as a web server and as a caching proxy.

use crate::program::{Program, installed};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub const USER: &str = "reader";
pub const PASSWORD: &str = "secret/word";

/// A running nginx.
///
/// | path | reply |
/// |---|---|
/// | `/plain/NAME` | the file NAME in the folder of the server |
/// | `/private/NAME` | the same, for a user with a password |
/// | `/moved/NAME` | a redirect to `/plain/NAME` |
/// | `/whole/NAME` | the same file, never in ranges |
/// | `/cached/NAME` | the same path of another server, with a cache of parts of 64 KiB |
pub struct Nginx {
    program: Program,
    folder: TempDir,
}

impl Nginx {
    /// Starts a server. `upstream` is the URL to whose path `/cached/` is appended.
    pub fn start(upstream: &str) -> Option<Self> {
        let program = installed("nginx")?;
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("files")).unwrap();
        let passwords = format!("{USER}:{{PLAIN}}{PASSWORD}\n");
        std::fs::write(folder.path().join("passwords"), passwords).unwrap();
        let args = |address: SocketAddr| {
            let path = folder.path().join("nginx.conf");
            std::fs::write(&path, configuration(folder.path(), address, upstream)).unwrap();
            let (prefix, path) = (folder.path().display(), path.display());
            let log = format!("{prefix}/log");
            [
                "-p",
                &prefix.to_string(),
                "-c",
                &path.to_string(),
                "-e",
                &log,
            ]
            .map(str::to_owned)
            .into()
        };
        let program = Program::start(&program, &folder.path().join("log"), args);
        Some(Self { program, folder })
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.program.address)
    }

    /// Returns the path of a file that the server sends.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("files").join(name)
    }

    /// Returns the number of requests that the cache sent to the other server.
    pub fn forwarded(&self) -> usize {
        let log = std::fs::read_to_string(self.folder.path().join("forwarded")).unwrap();
        log.lines().filter(|line| *line != "HIT").count()
    }
}

fn configuration(folder: &Path, address: SocketAddr, upstream: &str) -> String {
    let folder = folder.display();
    // Without a master process, nginx is one process, which ends when it is killed.
    format!(
        "daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/log;
events {{}}
http {{
    access_log off;
    log_format cache $upstream_cache_status;
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_temp_path {folder}/proxy;
    proxy_cache_path {folder}/cache keys_zone=images:1m;
    server {{
        listen {address};
        location /plain/ {{ alias {folder}/files/; }}
        location /private/ {{
            alias {folder}/files/;
            auth_basic images;
            auth_basic_user_file {folder}/passwords;
        }}
        location /moved/ {{ rewrite ^/moved/(.*)$ /plain/$1 redirect; }}
        location /whole/ {{ alias {folder}/files/; max_ranges 0; }}
        location /cached/ {{
            access_log {folder}/forwarded cache;
            slice 64k;
            proxy_cache images;
            proxy_cache_key $uri$slice_range;
            proxy_set_header Range $slice_range;
            proxy_http_version 1.1;
            proxy_cache_valid 200 206 1h;
            proxy_pass {upstream}/;
        }}
    }}
}}
"
    )
}

//! nginx, as a web server and as a cache.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::child;
use crate::remote::service::Service;

/// Starts nginx, one process, with one location. Its files are in `folder`.
pub(super) fn start(folder: &Path, location: &str) -> Result<Service> {
    Service::start(&folder.join("nginx.log"), |address| {
        let path = folder.join("nginx.conf");
        fs::write(&path, configuration(folder, &address.to_string(), location))?;
        let mut command = Command::new(child::find("nginx")?);
        command.arg("-p").arg(folder).arg("-c").arg(&path);
        command.arg("-e").arg(folder.join("error.log"));
        Ok(command)
    })
}

fn configuration(folder: &Path, address: &str, location: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_temp_path {folder}/proxy;
    proxy_cache_path {folder}/cache keys_zone=images:8m;
    server {{
        listen {address};
        {location}
    }}
}}
"
    )
}

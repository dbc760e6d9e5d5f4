//! Servers that are compatible with S3, with a bucket.

use crate::image::plain;
use crate::program::{Program, installed};
use larder_testkit::tool;
use object_store::ObjectStoreExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as ObjectPath;
use object_store::signer::{SignedUrlOptions, Signer};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub const KEY: &str = "larder-test-key";
pub const SECRET: &str = "larder-test-secret";
const REGION: &str = "us-east-1";
const BUCKET: &str = "images";

/// A server with the bucket `images`, and a client that writes to it.
pub struct S3 {
    program: Program,
    store: AmazonS3,
    runtime: Runtime,
    _folder: TempDir,
}

impl S3 {
    /// Starts versitygw, which stores objects in files.
    pub fn versitygw() -> Option<Self> {
        let program = installed("versitygw")?;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join(BUCKET)).unwrap();
        let args = |address: std::net::SocketAddr| {
            let address = address.to_string();
            let gateway = [
                "--keep-alive",
                "--port",
                &address,
                "--access",
                KEY,
                "--secret",
                SECRET,
            ];
            let backend = ["posix", root.to_str().unwrap()];
            gateway
                .into_iter()
                .chain(backend)
                .map(str::to_owned)
                .collect()
        };
        let program = Program::start(&program, &folder.path().join("log"), args);
        Some(Self::new(program, folder))
    }

    /// Starts moto, which stores objects in memory, and creates the bucket.
    pub fn moto() -> Option<Self> {
        let program = installed("moto_server")?;
        let folder = tempfile::tempdir().unwrap();
        let args = |address: std::net::SocketAddr| {
            let (host, port) = (address.ip().to_string(), address.port().to_string());
            vec!["-H".to_owned(), host, "-p".to_owned(), port]
        };
        let program = Program::start(&program, &folder.path().join("log"), args);
        let server = Self::new(program, folder);
        server.send("", &[], "");
        Some(server)
    }

    fn new(program: Program, folder: TempDir) -> Self {
        let store = AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", program.address))
            .with_allow_http(true)
            .with_region(REGION)
            .with_bucket_name(BUCKET)
            .with_access_key_id(KEY)
            .with_secret_access_key(SECRET)
            .build()
            .unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self {
            program,
            store,
            runtime,
            _folder: folder,
        }
    }

    /// Returns the URL of the server.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.program.address)
    }

    /// Returns the URL of an object in the bucket.
    pub fn url(name: &str) -> String {
        format!("s3://{BUCKET}/{name}")
    }

    /// Creates or replaces an object.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let path = ObjectPath::from(name);
        let put = self.store.put(&path, bytes.into());
        self.runtime.block_on(put).unwrap();
    }

    /// Removes an object.
    pub fn delete(&self, name: &str) {
        let path = ObjectPath::from(name);
        let deleted = self.store.delete(&path);
        self.runtime.block_on(deleted).unwrap();
    }

    /// Returns a URL with which the object can be read for an hour without credentials.
    pub fn presigned(&self, name: &str) -> String {
        self.signed("GET", name, &[])
    }

    /// Returns a URL with which a request can be sent for an hour without credentials.
    pub fn signed(&self, method: &str, name: &str, query: &[(&str, &str)]) -> String {
        let options = SignedUrlOptions::default().with_query(query.iter().copied());
        let path = ObjectPath::from(name);
        let hour = Duration::from_hours(1);
        let method = method.parse().unwrap();
        let url = self.store.signed_url_opts(method, &path, hour, &options);
        self.runtime.block_on(url).unwrap().to_string()
    }

    /// Sends a signed PUT request with `body`, for an object or, if `name` is empty, for the bucket.
    fn send(&self, name: &str, query: &[(&str, &str)], body: &str) {
        let url = self.signed("PUT", name, query);
        let sent = tool::Tool::new("curl").args(["--silent", "--show-error", "--fail"]);
        sent.args(["--request", "PUT", "--data-binary", body, &url])
            .run()
            .unwrap();
    }

    /// Lets everybody read the objects of the bucket.
    pub fn publish(&self) {
        let policy = format!(
            r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Principal": "*",
                "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::{BUCKET}/*"}}]}}"#
        );
        self.send("", &[("policy", "")], &policy);
    }

    /// Returns a subcommand of larder-remote with the credentials of this server, but without its endpoint.
    pub fn command(subcommand: &str) -> Command {
        let mut command = plain(subcommand);
        command
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET);
        command
    }

    /// Returns a subcommand of larder-remote with the credentials and the endpoint of this server.
    pub fn ready(&self, subcommand: &str) -> Command {
        let mut command = Self::command(subcommand);
        command.env("AWS_ENDPOINT_URL", self.endpoint());
        command
    }
}

/// Writes the files of the AWS tools into the folder `home`.
pub fn write_profile(home: &Path, config: &str, credentials: &str) {
    let folder = home.join(".aws");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config"), config).unwrap();
    std::fs::write(folder.join("credentials"), credentials).unwrap();
}
